"""Every policy of the comparison. All see the same beliefs and the same even share of the budget per round,
but for ours, which paces itself.

Baselines that name no level send to the truth. Where money runs out, the rest of the round goes without.
``cheap`` is the cheapest level above the one candidates arrive with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from benchmarks.escalation.replay import Policy, Purchase, Replay, Select, View
from scheduler.choice import Budgets, Choice, choose, choose_by
from scheduler.gains import Gains, Objective, edge_of
from scheduler.pacing import FEW_ROUNDS, RECENT, allowance, clearing_price
from scheduler.pool import Pool
from scheduler.worth import Floats

UCB = 1.6448536269514722
Score = Callable[[View], Floats]


def policies(levels: tuple[str, ...], arrival: int) -> list[Policy]:
    """Baselines, oracles and ours for a ladder."""
    top = len(levels) - 1
    cheap = arrival + 1
    found = [
        Policy("random", _by(_random, top)),
        Policy("uncertainty", _by(_variance, top)),
        Policy("top-k", _by(_mean, top)),
        Policy("UCB", _by(_upper, top)),
        Policy("pairwise", _by(_pairwise, top)),
        Policy("EI per cost", _improvement_per_cost),
        Policy("fixed cascade", _cascade(cheap, top)),
        *(Policy(f"all {levels[level]}", _by(_random, level)) for level in range(cheap, top)),
    ]
    if cheap < top:
        found.append(Policy(f"all {levels[cheap]} + uncertainty", _all_then(_variance, cheap, top)))
        found.append(Policy(f"all {levels[cheap]} + top", _all_then(_mean, cheap, top)))
    found.append(Policy(f"all {levels[top]}", _by(_random, top), limited=False))
    found.append(Policy("oracle (advantage)", _oracle(_error_in_group)))
    found.append(Policy("oracle (discovery)", _oracle(_wrong_side)))
    objectives: tuple[Objective, ...] = ("advantage", "discovery", "value")
    found += [Policy(f"ours ({name})", ours(name), pace(name), ours=True) for name in objectives]
    return found


def ours(objective: Objective) -> Select:
    """The scheduler's choice."""

    def select(view: View) -> list[Purchase]:
        budgets = Budgets.one(view.budget, view.pool.levels, view.price)
        return _purchases(choose(view.pool, objective, budgets, edge=view.edge))

    return select


def pace(objective: Objective) -> Callable[[Replay], tuple[float, float]]:
    """The scheduler's allowance for a round, and the price it asks."""

    def allow(replay: Replay) -> tuple[float, float]:
        rounds = replay.stream.rounds
        ahead = len(rounds) - replay.round
        place = rounds[replay.round]
        coming = replay.stream.rows.size - int(place[0])
        price = None
        if ahead >= FEW_ROUNDS:
            recent = replay.seen[-RECENT:]
            pool = replay.pool(recent, replay.arrivals(recent))
            edge = edge_of(pool.mean, pool.variance)
            price = clearing_price(pool, objective, replay.left / coming, edge=edge)
        found = allowance(replay.left, ahead, price, this_share=place.size / coming)
        return found.budget, found.price

    return allow


def _purchases(choice: Choice) -> list[Purchase]:
    bought = np.flatnonzero(choice.order >= 0)
    bought = bought[np.argsort(choice.order[bought])]
    return [(int(row), int(choice.level[row])) for row in bought]


def _by(score: Score, level: int) -> Select:
    """The best-scored first, all to one level."""

    def select(view: View) -> list[Purchase]:
        return _affordable(view, np.argsort(-score(view), kind="stable"), level, view.budget)

    return select


def _affordable(view: View, order: Floats, level: int, budget: float) -> list[Purchase]:
    picks: list[Purchase] = []
    costs = view.pool.costs[:, level]
    for row in order.tolist():
        if np.isfinite(costs[row]) and costs[row] <= budget:
            picks.append((row, level))
            budget -= costs[row]
    return picks


def _all_then(score: Score, cheap: int, top: int) -> Select:
    """Everyone to ``cheap`` first, as far as the money goes; once they are through, the rest to the top."""

    def select(view: View) -> list[Purchase]:
        order = np.argsort(-score(view), kind="stable")
        level = cheap if view.turn == 0 else top
        return _affordable(view, order, level, view.budget)

    return select


