"""Beliefs that learn from what was bought: what is declared first, what the evidence says later.

A model belongs to one version of a ladder. It predicts the value at the ladder's truth from the free
features and from whatever levels were bought (``scheduler.chain``; the probability of a verdict where the
ladder judges, ``scheduler.chain_probability``), and is fitted anew, from the evidence
alone, whenever there is more of it. What has been measured at the truth is never predicted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.beliefs import UNKNOWN_MISTAKES, TierBeliefs, estimate_of, is_finite, verdict_estimate
from scheduler.chain import Chain, fit_chain
from scheduler.chain_probability import Probability
from scheduler.chain_step import HeldOut, Pattern
from scheduler.corrections import shrunken_bias
from scheduler.ladder_model import LadderModel, model_of
from scheduler.levels import MapNamed, Value, features_of, levels_of, values_of
from scheduler.observations import Declared, DeclaredLine, Observations
from scheduler.signature import pay_and_merit
from scheduler.strata import level_of, stratum_of
from scheduler.value import utility_centre, utility_moments
from scheduler.watch import RESPONSE, Watch
from verifier_service.domain.decisions import Estimate, FittedModel, RungEvidence
from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.evidence import Tier
from verifier_service.domain.insight import PayAndMerit, Rested
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.models import Alarm, Audited, Example

NOTHING = "nothing/1"
PRESENT_SHARE = 0.9  # of the examples must have a feature
MOST_FEATURES = 32
FEWEST_UNMEASURED = 20  # truths before features alone, or scores of others, predict a candidate


def _is_known(
    ladder: Ladder, declared: Estimate, evidence: Sequence[RungEvidence], map_named: MapNamed
) -> bool:
    """Whether the truth has spoken."""
    if declared.tier.rank >= ladder.spec.truth.rank:
        return True
    return ladder.spec.outcome is not None and ladder.spec.truth in values_of(ladder, evidence, map_named)


@dataclass(frozen=True, slots=True)
class LearnedBeliefs:
    """``Beliefs``: what was measured at the truth or above as it is, else what the model says, else what
    is declared. ``map_named`` looks up the maps that ladders declare; without ``learning`` no model is made
    or read, and a reward follows from its own candidate's evidence alone."""

    map_named: MapNamed
    learning: bool = True

    def estimate(
        self, ladder: Ladder, evidence: Sequence[RungEvidence], model: FittedModel | None = None
    ) -> Estimate | None:
        """See ``ports.policy.Beliefs``."""
        declared = TierBeliefs(self.map_named).estimate(ladder, evidence)
        fitted = None if model is None else model_of(model.body)
        if model is None or fitted is None:
            return declared
        if declared is not None and _is_known(ladder, declared, evidence, self.map_named):
            return declared
        try:
            found = self._predicted(ladder, evidence, fitted, model)
        except ArithmeticError:
            return declared
        return found if found is not None and is_finite(found) else declared

    def _predicted(
        self, ladder: Ladder, evidence: Sequence[RungEvidence], fitted: LadderModel, model: FittedModel
    ) -> Estimate | None:
        values = values_of(ladder, evidence, self.map_named)
        measures = ladder.spec.outcome is None
        observed = [tier for tier in fitted.levels if tier in values]
        features = features_of(evidence)
        anchored = any(values[tier].same_scale for tier in observed) or (measures and bool(observed))
        if not anchored and (
            model.labels < FEWEST_UNMEASURED
            or not (features or observed)
            or not fitted.is_like_known(features)
        ):
            return None
        level = observed[-1] if observed else Tier.FAST
        belief = fitted.chain.believe(*fitted.row(features, values))
        mean = float(belief.mean[0])
        variance = float(belief.variance[0]) * fitted.widen.get(level.value, 1.0)
        found: Estimate | None
        if measures:
            scale = float(belief.scale[0])
            found = estimate_of(ladder, level, mean, variance, scale=scale, model=model.number)
            if found is not None and fitted.shifts:
                stratum = stratum_of(ladder, evidence, values, found.outcome).name
                mean += fitted.shifts.get(stratum, 0.0)
                found = estimate_of(ladder, level, mean, variance, scale=scale, model=model.number)
        else:
            found = verdict_estimate(level, mean, min(variance, 0.25), model=model.number)
        return None if found is None else replace(found, measured=anchored)

    def learns(self, ladder: Ladder) -> bool:
        """Whether the ladder has something to buy above the fast tier that decides what is true."""
        if not self.learning:
            return False
        levels = levels_of(ladder)
        return bool(levels) and levels[-1] is not Tier.FAST

    def learn(
        self,
        ladder: Ladder,
        examples: Sequence[Example],
        previous: FittedModel | None,
        alarms: Sequence[Alarm] = (),
    ) -> FittedModel | None:
        """See ``ports.policy.Beliefs``. What it rests on is named in the document."""
        seen = _read(ladder, sorted(examples, key=lambda one: one.trajectory), self.map_named)
        labels = sum(ladder.spec.truth in row.values for row in seen)
        if not labels:
            return _forgotten(previous)
        widen = {level_of(alarm.stratum): RESPONSE.variance_factor for alarm in alarms}
        fitted = replace(_fit(ladder, seen), widen=widen)
        document = fitted.as_json()
        document["fitted_on"] = {
            "candidates": len(seen),
            "labels": labels,
            "evidence": digest("examples", *(_mark(row.example) for row in seen)),
        }
        number = 1 if previous is None else previous.number + 1
        return FittedModel(number=number, labels=labels, body=canonical_json(document))

    def watch(
        self,
        ladder: Ladder,
        noted: str | None,
        audits: Sequence[Audited],
        model: FittedModel | None = None,
    ) -> tuple[str, list[Alarm]]:
        """See ``ports.policy.Beliefs``; strata are the build that measured and a third of the scores.
        Errors are those of ``model``, which has not seen these truths, ranked among its held-out errors;
        of the beliefs as they were drawn where there is none. Their unit is the utility's width, which does
        not change when a model is fitted again."""
        watch = _watch_of(noted, audits)
        width = utility_centre(ladder.spec.utility)[1] if ladder.spec.utility is not None else 1.0
        fitted = None if model is None else model_of(model.body)
        restated = None
        if fitted is not None and fitted.held_out:
            restated = {key: error / width for key, error in fitted.held_out.items()}
        raised: list[Alarm] = []
        for audit in audits:
            values = dict(values_of(ladder, audit.evidence, self.map_named))
            truth = values.pop(ladder.spec.truth, None)
            if truth is None:
                continue
            build, stratum = stratum_of(ladder, audit.evidence, values, audit.outcome)
            error = (audit.mean - truth.mean) / width
            if fitted is not None and restated is not None:
                row = fitted.row(features_of(audit.evidence), values)
                predicted = float(fitted.chain.believe(*row).mean[0])
                error = restated.get(audit.key, (predicted - truth.mean) / width)
            alarm = watch.saw(stratum, error, audit.key, restated)
            if alarm is not None:
                raised.append(Alarm(verifier=build, stratum=stratum, **alarm))
        return canonical_json(watch.as_json()), raised

    def pay_and_merit(self, rested: Sequence[Rested]) -> PayAndMerit | None:
        """See ``ports.policy.Beliefs``."""
        return pay_and_merit(rested)


