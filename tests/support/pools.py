"""Pools for the tests of what is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.pool import Ints, Pool
from scheduler.worth import Floats

Rows = Sequence[Sequence[float]]


def offers(
    utilities: Rows, costs: Rows, *, group: Sequence[int] | None = None, key: Sequence[int] | None = None
) -> Pool:
    """Candidates whose levels resolve these parts of the variance: their utilities under ``value``."""
    resolved = np.array(utilities, np.float64)
    variance = resolved.max(axis=1)
    return Pool.of(
        np.zeros(variance.size),
        variance,
        variance[:, None] - resolved,
        np.array(costs, np.float64),
        group=np.arange(variance.size) if group is None else np.array(group, np.int64),
        key=None if key is None else np.array(key, np.int64),
    )


def believed(
    mean: Sequence[float],
    variance: Sequence[float],
    *,
    costs: Rows | None = None,
    after: Rows | None = None,
    group: Sequence[int] | None = None,
    multiplicity: Sequence[float] | None = None,
    fresh: Floats | None = None,
) -> Pool:
    """Candidates of one group, by default with the truth for 1 credit, which resolves everything."""
    n = len(mean)
    prices = np.ones((n, 1)) if costs is None else np.array(costs, np.float64)
    return Pool.of(
        np.array(mean, np.float64),
        np.array(variance, np.float64),
        np.zeros(prices.shape) if after is None else np.array(after, np.float64),
        prices,
        group=np.zeros(n, np.int64) if group is None else np.array(group, np.int64),
        multiplicity=None if multiplicity is None else np.array(multiplicity, np.float64),
        fresh=fresh,
    )


def drawn(seed: int, n: int, levels: int, groups: int) -> Pool:
    """Any beliefs; dearer levels resolve more, the last one everything; some cannot be bought."""
    rng = np.random.default_rng(seed)
    variance = rng.uniform(0.0, 1.0, n) * (rng.uniform(size=n) > 0.1)
    share = np.sort(rng.uniform(0.0, 1.0, (n, levels)), axis=1)[:, ::-1]
    share[:, -1] = 0.0
    costs = np.sort(rng.uniform(0.05, 2.0, (n, levels)), axis=1)
    costs[rng.uniform(size=costs.shape) < 0.15] = np.inf
    group: Ints = rng.integers(0, max(groups, 1), n)
    return Pool.of(
        rng.normal(size=n),
        variance,
        share * variance[:, None],
        costs,
        group=group,
        multiplicity=rng.integers(1, 4, n).astype(np.float64),
        key=rng.permutation(n) + 7,
    )


def dearer(pool: Pool, row: int, level: int, factor: float) -> Pool:
    """The same with one purchase at a multiple of its cost."""
    costs = pool.costs.copy()
    costs[row, level] *= factor
    return Pool.of(
        pool.mean,
        pool.variance,
        pool.after,
        costs,
        group=pool.group,
        multiplicity=pool.multiplicity,
        fresh=pool.freshness,
        key=pool.key,
    )
