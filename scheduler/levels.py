"""What of a ladder a model sees: the levels that measure, and the free features.

A level is a tier, up to the ladder's truth, with a rung that measures. Its value is that of the ladder's
quantity where the measurement names it or a declared map leads there, else the first measurement of the
tier's first measuring rung as it is: a scale of its own, from which a model may learn the way.

In a ladder that judges, a level is a tier where something is scored, and its value the mean score of the
verifier that decides, else the first score that there is. The fast tier is a level too, since its verdicts
may be wrong where the truth is above it. Where people are the truth, a refusal is 0, and a candidate that
they accept keeps its score, or has 1 if there is none; the variance is that of a verdict that may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from verifier_service.domain.decisions import RungEvidence
from verifier_service.domain.evidence import TIERS, Evidence, Measurement, Tier, Verdict
from verifier_service.domain.ladders import Ladder, VerifierUse
from verifier_service.domain.maps import QuantityMap

MapNamed = Callable[[str], QuantityMap]
SCORING = ("outcome", "note")  # roles of a judging ladder's rungs whose scores say something of the truth


class Value(NamedTuple):
    """A value of a level, its variance (``None``: not known), and whether it is on the quantity's scale."""

    mean: float
    variance: float | None
    same_scale: bool


def levels_of(ladder: Ladder) -> tuple[Tier, ...]:
    """The tiers that are levels, cheapest first; the last is the truth. Empty for a ladder that judges
    without its deciding verifier at the truth."""
    if ladder.spec.quantity is None:
        return _judging(ladder)
    measuring = [tier for tier in TIERS if any(rung.role == "measure" for rung in ladder.rungs_of(tier))]
    below = [tier for tier in measuring if tier.rank < ladder.spec.truth.rank and tier is not Tier.FAST]
    return (*below, ladder.spec.truth)


def _judging(ladder: Ladder) -> tuple[Tier, ...]:
    truth, decides = ladder.spec.truth, ladder.spec.outcome
    at_truth = ladder.rungs_of(truth)
    judged = decides is not None and any(rung.use.use == decides.use for rung in at_truth)
    if not judged and all(rung.role != "review" for rung in at_truth):
        return ()
    scored = [tier for tier in TIERS if any(rung.role in SCORING for rung in ladder.rungs_of(tier))]
    return (*(tier for tier in scored if tier.rank < truth.rank), truth)


def features_of(evidence: Sequence[RungEvidence]) -> dict[str, float]:
    """Finite numbers that the fast tier found, by name."""
    found: dict[str, float] = {}
    for item in evidence:
        if item.evidence.tier is Tier.FAST:
            for name, value in item.evidence.features.items():
                if math.isfinite(value):
                    found[name] = float(value)
    return found


def values_of(
    ladder: Ladder, evidence: Sequence[RungEvidence], map_named: MapNamed
) -> Mapping[Tier, Value]:
    """What was measured at each level; levels without a measurement are absent."""
    if ladder.spec.quantity is None:
        return _scores(ladder, evidence)
    found: dict[Tier, Value] = {}
    for tier in levels_of(ladder):
        value = tier_value(ladder, tier, evidence, map_named)
        if value is not None:
            found[tier] = Value(*value, True)
        elif tier is not ladder.spec.truth and (raw := _raw(ladder, tier, evidence)) is not None:
            found[tier] = Value(raw, None, False)
    return found


def tier_value(
    ladder: Ladder, tier: Tier, evidence: Sequence[RungEvidence], map_named: MapNamed
) -> tuple[float, float] | None:
    """Inverse-variance mean of the tier's measurements that count, and its variance; an exact one (sigma 0)
    wins alone.

    Below the truth tier a measurement without sigma cannot be weighed and does not count.
    """
    values: list[tuple[float, float]] = []
    for found in _counting(ladder, tier, evidence, map_named):
        if found.sigma is None and tier.rank < ladder.spec.truth.rank:
            continue
        variance = (found.sigma or 0.0) * (found.sigma or 0.0)
        if math.isfinite(variance):
            values.append((found.value, variance))
    if not values:
        return None
    exact = [mean for mean, variance in values if variance == 0.0]
    if exact:
        return sum(exact) / len(exact), 0.0
    weight = sum(1.0 / variance for _, variance in values)
    return sum(mean / variance for mean, variance in values) / weight, 1.0 / weight


