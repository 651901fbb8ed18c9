"""Late rewards joined to rollouts."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier_service.domain.rewards import RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.trainers.replay import MAX_REMEMBERED, ReplayBuffer


def record(id: str, reward: float | None, revision: int = 1, seq: int = 1, **fields: Any) -> RewardRecord:
    silent = RewardStatus.RETRACTED if revision > 1 else RewardStatus.UNSCORED
    return RewardRecord(
        seq=seq,
        run="r",
        trajectory=id,
        ladder="l",
        ladder_version=1,
        revision=revision,
        status=RewardStatus.PROVISIONAL if reward is not None else silent,
        reward=reward,
        reason=RewardReason(code="pending") if reward is None else None,
        issued_at=datetime.now(UTC),
        **fields,
    )


def pair() -> ReplayBuffer[str]:
    buffer: ReplayBuffer[str] = ReplayBuffer(estimator="dr_grpo")
    buffer.add("a", "tokens of a", group="g", record=record("a", 0.0))
    buffer.add("b", "tokens of b", group="g", record=record("b", 1.0))
    return buffer


def test_a_revision_moves_the_advantage_of_the_whole_group() -> None:
    buffer = pair()
    buffer.advance(3)
    changes = {change.id: change for change in buffer.apply(record("b", 0.5, revision=2, seq=7))}
    assert (changes["b"].reward_before, changes["b"].reward_after) == (1.0, 0.5)
    assert (changes["b"].advantage_before, changes["b"].advantage_after) == (0.5, 0.25)
    assert (changes["a"].reward_before, changes["a"].reward_after) == (0.0, 0.0)
    assert (changes["a"].advantage_before, changes["a"].advantage_after) == (-0.5, -0.25)
    assert {change.staleness for change in changes.values()} == {3}
    assert changes["a"].rollout == "tokens of a"
    assert buffer.cursor == 7


def test_a_record_that_came_with_its_rollout_skips_nothing_of_the_feed() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer()
    buffer.add("a", 1, record=record("a", 0.0, seq=40))
    assert buffer.cursor == 0
    buffer.apply(record("b", 0.0, seq=3))
    assert buffer.cursor == 3


def test_an_unscored_member_is_outside_and_comes_in_later() -> None:
    buffer = pair()
    assert buffer.add("c", "tokens of c", group="g", record=record("c", None)) == []
    assert buffer["c"].advantage is None
    assert [held.id for held in buffer.trainable()] == ["a", "b"]
    assert buffer["a"].advantage == -0.5
    changes = buffer.apply(record("c", 0.5, revision=2))
    assert [change.id for change in changes] == ["c"]
    assert (changes[0].reward_before, changes[0].reward_after) == (None, 0.5)


def test_a_retraction_takes_the_member_out() -> None:
    buffer = pair()
    changes = {change.id: change for change in buffer.apply(record("a", None, revision=2))}
    assert changes["a"].reward_after is None
    assert changes["a"].advantage_after is None
    assert changes["b"].advantage_after == 0.0
    assert [held.id for held in buffer.trainable()] == ["b"]


def test_old_and_foreign_records_change_nothing() -> None:
    buffer = pair()
    assert buffer.apply(record("b", 0.2, revision=1, seq=9)) == []
    assert buffer.apply(record("nobody", 0.2, seq=12)) == []
    assert buffer["b"].reward == 1.0
    assert buffer.cursor == 12


def test_a_record_may_be_there_before_its_rollout() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer()
    buffer.apply(record("a", 0.0, revision=2, seq=7))
    buffer.apply(record("a", 0.4, revision=1, seq=5))
    buffer.add("a", 1, record=record("a", 0.9, revision=1))
    assert buffer["a"].reward == 0.0


def test_what_is_remembered_is_bounded() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer()
    for number in range(MAX_REMEMBERED + 1):
        buffer.apply(record(str(number), 0.5))
    buffer.add("0", 0)
    buffer.add("1", 1)
    assert buffer["0"].reward is None
    assert buffer["1"].reward == 0.5


def test_rollouts_grow_stale_by_groups() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer(max_staleness=1)
    for version in range(3):
        assert [held.id for held in buffer.advance(version)] == ([] if version < 2 else ["0a", "0b"])
        for name in ("a", "b"):
            buffer.add(f"{version}{name}", version, group=str(version))
    assert [held.id for held in buffer] == ["1a", "1b", "2a", "2b"]
    assert "0a" not in buffer
    with pytest.raises(ValueError, match="older than 2"):
        buffer.advance(1)


def test_a_full_buffer_lets_whole_groups_go() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer(capacity=3)
    for number, group in enumerate(["x", "x", "y", "y"]):
        buffer.add(str(number), number, group=group)
    assert [held.id for held in buffer] == ["2", "3"]
    buffer.add("4", 4, group="y")
    buffer.add("5", 5, group="y")
    assert buffer.add("late", 9, group="x") == []  # its group was let go: alone it would have no baseline
    assert "late" not in buffer
    assert len(buffer) == 4  # a group that is being filled is never cut
    buffer.add("6", 6)
    assert [held.id for held in buffer] == ["6"]


def test_a_rollout_without_a_group_is_alone() -> None:
    buffer: ReplayBuffer[int] = ReplayBuffer()
    buffer.add("a", 1, record=record("a", 0.3))
    buffer.add("b", 1, record=record("b", 0.9))
    assert [held.advantage for held in buffer] == [0.0, 0.0]


def test_an_id_is_held_once() -> None:
    buffer = pair()
    with pytest.raises(ValueError, match="'a' is held already"):
        buffer.add("a", "again")
    with pytest.raises(ValueError, match="capacity"):
        ReplayBuffer(capacity=0)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1) | st.none()), max_size=30), st.randoms())
def test_the_order_of_records_does_not_matter(
    steps: list[tuple[int, float | None]], shuffle: random.Random
) -> None:
    records = [record(str(who), reward, revision=n + 1, seq=n + 1) for n, (who, reward) in enumerate(steps)]
    found = []
    for _ in range(2):
        buffer: ReplayBuffer[int] = ReplayBuffer()
        for who in range(4):
            buffer.add(str(who), who, group="g")
        for one in records:
            buffer.apply(one)
        found.append(([(held.reward, held.advantage) for held in buffer], buffer.cursor))
        shuffle.shuffle(records)
    assert found[0] == found[1]
