"""Atropos groups: members without a reward are left out, and groups that are not full do not go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.trainers.atropos import Rollout, group_of
from verifier_service.trainers.scoring import Scored


def scored(reward: float | None, code: str = "pending") -> Scored:
    if reward is None:
        return Scored("t", None, code)
    record = RewardRecord(
        seq=1,
        run="r",
        trajectory="t",
        ladder="l",
        ladder_version=1,
        revision=1,
        status=RewardStatus.FINAL,
        reward=reward,
        issued_at=datetime.now(UTC),
    )
    return Scored("t", record, None)


def rollout(token: int, **more: Any) -> Rollout:
    return Rollout(tokens=[token, 0], masks=[-100, 0], submission={}, **more)


def test_the_first_members_with_a_reward_fill_the_group() -> None:
    rollouts = [rollout(token) for token in range(5)]
    outcomes = [scored(None), scored(0.0), scored(1.0), scored(None), scored(0.5)]
    assert group_of(rollouts, outcomes, group_size=2) == {
        "tokens": [[1, 0], [2, 0]],
        "masks": [[-100, 0], [-100, 0]],
        "scores": [0.0, 1.0],
    }


def test_a_group_that_cannot_be_filled_is_dropped_with_the_reasons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes = [scored(None), scored(1.0), scored(None, "budget_exhausted")]
    assert group_of([rollout(n) for n in range(3)], outcomes, group_size=2) is None
    assert "1 of 2 have a reward: {'pending': 1, 'budget_exhausted': 1}" in caplog.text


def test_optional_fields_are_for_all_members_or_none() -> None:
    both = [rollout(1, messages=[]), rollout(2, messages=[{"role": "user", "content": "x"}])]
    group = group_of(both, [scored(1.0)] * 2, group_size=2, group_overrides={"group_size": 2})
    assert group is not None
    assert group["messages"] == [[], [{"role": "user", "content": "x"}]]
    assert group["group_overrides"] == {"group_size": 2}
    with pytest.raises(ValueError, match="ref_logprobs"):
        group_of([rollout(1, ref_logprobs=[0.0, 0.0]), rollout(2)], [scored(1.0)] * 2, group_size=2)
    # A field that only a member without a reward has does not matter.
    mixed = [rollout(1, ref_logprobs=[0.0, 0.0]), rollout(2)]
    assert group_of(mixed, [scored(None), scored(1.0)], group_size=1) is not None


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="masks: 1 for 2 tokens"):
        Rollout(tokens=[1, 2], masks=[1], submission={})
    with pytest.raises(ValueError, match="group_size"):
        group_of([], [], group_size=0)
    with pytest.raises(ValueError, match="zip"):
        group_of([rollout(1)], [], group_size=1)
