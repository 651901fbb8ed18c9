"""Group-relative advantages: pure formulas over the samples of one prompt.

A sample without a reward is outside all of it: it moves neither the mean nor the deviation, and has no
advantage. A sample that stands for ``multiplicity`` equal ones counts that often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Estimator = Literal["grpo", "dr_grpo", "rloo", "posterior"]
EPSILON = 1e-6


class Member(NamedTuple):
    """One sample of a group. ``reward`` is null where there is none; ``variance`` is that of the reward;
    ``multiplicity`` >= 0 says how often it counts (a fraction where rows share it)."""

    reward: float | None
    variance: float = 0.0
    multiplicity: float = 1.0


class Statistics(NamedTuple):
    """Over the samples that have a reward. ``mean`` and ``std`` are null when there is none; ``std``
    divides by ``valid - ddof`` and is 0 where that is not positive. ``noise`` is the mean variance,
    ``valid`` the number of samples with multiplicities. ``spread`` is the largest minus the smallest
    reward: exactly 0 when all are equal."""

    mean: float | None
    std: float | None
    noise: float
    valid: float
    spread: float


def statistics(samples: Sequence[Member], *, ddof: int = 0) -> Statistics:
    """Mean, standard deviation and mean variance of the rewards there are."""
    known = [
        (reward, variance, count) for reward, variance, count in samples if reward is not None and count > 0
    ]
    total = math.fsum(count for _, _, count in known)
    if not known:
        return Statistics(None, None, 0.0, 0.0, 0.0)
    low, high = min(reward for reward, _, _ in known), max(reward for reward, _, _ in known)
    # Rounding must not put the mean of equal rewards beside them.
    mean = min(high, max(low, math.fsum(reward * count for reward, _, count in known) / total))
    squares = math.fsum(count * (reward - mean) ** 2 for reward, _, count in known)
    std = math.sqrt(squares / (total - ddof)) if total > ddof else 0.0
    noise = math.fsum(variance * count for _, variance, count in known) / total
    return Statistics(mean, std, noise, total, high - low)


def advantages(
    samples: Sequence[Member], estimator: Estimator, *, ddof: int = 0, epsilon: float = EPSILON
) -> tuple[float | None, ...]:
    """The advantage of every sample, null where it has none.

    With r the reward, m the mean and s the standard deviation of the n valid samples of the group:

    ``grpo``: (r - m) / (s + ``epsilon``). Shao et al. 2024, arXiv 2402.03300, section 4.1.2.
    ``dr_grpo``: r - m. Liu et al. 2025, arXiv 2503.20783, section 3.2.
    ``rloo``: r minus the mean of the others, = (r - m) n / (n - 1); null where there are no others.
    Ahmadian et al. 2024, arXiv 2402.14740; Kool et al. 2019.
    ``posterior``: (r - m) / sqrt(s^2 + mean variance + ``epsilon``): damps groups whose rewards are
    uncertain.
    """
    found = statistics(samples, ddof=ddof)
    return tuple(
        _advantage(estimator, sample.reward, found, epsilon)
        if sample.reward is not None and sample.multiplicity > 0
        else None
        for sample in samples
    )


def _advantage(estimator: Estimator, reward: float, found: Statistics, epsilon: float) -> float | None:
    if found.mean is None or found.std is None:
        return None
    deviation = reward - found.mean
    if estimator == "rloo":
        return None if found.valid < 1.5 else deviation * found.valid / (found.valid - 1)
    if estimator == "dr_grpo":
        return deviation
    if estimator == "posterior":
        return deviation / math.sqrt(found.std * found.std + found.noise + epsilon)
    return deviation / (found.std + epsilon)
