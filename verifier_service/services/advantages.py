"""Group-relative advantages, as the rewards stand. Members without a reward are outside all of it."""

from __future__ import annotations

from collections.abc import Sequence

from verifier_service.domain.advantages import Estimator, Member, advantages, statistics
from verifier_service.domain.cases import Standing
from verifier_service.domain.errors import NotFound
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import GroupAdvantages, GroupMember, RewardRecord
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.states import RewardStatus


def group_advantages(
    tx: Transaction, project: str, run: str, group: str, *, estimator: Estimator, ddof: int
) -> GroupAdvantages:
    """Advantages of a group as the rewards stand, see ``domain.advantages``. Raises ``NotFound``."""
    members = tx.trajectories.group(project, run, group)
    if not members:
        raise NotFound("unknown_group", f"run {run!r} has no group {group!r}")
    latest = tx.rewards.latest(project, run, [member.id for member in members])
    counted = [_counted(member, latest.get(member.id)) for member in members]
    found = statistics(counted, ddof=ddof)
    valid = int(found.valid)
    expected = max([member.group_size or 0 for member in members] + [sum(m.multiplicity for m in members)])
    return GroupAdvantages(
        group=group,
        estimator=estimator,
        ddof=ddof,
        members=tuple(
            _member(member, latest.get(member.id), one.reward, advantage)
            for member, one, advantage in zip(
                members, counted, advantages(counted, estimator, ddof=ddof), strict=True
            )
        ),
        mean=found.mean,
        std=found.std,
        valid=valid,
        expected=expected,
        complete=_complete(members, latest, expected),
        scorable=valid > 0,
        flags=_flags(valid),
        seq=tx.rewards.head(project, run),
    )


def _counted(member: Standing, record: RewardRecord | None) -> Member:
    if record is None or record.reward is None:
        return Member(None)
    return Member(record.reward, record.variance or 0.0, member.multiplicity)


def _flags(total: int) -> tuple[str, ...]:
    if total == 0:
        return ("unscorable",)
    return ("one_valid_member",) if total == 1 else ()


def _complete(members: Sequence[Standing], latest: dict[str, RewardRecord], expected: int) -> bool:
    """All expected members are here and rest: nothing is live, held or undecided for them."""
    here = sum(member.multiplicity for member in members)
    return here >= expected and all(
        member.met == MET_FINAL and member.id in latest and (member.finished or member.cancelled)
        for member in members
    )


def _member(
    member: Standing, record: RewardRecord | None, reward: float | None, advantage: float | None
) -> GroupMember:
    return GroupMember(
        trajectory=member.id,
        multiplicity=member.multiplicity,
        reward=reward,
        advantage=advantage,
        valid=advantage is not None,
        status=record.status if record is not None else RewardStatus.UNSCORED,
    )
