"""Beliefs that learn from what was bought: what is declared first, what the evidence says later.

A model belongs to one version of a ladder. It predicts the value at the ladder's truth from the free
features and from whatever levels were bought (``scheduler.chain``), and is fitted anew, from the evidence
alone, whenever there is more of it. What has been measured at the truth is never predicted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from scheduler.beliefs import TierBeliefs, estimate_of, is_finite
from scheduler.chain import Chain
from scheduler.levels import MapNamed, Value, features_of, levels_of, values_of
from scheduler.observations import Declared, DeclaredLine, Floats, Observations
from scheduler.value import utility_centre
from scheduler.watch import RESPONSE, Watch
from verifier_service.domain.decisions import Estimate, FittedModel, RungEvidence
from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.models import Alarm, Audited, Example

FORMAT = "ladder-model/1"
PRESENT_SHARE = 0.9  # of the examples must have a feature
MOST_FEATURES = 32
FEWEST_UNMEASURED = 20  # truths before features alone predict a candidate


@dataclass(frozen=True, eq=False, slots=True)
class LadderModel:
    """A fitted model with what it is read by.

    ``levels``: the tiers of the chain's columns. ``features``: names of its x, ``usual`` what stands in
    for one that is missing. ``widen``: factor on the variance, per highest observed level.
    """

    levels: tuple[Tier, ...]
    features: tuple[str, ...]
    usual: tuple[float, ...]
    chain: Chain
    widen: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the same model is made."""
        return {
            "format": FORMAT,
            "levels": [tier.value for tier in self.levels],
            "features": list(self.features),
            "usual": list(self.usual),
            "chain": self.chain.as_json(),
            "widen": dict(self.widen),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LadderModel:
        """The model that ``as_json`` wrote."""
        return cls(
            levels=tuple(Tier(name) for name in document["levels"]),
            features=tuple(document["features"]),
            usual=tuple(document["usual"]),
            chain=Chain.from_json(document["chain"]),
            widen=document["widen"],
        )

    def row(self, features: Mapping[str, float], values: Mapping[Tier, Value]) -> tuple[Floats, Floats]:
        """x (1, p) and y (1, K) of one candidate."""
        x = [features.get(name, usual) for name, usual in zip(self.features, self.usual, strict=True)]
        y = [values[tier].mean if tier in values else math.nan for tier in self.levels]
        return np.array([x], dtype=np.float64).reshape(1, len(x)), np.array([y], dtype=np.float64)


@lru_cache(maxsize=64)
def model_of(body: str) -> LadderModel | None:
    """The model in a stored document; ``None`` for one that another version of this code wrote, which is
    replaced at the next fit."""
    document = json.loads(body)
    return LadderModel.from_json(document) if document.get("format") == FORMAT else None


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
        if model is None or fitted is None or ladder.spec.outcome is not None:
            return declared
        if declared is not None and declared.tier.rank >= ladder.spec.truth.rank:
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
        observed = [tier for tier in fitted.levels if tier in values]
        features = features_of(evidence)
        if not observed and (model.labels < FEWEST_UNMEASURED or not features):
            return None
        level = observed[-1] if observed else Tier.FAST
        belief = fitted.chain.believe(*fitted.row(features, values))
        return estimate_of(
            ladder,
            level,
            float(belief.mean[0]),
            float(belief.variance[0]) * fitted.widen.get(level.value, 1.0),
            scale=float(belief.scale[0]),
            model=model.number,
        )

    def learns(self, ladder: Ladder) -> bool:
        """Whether the ladder measures, and has something to buy above the fast tier."""
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
            return None
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
        self, ladder: Ladder, noted: str | None, audits: Sequence[Audited]
    ) -> tuple[str, list[Alarm]]:
        """See ``ports.policy.Beliefs``; strata are the build that measured and a third of the scores.
        Errors are in units of the utility's width, which does not change when a model is fitted again."""
        watch = _watch_of(noted, audits)
        width = utility_centre(ladder.spec.utility)[1] if ladder.spec.utility is not None else 1.0
        raised: list[Alarm] = []
        for audit in audits:
            values = values_of(ladder, audit.evidence, self.map_named)
            truth = values.get(ladder.spec.truth)
            if truth is None:
                continue
            build, stratum = stratum_of(ladder, audit, values)
            alarm = watch.saw(stratum, (audit.mean - truth.mean) / width, audit.key)
            if alarm is not None:
                raised.append(Alarm(verifier=build, stratum=stratum, **alarm))
        return canonical_json(watch.as_json()), raised


def _watch_of(noted: str | None, audits: Sequence[Audited]) -> Watch:
    """A new watch learns from its first audits how many there are per 1,000 candidates."""
    if noted is not None:
        return Watch.from_json(json.loads(noted))
    weights = [1.0 / audit.propensity for audit in audits]
    return Watch(1_000.0 * len(weights) / sum(weights)) if weights else Watch()


def stratum_of(ladder: Ladder, audit: Audited, values: Mapping[Tier, Value]) -> tuple[str, str]:
    """The build that measured below the truth, and the name of the stratum: level, build, third."""
    below = [tier for tier in levels_of(ladder)[:-1] if tier in values]
    level = below[-1] if below else Tier.FAST
    builds = sorted(
        f"{item.evidence.provenance.verifier} {item.evidence.provenance.version}"
        for item in audit.evidence
        if below and item.evidence.tier is level and item.evidence.measurements
    )
    build = " + ".join(builds) or "features"
    third = min(int(audit.outcome * 3), 2)
    return build, f"{level.value}|{build}|{third}"


def level_of(stratum: str) -> str:
    """The level of a stratum's name."""
    return stratum.partition("|")[0]


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
    noise = _noise(rows, ladder.spec.truth)
    chain = Chain.fit(seen, _declared(ladder, rows, levels), noise=noise)
    return LadderModel(levels, names, tuple(usual.tolist()), chain)


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
    """A level on the quantity's scale is the truth within its declared error; a wide prior otherwise."""
    centre, width = utility_centre(ladder.spec.utility) if ladder.spec.utility is not None else (0.0, 1.0)
    lines: list[DeclaredLine | None] = []
    for tier in levels[:-1]:
        found = [row.values[tier] for row in rows if tier in row.values]
        variances = [one.variance for one in found if one.same_scale and one.variance is not None]
        sharp = math.sqrt(float(np.mean(variances))) if variances else math.nan
        lines.append(DeclaredLine(0.0, 1.0, sharp) if variances and len(variances) == len(found) else None)
    return Declared(centre, 10.0 * width, tuple(lines))
