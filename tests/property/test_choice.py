"""The greedy against the same greedy written plainly, against the optimum, and against what is promised."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.choice import Budgets, Choice, Verdict, choose
from scheduler.gains import Gains, Objective, Scales, gains
from scheduler.pool import NONE, Ints, Pool, rewards
from scheduler.worth import IDENTITY, Floats
from tests.support.pools import dearer, drawn, offers
from verifier_service.domain.runs import MixObjective

EDGE, SCALES = 1.0, Scales(0.1, 0.05)
SEED = st.integers(0, 2**32 - 1)
OBJECTIVE = st.sampled_from(["value", "advantage", "discovery", MixObjective(mix=0.5)])
LEFT, PRICE = st.sampled_from([0.0, 0.5, 2.0, 7.0, 1e3]), st.sampled_from([0.0, 0.02, 0.1, 0.5])


def chosen(pool: Pool, objective: Objective, budgets: Budgets) -> Choice:
    return choose(pool, objective, budgets, edge=EDGE, scales=SCALES)


@st.composite
def budgets_for(draw: st.DrawFn, levels: int) -> Budgets:
    if draw(st.booleans()):
        return Budgets.one(draw(LEFT), levels, draw(PRICE))
    return Budgets(
        np.array([draw(LEFT), draw(LEFT)]),
        np.array([draw(PRICE), draw(PRICE)]),
        np.array(draw(st.lists(st.integers(0, 1), min_size=levels, max_size=levels))),
    )


class Plain:
    """Every density anew before every purchase."""

    def __init__(self, pool: Pool, found: Gains, budgets: Budgets) -> None:
        self.pool, self.found, self.budgets = pool, found, budgets
        self.several = budgets.left.size > 1
        self.level = [NONE] * pool.mean.size
        self.order: list[int] = []
        self.density: dict[int, float] = {}
        self.last = np.zeros(budgets.left.size)
        self.refused: set[tuple[int, int]] = set()

    def utility(self, row: int, level: int) -> float:
        """h(S + rise) - h(S), where S holds what was bought of the others."""
        if level == NONE:
            return 0.0
        group = int(self.pool.group[row])
        bought = [
            float(self.found.rise[other, at])
            for other, at in enumerate(self.level)
            if at != NONE and other != row and self.pool.group[other] == group
        ]
        spread, total = (
            float(self.found.spread[group]) + sum(bought),
            max(float(self.found.total[group]), 1e-12),
        )
        climb = math.sqrt((spread + self.found.rise[row, level]) / total) - math.sqrt(spread / total)
        return float(self.found.fixed[row, level] + self.found.factor[row, level] * climb)

    def priced(self, row: int, level: int) -> float:
        """Outlay in the unit in which budgets compare: of several, at their prices."""
        if level == NONE:
            return 0.0
        rate = max(float(self.budgets.price[self.budgets.resource[level]]), 1e-12) if self.several else 1.0
        return float(self.found.outlay[row, level]) * rate

    def wishes(self) -> Iterator[tuple[float, int, int, int]]:
        """What is worth more than its price: by density, key and level."""
        least = 1.0 if self.several else float(self.budgets.price[0])
        for row, now in enumerate(self.level):
            for level in range(self.pool.levels):
                if (
                    (row, level) in self.refused
                    or level == now
                    or not np.isfinite(self.pool.costs[row, level])
                ):
                    continue
                if self.level[row] == NONE and self.utility(row, level) <= 0.0:
                    continue
                gain = self.utility(row, level) - self.utility(row, now)
                outlay = self.priced(row, level) - self.priced(row, now)
                if gain > 0.0 and outlay > 0.0 and gain > least * outlay:
                    yield -gain / outlay, int(self.pool.key[row]), level, row

    def left(self) -> Floats:
        spent = np.zeros(self.budgets.left.size)
        for row, level in enumerate(self.level):
            if level != NONE:
                spent[self.budgets.resource[level]] += self.found.outlay[row, level]
        return np.asarray(self.budgets.left - spent)

    def run(self) -> None:
        while wishes := sorted(self.wishes()):
            negative, _, level, row = wishes[0]
            resource = int(self.budgets.resource[level])
            now, self.level[row] = self.level[row], level
            if self.left()[resource] < -1e-12:
                self.level[row] = now
                self.refused.add((row, level))
                continue
            rate = max(float(self.budgets.price[resource]), 1e-12) if self.several else 1.0
            self.density[row] = self.last[resource] = -negative * rate
            if row not in self.order:
                self.order.append(row)


def compared(pool: Pool, objective: Objective, budgets: Budgets) -> None:
    found = chosen(pool, objective, budgets)
    plain = Plain(pool, gains(pool, rewards(pool, IDENTITY), objective, edge=EDGE, scales=SCALES), budgets)
    plain.run()
    assert found.level.tolist() == plain.level
    assert np.argsort(found.order, kind="stable")[(found.order < 0).sum() :].tolist() == plain.order
    assert found.spent == pytest.approx(budgets.left - plain.left(), abs=1e-9)
    assert found.bound == bool(plain.refused)
    assert found.last_density == pytest.approx(plain.last, rel=1e-6)
    assert (found.turned_away.max() > 0.0) == bool(plain.refused)
    for row, density in plain.density.items():
        assert found.density[row] == pytest.approx(density, rel=1e-6)
    turned_away = {row for row, _ in plain.refused}
    for row, verdict in enumerate(found.verdict.tolist()):
        assert (verdict == Verdict.BUY) == (plain.level[row] != NONE)
        assert (verdict == Verdict.OVER_BUDGET) == (plain.level[row] == NONE and row in turned_away)


@settings(max_examples=120)
@given(seed=SEED, n=st.integers(1, 9), levels=st.integers(1, 4), objective=OBJECTIVE, data=st.data())
def test_it_is_the_greedy_that_weighs_everything_anew(
    seed: int, n: int, levels: int, objective: Objective, data: st.DataObject
) -> None:
    compared(drawn(seed, n, levels, 2), objective, data.draw(budgets_for(levels)))


@pytest.mark.parametrize("objective", ["value", "advantage", "discovery", MixObjective(mix=0.5)])
def test_so_it_is_with_sixty_candidates(objective: Objective) -> None:
    compared(drawn(1, 60, 3, 9), objective, Budgets.one(12.0, 3, 0.01))
    compared(drawn(2, 60, 3, 9), objective, Budgets(np.array([4.0, 9.0]), np.zeros(2), np.array([0, 0, 1])))


@pytest.mark.parametrize("objective", ["value", "advantage", "discovery", MixObjective(mix=0.5)])
def test_many_candidates_are_many_small_choices(objective: Objective) -> None:
    """5,000 rows, more than one block of them: groups without a binding budget are chosen as if alone."""
    pool, budgets = drawn(3, 5_000, 3, 800), Budgets.one(1e9, 3, 0.05)
    found = chosen(pool, objective, budgets)
    assert not found.bound
    for group in (0, 17, 799):
        rows = np.flatnonzero(pool.group == group)
        alone = chosen(replace(pool.take(rows), group=np.zeros(rows.size, np.int64)), objective, budgets)
        assert alone.level.tolist() == found.level[rows].tolist()
        assert alone.density == pytest.approx(found.density[rows], rel=1e-9)
    tight = chosen(pool, objective, Budgets.one(300.0, 3))
    assert 299.0 < tight.spent[0] <= 300.0 + 1e-9
    assert np.sort(tight.order[tight.order >= 0]).tolist() == list(range((tight.level != NONE).sum()))


@settings(max_examples=100)
@given(seed=SEED, n=st.integers(0, 12), objective=OBJECTIVE, data=st.data())
def test_never_over_any_budget_and_never_below_the_price(
    seed: int, n: int, objective: Objective, data: st.DataObject
) -> None:
    pool, budgets = drawn(seed, n, 3, 3), data.draw(budgets_for(3))
    found = chosen(pool, objective, budgets)
    bought = np.flatnonzero(found.level != NONE)
    paid_from: Ints = budgets.resource[found.level[bought]]
    for resource in range(budgets.left.size):
        mine = bought[paid_from == resource]
        assert found.spent[resource] == pytest.approx(found.outlay[mine].sum())
        assert found.spent[resource] <= max(budgets.left[resource], 0.0) * (1 + 1e-12)
        assert (found.cost[mine] <= found.outlay[mine]).all()
    if budgets.left.size == 1:
        assert (found.density[bought] > budgets.price[0]).all()


@settings(max_examples=100)
@given(seed=SEED, n=st.integers(1, 12), objective=OBJECTIVE, data=st.data())
def test_permuted_rows_have_permuted_answers(
    seed: int, n: int, objective: Objective, data: st.DataObject
) -> None:
    pool, budgets = drawn(seed, n, 3, 3), data.draw(budgets_for(3))
    order = np.array(data.draw(st.permutations(range(n))))
    there, here = chosen(pool.take(order), objective, budgets), chosen(pool, objective, budgets).take(order)
    for field in fields(Choice):
        assert np.array_equal(getattr(there, field.name), getattr(here, field.name)), field.name


@settings(max_examples=100)
@given(seed=SEED, n=st.integers(1, 10), objective=OBJECTIVE, price=PRICE)
def test_another_group_changes_nothing_while_budgets_do_not_bind(
    seed: int, n: int, objective: Objective, price: float
) -> None:
    pool = drawn(seed, n, 3, 1)
    other = drawn(seed + 1, 7, 3, 1)
    names = ("mean", "variance", "after", "costs")
    both = Pool.of(
        *(np.concatenate([getattr(other, name), getattr(pool, name)]) for name in names),
        group=np.concatenate([other.group, pool.group + 1]),
        multiplicity=np.concatenate([other.multiplicity, pool.multiplicity]),
        key=np.concatenate([other.key + 1_000, pool.key]),
    )
    alone = chosen(pool, objective, Budgets.one(1e6, 3, price))
    among = chosen(both, objective, Budgets.one(1e6, 3, price)).take(np.arange(7, 7 + n))
    for name in ("level", "wanted", "verdict"):
        assert np.array_equal(getattr(alone, name), getattr(among, name)), name
    for name in ("utility", "cost", "outlay", "density"):
        assert getattr(alone, name) == pytest.approx(getattr(among, name), rel=1e-9), name


@settings(max_examples=150)
@given(
    seed=SEED,
    n=st.integers(1, 7),
    objective=st.sampled_from(["value", "advantage"]),
    factor=st.floats(1.0, 6.0),
    left=LEFT,
    price=PRICE,
    data=st.data(),
)
def test_what_becomes_dearer_is_not_brought_forward(
    seed: int,
    n: int,
    objective: Objective,
    factor: float,
    left: float,
    price: float,
    data: st.DataObject,
) -> None:
    row, level = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, 1))
    pool, budgets = drawn(seed, n, 2, 2), Budgets.one(left, 2, price)
    before = chosen(pool, objective, budgets)
    after = chosen(dearer(pool, row, level, factor), objective, budgets)
    if after.level[row] == level and level == 1:
        assert before.level[row] == 1
    if pool.costs[row, 1 - level] == math.inf and after.level[row] == level:
        assert before.level[row] == level
        assert after.order[row] >= before.order[row]


SMALL = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.05, 1.0), st.floats(0.05, 1.0)),
    min_size=1,
    max_size=5,
)


def optimum(utilities: Floats, costs: Floats, left: float) -> float:
    """The best of all ways to give each candidate a level or none."""
    best = 0.0
    for levels in itertools.product((NONE, 0, 1), repeat=len(utilities)):
        picks = [(row, level) for row, level in enumerate(levels) if level != NONE]
        if sum(costs[pick] for pick in picks) <= left:
            best = max(best, sum(float(utilities[pick]) for pick in picks))
    return best


@settings(max_examples=100)
@given(rows=SMALL, left=st.floats(0.0, 4.0))
def test_the_optimum_is_missed_by_less_than_one_purchase(
    rows: list[tuple[float, float, float, float]], left: float
) -> None:
    """What the greedy of the multiple-choice knapsack guarantees."""
    table = np.array(rows)
    utilities, costs = np.sort(table[:, :2], axis=1), np.sort(table[:, 2:], axis=1)
    found = choose(offers(utilities.tolist(), costs.tolist()), "value", Budgets.one(left, 2))
    reached = float(found.utility[found.level != NONE].sum())
    best = optimum(utilities, costs, left)
    assert best - float(utilities.max()) - 1e-9 <= reached <= best + 1e-9
    if not found.bound:
        assert reached == pytest.approx(float(utilities.max(axis=1).sum()))


@settings(max_examples=60)
@given(utilities=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8), paid=st.integers(0, 8))
def test_where_all_cost_the_same_the_optimum_is_reached(utilities: list[float], paid: int) -> None:
    pool = offers([[one] for one in utilities], [[1.0]] * len(utilities))
    found = choose(pool, "value", Budgets.one(paid + 0.5, 1))
    reached = float(found.utility[found.level != NONE].sum())
    assert reached == pytest.approx(sum(sorted(utilities, reverse=True)[:paid]))