def _watch_of(noted: str | None, audits: Sequence[Audited]) -> Watch:
    """A new watch learns from its first audits how many there are per 1,000 candidates."""
    if noted is not None:
        return Watch.from_json(json.loads(noted))
    weights = [1.0 / audit.propensity for audit in audits]
    return Watch(1_000.0 * len(weights) / sum(weights)) if weights else Watch()


def _forgotten(previous: FittedModel | None) -> FittedModel | None:
    """What replaces a model all of whose truths were taken back: a document that says nothing."""
    if previous is None or not previous.labels:
        return None
    return FittedModel(previous.number + 1, 0, canonical_json({"format": NOTHING}))


@dataclass(frozen=True, slots=True)
class _Row:
    example: Example
    features: Mapping[str, float]
    values: Mapping[Tier, Value]


def _read(ladder: Ladder, examples: Sequence[Example], map_named: MapNamed) -> list[_Row]:
    rows = []
    for example in examples:
        values = values_of(ladder, example.evidence, map_named)
        if values:
            rows.append(_Row(example, features_of(example.evidence), values))
    return rows


def _mark(example: Example) -> str:
    """What of an example a model rests on."""
    checks = sorted(item.evidence.check for item in example.evidence)
    return f"{example.trajectory}:{example.propensity}:{','.join(checks)}"


def _fit(ladder: Ladder, rows: Sequence[_Row]) -> LadderModel:
    levels = levels_of(ladder)
    names = _common(rows)
    x = np.array([[row.features.get(name, math.nan) for name in names] for row in rows])
    x = x.reshape(len(rows), len(names))
    usual = np.nanmean(x, axis=0) if names else np.zeros(0)
    x = np.where(np.isnan(x), usual, x)
    y = np.array(
        [[row.values[tier].mean if tier in row.values else math.nan for tier in levels] for row in rows]
    )
    propensity = [row.example.propensity for row in rows]
    seen = Observations.of(
        x,
        y,
        propensity=[math.nan if value is None else value for value in propensity],
        key=[row.example.trajectory for row in rows],
    )
    declared, noise = _declared(ladder, rows, levels), _noise(rows, ladder.spec.truth)
    known = x[~np.isnan(y[:, -1])]
    low, high = (tuple(end.tolist()) for end in (known.min(axis=0), known.max(axis=0)))
    if ladder.spec.outcome is not None:
        judge = Probability.fit(seen, declared, noise=noise)
        return LadderModel(levels, names, tuple(usual.tolist()), judge, low, high)
    chain, held_out = fit_chain(seen, declared, noise=noise, seed=0)
    shifts = _shifts(ladder, rows, chain, levels, held_out)
    errors = _held_out_errors(ladder, rows, levels, held_out)
    return LadderModel(
        levels, names, tuple(usual.tolist()), chain, low, high, shifts=shifts, held_out=errors
    )


