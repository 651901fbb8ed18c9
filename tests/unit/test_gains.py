"""What a purchase is said to be worth, against its definition: by hand, by matrices, by random draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from scheduler.gains import (
    Objective,
    Scales,
    advantage,
    discovery,
    edge_of,
    gains,
    misplaced,
    scales_of,
)
from scheduler.pool import Pool, rewards
from scheduler.worth import IDENTITY, Floats, hermite
from tests.support.pools import believed, dearer, drawn
from verifier_service.domain.runs import MixObjective

PARTS = ("mean", "variance", "after", "costs")


def utilities(
    pool: Pool, objective: Objective, *, edge: float | None = None, scales: Scales | None = None
) -> Floats:
    found = gains(pool, rewards(pool, IDENTITY), objective, edge=edge, scales=scales)
    return found.utilities(pool.group)


def spread_of(values: Floats) -> Floats:
    """Variance over the members, of one group or of many draws of it."""
    return np.asarray(values.var(axis=-1), np.float64)


def test_the_advantage_of_three_members_is_what_a_hand_computes() -> None:
    """S = 2/3, T = 2/3 + 2/3 * 0.6, and the truth of a member adds 2/9 of its variance to S."""
    pool = believed([0.0, 1.0, 2.0], [0.3, 0.6, 0.9])
    total = 2 / 3 + 2 / 3 * 0.6
    expected = [math.sqrt((2 / 3 + 2 / 9 * v) / total) - math.sqrt(2 / 3 / total) for v in (0.3, 0.6, 0.9)]
    assert utilities(pool, "advantage")[:, 0] == pytest.approx(expected)


def test_a_purchase_moves_expected_variance_from_one_part_to_the_other() -> None:
    """E Var(truth) = T before and after; E Var(means) rises by what is said to rise."""
    mean, variance = np.array([0.2, 1.0, 0.5, -0.4]), np.array([0.5, 0.2, 0.9, 0.1])
    pool = believed(mean.tolist(), variance.tolist(), after=[[v * 0.4] for v in variance.tolist()])
    found = advantage(pool, rewards(pool, IDENTITY))
    rng = np.random.default_rng(11)
    truths = mean + np.sqrt(variance) * rng.normal(size=(400_000, 4))
    assert found.total[0] == pytest.approx(spread_of(truths).mean(), rel=0.01)
    assert found.spread[0] == pytest.approx(spread_of(mean))
    posterior = np.tile(mean, (400_000, 1))
    posterior[:, 2] += math.sqrt(0.9 * 0.6) * rng.normal(size=400_000)
    assert found.spread[0] + found.rise[2, 0] == pytest.approx(spread_of(posterior).mean(), rel=0.01)


def test_the_root_of_the_parts_is_the_correlation_with_the_truth() -> None:
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=300), rng.uniform(0.2, 2.0, 300)
    pool = believed(mean.tolist(), variance.tolist())
    found = advantage(pool, rewards(pool, IDENTITY))
    truths = mean + np.sqrt(variance) * rng.normal(size=(2_000, 300))
    centred = truths - truths.mean(axis=1, keepdims=True)
    correlations = centred @ (mean - mean.mean()) / (300 * truths.std(axis=1) * mean.std())
    expected = math.sqrt(found.spread[0] / found.total[0])
    assert float(correlations.mean()) == pytest.approx(expected, abs=0.005)


def test_copies_weigh_as_much_as_they_are() -> None:
    """With M = I/N - 11'/N^2 over all, written out, E Var = m'Mm + tr(M Cov); copies move together."""
    copies, mean, variance = [1, 3, 2], np.array([0.1, 0.9, -0.3]), np.array([0.4, 0.7, 0.2])
    pool = believed(mean.tolist(), variance.tolist(), multiplicity=[float(one) for one in copies])
    found = advantage(pool, rewards(pool, IDENTITY))
    out = np.repeat(np.eye(3), copies, axis=0)
    centring = np.eye(6) / 6 - np.ones((6, 6)) / 36
    inner = out.T @ centring @ out
    assert found.spread[0] == pytest.approx(mean @ inner @ mean)
    assert found.total[0] == pytest.approx(mean @ inner @ mean + np.trace(inner @ np.diag(variance)))
    assert found.rise[:, 0] == pytest.approx(np.diag(inner) * variance)


def test_a_group_of_one_has_no_advantage() -> None:
    pool = believed([0.3, 0.5], [0.5, 0.5], group=[0, 1], multiplicity=[4.0, 1.0])
    assert (utilities(pool, "advantage") == 0.0).all()


def test_members_with_nothing_to_buy_decide_what_the_others_can_change() -> None:
    known = believed([0.0, 0.0, 9.0], [0.5, 0.0, 0.0], costs=[[1.0], [math.inf], [math.inf]])
    close = believed([0.0, 0.0, 0.1], [0.5, 0.0, 0.0], costs=[[1.0], [math.inf], [math.inf]])
    far_apart, alike = utilities(known, "advantage"), utilities(close, "advantage")
    assert 0.0 < far_apart[0, 0] < alike[0, 0]
    assert (far_apart[1:] == 0.0).all()


def test_groups_do_not_see_each_other() -> None:
    first, second = drawn(1, 5, 3, 1), drawn(2, 4, 3, 1)
    both = Pool.of(
        *(np.concatenate([getattr(first, name), getattr(second, name)]) for name in PARTS),
        group=np.array([0] * 5 + [1] * 4),
        multiplicity=np.concatenate([first.multiplicity, second.multiplicity]),
    )
    found = utilities(both, "advantage")
    assert found[:5] == pytest.approx(utilities(first, "advantage"))
    assert found[5:] == pytest.approx(utilities(second, "advantage"))


@pytest.mark.parametrize("objective", ["advantage", "discovery", "value", MixObjective(mix=0.4)])
def test_utilities_are_multiplied_by_freshness(objective: Objective) -> None:
    one = believed([0.0, 0.4, 0.9], [0.5, 0.6, 0.2], costs=[[0.1, 1.0]] * 3, after=[[0.1, 0.0]] * 3)
    fresh = np.array([0.5, 0.25])
    late = believed(
        [0.0, 0.4, 0.9], [0.5, 0.6, 0.2], costs=[[0.1, 1.0]] * 3, after=[[0.1, 0.0]] * 3, fresh=fresh
    )
    scales = Scales(0.2, 0.3)
    expected = utilities(one, objective, edge=0.8, scales=scales) * fresh
    assert utilities(late, objective, edge=0.8, scales=scales) == pytest.approx(expected)
    assert (expected > 0).all()


def test_value_is_the_variance_that_is_resolved_for_all_copies() -> None:
    pool = believed([3.0, 4.0], [0.5, 0.6], after=[[0.1], [0.6]], multiplicity=[2.0, 5.0], group=[0, 1])
    assert utilities(pool, "value")[:, 0] == pytest.approx([2 * 0.4, 0.0])


def test_discovery_counts_all_copies() -> None:
    once, thrice = (believed([0.9], [0.5], multiplicity=[copies]) for copies in (1.0, 3.0))
    assert utilities(thrice, "discovery", edge=1.0) == pytest.approx(
        3 * utilities(once, "discovery", edge=1.0)
    )


def test_the_truth_ends_all_misplacement() -> None:
    pool = believed([0.1, 0.9, 1.6, 1.0], [0.5, 0.2, 0.4, 0.0])
    found = utilities(pool, "discovery", edge=1.0)[:, 0]
    assert found == pytest.approx([ndtr(-0.9 / 0.5**0.5), ndtr(-0.1 / 0.2**0.5), ndtr(-0.6 / 0.4**0.5), 0])


@pytest.mark.parametrize("mean", [0.2, 0.8, 1.0, 1.7])
@pytest.mark.parametrize("left", [0.3, 0.6])
def test_discovery_is_the_fall_of_misplacement_over_random_results(mean: float, left: float) -> None:
    """Results are drawn, then truths given the results: how often is the better guess wrong? Nine nodes are
    coarsest where the middle one lies on the edge."""
    pool = believed([mean], [0.5], costs=[[1.0, math.inf]], after=[[0.5 * left, 0.0]])
    rng = np.random.default_rng(8)
    seen = mean + math.sqrt(0.5 * (1 - left)) * rng.normal(size=400_000)
    truth = seen + math.sqrt(0.5 * left) * rng.normal(size=400_000)
    wrong_now, wrong_then = (truth > 1.0) != (mean > 1.0), (truth > 1.0) != (seen > 1.0)
    fall = float(wrong_now.mean() - wrong_then.mean())
    assert utilities(pool, "discovery", edge=1.0)[0, 0] == pytest.approx(
        fall, abs=0.05 if mean == 1.0 else 0.02
    )


def test_misplacement_is_the_chance_of_the_other_side() -> None:
    expected, variance = np.array([0.0, 0.0, 1.0, 2.0, 0.0]), np.array([1.0, 4.0, 1.0, 1.0, 0.0])
    found = misplaced(expected, variance, 1.0)
    assert found == pytest.approx([0.15865525, 0.30853754, 0.5, 0.15865525, 0.0])


@pytest.mark.parametrize(
    ("mean", "left", "cost", "truth", "noise"),
    [
        (0.9, 0.5, 0.1, 1.0, 0.0),
        (0.4, 0.2, 0.3, 2.0, 0.0),
        (1.0, 0.8, 0.05, 0.9, 0.0),
        (1.8, 0.1, 0.5, 0.6, 0.0),
        (0.0, 0.6, 0.01, 9.0, 0.0),
        (0.9, 0.8, 0.3, 1.0, 0.4),
        (0.4, 0.5, 0.1, 0.5, 0.2),
        (0.3, 0.8, 0.02, 0.5, 0.2),
    ],
)
def test_the_index_of_a_cheap_level_is_the_best_of_all_sets_of_results(
    mean: float, left: float, cost: float, truth: float, noise: float
) -> None:
    """Loss avoided over money spent, over all 512 ways to go on after some of nine results. The cheap level
    leaves ``left`` of the variance; the truth leaves ``noise`` and avoids in proportion to the rest."""
    pool = believed([mean], [0.5], costs=[[cost, truth]], after=[[0.5 * left, 0.5 * noise]])
    nodes, weights = hermite(np.array([mean]), np.array([math.sqrt(0.5 * (1 - left))]))
    later = misplaced(nodes, np.full(1, 0.5 * left), 1.0)[:, 0]
    mass = weights[:, 0]
    now = float(misplaced(np.array([mean]), np.array([0.5]), 1.0)[0])
    first = max(now - float(mass @ later), 0.0)
    found = discovery(pool, rewards(pool, IDENTITY), 1.0)
    onward = later * (1 - noise / left)
    ratios = []
    for size in range(10):
        for goes in map(list, itertools.combinations(range(9), size)):
            avoided = min(first + float(mass[goes] @ onward[goes]), float(found.fixed[0, 1]))
            ratios.append(avoided / (cost + truth * float(mass[goes].sum())))
    assert found.fixed[0, 0] / found.outlay[0, 0] == pytest.approx(max(ratios), rel=1e-9)
    assert cost <= found.outlay[0, 0] <= (cost + truth) * (1 + 1e-12)


def test_where_the_truth_cannot_be_bought_a_cheap_level_leads_nowhere() -> None:
    after = [[0.1, 0.0]]
    closed = believed([0.9], [0.5], costs=[[0.1, math.inf]], after=after)
    open_ = believed([0.9], [0.5], costs=[[0.1, 0.02]], after=after)
    found, more = (discovery(pool, rewards(pool, IDENTITY), 1.0) for pool in (closed, open_))
    assert found.outlay[0, 0] == 0.1
    assert found.fixed[0, 1] == 0.0
    assert 0.0 < found.fixed[0, 0] < more.fixed[0, 0]


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), edge=st.floats(-2, 2), factor=st.floats(1.0, 10.0), data=st.data())
def test_discovery_is_never_worth_more_for_costing_more(
    seed: int, edge: float, factor: float, data: st.DataObject
) -> None:
    pool = drawn(seed, 4, 3, 2)
    row, level = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    before = discovery(pool, rewards(pool, IDENTITY), edge)
    costly = dearer(pool, row, level, factor)
    after = discovery(costly, rewards(costly, IDENTITY), edge)
    can = np.isfinite(pool.costs)
    assert (after.fixed / after.outlay <= before.fixed / before.outlay * (1 + 1e-9) + 1e-300)[can].all()
    assert (before.outlay >= pool.costs).all()


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), edge=st.floats(-2, 2), kept=st.floats(0.0, 0.9))
def test_no_way_to_the_truth_avoids_more_than_the_truth(seed: int, edge: float, kept: float) -> None:
    pool = drawn(seed, 6, 3, 2)
    noisy = Pool.of(
        pool.mean,
        pool.variance,
        np.maximum(pool.after, kept * pool.after[:, [1]]),
        np.where(np.isfinite(pool.costs), pool.costs, 1.0),
        group=pool.group,
    )
    found = discovery(noisy, rewards(noisy, IDENTITY), edge).fixed
    alone = discovery(
        Pool.of(noisy.mean, noisy.variance, noisy.after, np.full((6, 3), 1e12), group=noisy.group),
        rewards(noisy, IDENTITY),
        edge,
    ).fixed
    assert (found[:, :2] <= np.maximum(found[:, [2]], alone[:, :2])).all()


def test_the_edge_is_what_a_tenth_is_expected_to_exceed() -> None:
    rng = np.random.default_rng(2)
    mean, variance, weight = (
        rng.normal(size=200),
        rng.uniform(0, 2, 200),
        rng.integers(1, 5, 200).astype(np.float64),
    )
    for share in (0.1, 0.5, 0.01):
        edge = edge_of(mean, variance, weight, share=share)
        beyond = ndtr((mean - edge) / np.sqrt(variance))
        assert np.average(beyond, weights=weight) == pytest.approx(share, abs=1e-9)
    assert edge_of(mean, variance) == edge_of(mean, variance, np.ones(200), share=0.1)
    copied = edge_of(np.repeat(mean, weight.astype(int)), np.repeat(variance, weight.astype(int)))
    assert copied == pytest.approx(edge_of(mean, variance, weight), abs=1e-9)


def test_the_edge_of_what_is_known_lies_between_the_best_tenth_and_the_rest() -> None:
    values = np.arange(100.0)
    edge = edge_of(values, np.zeros(100))
    assert 89.0 - 1e-6 <= edge <= 90.0 + 1e-6
    assert edge_of(np.array([3.0]), np.array([4.0])) == pytest.approx(3.0 + 2.0 * 1.2815515655)


def test_the_edge_is_that_of_the_pool_where_none_is_given() -> None:
    pool = drawn(4, 30, 2, 5)
    edge = edge_of(pool.mean, pool.variance, pool.multiplicity)
    assert (utilities(pool, "discovery") == utilities(pool, "discovery", edge=edge)).all()
    assert (utilities(pool, "discovery") != utilities(pool, "discovery", edge=edge + 0.5)).any()


@pytest.mark.parametrize(("mix", "like"), [(0.0, "advantage"), (1.0, "discovery")])
def test_a_mixture_ends_in_its_parts(mix: float, like: Objective) -> None:
    pool = drawn(9, 40, 3, 8)
    mixed, pure = utilities(pool, MixObjective(mix=mix), edge=1.2), utilities(pool, like, edge=1.2)
    assert mixed == pytest.approx(pure * (mixed.max() / pure.max()), abs=1e-12)
    assert pure.max() > 0
    reward = rewards(pool, IDENTITY)
    one, other = (gains(pool, reward, part, edge=1.2) for part in (MixObjective(mix=mix), like))
    assert (one.outlay == other.outlay).all()


def test_a_mixture_adds_its_parts_over_their_scales() -> None:
    pool = drawn(9, 40, 1, 8)
    advantages, discoveries = (utilities(pool, part, edge=1.2) for part in ("advantage", "discovery"))
    given_ = utilities(pool, MixObjective(mix=0.3), edge=1.2, scales=Scales(0.2, 0.05))
    assert given_ == pytest.approx(0.7 * advantages / 0.2 + 0.3 * discoveries / 0.05)
    can = np.isfinite(pool.costs).any(axis=1)
    assert not can.all()
    own = Scales(float(advantages.max(axis=1)[can].mean()), float(discoveries.max(axis=1)[can].mean()))
    found = scales_of(pool, rewards(pool, IDENTITY), 1.2)
    assert (found.advantage, found.discovery) == pytest.approx((own.advantage, own.discovery))
    assert utilities(pool, MixObjective(mix=0.3), edge=1.2) == pytest.approx(
        utilities(pool, MixObjective(mix=0.3), edge=1.2, scales=own)
    )


@pytest.mark.parametrize("objective", ["advantage", "discovery", "value", MixObjective(mix=0.4)])
def test_a_pool_of_nobody_or_of_nothing_to_learn_has_no_utility(objective: Objective) -> None:
    nobody = drawn(1, 0, 3, 1)
    assert utilities(nobody, objective, edge=0.0).shape == (0, 3)
    known = believed([0.0, 0.5], [0.0, 0.0])
    assert (utilities(known, objective) == 0.0).all()
    closed = believed([0.0, 0.5], [0.5, 0.5], costs=[[math.inf]] * 2)
    assert (utilities(closed, objective) == 0.0).all()
