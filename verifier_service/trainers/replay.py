"""Late rewards: revisions of the feed joined to the rollouts that a trainer still holds.

A reward is provisional first and revised when better evidence lands, perhaps steps later. ``ReplayBuffer``
keeps rollouts by trajectory id, takes records in any order and any number of times, and says what changed:
the reward, the advantages of everybody in the group, and how many policy versions old the rollout is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from verifier_service.domain.advantages import Estimator, Member, advantages
from verifier_service.domain.rewards import RewardRecord

R = TypeVar("R")
V = TypeVar("V")

MAX_REMEMBERED = 10_000  # records of rollouts that are not held yet, and groups that were let go


@dataclass(slots=True)
class Held(Generic[R]):
    """A rollout of the trainer's own kind, with the newest record there is and its advantage in its group
    (null without a reward)."""

    id: str
    rollout: R
    group: str
    policy_version: int
    record: RewardRecord | None = None
    advantage: float | None = None

    @property
    def reward(self) -> float | None:
        """The newest reward; null where there is none."""
        return None if self.record is None else self.record.reward


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """What a record changed for one rollout; its old and new state.

    The advantage may change although the reward does not: another member of the group was revised. A
    retracted reward is null after. ``staleness`` is in policy versions.
    """

    id: str
    rollout: R
    reward_before: float | None
    reward_after: float | None
    advantage_before: float | None
    advantage_after: float | None
    staleness: int


class ReplayBuffer(Generic[R]):
    """Rollouts that may still be trained on: at most ``capacity``, at most ``max_staleness`` policy
    versions old. Groups stay and go as a whole: without one member the others' baseline would move. Of a
    group that was let go, later members are not held either.

    Advantages are those of ``domain.advantages``. ``cursor`` is the feed position up to which records were
    applied: keep it with the checkpoint and resume with ``client.follow(run, after=buffer.cursor)``.
    """

    def __init__(
        self,
        *,
        capacity: int = 100_000,
        max_staleness: int | None = None,
        estimator: Estimator = "grpo",
        ddof: int = 0,
        cursor: int = 0,
    ) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.policy_version = 0
        self.cursor = cursor
        self._capacity = capacity
        self._max_staleness = max_staleness
        self._estimator: Estimator = estimator
        self._ddof = ddof
        self._held: dict[str, Held[R]] = {}
        self._groups: dict[str, list[Held[R]]] = {}
        self._early: dict[str, RewardRecord] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, id: object) -> bool:
        return id in self._held

    def __getitem__(self, id: str) -> Held[R]:
        return self._held[id]

    def __iter__(self) -> Iterator[Held[R]]:
        return iter(self._held.values())

    def add(
        self, id: str, rollout: R, *, group: str | None = None, record: RewardRecord | None = None
    ) -> list[Change[R]]:
        """Hold a rollout of the current policy under its trajectory id; what its record, if it has one
        already, changes. That record is not of the feed, so the cursor stays. Raises ``ValueError`` for an
        id that is held."""
        if id in self._held:
            raise ValueError(f"trajectory {id!r} is held already")
        name = f"group {group}" if group is not None else f"alone {id}"
        early = self._early.pop(id, None)
        if name in self._gone:
            return []
        held = Held(id, rollout, name, self.policy_version)
        self._held[id] = held
        self._groups.setdefault(held.group, []).append(held)
        self._make_room(held.group)
        known = [one for one in (record, early) if one is not None]
        return self._take(max(known, key=lambda one: one.revision)) if known else []

    def advance(self, policy_version: int) -> list[Held[R]]:
        """The policy has been updated. Returns what is too old now and was let go. Raises ``ValueError``
        when the version goes back."""
        if policy_version < self.policy_version:
            raise ValueError(f"policy version {policy_version} is older than {self.policy_version}")
        self.policy_version = policy_version
        if self._max_staleness is None:
            return []
        oldest = policy_version - self._max_staleness
        stale = [
            name
            for name, members in self._groups.items()
            if min(member.policy_version for member in members) < oldest
        ]
        return [member for name in stale for member in self._let_go(name)]

    def apply(self, record: RewardRecord) -> list[Change[R]]:
        """Take a record of the feed in; every rollout whose reward or advantage it changed.

        One that is not newer than what is known changes nothing; one of a rollout that is not held yet is
        kept for it, the newest ``MAX_REMEMBERED`` of them.
        """
        self.cursor = max(self.cursor, record.seq)
        return self._take(record)

    def _take(self, record: RewardRecord) -> list[Change[R]]:
        held = self._held.get(record.trajectory)
        if held is None:
            self._remember(record)
            return []
        if held.record is not None and record.revision <= held.record.revision:
            return []
        members = self._groups[held.group]
        before = [(member.reward, member.advantage) for member in members]
        held.record = record
        self._weigh(members)
        return [
            self._change(member, *old)
            for member, old in zip(members, before, strict=True)
            if old != (member.reward, member.advantage)
        ]

    def trainable(self) -> list[Held[R]]:
        """Rollouts that have an advantage now, oldest first."""
        return [held for held in self if held.advantage is not None]

    def _weigh(self, members: list[Held[R]]) -> None:
        samples = [
            Member(member.reward, (member.record.variance if member.record is not None else None) or 0.0)
            for member in members
        ]
        for member, advantage in zip(
            members, advantages(samples, self._estimator, ddof=self._ddof), strict=True
        ):
            member.advantage = advantage

    def _change(self, held: Held[R], reward: float | None, advantage: float | None) -> Change[R]:
        return Change(
            id=held.id,
            rollout=held.rollout,
            reward_before=reward,
            reward_after=held.reward,
            advantage_before=advantage,
            advantage_after=held.advantage,
            staleness=self.policy_version - held.policy_version,
        )

    def _make_room(self, newest: str) -> None:
        """Let the oldest groups go, never the one that is being filled."""
        for name in list(self._groups):
            if len(self._held) <= self._capacity:
                return
            if name != newest:
                self._let_go(name)

    def _let_go(self, group: str) -> list[Held[R]]:
        members = self._groups.pop(group)
        for member in members:
            del self._held[member.id]
        self._gone[group] = None
        _trim(self._gone)
        return members

    def _remember(self, record: RewardRecord) -> None:
        known = self._early.pop(record.trajectory, None)
        newer = known is None or record.revision > known.revision
        self._early[record.trajectory] = record if newer or known is None else known
        _trim(self._early)


def _trim(remembered: dict[str, V]) -> None:
    while len(remembered) > MAX_REMEMBERED:
        del remembered[next(iter(remembered))]
