"""A budget that must last: what a round may spend, at which price, and the first purchases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.choice import Budgets, choose
from scheduler.gains import Objective
from scheduler.pacing import (
    FEW_ROUNDS,
    MOST_SHARES,
    PRICE_SHARE,
    ColdStart,
    allowance,
    clearing_price,
    cold_start,
    mirror_step,
)
from scheduler.pool import Pool
from tests.support.pools import drawn, offers

NOBODY = np.array([], np.int64)


def test_without_a_price_every_round_has_an_even_share() -> None:
    found = allowance(100.0, 40)
    assert found.budget == pytest.approx(2.5)
    assert found.price == 0.0
    assert allowance(100.0, 40, this_share=0.1).budget == pytest.approx(10.0)


def test_with_many_rounds_ahead_a_round_may_spend_two_shares_at_most_of_the_price() -> None:
    found = allowance(100.0, 40, 3.0)
    assert found.budget == pytest.approx(MOST_SHARES * 2.5)
    assert found.price == pytest.approx(PRICE_SHARE * 3.0)
    assert allowance(100.0, FEW_ROUNDS, 3.0).price > 0.0


def test_with_few_rounds_ahead_shares_are_even_and_nothing_is_priced() -> None:
    for rounds in range(1, FEW_ROUNDS):
        found = allowance(90.0, rounds, 3.0)
        assert found.budget == pytest.approx(90.0 / rounds)
        assert found.price == 0.0
    assert allowance(90.0, 0, 3.0).budget == 90.0


@given(
    left=st.floats(-10, 1e6),
    rounds=st.integers(-2, 500),
    price=st.none() | st.floats(0, 1e6),
    share=st.none() | st.floats(-1, 3),
)
def test_a_round_never_has_more_than_is_left_nor_less_than_nothing(
    left: float, rounds: int, price: float | None, share: float | None
) -> None:
    found = allowance(left, rounds, price, this_share=share)
    even = 1.0 / max(rounds, 1) if share is None else min(max(share, 0.0), 1.0)
    assert 0.0 <= found.budget <= max(left, 0.0)
    assert found.budget <= MOST_SHARES * even * max(left, 0.0) * (1 + 1e-12)
    assert found.budget >= even * max(left, 0.0) * (1 - 1e-12)
    assert 0.0 <= found.price <= (price or 0.0)


def test_the_price_is_zero_where_the_ration_pays_for_everything() -> None:
    pool = offers([[0.3], [0.2], [0.1]], [[1.0], [1.0], [1.0]])
    assert clearing_price(pool, "value", 1.0) == 0.0
    assert clearing_price(pool, "value", 0.99) > 0.0


def test_the_price_is_zero_where_what_is_not_paid_for_is_not_wanted() -> None:
    """A dearer level that resolves less than the one that was bought would be bought with no money."""
    pool = offers([[0.46, 0.4]], [[0.9, 1.0]])
    assert clearing_price(pool, "value", 0.95) == 0.0


def test_the_price_is_the_density_of_the_best_that_the_ration_does_not_pay_for() -> None:
    pool = offers([[0.4], [0.3], [0.2], [0.1]], [[1.0], [1.0], [1.0], [1.0]])
    assert clearing_price(pool, "value", 0.5) == pytest.approx(0.2)
    assert clearing_price(pool, "value", 0.75) == pytest.approx(0.1)


def test_fillers_say_nothing_of_what_money_is_worth() -> None:
    """The second is turned away; the third still fits, at a tenth of its density."""
    pool = offers([[0.4], [0.39], [0.001]], [[1.0], [1.0], [0.03]])
    assert clearing_price(pool, "value", 0.35) == pytest.approx(0.39)


def test_where_the_ration_pays_for_nothing_money_is_worth_the_best() -> None:
    pool = offers([[0.4], [0.3]], [[1.0], [1.0]])
    for ration in (0.0, 0.49, -1.0):
        assert clearing_price(pool, "value", ration) == pytest.approx(0.4)
    assert clearing_price(pool, "value", 0.51) == pytest.approx(0.3)
    assert clearing_price(offers([[0.0]], [[1.0]]), "value", 0.0) == 0.0


def test_levels_of_other_budgets_are_left_out_by_infinite_costs() -> None:
    both = offers([[0.2, 0.9], [0.1, 0.8]], [[1.0, math.inf], [1.0, math.inf]])
    assert clearing_price(both, "value", 0.5) == pytest.approx(0.1)


def test_a_ration_is_per_candidate_with_its_copies() -> None:
    pool = offers([[0.4], [0.3]], [[1.0], [1.0]])
    copied = Pool.of(
        pool.mean,
        pool.variance,
        pool.after,
        pool.costs,
        group=pool.group,
        multiplicity=np.array([3.0, 1.0]),
    )
    assert clearing_price(pool, "value", 0.25) == pytest.approx(0.4)
    assert clearing_price(copied, "value", 0.25) == pytest.approx(0.3)


@pytest.mark.parametrize("objective", ["value", "advantage", "discovery"])
@pytest.mark.parametrize("ration", [0.02, 0.1, 0.3])
def test_at_the_price_about_the_ration_is_spent(objective: Objective, ration: float) -> None:
    """On the same candidates with money to spare, where no purchase costs much more than another."""
    drawn_ = drawn(17, 400, 1, 100)
    costs = np.where(np.isfinite(drawn_.costs), 0.95 + drawn_.costs / 20, np.inf)
    recent = replace(drawn_, costs=costs)
    price = clearing_price(recent, objective, ration, edge=1.5)
    assert 0.0 < price < math.inf
    spent = choose(recent, objective, Budgets.one(1e9, 1, price), edge=1.5).spent[0]
    assert spent == pytest.approx(ration * float(recent.multiplicity.sum()), abs=2.2)
    less, more = (clearing_price(recent, objective, ration * by, edge=1.5) for by in (0.7, 1.3))
    assert more <= price <= less


def test_at_the_price_no_less_than_the_ration_is_spent_whatever_things_cost() -> None:
    for seed in range(20):
        recent = drawn(seed, 60, 3, 15)
        price = clearing_price(recent, "value", 0.1)
        rationed = choose(recent, "value", Budgets.one(0.1 * float(recent.multiplicity.sum()), 3))
        free = choose(recent, "value", Budgets.one(1e9, 3, price * (1 - 1e-9)))
        assert free.spent[0] >= rationed.spent[0] - 1e-9


def test_the_next_price_follows_the_spending() -> None:
    assert mirror_step(2.0, 5.0, 5.0) == pytest.approx(2.0)
    assert mirror_step(2.0, 10.0, 5.0) == pytest.approx(2.0 * math.exp(0.1))
    assert mirror_step(2.0, 0.0, 5.0) == pytest.approx(2.0 * math.exp(-0.1))
    assert mirror_step(2.0, 10.0, 5.0, step=0.3) == pytest.approx(2.0 * math.exp(0.3))


def test_nothing_left_to_spend_counts_as_twice_the_target() -> None:
    for target in (0.0, -3.0):
        assert mirror_step(2.0, 0.0, target) == pytest.approx(mirror_step(2.0, 10.0, 5.0))


@given(
    price=st.floats(1e-6, 1e6), spent=st.floats(0, 1e300), target=st.floats(-1, 1e9), step=st.floats(0, 1e3)
)
def test_a_step_is_a_factor_of_at_most_e(price: float, spent: float, target: float, step: float) -> None:
    found = mirror_step(price, spent, target, step=step)
    assert price / math.e * (1 - 1e-12) <= found <= price * math.e * (1 + 1e-12)
    if target > 0 and spent > target:
        assert found >= price


COSTS = np.tile([0.01, 0.1, 1.0], (200, 1))


def test_at_first_thirty_go_to_the_cheapest_informative_level_and_ten_of_them_to_the_truth() -> None:
    plan = cold_start(COSTS, np.array([1]), 1e9, 4)
    assert plan.sum(axis=0).tolist() == [0, 30, 10]
    assert (plan[plan[:, 2] == 1, 1] == 1).all()
    both = cold_start(COSTS, np.array([1, 0]), 1e9, 4)
    assert both.sum(axis=0).tolist() == [30, 0, 10]
    assert (both[:, 2] == plan[:, 2]).all()


def test_without_an_informative_level_only_the_truth_is_bought() -> None:
    for informative in (NOBODY, np.array([2])):
        assert cold_start(COSTS, informative, 1e9, 4).sum(axis=0).tolist() == [0, 0, 10]
    closed = COSTS.copy()
    closed[:, 1] = np.inf
    assert cold_start(closed, np.array([1]), 1e9, 4).sum(axis=0).tolist() == [0, 0, 10]


def test_the_cheapest_is_so_by_the_median_of_what_can_be_bought() -> None:
    costs = np.tile([0.2, 0.1, 1.0], (20, 1))
    costs[:8, 1] = 50.0
    costs[8:11, 1] = np.inf
    wide = ColdStart(cheap=20, top=0)
    assert cold_start(costs, np.array([0, 1]), 1e9, 0, wide).sum(axis=0)[1] == 17
    costs[:10, 1] = 50.0
    assert cold_start(costs, np.array([0, 1]), 1e9, 0, wide).sum(axis=0).tolist() == [20, 0, 0]


def test_the_truth_has_first_call_on_the_money() -> None:
    """A fifth of 22 pays for four truths with what is measured below them, and nothing else before."""
    plan = cold_start(COSTS, np.array([1]), 22.0, 4)
    assert plan[:, 2].sum() == 4
    assert plan[:, 1].sum() == 4
    more = cold_start(COSTS, np.array([1]), 60.0, 4)
    assert more.sum(axis=0).tolist() == [0, 20, 10]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    budget=st.floats(0, 200),
    share=st.floats(0, 1),
    cheap=st.integers(0, 40),
    top=st.integers(0, 40),
)
def test_the_share_is_never_exceeded_and_a_seed_says_all(
    seed: int, budget: float, share: float, cheap: int, top: int
) -> None:
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0.0, 3.0, (35, 3))
    costs[rng.uniform(size=costs.shape) < 0.2] = np.inf
    rule = ColdStart(cheap=cheap, top=top, share=share)
    plan = cold_start(costs, np.array([0, 1]), budget, seed, rule)
    assert set(np.unique(plan)) <= {0, 1}
    assert costs[plan == 1].sum() <= share * budget * (1 + 1e-12)
    assert plan[:, 2].sum() <= min(top, cheap)
    assert plan.any(axis=1).sum() <= cheap
    assert (plan == cold_start(costs, np.array([0, 1]), budget, seed, rule)).all()


def test_another_seed_draws_others() -> None:
    one, other = (cold_start(COSTS, np.array([1]), 1e9, seed) for seed in (1, 2))
    assert (one != other).any()
    assert cold_start(COSTS[:0], np.array([1]), 10.0, 1).shape == (0, 3)
    assert cold_start(COSTS[:3], np.array([1]), 1e9, 1).sum(axis=0).tolist() == [0, 3, 3]