def _counting(
    ladder: Ladder, tier: Tier, evidence: Sequence[RungEvidence], map_named: MapNamed
) -> Iterator[Measurement]:
    """Measurements of the tier on the ladder's quantity, through the use's declared map if need be."""
    for item in evidence:
        if item.evidence.tier is not tier:
            continue
        rung = ladder.rung_at.get(item.path)
        use = rung.use if rung is not None else None
        for measurement in item.evidence.measurements:
            found = _mapped(ladder, use, measurement, item.evidence.labels, map_named)
            if found is not None:
                yield found


def _mapped(
    ladder: Ladder,
    use: VerifierUse | None,
    measurement: Measurement,
    labels: Mapping[str, str],
    map_named: MapNamed,
) -> Measurement | None:
    quantity = ladder.spec.quantity
    if quantity is None:
        return None
    if measurement.quantity == quantity.name:
        return measurement if measurement.unit == quantity.unit else None
    if use is None or use.map is None:
        return None
    declared = map_named(use.map)
    if declared.target != quantity.name or declared.source != measurement.quantity:
        return None
    return declared.apply(measurement, labels)


def _scores(ladder: Ladder, evidence: Sequence[RungEvidence]) -> Mapping[Tier, Value]:
    """Scores by level, where there are any."""
    decides = ladder.spec.outcome.use if ladder.spec.outcome is not None else None
    found: dict[Tier, Value] = {}
    for tier in levels_of(ladder):
        scored = [
            (item.evidence.provenance.verifier, item.evidence.score)
            for item in evidence
            if item.evidence.tier is tier
            and item.evidence.score is not None
            and (rung := ladder.rung_at.get(item.path)) is not None
            and (rung.role in SCORING or rung.use.use == decides)
        ]
        deciding = [score for verifier, score in scored if verifier == decides]
        if deciding:
            found[tier] = Value(sum(deciding) / len(deciding), None, True)
        elif scored and tier is not ladder.spec.truth:
            found[tier] = Value(scored[0][1], None, False)
    if ladder.spec.truth is Tier.LAB and Tier.LAB not in found:
        below = [value.mean for value in found.values() if value.same_scale]
        if (accepted := _reviewed(ladder, evidence)) is not None:
            wrong = doubt_of(ladder, evidence)
            mean = (below[-1] if below else 1.0) if accepted else 0.0
            found[Tier.LAB] = Value(mean, wrong * (1.0 - wrong) if wrong else None, True)
    return found


def _reviewed(ladder: Ladder, evidence: Sequence[RungEvidence]) -> bool | None:
    """Whether people accepted it; ``None`` while they have not decided."""
    decided = [item.verdict for item in _of_people(ladder, evidence)]
    return all(verdict is Verdict.ACCEPT for verdict in decided) if decided else None


def doubt_of(ladder: Ladder, evidence: Sequence[RungEvidence]) -> float:
    """Probability that what people decided is wrong, as it was known when they did; 0 where it was not."""
    known = [item.mistaken for item in _of_people(ladder, evidence) if item.mistaken is not None]
    return max(known, default=0.0)


def _of_people(ladder: Ladder, evidence: Sequence[RungEvidence]) -> list[Evidence]:
    return [
        item.evidence
        for item in evidence
        if (rung := ladder.rung_at.get(item.path)) is not None
        and rung.role == "review"
        and item.evidence.verdict in (Verdict.ACCEPT, Verdict.REJECT)
    ]


def _raw(ladder: Ladder, tier: Tier, evidence: Sequence[RungEvidence]) -> float | None:
    for rung in ladder.rungs_of(tier):
        if rung.role == "measure":
            for item in evidence:
                if item.path == rung.path and item.evidence.measurements:
                    value = item.evidence.measurements[0].value
                    return value if math.isfinite(value) else None
    return None
