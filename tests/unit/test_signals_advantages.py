"""Group-relative advantages: against numbers made by hand, other formulas, and what must not matter."""

from __future__ import annotations

import statistics as stdlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import scored, unscored
from verifier_service.domain.advantages import Estimator, Member, advantages, statistics
from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers.advantages import group_advantages, token_weights

ESTIMATORS: tuple[Estimator, ...] = ("grpo", "dr_grpo", "rloo", "posterior")
REWARDS = st.floats(0.0, 1.5).map(lambda value: round(value, 6))
GROUPS = st.lists(st.one_of(st.none(), REWARDS), min_size=1, max_size=12)


def records(rewards: Sequence[float | None], group: str = "g") -> list[RewardRecord]:
    return [
        unscored(f"{group}{n}", group=group)
        if reward is None
        else scored(reward, f"{group}{n}", group=group)
        for n, reward in enumerate(rewards)
    ]


def test_numbers_by_hand() -> None:
    """Rewards 1, 0, 0.5 and one that was not verified: m = 0.5, s = sqrt(1/6), sample s = 0.5."""
    group = records([1.0, 0.0, 0.5, None])
    grpo = group_advantages(group)
    assert grpo.advantage == pytest.approx([1.2247419, -1.2247419, 0.0, 0.0], abs=1e-6)
    assert grpo.mask.tolist() == [True, True, True, False]
    assert (grpo.mean[0], grpo.std[0], grpo.valid[0]) == (0.5, pytest.approx(0.40824829), 3)
    assert np.isnan(grpo.reward[3])
    assert group_advantages(group, ddof=1, epsilon=0.0).advantage == pytest.approx([1.0, -1.0, 0.0, 0.0])
    assert group_advantages(group, "dr_grpo").advantage.tolist() == [0.5, -0.5, 0.0, 0.0]
    assert group_advantages(group, "rloo").advantage == pytest.approx([0.75, -0.75, 0.0, 0.0])


def test_the_posterior_is_damped_by_variance() -> None:
    group = [scored(1.0, "a", variance=0.75), scored(0.0, "b", variance=0.75)]
    found = group_advantages(group, "posterior", epsilon=0.0)
    assert found.advantage.tolist() == [0.5, -0.5]


@pytest.mark.parametrize("rewards", [[1.0, 0.0, 0.25, 0.5], [0.1, 0.7], [0.3, 0.3, 0.9, 0.9, 0.1]])
def test_against_other_formulas(rewards: list[float]) -> None:
    """The standard library's exact statistics, and leave-one-out written as such."""
    exact = [Fraction(reward) for reward in rewards]
    grpo = group_advantages(records(rewards), epsilon=0.0).advantage
    score = [(float(one - stdlib.mean(exact))) / stdlib.pstdev(rewards) for one in exact]
    assert grpo == pytest.approx(score)
    sample = group_advantages(records(rewards), ddof=1, epsilon=0.0).advantage
    assert sample * stdlib.stdev(rewards) == pytest.approx(grpo * stdlib.pstdev(rewards))
    left_out = [float(one - Fraction(sum(exact) - one) / (len(exact) - 1)) for one in exact]
    assert group_advantages(records(rewards), "rloo").advantage == pytest.approx(left_out)


def test_one_valid_member() -> None:
    group = records([0.7, None, None])
    for estimator in ESTIMATORS:
        found = group_advantages(group, estimator)
        assert found.advantage.tolist() == [0.0, 0.0, 0.0]
        assert found.mask.tolist() == [estimator != "rloo", False, False]
        assert found.zero_variance.tolist() == [True]
        assert not found.informative().any()
        assert (found.mean[0], found.std[0], found.valid[0]) == (0.7, 0.0, 1)


def test_no_valid_member() -> None:
    found = group_advantages(records([None, None]))
    assert not found.mask.any()
    assert np.isnan(found.mean[0])
    assert np.isnan(found.std[0])
    assert found.valid.tolist() == [0]
    assert not found.zero_variance.any(), "nothing is known about this group"


def test_groups_are_apart_and_missing_records_are_masked() -> None:
    one, two = records([1.0, 0.0], "a"), records([0.2, 0.2, 0.2], "b")
    mixed: list[RewardRecord | None] = [two[0], one[0], None, two[1], one[1], two[2]]
    groups = ["b", "a", "a", "b", "a", "b"]
    found = group_advantages(mixed, "dr_grpo", groups=groups)
    assert found.groups == ("b", "a")
    assert found.group.tolist() == [0, 1, 1, 0, 1, 0]
    assert found.advantage.tolist() == [0.0, 0.5, 0.0, 0.0, -0.5, 0.0]
    assert found.mask.tolist() == [True, True, False, True, True, True]
    assert found.zero_variance.tolist() == [True, False]
    assert found.informative().tolist() == [False, True, False, False, True, False]


def test_a_sample_without_a_group_is_named() -> None:
    with pytest.raises(ValueError, match="sample 1 has no group"):
        group_advantages([scored(1.0), scored(1.0, group=None)])
    with pytest.raises(ValueError, match="sample 0 has no group"):
        group_advantages([None])
    with pytest.raises(ValueError, match="2 records and 1 groups"):
        group_advantages([scored(1.0), None], groups=["g"])


