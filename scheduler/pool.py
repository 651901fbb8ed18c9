"""The candidates among which a purchase is chosen, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from scheduler.worth import Floats, Worth
from verifier_service.domain.errors import InvalidInput

Ints = NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Pool:
    """n candidates in groups, K levels above nothing; the last level is the truth.

    ``mean``, ``variance`` (n,): belief about the quantity. ``after`` (n, K): variance that is left once
    the level has been bought, from whatever has been observed so far. ``level`` (n,): the highest
    observed level, -1 for none. ``group`` (n,): 0, 1, ...; every member belongs in the pool, those with
    nothing to buy too, because they decide what the others' results can change. ``costs`` (n, K):
    predicted, in units of the level's budget, inf where the level cannot be bought. ``multiplicity``
    (n,): for how many equal candidates the result serves. ``freshness`` (n, K), in [0, 1]: what the
    delay leaves of the value, see ``freshness``. ``key`` (n,): distinct, decides between equals.
    Raises ``InvalidInput`` on wrong shapes and on numbers that are not what is said here.
    """

    mean: Floats
    variance: Floats
    after: Floats
    level: Ints
    group: Ints
    costs: Floats
    multiplicity: Floats
    freshness: Floats
    key: Ints

    def __post_init__(self) -> None:
        n = self.mean.size
        flat = (self.mean, self.variance, self.level, self.group, self.multiplicity, self.key)
        if any(array.shape != (n,) for array in flat) or self.costs.ndim != 2:
            raise _invalid("means, variances, levels, groups, multiplicities and keys have one entry each")
        if any(array.shape != (n, self.levels) for array in (self.after, self.costs, self.freshness)):
            raise _invalid("costs, variances afterwards and freshness have one row per candidate")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.variance).all()):
            raise _invalid("means and variances are finite")
        if (self.variance < 0).any() or not (self.costs >= 0).all() or not (self.multiplicity > 0).all():
            raise _invalid("variances and costs are not negative, multiplicities positive")
        if not (self.after >= 0).all() or not np.isfinite(self.multiplicity).all():
            raise _invalid("variances afterwards are not negative, multiplicities finite")
        if not ((self.freshness >= 0) & (self.freshness <= 1)).all():
            raise _invalid("freshness lies between 0 and 1")
        if (self.group < 0).any():
            raise _invalid("groups are numbered from 0")
        if np.unique(self.key).size < n:
            raise _invalid("keys are distinct")

    @classmethod
    def of(
        cls,
        mean: Floats,
        variance: Floats,
        after: Floats,
        costs: Floats,
        *,
        group: Ints,
        level: Ints | None = None,
        multiplicity: Floats | None = None,
        fresh: Floats | None = None,
        key: Ints | None = None,
    ) -> Pool:
        """With defaults: nothing observed, each candidate once, no delay, keys in order."""
        n = mean.size
        return cls(
            mean=np.asarray(mean, np.float64),
            variance=np.asarray(variance, np.float64),
            after=np.asarray(after, np.float64),
            costs=np.asarray(costs, np.float64),
            group=np.asarray(group, np.int64),
            level=np.full(n, NONE) if level is None else np.asarray(level, np.int64),
            multiplicity=np.ones(n) if multiplicity is None else np.asarray(multiplicity, np.float64),
            freshness=np.ones(costs.shape) if fresh is None else np.broadcast_to(fresh, costs.shape),
            key=np.arange(n) if key is None else np.asarray(key, np.int64),
        )

    def take(self, rows: Ints) -> Pool:
        """Some of the rows, in their order."""
        return Pool(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def levels(self) -> int:
        """K."""
        return int(self.costs.shape[1])


@dataclass(frozen=True, eq=False, slots=True)
class Rewards:
    """The pool in units of the reward.

    ``expected``, ``variance`` (n,); ``resolved`` (n, K): part of the variance that a purchase would
    resolve, 0 where there is nothing to buy.
    """

    expected: Floats
    variance: Floats
    resolved: Floats


def rewards(pool: Pool, worth: Worth) -> Rewards:
    """What the beliefs of ``pool`` mean for the reward."""
    expected, variance = worth.moments(pool.mean, pool.variance)
    resolved = np.zeros(pool.costs.shape)
    for j in range(pool.levels):
        rows = np.flatnonzero(np.isfinite(pool.costs[:, j]) & (pool.after[:, j] < pool.variance))
        resolved[rows, j] = worth.resolvable(pool.mean[rows], pool.variance[rows], pool.after[rows, j])
    return Rewards(expected, variance, np.minimum(resolved, variance[:, None]))


def freshness(delay_s: Floats, horizon_s: float) -> Floats:
    """exp(-delay / horizon): what a reward that arrives late is still worth; both in seconds."""
    if not horizon_s > 0:
        raise _invalid("the horizon is positive")
    return np.exp(-np.maximum(delay_s, 0.0) / horizon_s)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_pool", message)
