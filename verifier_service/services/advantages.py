"""Group-relative advantages, as the rewards stand. Members without a reward are outside all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from verifier_service.domain.cases import Standing
from verifier_service.domain.errors import NotFound
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import GroupAdvantages, GroupMember, RewardRecord
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.states import RewardStatus

Estimator = Literal["grpo", "dr_grpo", "rloo", "posterior"]
EPSILON = 1e-6


def group_advantages(
    tx: Transaction, project: str, run: str, group: str, *, estimator: Estimator, ddof: int
) -> GroupAdvantages:
    """Advantages of a group as the rewards stand. Raises ``NotFound``.

    With r_i valid rewards, each counted ``multiplicity`` times, m their mean and s their standard
    deviation: ``grpo`` (r - m)/(s + 1e-6) (Shao et al. 2024, arXiv 2402.03300, eq. 3), ``dr_grpo`` r - m
    (Liu et al. 2025, arXiv 2503.20783), ``rloo`` r - mean of the others (Ahmadian et al. 2024, arXiv
    2402.14740), ``posterior`` (r - m)/sqrt(Var(r) + mean variance + 1e-6), which damps what is
    uncertain. Members without a reward are outside all of it.
    """
    members = tx.trajectories.group(project, run, group)
    if not members:
        raise NotFound("unknown_group", f"run {run!r} has no group {group!r}")
    latest = tx.rewards.latest(project, run, [member.id for member in members])
    rewards: dict[str, tuple[float, float]] = {}
    for member in members:
        record = latest.get(member.id)
        if record is not None and record.reward is not None:
            rewards[member.id] = (record.reward, record.variance or 0.0)
    counted = [
        (reward, variance, member.multiplicity)
        for member in members
        if member.id in rewards
        for reward, variance in [rewards[member.id]]
    ]
    total = sum(count for _, _, count in counted)
    mean = sum(reward * count for reward, _, count in counted) / total if total else None
    std = _std(counted, mean, total, ddof)
    noise = sum(variance * count for _, variance, count in counted) / total if total else 0.0
    expected = max([member.group_size or 0 for member in members] + [sum(m.multiplicity for m in members)])
    flags = _flags(total)
    return GroupAdvantages(
        group=group,
        estimator=estimator,
        ddof=ddof,
        members=tuple(
            _member(member, latest.get(member.id), rewards, estimator, (mean, std, noise, total))
            for member in members
        ),
        mean=mean,
        std=std,
        valid=total,
        expected=expected,
        complete=_complete(members, latest, expected),
        scorable=total > 0,
        flags=flags,
        seq=tx.rewards.head(project, run),
    )


def _std(
    counted: Sequence[tuple[float, float, int]], mean: float | None, total: int, ddof: int
) -> float | None:
    if mean is None:
        return None
    if total - ddof <= 0:
        return 0.0
    squares = sum(count * (reward - mean) ** 2 for reward, _, count in counted)
    return math.sqrt(squares / (total - ddof))


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
    member: Standing,
    record: RewardRecord | None,
    rewards: dict[str, tuple[float, float]],
    estimator: Estimator,
    statistics: tuple[float | None, float | None, float, int],
) -> GroupMember:
    known = rewards.get(member.id)
    reward = known[0] if known is not None else None
    advantage = _advantage(estimator, reward, *statistics) if reward is not None else None
    return GroupMember(
        trajectory=member.id,
        multiplicity=member.multiplicity,
        reward=reward,
        advantage=advantage,
        valid=advantage is not None,
        status=record.status if record is not None else RewardStatus.UNSCORED,
    )


def _advantage(
    estimator: Estimator, reward: float, mean: float | None, std: float | None, noise: float, total: int
) -> float | None:
    if mean is None or std is None:
        return None
    if estimator == "rloo":
        return None if total < 2 else (reward - mean) * total / (total - 1)
    if estimator == "dr_grpo":
        return reward - mean
    if estimator == "posterior":
        return (reward - mean) / math.sqrt(std * std + noise + EPSILON)
    return (reward - mean) / (std + EPSILON)
