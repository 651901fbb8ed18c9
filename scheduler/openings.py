"""What could be bought for cases of one ladder, in units of the reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.ladder_model import is_doubted, model_of
from scheduler.levels import levels_of
from scheduler.pool import NONE
from scheduler.worth import IDENTITY, Floats, of_utility
from verifier_service.domain.decisions import Estimate, PolicyCase, TierOption
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Ladder

CERTAIN_SD = 0.01  # of the reward: nothing is bought below it
HALF = 0.5  # of the variance stays after a level of which nothing is known, neither declared nor learned


@dataclass(frozen=True, slots=True)
class Opening:
    """One case: expected reward with its variance, the highest observed level, and per level of its ladder
    the variance that is left once it was bought, its cost (infinite where it cannot be bought), the option
    and the account it is paid from."""

    mean: float
    variance: float
    level: int
    after: tuple[float, ...]
    costs: tuple[float, ...]
    options: tuple[TierOption | None, ...]
    accounts: tuple[str, ...]

    @property
    def sd(self) -> float:
        """Standard deviation of the reward."""
        return math.sqrt(max(self.variance, 0.0))


def openings(ladder: Ladder, cases: Sequence[PolicyCase]) -> list[Opening | None]:
    """One per case; ``None`` where nothing is estimated yet, or nothing up to the truth can be bought."""
    levels = levels_of(ladder)
    offered = [_offered(ladder, levels, case) for case in cases]
    rows = [row for row, one in enumerate(offered) if one is not None]
    found: list[Opening | None] = [None] * len(cases)
    if not rows:
        return found
    estimates = [one for row in rows if (one := cases[row].estimate) is not None]
    mean = np.array([one.outcome if one.mean is None else one.mean for one in estimates])
    variance = np.array([_variance(one) for one in estimates])
    left = np.array([_left(levels, cases[row]) for row in rows])
    total = np.array([one.outcome_variance for one in estimates])
    worth = IDENTITY if ladder.spec.utility is None else of_utility(ladder.spec.utility)
    after = np.empty((len(rows), len(levels)))
    for column in range(len(levels)):
        after[:, column] = np.maximum(total - worth.resolvable(mean, variance, left[:, column]), 0.0)
    for place, row in enumerate(rows):
        options = offered[row] or ()
        found[row] = _opening(cases[row], levels, options, after[place])
    return found


def _opening(
    case: PolicyCase, levels: Sequence[Tier], options: Sequence[TierOption | None], after: Floats
) -> Opening | None:
    estimate = case.estimate
    if estimate is None:
        return None
    return Opening(
        mean=estimate.outcome + case.bonus,
        variance=estimate.outcome_variance,
        level=levels.index(estimate.tier) if estimate.tier in levels else NONE,
        after=tuple(after.tolist()),
        costs=tuple(math.inf if one is None else one.credits for one in options),
        options=tuple(options),
        accounts=tuple("human" if tier is Tier.LAB else "compute" for tier in levels),
    )


def _offered(
    ladder: Ladder, levels: Sequence[Tier], case: PolicyCase
) -> tuple[TierOption | None, ...] | None:
    """What can be bought at each level, skipping levels but no hard gate."""
    estimate = case.estimate
    if estimate is None or estimate.tier.rank >= ladder.spec.truth.rank:
        return None
    if case.soft_rejected and estimate.tier is Tier.FAST:
        return None
    if estimate.outcome_variance < CERTAIN_SD * CERTAIN_SD and not is_doubted(case.model, estimate.tier):
        return None
    by_tier = {option.tier: option for option in case.options}
    offered: list[TierOption | None] = []
    for tier in levels:
        gated = any(
            rung.role == "hard_gate"
            for rung in ladder.rungs
            if estimate.tier.rank < rung.tier.rank < tier.rank and rung.tier not in case.observed
        )
        possible = tier.rank > estimate.tier.rank and tier not in case.failed | case.observed and not gated
        offered.append(by_tier.get(tier) if possible else None)
    return tuple(offered) if any(one is not None for one in offered) else None


def _variance(estimate: Estimate) -> float:
    """Of the quantity, or of the verdict."""
    return estimate.outcome_variance if estimate.variance is None else estimate.variance


def _left(levels: Sequence[Tier], case: PolicyCase) -> list[float]:
    """Variance of the quantity that is left after each level."""
    estimate, top = case.estimate, len(levels) - 1
    variance = 0.0 if estimate is None else _variance(estimate)
    fitted = None if case.model is None else model_of(case.model.body)
    if estimate is None or fitted is None or fitted.levels != tuple(levels):
        return [HALF * variance] * top + [0.0]
    level = levels.index(estimate.tier) if estimate.tier in levels else NONE
    gains = [
        float(fitted.chain.gain(level, column, np.array([variance]))[0]) if column > level else 0.0
        for column in range(len(levels))
    ]
    return [max(variance - gain, 0.0) for gain in gains]
