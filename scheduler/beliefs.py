"""From evidence to a belief about the outcome, by what is declared alone.

Within the highest tier that measured the ladder's quantity (directly, or through a declared map),
measurements combine by inverse variance; higher tiers replace lower ones. A lab measurement of the same
quantity is shrunk toward that value by the lab's own noise. A judging ladder takes its verifier's score,
which below the truth may be mistaken. Nothing is estimated from candidates' siblings, so an estimate is a
function of the case alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.levels import MapNamed, doubt_of, tier_value, values_of
from scheduler.value import utility_interval, utility_moments
from verifier_service.domain.decisions import Estimate, RungEvidence
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.ladders import Ladder

Value = tuple[float, float]  # mean, variance
UNKNOWN_MISTAKES = 0.09  # variance of a verdict below the truth before any was checked: wrong once in ten
TAIL = 0.05


@dataclass(frozen=True, slots=True)
class TierBeliefs:
    """Estimates by the highest observed tier. ``map_named`` looks up the maps that ladders declare."""

    map_named: MapNamed

    def estimate(self, ladder: Ladder, evidence: Sequence[RungEvidence]) -> Estimate | None:
        """The belief, or ``None`` while nothing counts toward the outcome.

        Arithmetic that leaves the range of floats is no belief either: it must not become a number,
        and it must not stop the cases beside it.
        """
        try:
            found = (
                _judged(ladder, evidence, self.map_named)
                if ladder.spec.outcome is not None
                else _measured(ladder, evidence, self.map_named)
            )
        except ArithmeticError:
            return None
        return found if found is not None and is_finite(found) else None


def is_finite(estimate: Estimate) -> bool:
    """Whether every number of it is one."""
    values = (estimate.mean, estimate.variance, estimate.outcome, estimate.outcome_variance)
    return all(value is None or math.isfinite(value) for value in (*values, estimate.low, estimate.high))


def _judged(ladder: Ladder, evidence: Sequence[RungEvidence], map_named: MapNamed) -> Estimate | None:
    outcome = ladder.spec.outcome
    scored = [
        item.evidence
        for item in evidence
        if outcome is not None
        and item.evidence.provenance.verifier == outcome.use
        and item.evidence.score is not None
    ]
    truth = values_of(ladder, evidence, map_named).get(ladder.spec.truth)
    people = truth is not None and ladder.spec.truth is Tier.LAB
    if not scored:
        return _accepted(ladder, evidence, Tier.LAB, truth.mean) if truth is not None and people else None
    tier = max((item.tier for item in scored), key=lambda tier: tier.rank)
    scores = [item.score for item in scored if item.tier is tier and item.score is not None]
    score = sum(scores) / len(scores)
    if people:
        return _accepted(ladder, evidence, tier, score)
    sure = tier.rank >= ladder.spec.truth.rank or truth is not None
    return verdict_estimate(tier, score, 0.0 if sure else UNKNOWN_MISTAKES)


def _accepted(ladder: Ladder, evidence: Sequence[RungEvidence], tier: Tier, score: float) -> Estimate:
    """The belief after people decided, who are wrong with a probability: then the candidate is worth 0.
    What they refuse never comes to this, see ``domain.scoring``."""
    wrong = doubt_of(ladder, evidence)
    found = verdict_estimate(tier, (1.0 - wrong) * score, wrong * (1.0 - wrong) * score * score)
    return found if not wrong else replace(found, low=0.0 if wrong > TAIL else score, high=score)


def verdict_estimate(tier: Tier, outcome: float, variance: float, *, model: int | None = None) -> Estimate:
    """The belief about a verdict in [0, 1]. Its interval is that of a yes or no: 1 from a probability of
    95 % on, 0 up to 5 %, and both between, unless nothing is uncertain."""
    known = variance == 0.0
    return Estimate(
        tier=tier,
        mean=None,
        variance=None,
        outcome=outcome,
        outcome_variance=variance,
        low=outcome if known else float(outcome >= 1.0 - TAIL and model is not None),
        high=outcome if known else float(outcome > TAIL or model is None),
        model=model,
    )


def _measured(ladder: Ladder, evidence: Sequence[RungEvidence], map_named: MapNamed) -> Estimate | None:
    if ladder.spec.utility is None:
        return None
    best: tuple[Tier, Value] | None = None
    for tier in TIERS:
        value = tier_value(ladder, tier, evidence, map_named)
        if value is not None:
            shrinks = tier is Tier.LAB and best is not None
            best = (tier, _shrunk(best[1], value) if shrinks and best is not None else value)
    if best is None:
        return None
    tier, (mean, variance) = best
    return estimate_of(ladder, tier, mean, variance)


def estimate_of(
    ladder: Ladder,
    tier: Tier,
    mean: float,
    variance: float,
    *,
    scale: float = 1.0,
    model: int | None = None,
) -> Estimate | None:
    """The outcome of a quantity that is believed to be N(mean, variance); ``scale`` widens the interval.

    ``None`` for a ladder that judges.
    """
    if ladder.spec.utility is None:
        return None
    outcome, outcome_variance = utility_moments(ladder.spec.utility, mean, variance)
    low, high = utility_interval(ladder.spec.utility, mean, variance * scale * scale)
    return Estimate(
        tier=tier,
        mean=mean,
        variance=variance,
        outcome=outcome,
        outcome_variance=outcome_variance,
        low=low,
        high=high,
        model=model,
    )


def _shrunk(prior: Value, lab: Value) -> Value:
    """Normal-normal posterior; a lab value without noise replaces the prior."""
    (prior_mean, prior_variance), (lab_mean, lab_variance) = prior, lab
    if lab_variance == 0.0:
        return lab
    if prior_variance == 0.0:
        return lab_mean, lab_variance
    weight = 1.0 / prior_variance + 1.0 / lab_variance
    return (prior_mean / prior_variance + lab_mean / lab_variance) / weight, 1.0 / weight
