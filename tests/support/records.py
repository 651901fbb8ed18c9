"""Reward records for tests of what is computed from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus

ISSUED = datetime(2026, 1, 1, tzinfo=UTC)


def scored(reward: float, name: str = "t", **changes: Any) -> RewardRecord:
    """A final record of that reward, all of it outcome unless told otherwise."""
    values: dict[str, Any] = {
        "seq": 1,
        "run": "r",
        "trajectory": name,
        "group": "g",
        "ladder": "l",
        "ladder_version": 1,
        "revision": 1,
        "status": RewardStatus.FINAL,
        "reward": reward,
        "outcome": reward,
        "issued_at": ISSUED,
    }
    return RewardRecord(**(values | changes))


def judged(
    outcome: float, process: tuple[float | None, ...], weight: float = 0.2, **changes: Any
) -> RewardRecord:
    """A final record with process rewards, added up as the service does."""
    known = [value for value in process if value is not None]
    reward = outcome + (weight * sum(known) / len(known) if known else 0.0)
    return scored(reward, outcome=outcome, process=process, process_weight=weight, **changes)


def unscored(name: str = "t", code: RewardCode = RewardCode.INFRASTRUCTURE, **changes: Any) -> RewardRecord:
    """A record without a number."""
    values = {
        "status": RewardStatus.UNSCORED,
        "reward": None,
        "outcome": None,
        "reason": RewardReason(code=code),
    }
    whole = scored(0.0, name).model_dump() | values | changes
    return RewardRecord.model_validate(whole)