def _pattern(row: _Row, levels: Sequence[Tier]) -> Pattern:
    return tuple(place for place, tier in enumerate(levels[:-1]) if tier in row.values)


def _held_out_errors(
    ladder: Ladder, rows: Sequence[_Row], levels: Sequence[Tier], held_out: Mapping[Pattern, HeldOut]
) -> dict[str, float]:
    """Believed without its truth - found, per audit that has ended."""
    predicted = {
        (pattern, key): prediction
        for pattern, found in held_out.items()
        for key, prediction in zip(found.key.tolist(), found.prediction.tolist(), strict=True)
    }
    return {
        str(row.example.trajectory): predicted[_pattern(row, levels), row.example.trajectory] - truth.mean
        for row in rows
        if row.example.audited and (truth := row.values.get(ladder.spec.truth)) is not None
    }


def _shifts(
    ladder: Ladder,
    rows: Sequence[_Row],
    chain: Chain,
    levels: Sequence[Tier],
    held_out: Mapping[Pattern, HeldOut],
) -> dict[str, float]:
    """What audits found in a stratum beyond what the regressions say of it, drawn toward 0 while there are
    few. Only truths that had a known chance count, each by its inverse."""
    if ladder.spec.utility is None:
        return {}
    predicted = {
        pattern: dict(zip(found.key.tolist(), found.prediction.tolist(), strict=True))
        for pattern, found in held_out.items()
    }
    strata, errors, weights = list[str](), list[float](), list[float]()
    for row in rows:
        truth, propensity = row.values.get(ladder.spec.truth), row.example.propensity
        if truth is None or propensity is None:
            continue
        pattern = _pattern(row, levels)
        mean = predicted[pattern][row.example.trajectory]
        variance = float(chain.steps[pattern].spread.of(np.array([mean]))[0])
        outcome = utility_moments(ladder.spec.utility, mean, variance)[0]
        strata.append(stratum_of(ladder, row.example.evidence, row.values, outcome).name)
        errors.append(truth.mean - mean)
        weights.append(1.0 / propensity)
    if not strata:
        return {}
    found = shrunken_bias(strata, errors, weights)
    return {name: shift.mean for name, shift in found.items() if shift.mean != 0.0}


def _common(rows: Sequence[_Row]) -> tuple[str, ...]:
    """Features that nearly all have, and that differ."""
    counts: dict[str, int] = {}
    for row in rows:
        for name in row.features:
            counts[name] = counts.get(name, 0) + 1
    usual = sorted(name for name, count in counts.items() if count >= PRESENT_SHARE * len(rows))
    differing = [name for name in usual if len({row.features.get(name) for row in rows} - {None}) > 1]
    return tuple(differing[:MOST_FEATURES])


def _noise(rows: Sequence[_Row], truth: Tier) -> float:
    """Variance of the truth itself: the mean of what its verifiers say of their own noise."""
    variances = [value.variance for row in rows if (value := row.values.get(truth)) is not None]
    known = [variance for variance in variances if variance is not None]
    return float(np.mean(known)) if known else 0.0


def _declared(ladder: Ladder, rows: Sequence[_Row], levels: Sequence[Tier]) -> Declared:
    """A level on the quantity's scale is the truth within its declared error, and a verdict is the true one
    unless it is mistaken; a wide prior otherwise."""
    if ladder.spec.outcome is not None:
        scores = [[row.values[tier] for row in rows if tier in row.values] for tier in levels[:-1]]
        same = [bool(found) and all(one.same_scale for one in found) for found in scores]
        line = DeclaredLine(0.0, 1.0, math.sqrt(UNKNOWN_MISTAKES))
        return Declared(0.5, 0.5, tuple(line if one else None for one in same))
    centre, width = utility_centre(ladder.spec.utility) if ladder.spec.utility is not None else (0.0, 1.0)
    lines: list[DeclaredLine | None] = []
    for tier in levels[:-1]:
        found = [row.values[tier] for row in rows if tier in row.values]
        variances = [one.variance for one in found if one.same_scale and one.variance is not None]
        sharp = math.sqrt(float(np.mean(variances))) if variances else math.nan
        lines.append(DeclaredLine(0.0, 1.0, sharp) if variances and len(variances) == len(found) else None)
    return Declared(centre, 10.0 * width, tuple(lines))