def _cascade(cheap: int, top: int) -> Select:
    """Half of the money to ``cheap`` for anyone, the other half to the best of those."""

    def select(view: View) -> list[Purchase]:
        if view.turn == 0 and cheap < top:
            return _affordable(view, np.argsort(-_random(view), kind="stable"), cheap, view.budget / 2)
        passed = view.pool.level >= (cheap if cheap < top else -1)
        order = np.argsort(-np.where(passed, view.pool.mean, -np.inf), kind="stable")
        return _affordable(view, order[: int(passed.sum())], top, view.budget)

    return select


def _improvement_per_cost(view: View) -> list[Purchase]:
    """Expected improvement over the edge of the best tenth, by what the level would resolve, per cost."""
    pool = view.pool
    sd = np.sqrt(np.maximum(pool.variance[:, None] - pool.after, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(sd > 0, (pool.mean - view.edge)[:, None] / sd, 0.0)
    gain = np.where(sd > 0, sd * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)), 0.0)
    density = np.where(np.isfinite(pool.costs), gain, 0.0) / np.where(
        np.isfinite(pool.costs), pool.costs, 1.0
    )
    level = np.argmax(density, axis=1)
    best = density[np.arange(level.size), level]
    budget, picks = view.budget, list[Purchase]()
    for row in np.argsort(-best, kind="stable").tolist():
        cost = pool.costs[row, level[row]]
        if best[row] > 0 and cost <= budget:
            picks.append((row, int(level[row])))
            budget -= cost
    return picks


def _random(view: View) -> Floats:
    return view.rng.random(view.pool.mean.size)


def _variance(view: View) -> Floats:
    return view.pool.variance


def _mean(view: View) -> Floats:
    return view.pool.mean


def _upper(view: View) -> Floats:
    return view.pool.mean + UCB * np.sqrt(view.pool.variance)


def _pairwise(view: View) -> Floats:
    """Sum over the group of p (1 - p), p the chance of being better than the other member."""
    pool = view.pool
    gap = pool.mean[:, None] - pool.mean[None, :]
    sd = np.sqrt(pool.variance[:, None] + pool.variance[None, :])
    p = ndtr(np.divide(gap, sd, out=np.where(gap > 0, 9.0, -9.0), where=sd > 0))
    same = pool.group[:, None] == pool.group[None, :]
    np.fill_diagonal(same, False)
    return np.where(pool.variance > 0, (p * (1 - p) * same).sum(axis=1), -1.0)


def _oracle(reduction: Callable[[View, Floats], Floats]) -> Select:
    """Greedy knapsack over the error that each purchase would really take away: it knows every value."""

    def select(view: View) -> list[Purchase]:
        fixed = np.zeros(view.pool.costs.shape)
        before = reduction(view, view.pool.mean)
        for level in range(view.pool.levels):
            rows = np.flatnonzero(np.isfinite(view.pool.costs[:, level]))
            y = view.y.copy()
            y[rows, level] = view.all_y[rows, level]
            later = view.chain.believe(view.x, y).mean
            fixed[rows, level] = (before - reduction(view, later))[rows]

        def measure(pool: Pool) -> Gains:
            nothing = np.zeros(int(pool.group.max(initial=-1)) + 1)
            still = np.zeros_like(fixed)
            return Gains(fixed, still, still, nothing, nothing, pool.costs)

        return _purchases(choose_by(view.pool, measure, Budgets.one(view.budget, view.pool.levels)))

    return select


def _error_in_group(view: View, mean: Floats) -> Floats:
    """Squared error in units of the group's true variance."""
    sums = np.bincount(view.pool.group, view.truth)
    sizes = np.maximum(np.bincount(view.pool.group), 1)
    centre = (sums / sizes)[view.pool.group]
    spread = np.bincount(view.pool.group, (view.truth - centre) ** 2) / sizes
    found: Floats = (view.truth - mean) ** 2 / np.maximum(spread, 1e-12)[view.pool.group]
    return found


def _wrong_side(view: View, mean: Floats) -> Floats:
    """Whether the mean lies on another side of the true edge than the truth, and a little of the error."""
    wrong = (mean > view.true_edge) != (view.truth > view.true_edge)
    return wrong + 1e-6 * np.minimum((view.truth - mean) ** 2, 1.0)
