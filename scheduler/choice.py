"""Which purchases to make now, within the budgets: greedy by expected gain per unit of cost.

Each candidate may get one level. The purchases are taken in the order of their density, utility over
outlay, as in the greedy solution of the multiple-choice knapsack problem (Sinha and Zoltners 1979,
Operations Research 27): after a cheap level was taken, a dearer one of the same candidate may replace it
where the difference is worth the difference in cost, so that levels are skipped when money allows. Under
the advantage objective every purchase lowers what its group's other members can still add; densities
never rise, hence stale ones are recomputed only when they come to the front (Minoux 1978).

Nothing is taken whose density does not exceed the price. The outlay of what is taken never exceeds the
budget. Raising one purchase's cost never brings it forward; under discovery, where a cheap level's outlay
holds what it may lead to, that is said of its density, not of which level of one candidate replaces which.
The order of rows does not matter; equals are decided by key, then by level.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain

import numpy as np

from scheduler.gains import Gains, Objective, Scales, gains
from scheduler.pool import NONE, Ints, Pool, rewards
from scheduler.worth import IDENTITY, Floats, Worth
from verifier_service.domain.errors import InvalidInput

_FREE = 1e-12
_BLOCK = 8_192
_TOKENS = 64  # more than any ladder has levels
Action = tuple[float, int, int, int]  # -density, row, level, what its density was computed for


class Verdict(IntEnum):
    """What was decided about a candidate, and why."""

    BUY = 0
    NOTHING_TO_BUY = 1
    NOTHING_TO_LEARN = 2
    BELOW_PRICE = 3
    OVER_BUDGET = 4


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """Decisions, one row per candidate of the pool.

    ``level``: the level to buy, -1 for none. ``wanted``: the level of the highest density, bought or
    not. ``utility``, ``cost``, ``outlay``, ``density``: those of the level bought, else of the wanted
    one; 0 where there is none. ``order``: place in the order of purchases, -1 for none. ``verdict``: see
    ``Verdict``. ``spent`` per budget: the sum of outlays, which is at least that of costs.
    ``last_density`` per budget: the density of the last purchase, 0 where there was none;
    ``turned_away``: the highest that a budget could not pay, 0 where it paid for all. ``bound``: whether a
    budget turned a purchase away.
    """

    level: Ints
    wanted: Ints
    utility: Floats
    cost: Floats
    outlay: Floats
    density: Floats
    order: Ints
    verdict: Ints
    spent: Floats
    last_density: Floats
    turned_away: Floats
    bound: bool

    def take(self, rows: Ints) -> Choice:
        """The same decisions in another order of rows."""
        by_row = ("level", "wanted", "utility", "cost", "outlay", "density", "order", "verdict")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})


@dataclass(frozen=True, eq=False, slots=True)
class Budgets:
    """What may be spent and what it must earn.

    ``left``, ``price`` (R,): one entry per resource (compute, human time...). ``resource`` (K,): which of
    them each level draws on. Prices are utility per unit of the resource, at least 0.
    """

    left: Floats
    price: Floats
    resource: Ints

    @classmethod
    def one(cls, left: float, levels: int, price: float = 0.0) -> Budgets:
        """A single budget for every level."""
        return cls(np.array([left]), np.array([price]), np.zeros(levels, np.int64))


def choose(
    pool: Pool,
    objective: Objective,
    budgets: Budgets,
    *,
    worth: Worth = IDENTITY,
    edge: float | None = None,
    scales: Scales | None = None,
) -> Choice:
    """Decide for every candidate of ``pool``; see the module, and ``gains`` for edge and scales.

    A group changes nothing for the others as long as the budgets do not bind and ``edge`` and ``scales``
    are given. Raises ``InvalidInput`` for budgets that do not fit the pool.
    """

    def measure(ordered: Pool) -> Gains:
        return gains(ordered, rewards(ordered, worth), objective, edge=edge, scales=scales)

    return choose_by(pool, measure, budgets)


def choose_by(pool: Pool, measure: Callable[[Pool], Gains], budgets: Budgets) -> Choice:
    """The same with gains of any kind: ``measure`` says those of a pool."""
    _check(budgets, pool.levels)
    by_key = np.argsort(pool.key, kind="stable")
    ordered = pool.take(by_key)
    decided = _Greedy(ordered, measure(ordered), budgets).run()
    back = np.empty_like(by_key)
    back[by_key] = np.arange(by_key.size)
    return decided.take(back)


class _Greedy:
    """One run of the greedy over a pool in the order of its keys."""

    def __init__(self, pool: Pool, found: Gains, budgets: Budgets) -> None:
        self.pool, self.found, self.budgets = pool, found, budgets
        several = budgets.left.size > 1
        self.rate = np.maximum(budgets.price, _FREE) if several else np.ones(1)
        self.threshold = 1.0 if several else float(budgets.price[0])
        self.utilities = found.utilities(pool.group)
        self.priced = np.maximum(found.outlay, _FREE) * self.rate[budgets.resource]
        self.densities = self.utilities / self.priced
        self.open = np.isfinite(pool.costs) & (self.utilities > 0.0) & (self.densities > self.threshold)
        self.waiting = self.open.sum(axis=1).tolist()
        self.chosen = [NONE] * pool.mean.size
        self.bought: dict[int, tuple[int, float]] = {}  # row: place in the order, marginal density
        self.spread = found.spread.tolist()
        self.state = [0] * len(self.spread)
        self.repricing = bool(found.factor.any())
        self.left = budgets.left.tolist()
        self.last = [0.0] * len(self.left)
        self.turned = [0.0] * len(self.left)
        self.bound = False

    def run(self) -> Choice:
        """Take purchases in the order of density until none is open or none can fit."""
        blocks, block, at = self._sorted(), list[Action](), 0
        stale: list[Action] = []
        least = self._least()
        group = self.pool.group.tolist()
        while max(self.left) >= least:
            if at == len(block):
                block, at = next(blocks, []), 0
            if stale and (at == len(block) or stale[0] < block[at]):
                action = heapq.heappop(stale)
            elif at < len(block):
                action, at = block[at], at + 1
            else:
                break
            _, row, level, token = action
            if token != self.state[group[row]] * _TOKENS + self.chosen[row] + 1:
                self._renew(stale, row, level, group[row])
            else:
                self._buy(row, level, group[row], -action[0])
        self._turn_away(chain(stale, block[at:], chain.from_iterable(blocks)), group)
        return self._answer()

    def _turn_away(self, rest: Iterable[Action], group: list[int]) -> None:
        """No budget is left for these: those that are still worth the price were turned away."""
        for density, row, level, token in rest:
            fresh = token == self.state[group[row]] * _TOKENS + self.chosen[row] + 1
            now = -density if fresh else self._marginal(row, level, group[row])
            if now is not None:
                self._turned(level, now)
            else:
                self.waiting[row] -= 1

    def _turned(self, level: int, density: float) -> None:
        """A purchase that the budget of its level does not pay."""
        resource = self.budgets.resource.item(level)
        self.bound = True
        self.turned[resource] = max(self.turned[resource], density * self.rate.item(resource))

    def _sorted(self) -> Iterator[list[Action]]:
        """Open purchases by density, then key, then level, in blocks."""
        flat = np.flatnonzero(self.open)
        levels = self.pool.levels
        densities = self.densities.ravel()[flat]
        order = np.argsort(-densities, kind="stable")
        for start in range(0, flat.size, _BLOCK):
            part = order[start : start + _BLOCK]
            rows, columns = np.divmod(flat[part], levels)
            keys = (-densities[part]).tolist(), rows.tolist(), columns.tolist()
            yield [(*key, 0) for key in zip(*keys, strict=True)]

    def _least(self) -> float:
        """A lower bound on what any purchase or replacement draws."""
        outlays = np.where(self.open, self.found.outlay, np.inf)
        if (outlays <= 0.0).any():
            return 0.0
        with np.errstate(invalid="ignore"):
            steps = np.diff(np.sort(outlays, axis=1), axis=1, prepend=0.0) if outlays.size else outlays
            return float(np.min(steps, where=steps > 0.0, initial=np.inf))

    def _utility(self, row: int, level: int, group: int) -> float:
        """At the group's present spread, the candidate's own purchase not counted."""
        at = row * self.pool.levels + level
        found = self.found
        fixed = found.fixed.item(at)
        if not self.repricing:
            return fixed
        total = max(found.total.item(group), _FREE)
        base = max(self.spread[group] - self._risen(row), 0.0)
        rise = math.sqrt((base + found.rise.item(at)) / total) - math.sqrt(base / total)
        return fixed + found.factor.item(at) * rise

    def _risen(self, row: int) -> float:
        level = self.chosen[row]
        return 0.0 if level == NONE else self.found.rise.item(row * self.pool.levels + level)

    def _renew(self, stale: list[Action], row: int, level: int, group: int) -> None:
        """Put the action back at its present density, or drop it where that is not worth the price."""
        density = self._marginal(row, level, group)
        if density is None:
            self.waiting[row] -= 1
            return
        token = self.state[group] * _TOKENS + self.chosen[row] + 1
        heapq.heappush(stale, (-density, row, level, token))

    def _marginal(self, row: int, level: int, group: int) -> float | None:
        """Present density over what the candidate has; ``None`` where that is not worth the price."""
        now = self.chosen[row]
        utility = self._utility(row, level, group)
        outlay = self.priced.item(row * self.pool.levels + level)
        if now != NONE:
            utility -= self._utility(row, now, group)
            outlay -= self.priced.item(row * self.pool.levels + now)
        if utility <= 0.0 or outlay <= 0.0 or utility <= self.threshold * outlay:
            return None
        return utility / outlay

    def _buy(self, row: int, level: int, group: int, density: float) -> None:
        """Reserve the outlay if it fits; a replaced purchase is given back."""
        levels, now = self.pool.levels, self.chosen[row]
        left = list(self.left)
        if now != NONE:
            left[self.budgets.resource.item(now)] += self.found.outlay.item(row * levels + now)
        resource = self.budgets.resource.item(level)
        left[resource] -= self.found.outlay.item(row * levels + level)
        if left[resource] < 0.0:
            self._turned(level, density)
            return
        self.left = left
        if self.repricing:
            self.spread[group] += self.found.rise.item(row * levels + level) - self._risen(row)
            self.state[group] += 1
        self.chosen[row] = level
        place = self.bought[row][0] if row in self.bought else len(self.bought)
        marginal = density * self.rate.item(resource)
        self.bought[row] = place, marginal
        self.last[resource] = marginal

    def _spent(self) -> Floats:
        """Per budget. Not the difference to what is left, of which there may be infinitely much."""
        rows = np.array(list(self.bought), np.int64)
        levels = np.array([self.chosen[row] for row in self.bought], np.int64)
        spent = np.zeros(len(self.left))
        np.add.at(spent, self.budgets.resource[levels], self.found.outlay[rows, levels])
        return spent

    def _answer(self) -> Choice:
        n = self.pool.mean.size
        rows = np.arange(n)
        level = np.array(self.chosen, np.int64)
        possible = np.isfinite(self.pool.costs)
        wanted = np.argmax(np.where(possible, self.densities, -1.0), axis=1) if n else level
        learns = possible & (self.utilities > 0.0)
        verdict = np.full(n, Verdict.OVER_BUDGET, np.int64)
        verdict[np.array(self.waiting, np.int64) <= 0] = Verdict.BELOW_PRICE
        verdict[~learns.any(axis=1)] = Verdict.NOTHING_TO_LEARN
        verdict[~possible.any(axis=1)] = Verdict.NOTHING_TO_BUY
        verdict[level != NONE] = Verdict.BUY
        wanted = np.where(learns.any(axis=1), wanted, NONE)
        shown = np.where(level != NONE, level, wanted)
        there = shown != NONE
        at = np.where(there, shown, 0)

        def of(values: Floats) -> Floats:
            return np.where(there, values[rows, at], 0.0) if n else np.zeros(0)

        outlay, utility = of(self.found.outlay), of(self.utilities)
        density = np.divide(utility, np.maximum(outlay, _FREE))
        order = np.full(n, NONE, np.int64)
        for row, (place, marginal) in self.bought.items():
            order[row], density[row] = place, marginal
        return Choice(
            level=level,
            wanted=wanted,
            utility=utility,
            cost=of(self.pool.costs),
            outlay=outlay,
            density=density,
            order=order,
            verdict=verdict,
            spent=self._spent(),
            last_density=np.array(self.last),
            turned_away=np.array(self.turned),
            bound=self.bound,
        )


def _check(budgets: Budgets, levels: int) -> None:
    left, price, resource = budgets.left, budgets.price, budgets.resource
    if left.ndim != 1 or left.size == 0 or left.shape != price.shape or resource.shape != (levels,):
        raise InvalidInput("invalid_budgets", "a budget and a price per resource, a resource per level")
    if np.isnan(left).any() or not (price >= 0).all() or not np.isfinite(price).all():
        raise InvalidInput("invalid_budgets", "budgets are numbers, prices at least 0")
    if resource.min(initial=0) < 0 or resource.max(initial=0) >= left.size:
        raise InvalidInput("invalid_budgets", "resources are numbered from 0")
