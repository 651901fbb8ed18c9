"""What buying a level of a candidate is expected to be worth, under each objective.

* ``advantage``: how much better the group's rewards will correlate with the truth, which is what a
  group-relative advantage is made of. With S = Var(m) over the group, v the members' variances, G its
  size and T = S + (1 - 1/G) mean(v), the expected correlation is sqrt(S / T). A purchase that resolves
  D of one member's variance moves D (1 - 1/G) / G from the second part of T to S and leaves T as it is.
  A candidate with copies in its group counts as one member that has their weight.
* ``discovery``: how much less likely the candidate lies on the wrong side of the edge of the best tenth.
  A cheap level counts with the right to go on to the truth: as in Weitzman's search problem (Weitzman
  1979, Econometrica 47, with costly stages as in the Markovian price of information, Gupta, Jiang, Scully
  and Singla 2019), its index is the best ratio of loss avoided to money spent over all sets of results
  after which one would go on.
* ``value``: the reward's variance that is resolved, whatever the group.
* a mixture, each part divided by its mean over the pool (or by ``Scales``).

All arrays are n candidates by K levels. Utilities are multiplied by the freshness, and outside the
advantage by the multiplicity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtr

from scheduler.pool import Ints, Pool, Rewards
from scheduler.worth import Floats, hermite
from verifier_service.domain.runs import MixObjective

Objective = Literal["advantage", "discovery", "value"] | MixObjective
TOP_SHARE = 0.1
_BISECTIONS = 60
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Scales:
    """Mean utility of each part of a mixture, kept over time so that one group cannot move another."""

    advantage: float
    discovery: float


@dataclass(frozen=True, eq=False, slots=True)
class Gains:
    """Utility_ij = fixed_ij + factor_ij (h(S_g + rise_ij) - h(S_g)), h(S) = sqrt(S / T_g).

    ``fixed``, ``factor``, ``rise`` (n, K); ``spread`` S and ``total`` T have one entry per group.
    ``outlay`` (n, K): expected spending on the candidate if the level is bought, what it may lead to
    included; at least the level's own cost.
    """

    fixed: Floats
    factor: Floats
    rise: Floats
    spread: Floats
    total: Floats
    outlay: Floats

    def utilities(self, group: Ints) -> Floats:
        """(n, K), before anything is bought."""
        total = np.maximum(self.total, _TINY)[group][:, None]
        spread = self.spread[group][:, None]
        climb = np.sqrt((spread + self.rise) / total) - np.sqrt(spread / total)
        found: Floats = self.fixed + self.factor * climb
        return found


def gains(
    pool: Pool,
    reward: Rewards,
    objective: Objective,
    *,
    edge: float | None = None,
    scales: Scales | None = None,
) -> Gains:
    """The utilities of ``pool`` under ``objective``.

    ``edge``: the running edge of the best tenth in units of the reward (see ``edge_of``); by default
    that of the pool alone. ``scales``: for mixtures; by default from the pool alone. Both defaults let
    what else is in the pool matter.
    """
    if objective == "advantage":
        return advantage(pool, reward)
    if objective == "value":
        return _fixed(pool, reward.resolved * _weights(pool), pool.costs)
    threshold = edge_of(reward.expected, reward.variance, pool.multiplicity) if edge is None else edge
    found = discovery(pool, reward, threshold)
    if isinstance(objective, MixObjective):
        return _mixed(pool, advantage(pool, reward), found, objective.mix, scales)
    return found


def advantage(pool: Pool, reward: Rewards) -> Gains:
    """Rise of each group's correlation with the truth."""
    groups = int(pool.group.max(initial=-1)) + 1

    def per_group(values: Floats) -> Floats:
        return _summed(pool.group, values * pool.multiplicity, groups)

    size = np.maximum(per_group(np.ones(pool.mean.size)), 1.0)
    centre = per_group(reward.expected) / size
    spread = per_group((reward.expected - centre[pool.group]) ** 2) / size
    share = pool.multiplicity / size[pool.group]
    part = share * np.maximum(1.0 - share, 0.0)
    rise = reward.resolved * part[:, None]
    total = spread + _summed(pool.group, part * reward.variance, groups)
    return Gains(np.zeros_like(rise), pool.freshness, rise, spread, total, pool.costs)