def test_multiplicity_counts_and_rows_of_one_trajectory_share_it() -> None:
    """One record that stands for three samples weighs as three rows do."""
    once = group_advantages([scored(1.0, "a", multiplicity=3), scored(0.0, "b")])
    rows = group_advantages([scored(1.0, "a", multiplicity=3)] * 3 + [scored(0.0, "b")])
    apart = group_advantages([scored(1.0, f"a{n}") for n in range(3)] + [scored(0.0, "b")])
    assert once.mean[0] == rows.mean[0] == apart.mean[0] == 0.75
    assert once.advantage[0] == rows.advantage[0] == apart.advantage[0]
    assert once.valid[0] == 4
    stale = group_advantages([scored(1.0, "a")] * 3 + [scored(0.0, "b")])
    assert stale.mean[0] == 0.75, "rows count, though the record was issued before the repeats"


@given(GROUPS, st.sampled_from(ESTIMATORS), st.integers(0, 1))
def test_what_was_not_verified_never_influences(
    rewards: list[float | None], estimator: Estimator, ddof: int
) -> None:
    everybody = group_advantages(records(rewards), estimator, ddof=ddof)
    kept = [place for place, reward in enumerate(rewards) if reward is not None]
    assert everybody.advantage[~everybody.mask].tolist() == [0.0] * int((~everybody.mask).sum())
    if kept:
        alone = group_advantages([records(rewards)[place] for place in kept], estimator, ddof=ddof)
        assert everybody.advantage[kept].tolist() == alone.advantage.tolist()
        assert everybody.mask[kept].tolist() == alone.mask.tolist()
        assert everybody.mean[0] == alone.mean[0]


@given(GROUPS, st.sampled_from(ESTIMATORS))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float | None], estimator: Estimator) -> None:
    found = group_advantages(records(rewards), estimator)
    assert abs(found.advantage.sum()) < 1e-6 * max(1.0, float(np.abs(found.advantage).max()))


@given(st.lists(REWARDS, min_size=2, max_size=8), st.floats(-3, 3), st.floats(0.1, 9))
def test_shifts_do_not_matter_and_grpo_forgets_the_scale(
    rewards: list[float], shift: float, scale: float
) -> None:
    plain = [Member(reward) for reward in rewards]
    moved = [Member(reward * scale + shift) for reward in rewards]
    for estimator in ("dr_grpo", "rloo"):
        once, twice = advantages(plain, estimator), advantages(moved, estimator)
        assert [value * scale for value in once if value is not None] == pytest.approx(twice, abs=1e-9)
    if statistics(plain).spread > 1e-3:
        same = advantages(moved, "grpo", epsilon=0.0)
        assert advantages(plain, "grpo", epsilon=0.0) == pytest.approx(same, abs=1e-6)


@given(REWARDS, st.integers(1, 40), st.sampled_from(ESTIMATORS))
def test_equal_rewards_teach_nothing(reward: float, count: int, estimator: Estimator) -> None:
    """Exactly: an advantage of 1e-17 over a deviation of 1e-17 would be a signal of 1."""
    found = group_advantages(records([reward] * count), estimator, epsilon=1e-30)
    assert found.advantage.tolist() == [0.0] * count
    assert found.zero_variance.tolist() == [True]


@given(st.permutations(list(range(6))))
def test_order_does_not_matter(order: list[int]) -> None:
    group = records([0.1, 0.9, None, 0.4, 0.4, 1.2])
    straight, shuffled = group_advantages(group), group_advantages([group[place] for place in order])
    assert shuffled.advantage == pytest.approx(straight.advantage[order], abs=1e-12)


MASK = [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]]


def test_weights_on_tokens_by_hand() -> None:
    advantage = [1.0, -2.0, 3.0]
    none = token_weights(advantage, MASK, normalise="none")
    assert none.tolist() == [[1, 1, 1, 0], [-2, 0, 0, 0], [3, 3, 0, 0]]
    sequence = token_weights(advantage, MASK, normalise="sequence")
    assert sequence.sum(axis=1) == pytest.approx([1 / 3, -2 / 3, 1])
    token = token_weights(advantage, MASK, normalise="token")
    assert token == pytest.approx(none / 6)
    constant = token_weights(advantage, MASK, normalise="constant", max_tokens=4)
    assert constant == pytest.approx(none / 12)
    with pytest.raises(ValueError, match="max_tokens"):
        token_weights(advantage, MASK, normalise="constant", max_tokens=2)


@pytest.mark.parametrize("normalise", ["sequence", "token", "constant"])
def test_a_masked_sample_counts_neither_as_a_sample_nor_with_its_tokens(normalise: str) -> None:
    keep = [True, False, True]
    found = token_weights(
        [1.0, np.nan, 3.0],
        MASK,
        sample_mask=keep,
        normalise=normalise,
        max_tokens=4,  # type: ignore[arg-type]
    )
    alone = token_weights([1.0, 3.0], MASK[::2], normalise=normalise, max_tokens=4)  # type: ignore[arg-type]
    assert found[keep] == pytest.approx(alone)
    assert not found[1].any()


def test_nan_is_never_trained_on() -> None:
    with pytest.raises(ValueError, match="finite"):
        token_weights([1.0, np.nan, 3.0], MASK)
    with pytest.raises(ValueError, match="token_mask"):
        token_weights([1.0], MASK)
    with pytest.raises(ValueError, match="0 and 1"):
        token_weights([1.0, 1.0, 1.0], np.array(MASK) * 2)


def test_weights_without_any_token_are_zero() -> None:
    for normalise in ("none", "sequence", "token", "constant"):
        weights = token_weights([1.0], [[0, 0]], normalise=normalise, max_tokens=2)  # type: ignore[arg-type]
        assert weights.tolist() == [[0.0, 0.0]]
        assert token_weights([], np.zeros((0, 2)), normalise=normalise, max_tokens=2).shape == (0, 2)  # type: ignore[arg-type]
