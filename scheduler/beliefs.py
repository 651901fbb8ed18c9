"""From evidence to a belief about the outcome.

The first model is plain: within the highest tier that measured the ladder's quantity (directly, or
through a declared map), measurements combine by inverse variance; higher tiers replace lower ones. A
lab measurement of the same quantity is shrunk toward that value by the lab's own noise. A judging
ladder takes its verifier's score. Nothing is estimated from candidates' siblings, so an estimate is a
function of the case alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.value import utility_interval, utility_moments
from verifier_service.domain.decisions import Estimate, FittedModel, RungEvidence
from verifier_service.domain.evidence import TIERS, Measurement, Tier
from verifier_service.domain.ladders import Ladder, VerifierUse
from verifier_service.domain.maps import QuantityMap
from verifier_service.domain.models import Example

MapNamed = Callable[[str], QuantityMap]
Value = tuple[float, float]  # mean, variance


@dataclass(frozen=True, slots=True)
class TierBeliefs:
    """``Beliefs`` by the highest observed tier. ``map_named`` looks up the maps that ladders declare."""

    map_named: MapNamed

    def estimate(
        self,
        ladder: Ladder,
        evidence: Sequence[RungEvidence],
        model: FittedModel | None = None,  # noqa: ARG002 - what is declared alone
    ) -> Estimate | None:
        """The belief, or ``None`` while nothing counts toward the outcome.

        Arithmetic that leaves the range of floats is no belief either: it must not become a number,
        and it must not stop the cases beside it.
        """
        try:
            found = (
                _judged(ladder, evidence)
                if ladder.spec.outcome is not None
                else _measured(ladder, evidence, self.map_named)
            )
        except ArithmeticError:
            return None
        return found if found is not None and _finite(found) else None

    def learns(self, ladder: Ladder) -> bool:  # noqa: ARG002
        """Nothing is learned."""
        return False

    def learn(
        self,
        ladder: Ladder,  # noqa: ARG002
        examples: Sequence[Example],  # noqa: ARG002
        previous: FittedModel | None,  # noqa: ARG002
    ) -> FittedModel | None:
        """Nothing is learned."""
        return None


def _finite(estimate: Estimate) -> bool:
    values = (estimate.mean, estimate.variance, estimate.outcome, estimate.outcome_variance)
    return all(value is None or math.isfinite(value) for value in (*values, estimate.low, estimate.high))


def _judged(ladder: Ladder, evidence: Sequence[RungEvidence]) -> Estimate | None:
    outcome = ladder.spec.outcome
    scored = [
        item.evidence
        for item in evidence
        if outcome is not None
        and item.evidence.provenance.verifier == outcome.use
        and item.evidence.score is not None
    ]
    if not scored:
        return None
    tier = max((item.tier for item in scored), key=lambda tier: tier.rank)
    scores = [item.score for item in scored if item.tier is tier and item.score is not None]
    score = sum(scores) / len(scores)
    return Estimate(
        tier=tier,
        mean=None,
        variance=None,
        outcome=score,
        outcome_variance=0.0,
        low=score,
        high=score,
    )


def _measured(ladder: Ladder, evidence: Sequence[RungEvidence], map_named: MapNamed) -> Estimate | None:
    if ladder.spec.utility is None:
        return None
    best: tuple[Tier, Value] | None = None
    for tier in TIERS:
        value = _tier_value(ladder, tier, evidence, map_named)
        if value is not None:
            shrinks = tier is Tier.LAB and best is not None
            best = (tier, _shrunk(best[1], value) if shrinks and best is not None else value)
    if best is None:
        return None
    tier, (mean, variance) = best
    outcome, outcome_variance = utility_moments(ladder.spec.utility, mean, variance)
    low, high = utility_interval(ladder.spec.utility, mean, variance)
    return Estimate(
        tier=tier,
        mean=mean,
        variance=variance,
        outcome=outcome,
        outcome_variance=outcome_variance,
        low=low,
        high=high,
    )


def _tier_value(
    ladder: Ladder, tier: Tier, evidence: Sequence[RungEvidence], map_named: MapNamed
) -> Value | None:
    """Inverse-variance mean of the tier's measurements that count; an exact one (sigma 0) wins alone.

    Below the truth tier a measurement without sigma cannot be weighed and does not count.
    """
    values: list[Value] = []
    for item in evidence:
        if item.evidence.tier is not tier:
            continue
        rung = ladder.rung_at.get(item.path)
        use = rung.use if rung is not None else None
        for measurement in item.evidence.measurements:
            found = _counting(ladder, use, measurement, item.evidence.labels, map_named)
            if found is None or (found.sigma is None and tier.rank < ladder.spec.truth.rank):
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
    ladder: Ladder,
    use: VerifierUse | None,
    measurement: Measurement,
    labels: Mapping[str, str],
    map_named: MapNamed,
) -> Measurement | None:
    """The measurement on the ladder's quantity, through the use's declared map if need be."""
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


def _shrunk(prior: Value, lab: Value) -> Value:
    """Normal-normal posterior; a lab value without noise replaces the prior."""
    (prior_mean, prior_variance), (lab_mean, lab_variance) = prior, lab
    if lab_variance == 0.0:
        return lab
    if prior_variance == 0.0:
        return lab_mean, lab_variance
    weight = 1.0 / prior_variance + 1.0 / lab_variance
    return (prior_mean / prior_variance + lab_mean / lab_variance) / weight, 1.0 / weight