def discovery(pool: Pool, reward: Rewards, edge: float) -> Gains:
    """Fall of the chance of lying on the wrong side of ``edge``."""
    top = pool.levels - 1
    fixed, outlay = np.zeros(pool.costs.shape), pool.costs.copy()
    loss = misplaced(reward.expected, reward.variance, edge)
    for j in reversed(range(pool.levels)):
        rows = np.flatnonzero(reward.resolved[:, j] > 0.0)
        resolved = reward.resolved[rows, j]
        left = reward.variance[rows] - resolved
        nodes, weights = hermite(reward.expected[rows], np.sqrt(resolved))
        later = misplaced(nodes, left, edge)
        first = np.maximum(loss[rows] - (weights * later).sum(axis=0), 0.0)
        fixed[rows, j] = first
        onward = pool.costs[rows, top]
        if j < top:
            still = reward.resolved[rows, top] - resolved
            share = np.clip(still / np.maximum(left, _TINY), 0.0, 1.0)
            most = np.maximum(fixed[rows, top], first)
            found = _index(first, pool.costs[rows, j], later * share, onward, most)
            fixed[rows, j], outlay[rows, j] = found
    return _fixed(pool, fixed * _weights(pool), outlay)


def misplaced(expected: Floats, variance: Floats, edge: float) -> Floats:
    """Chance that N(expected, variance) lies on the other side of ``edge`` than its mean."""
    sd = np.sqrt(np.maximum(variance, 0.0))
    distance = np.abs(expected - edge)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(sd > 0.0, ndtr(-distance / sd), 0.0)
    return found


def edge_of(
    expected: Floats, variance: Floats, weight: Floats | None = None, *, share: float = TOP_SHARE
) -> float:
    """Value that a ``share`` of the candidates is expected to exceed: mean of P(reward > edge) = share.

    ``expected``, ``variance`` (n,) of all candidates seen, n at least 1; found by bisection.
    """
    sd = np.sqrt(np.maximum(variance, 1e-24))
    low = float((expected - 8.0 * sd).min())
    high = float((expected + 8.0 * sd).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if float(np.average(ndtr((expected - middle) / sd), weights=weight)) > share:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def scales_of(pool: Pool, reward: Rewards, edge: float) -> Scales:
    """The scales of a mixture from the candidates of ``pool`` that have something to buy."""
    return Scales(
        _mean_best(pool, advantage(pool, reward)), _mean_best(pool, discovery(pool, reward, edge))
    )


def _index(
    first: Floats, cost: Floats, later: Floats, onward: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Loss avoided and outlay at the best ratio, over going on after the m most open of the results.

    ``first``, ``cost``, ``onward`` (n,); ``later`` (9, n): what going on would avoid at each node; ``most``
    (n,): what the truth avoids, which no way to it can exceed. The best ratio falls if either cost rises,
    as every one of the ratios does.
    """
    order = np.argsort(-later, axis=0, kind="stable")
    mass = np.broadcast_to(hermite(np.zeros(1), np.zeros(1))[1], later.shape)
    mass = np.take_along_axis(mass, order, axis=0)
    gained = np.cumsum(mass * np.take_along_axis(later, order, axis=0), axis=0)
    affordable = np.where(np.isfinite(onward), onward, 0.0)
    avoided = np.vstack([first, np.minimum(first + np.where(np.isfinite(onward), gained, 0.0), most)])
    outlay = np.vstack([cost, cost + affordable * np.cumsum(mass, axis=0)])
    ratio = avoided / np.maximum(outlay, _TINY)
    best = np.argmax(ratio, axis=0)[None, :]
    return np.take_along_axis(avoided, best, axis=0)[0], np.take_along_axis(outlay, best, axis=0)[0]


def _mixed(pool: Pool, one: Gains, other: Gains, mix: float, scales: Scales | None) -> Gains:
    if scales is None:
        scales = Scales(_mean_best(pool, one), _mean_best(pool, other))
    return replace(
        one,
        factor=one.factor * ((1.0 - mix) / max(scales.advantage, _TINY)),
        fixed=other.fixed * (mix / max(scales.discovery, _TINY)),
        outlay=other.outlay if mix > 0.0 else one.outlay,
    )


def _mean_best(pool: Pool, found: Gains) -> float:
    best = found.utilities(pool.group).max(axis=1, initial=0.0)
    open_ = np.isfinite(pool.costs).any(axis=1)
    return float(best[open_].mean()) if open_.any() else 0.0


def _fixed(pool: Pool, utilities: Floats, outlay: Floats) -> Gains:
    nothing = np.zeros(int(pool.group.max(initial=-1)) + 1)
    still = np.zeros_like(utilities)
    return Gains(utilities, still, still, nothing, nothing, outlay)


def _summed(group: Ints, values: Floats, groups: int) -> Floats:
    return np.bincount(group, values, minlength=groups).astype(np.float64)


def _weights(pool: Pool) -> Floats:
    return pool.freshness * pool.multiplicity[:, None]
