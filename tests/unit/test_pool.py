"""What a pool accepts, what it becomes in units of the reward, and what a delay leaves."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from scheduler.pool import NONE, Pool, freshness, rewards
from scheduler.worth import IDENTITY, of_utility
from tests.support.pools import drawn
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ladders import LinearUtility, ThresholdUtility

POOL = drawn(3, 4, 2, 2)


def changed(name: str, value: float) -> dict[str, Any]:
    """One number of the pool replaced."""
    array = getattr(POOL, name).copy()
    array[(1,) * array.ndim] = value
    return {name: array}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("mean", math.nan, "means and variances are finite"),
        ("mean", math.inf, "means and variances are finite"),
        ("variance", math.nan, "means and variances are finite"),
        ("variance", math.inf, "means and variances are finite"),
        ("variance", -1e-9, "variances and costs are not negative"),
        ("costs", -0.1, "variances and costs are not negative"),
        ("costs", math.nan, "variances and costs are not negative"),
        ("multiplicity", 0.0, "multiplicities positive"),
        ("multiplicity", math.nan, "multiplicities positive"),
        ("multiplicity", math.inf, "multiplicities finite"),
        ("after", -1e-9, "variances afterwards are not negative"),
        ("after", math.nan, "variances afterwards are not negative"),
        ("freshness", 1.1, "freshness lies between 0 and 1"),
        ("freshness", -0.1, "freshness lies between 0 and 1"),
        ("freshness", math.nan, "freshness lies between 0 and 1"),
        ("group", -1, "groups are numbered from 0"),
        ("key", POOL.key[0], "keys are distinct"),
    ],
)
def test_a_number_that_cannot_be_is_named(name: str, value: float, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        replace(POOL, **changed(name, value))
    assert caught.value.code == "invalid_pool"


@pytest.mark.parametrize("name", ["mean", "variance", "level", "group", "multiplicity", "key"])
def test_a_column_of_another_length_is_named(name: str) -> None:
    for wrong in (getattr(POOL, name)[:3], getattr(POOL, name)[:, None]):
        with pytest.raises(InvalidInput, match="have one entry each"):
            replace(POOL, **{name: wrong})


@pytest.mark.parametrize("name", ["after", "costs", "freshness"])
def test_a_table_of_another_shape_is_named(name: str) -> None:
    for wrong in (getattr(POOL, name)[:3], getattr(POOL, name)[:, :1]):
        with pytest.raises(InvalidInput, match="have one row per candidate"):
            replace(POOL, **{name: wrong})
    with pytest.raises(InvalidInput, match="have one"):
        replace(POOL, **{name: getattr(POOL, name)[:, 0]})


def test_what_cannot_be_bought_costs_infinitely_much_and_is_accepted() -> None:
    assert replace(POOL, costs=np.full((4, 2), np.inf)).levels == 2
    assert replace(POOL, costs=np.zeros((4, 2))).levels == 2


def test_defaults_say_that_nothing_was_seen_and_nothing_is_late() -> None:
    two = np.array([0.0, 1.0])
    pool = Pool.of(two, two, np.zeros((2, 3)), np.ones((2, 3)), group=np.array([0, 0]))
    assert pool.level.tolist() == [NONE, NONE]
    assert pool.multiplicity.tolist() == [1.0, 1.0]
    assert pool.key.tolist() == [0, 1]
    assert pool.freshness.tolist() == [[1.0] * 3] * 2
    late = Pool.of(two, two, np.zeros((2, 3)), np.ones((2, 3)), group=two, fresh=np.array([1.0, 0.5, 0.1]))
    assert late.freshness.tolist() == [[1.0, 0.5, 0.1]] * 2
    assert late.group.dtype == np.int64
    assert pool.levels == late.levels == 3


def test_taken_rows_come_in_the_order_in_which_they_were_named() -> None:
    rows = np.array([2, 0, 3])
    taken = POOL.take(rows)
    for field in fields(Pool):
        assert (getattr(taken, field.name) == getattr(POOL, field.name)[rows]).all()
    assert POOL.take(np.array([], np.int64)).mean.size == 0


def test_rewards_are_the_moments_and_what_can_be_bought_of_their_variance() -> None:
    pool = drawn(8, 30, 3, 4)
    assert np.isinf(pool.costs).any()
    for worth in (
        IDENTITY,
        of_utility(LinearUtility(kind="linear", zero=-1.0, one=1.0)),
        of_utility(ThresholdUtility(kind="threshold", at=0.3)),
    ):
        found = rewards(pool, worth)
        expected, variance = worth.moments(pool.mean, pool.variance)
        assert (found.expected == expected).all()
        assert (found.variance == variance).all()
        for row in range(30):
            for level in range(3):
                one = worth.resolvable(pool.mean[[row]], pool.variance[[row]], pool.after[[row], level])[0]
                bought = one if np.isfinite(pool.costs[row, level]) else 0.0
                assert found.resolved[row, level] == pytest.approx(bought, abs=1e-12)
        assert (found.resolved <= variance[:, None]).all()


def test_what_leaves_more_than_there_was_resolves_nothing() -> None:
    pool = replace(POOL, costs=np.ones((4, 2)), after=POOL.variance[:, None] + np.array([0.0, 1.0]))
    assert (rewards(pool, IDENTITY).resolved == 0.0).all()


def test_a_delay_leaves_less_the_longer_it_is() -> None:
    found = freshness(np.array([0.0, 60.0, 120.0, 1e9, -5.0]), 60.0)
    assert found.tolist() == pytest.approx([1.0, math.exp(-1), math.exp(-2), 0.0, 1.0])
    assert freshness(np.array([10.0]), math.inf).tolist() == [1.0]


@pytest.mark.parametrize("horizon", [0.0, -1.0, math.nan])
def test_a_horizon_that_is_none_is_refused(horizon: float) -> None:
    with pytest.raises(InvalidInput, match="the horizon is positive"):
        freshness(np.array([1.0]), horizon)
