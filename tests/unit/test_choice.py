"""Which purchases are made: by hand on few candidates, and by the same greedy written plainly on many."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from scheduler.choice import Budgets, Choice, Verdict, choose, choose_by
from scheduler.gains import Gains, Objective, Scales
from scheduler.pool import NONE, Pool
from scheduler.worth import of_utility
from tests.support.pools import believed, drawn, offers
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ladders import ThresholdUtility
from verifier_service.domain.runs import MixObjective

TWO = np.array([0, 1])


def value(pool: Pool, left: float, price: float = 0.0) -> Choice:
    return choose(pool, "value", Budgets.one(left, pool.levels, price))


def test_the_best_ratio_goes_first_and_not_the_best_utility() -> None:
    found = value(offers([[0.5], [0.4], [0.3]], [[5.0], [1.0], [1.5]]), 2.6)
    assert found.level.tolist() == [NONE, 0, 0]
    assert found.order.tolist() == [NONE, 0, 1]
    assert found.density == pytest.approx([0.1, 0.4, 0.2])
    assert found.spent.tolist() == [2.5]
    assert found.last_density == pytest.approx([0.2])
    assert found.bound
    assert found.verdict.tolist() == [Verdict.OVER_BUDGET, Verdict.BUY, Verdict.BUY]


def test_a_dearer_level_replaces_a_cheap_one_where_the_difference_is_worth_it() -> None:
    pool = offers([[0.3, 0.5]], [[1.0, 2.0]])
    found = value(pool, 2.0)
    assert (found.level[0], found.order[0], found.spent[0]) == (1, 0, 2.0)
    assert found.density[0] == pytest.approx(0.2), "that of the difference"
    assert (found.utility[0], found.cost[0], found.outlay[0]) == (pytest.approx(0.5), 2.0, 2.0)
    assert found.wanted[0] == 0
    assert value(pool, 1.9).level[0] == 0
    assert value(pool, 9.0, price=0.25).level[0] == 0
    assert value(pool, 9.0, price=0.19).level[0] == 1


def test_a_level_in_between_is_skipped_where_the_next_is_better_for_the_money() -> None:
    assert value(offers([[0.10, 0.5]], [[1.0, 2.0]]), 9.0).level[0] == 1
    assert value(offers([[0.10, 0.5]], [[1.0, 2.0]]), 1.0).level[0] == 0


def test_a_replaced_purchase_gives_its_money_back() -> None:
    found = value(offers([[0.3, 0.5], [0.1, 0.1]], [[1.0, 2.0], [1.0, 1.0]]), 3.0)
    assert found.level.tolist() == [1, 0]
    assert found.spent[0] == 3.0
    assert found.order.tolist() == [0, 1]


def test_nothing_is_taken_whose_density_does_not_exceed_the_price() -> None:
    pool = offers([[0.5], [0.25], [0.1]], [[1.0], [1.0], [1.0]])
    found = value(pool, 9.0, price=0.25)
    assert found.level.tolist() == [0, NONE, NONE]
    assert found.verdict.tolist() == [Verdict.BUY, Verdict.BELOW_PRICE, Verdict.BELOW_PRICE]
    assert found.density == pytest.approx([0.5, 0.25, 0.1])
    assert not found.bound


def test_every_verdict_has_its_reason() -> None:
    pool = offers(
        [[0.9, 0.9], [0.9, 0.9], [0.0, 0.0], [0.1, 0.0], [0.8, 0.0]],
        [[1.0, 1.5], [math.inf] * 2, [1.0, 1.0], [1.0, math.inf], [5.0, math.inf]],
    )
    found = value(pool, 2.0, price=0.12)
    assert [Verdict(int(one)) for one in found.verdict] == [
        Verdict.BUY,
        Verdict.NOTHING_TO_BUY,
        Verdict.NOTHING_TO_LEARN,
        Verdict.BELOW_PRICE,
        Verdict.OVER_BUDGET,
    ]
    assert found.wanted.tolist() == [0, NONE, NONE, 0, 0]
    for name in ("utility", "cost", "outlay", "density"):
        assert getattr(found, name)[[1, 2]].tolist() == [0.0, 0.0]
        assert (getattr(found, name)[[0, 3, 4]] > 0).all()


def test_what_is_too_dear_does_not_stop_what_is_not() -> None:
    found = value(offers([[0.9], [0.1]], [[3.0], [1.0]]), 1.0)
    assert found.level.tolist() == [NONE, 0]
    assert found.bound


def test_the_whole_budget_may_be_spent() -> None:
    found = value(offers([[0.5], [0.5]], [[1.0], [1.0]]), 2.0)
    assert found.level.tolist() == [0, 0]
    assert not found.bound
    assert value(offers([[0.5], [0.5]], [[1.0], [1.0]]), 1.999).level.tolist() == [0, NONE]


def test_what_is_free_is_bought_whatever_is_left() -> None:
    pool = offers([[0.2], [0.1], [0.3]], [[0.0], [0.0], [1.0]])
    assert value(pool, 0.0).level.tolist() == [0, 0, NONE]
    assert value(pool, 5.0).level.tolist() == [0, 0, 0]
    assert value(pool, -1.0).level.tolist() == [NONE] * 3
    assert value(pool.take(TWO), 5.0).level.tolist() == [0, 0]


def test_equals_are_decided_by_key_then_by_level() -> None:
    found = value(offers([[0.5], [0.5], [0.5]], [[1.0]] * 3, key=[7, 3, 5]), 2.0)
    assert found.order.tolist() == [NONE, 0, 1]
    assert value(offers([[0.5, 0.5]], [[1.0, 1.0]]), 9.0).level[0] == 0
    for keys, bought in (([5, 3], [0, 0]), ([3, 5], [1, NONE])):
        tied = offers([[0.5, 0.75], [0.25, 0.0]], [[1.0, 2.0], [1.0, 1.0]], key=keys)
        assert value(tied, 2.0).level.tolist() == bought


def test_a_budget_of_one_resource_does_not_pay_for_another() -> None:
    pool = offers([[0.5, 0.9], [0.4, 0.8], [0.3, 0.7]], [[1.0, 10.0]] * 3)
    found = choose(pool, "value", Budgets(np.array([2.0, 10.0]), np.array([0.1, 0.02]), TWO))
    assert found.spent[0] <= 2.0
    assert found.spent[1] <= 10.0
    assert found.level.tolist() == [1, 0, 0]
    assert found.spent.tolist() == [2.0, 10.0]
    none = choose(pool, "value", Budgets(np.array([2.0, 0.0]), np.array([0.1, 0.02]), TWO))
    assert none.level.tolist() == [0, 0, NONE]
    assert none.last_density == pytest.approx([0.4, 0.0])


def test_prices_of_several_resources_are_their_own() -> None:
    pool = offers([[0.5, 0.0], [0.0, 0.5]], [[1.0, math.inf], [math.inf, 1.0]])
    for prices, bought in (([0.4, 0.6], [0, NONE]), ([0.6, 0.4], [NONE, 1]), ([0.4, 0.4], [0, 1])):
        found = choose(pool, "value", Budgets(np.array([9.0, 9.0]), np.array(prices), TWO))
        assert found.level.tolist() == bought


def test_several_budgets_without_a_price_buy_what_one_does() -> None:
    """However little things cost."""
    pool = offers([[0.20], [0.19], [0.18]], [[0.9], [0.1], [0.002]])
    one = value(pool, 0.95)
    several = choose(pool, "value", Budgets(np.array([0.95, 5.0]), np.zeros(2), np.array([0])))
    assert one.level.tolist() == several.level.tolist() == [NONE, 0, 0]
    assert several.density == pytest.approx(one.density)
    assert several.last_density == pytest.approx([1.9, 0.0])


def test_what_was_spent_is_known_without_a_limit() -> None:
    pool = offers([[0.5], [0.4]], [[1.0], [0.25]])
    for left in (math.inf, 1e300, 1e18):
        found = value(pool, left)
        assert found.spent.tolist() == [1.25]
        assert found.level.tolist() == [0, 0]


def test_a_budget_that_turns_nothing_away_does_not_bind() -> None:
    """What is left of it pays for no difference between levels, but none is worth the price either."""
    dull = offers([[0.46, 0.4]], [[0.9, 1.0]])
    assert not value(dull, 0.95).bound
    assert value(offers([[0.46, 0.5]], [[0.9, 1.0]]), 0.95).bound
    steep = offers([[0.46, 0.5]], [[0.9, 1.0]])
    assert not value(steep, 0.95, price=0.45).bound


def test_a_sibling_may_fall_below_the_price_after_the_money_is_gone() -> None:
    pool = believed([0.0, 0.0, 0.0, 0.0], [1.0, 0.9, 0.0, 0.0], costs=[[1.0]] * 4)
    before = choose(pool, "advantage", Budgets.one(0.5, 1)).utility
    alone = choose(pool, "advantage", Budgets.one(1.0, 1, price=0.9 * float(before[1])))
    assert alone.level.tolist() == [0, NONE, NONE, NONE]
    assert alone.verdict[1] == Verdict.BELOW_PRICE
    assert not alone.bound


def test_after_one_of_a_group_is_bought_its_siblings_are_worth_less() -> None:
    """In a group the second truth adds less; elsewhere a lesser one overtakes it."""
    pool = believed(
        [0.0, 0.0, 0.0, 0.0, 0.3, 0.0],
        [1.0, 0.9, 0.1, 0.1, 0.5, 0.4],
        group=[0, 0, 0, 0, 1, 1],
    )
    found = choose(pool, "advantage", Budgets.one(3.0, 1))
    plain = choose(pool, "advantage", Budgets.one(0.5, 1)).utility
    assert np.argsort(-plain)[:2].tolist() == [0, 1]
    assert found.order[:2].tolist()[0] == 0
    assert found.order[4] == 1
    assert found.density[1] < plain[1] or found.order[1] == NONE


def test_densities_fall_along_the_order_of_purchases() -> None:
    for objective in ("advantage", "value", "discovery"):
        found = choose(drawn(5, 80, 1, 12), objective, Budgets.one(40.0, 1), edge=1.0)
        densities = found.density[np.argsort(found.order)][(found.order < 0).sum() :]
        assert densities.size > 10
        assert (np.diff(densities) <= 1e-12).all()
        assert found.last_density[0] == densities[-1]


def test_the_truth_is_not_given_up_for_a_dearer_way_to_it() -> None:
    """A cheap level that always leads to the truth avoids what it does, and no rounding error more."""
    bought = 0
    for seed in range(300):
        pool = drawn(seed, 3, 2, 1)
        costs = np.tile([1.6, 2.0], (3, 1))
        found = choose(replace(pool, costs=costs), "discovery", Budgets.one(1e6, 2), edge=1.0)
        assert (found.outlay <= 2.0).all()
        bought += int((found.level == 1).sum())
    assert bought > 500


def test_gains_of_any_kind_can_be_chosen_by() -> None:
    """Also such as rise by next to nothing after a replacement has rounded."""
    rises = np.array([[0.18, 0.88, 1e-19], [0.18, 0.88, 1e-19]])
    pool = offers([[1.0] * 3] * 2, [[1.0, 4.0, 9.0]] * 2, group=[0, 1])

    def measure(ordered: Pool) -> Gains:
        nothing, one = np.zeros((2, 3)), np.ones((2, 3))
        return Gains(nothing, one, rises, np.zeros(2), np.ones(2), ordered.costs)

    found = choose_by(pool, measure, Budgets.one(100.0, 3))
    assert found.level.tolist() == [1, 1]
    assert found.spent[0] == 8.0


def test_a_worth_other_than_the_quantity_decides() -> None:
    pool = believed([5.0, 9.0], [1.0, 3.0], group=[0, 1])
    worth = of_utility(ThresholdUtility(kind="threshold", at=5.0))
    assert value(pool, 1.0).level.tolist() == [NONE, 0]
    found = choose(pool, "value", Budgets.one(1.0, 1), worth=worth)
    assert found.level.tolist() == [0, NONE]
    assert found.utility[0] == pytest.approx(0.25)


@pytest.mark.parametrize("objective", ["advantage", "discovery", MixObjective(mix=0.5)])
def test_edge_and_scales_are_passed_on(objective: Objective) -> None:
    pool = drawn(6, 30, 2, 5)
    one, other = (
        choose(pool, objective, Budgets.one(9.0, 2), edge=edge, scales=scales)
        for edge, scales in ((0.0, Scales(1.0, 1.0)), (2.0, Scales(3.0, 0.1)))
    )
    assert (one.utility != other.utility).any() == (objective != "advantage")


def test_outlay_is_reserved_and_not_only_the_cost() -> None:
    """Under discovery a cheap level is bought with the money for what it may lead to."""
    pool = believed([0.95] * 4, [0.5] * 4, costs=[[0.2, 1.0]] * 4, after=[[0.2, 0.0]] * 4)
    found = choose(pool, "discovery", Budgets.one(2.0, 2), edge=1.0)
    bought = found.level != NONE
    assert (found.outlay >= found.cost).all()
    assert found.spent[0] == pytest.approx(found.outlay[bought].sum())
    assert found.spent[0] <= 2.0


def test_the_same_choice_in_another_order_of_rows() -> None:
    found = value(offers([[0.5], [0.4]], [[1.0], [1.0]]), 1.0)
    turned = found.take(np.array([1, 0]))
    for field in fields(Choice):
        mine, theirs = getattr(found, field.name), getattr(turned, field.name)
        whole = field.name in ("spent", "last_density", "bound")
        assert np.array_equal(theirs, mine if whole else mine[::-1])


def test_nobody_is_nothing_to_choose_from() -> None:
    found = choose(drawn(0, 0, 2, 1), "advantage", Budgets.one(5.0, 2))
    assert found.level.size == found.density.size == found.verdict.size == 0
    assert (found.spent[0], found.bound) == (0.0, False)


@pytest.mark.parametrize(
    ("left", "price", "resource"),
    [
        ([], [], [0, 0]),
        ([1.0], [0.0, 0.0], [0, 0]),
        ([1.0, 1.0], [0.0], [0, 0]),
        ([1.0], [0.0], [0]),
        ([1.0], [0.0], [0, 0, 0]),
        ([math.nan], [0.0], [0, 0]),
        ([1.0], [-0.1], [0, 0]),
        ([1.0], [math.nan], [0, 0]),
        ([1.0], [math.inf], [0, 0]),
        ([1.0], [0.0], [0, 1]),
        ([1.0], [0.0], [0, -1]),
    ],
)
def test_budgets_that_do_not_fit_are_refused(
    left: list[float], price: list[float], resource: list[int]
) -> None:
    budgets = Budgets(np.array(left), np.array(price), np.array(resource, np.int64))
    with pytest.raises(InvalidInput) as caught:
        choose(drawn(0, 3, 2, 1), "value", budgets)
    assert caught.value.code == "invalid_budgets"
