"""A hard ledger: what is reserved and settled in a replay, so that nothing is ever overspent."""

from __future__ import annotations

import numpy as np

from scheduler.worth import Floats

WORST_RATIO = 3.0
ENOUGH = 20


class Ledger:
    """One budget. A purchase is dispatched only if its reservation fits what is left; a check that has
    used up its reservation is stopped, paid for and yields nothing.

    The reservation is the predicted cost times a margin: 3 at first, later what the settled purchases
    of the level have shown, with half as much
    again in the logarithm. Predictions are corrected by the median
    ratio of actual to quoted cost, per level.
    """

    def __init__(self, limit: float, levels: int) -> None:
        self.limit = limit
        self.spent = 0.0
        self.stopped = 0
        self._ratios: list[list[float]] = [[] for _ in range(levels)]

    @property
    def left(self) -> float:
        """What has not been spent."""
        return max(self.limit - self.spent, 0.0)

    @property
    def overshoot(self) -> float:
        """Spending beyond the limit as a share of it."""
        return max(self.spent - self.limit, 0.0) / self.limit if self.limit > 0 else float(self.spent > 0)

    def learn(self, level: int, quoted: float, actual: float) -> None:
        """Note what a purchase took that this budget has not paid for."""
        self._ratios[level].append(max(actual, 1e-12) / max(quoted, 1e-12))

    def predicted(self, quoted: Floats) -> Floats:
        """Quoted costs (n, K), corrected by what has been settled so far."""
        return quoted * np.array([self._correction(level) for level in range(len(self._ratios))])

    def buy(self, level: int, quoted: float, actual: float) -> bool | None:
        """Whether the purchase gave its value; ``None`` if it was not dispatched."""
        reserved = quoted * self._correction(level) * self._margin(level)
        if reserved > self.left * (1.0 + 1e-12):
            return None
        done = actual <= reserved * (1.0 + 1e-12)
        self.spent += min(actual, reserved)
        self.stopped += not done
        self.learn(level, quoted, actual)
        return done

    def _correction(self, level: int) -> float:
        return float(np.median([1.0, *self._ratios[level]])) if self._ratios[level] else 1.0

    def _margin(self, level: int) -> float:
        if len(self._ratios[level]) < ENOUGH:
            return WORST_RATIO
        worst = max(self._ratios[level]) / self._correction(level)
        return min(WORST_RATIO, max(worst, 1.0) ** 1.5)
