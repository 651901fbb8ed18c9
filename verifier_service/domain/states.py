"""States and the two transition tables. Each row names who moves it; the stores enforce them."""

from __future__ import annotations

from enum import StrEnum

from verifier_service.domain.errors import IllegalTransition
from verifier_service.domain.records import OpenEnum


class CheckState(StrEnum):
    """Life of a check. ``succeeded`` means "ran", not "accepted"."""

    QUEUED = "queued"  # a worker's claim, or a withdrawal, moves it out
    RUNNING = "running"  # its lease holder, the reaper, or a withdrawal moves it out
    WAITING_EXTERNAL = "waiting_external"  # a person, a file or the deadline moves it out
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DemandState(StrEnum):
    """Life of a run's wish for a check."""

    HELD = "held"  # decided: not now; the policy or the close moves it out
    REQUESTED = "requested"  # the check's end, or a withdrawal, moves it out
    SATISFIED = "satisfied"  # a retraction of the evidence, or a retry of a failure, moves it out
    WITHDRAWN = "withdrawn"


class RewardStatus(OpenEnum):
    """``reward is None`` exactly when the status is ``unscored`` or ``retracted``."""

    UNSCORED = "unscored"
    PROVISIONAL = "provisional"
    FINAL = "final"
    RETRACTED = "retracted"
    OTHER = "other"


LIVE_CHECKS = frozenset({CheckState.QUEUED, CheckState.RUNNING, CheckState.WAITING_EXTERNAL})
LIVE_DEMANDS = frozenset({DemandState.HELD, DemandState.REQUESTED})

_C, _D = CheckState, DemandState
CHECK_TRANSITIONS: dict[tuple[CheckState, CheckState], str] = {
    (_C.QUEUED, _C.RUNNING): "worker claim",
    (_C.QUEUED, _C.CANCELLED): "withdrawal of the last demand",
    (_C.QUEUED, _C.FAILED): "claim that finds no attempt left",
    (_C.RUNNING, _C.SUCCEEDED): "lease holder",
    (_C.RUNNING, _C.FAILED): "lease holder, or reaper at the last attempt",
    (_C.RUNNING, _C.QUEUED): "lease holder on a retryable failure or release, or reaper",
    (_C.RUNNING, _C.WAITING_EXTERNAL): "lease holder that handed it to people",
    (_C.RUNNING, _C.CANCELLED): "withdrawal of the last demand",
    (_C.WAITING_EXTERNAL, _C.SUCCEEDED): "decision whose grace has passed",
    (_C.WAITING_EXTERNAL, _C.FAILED): "deadline",
    (_C.WAITING_EXTERNAL, _C.QUEUED): "operator",
    (_C.WAITING_EXTERNAL, _C.CANCELLED): "withdrawal of the last demand",
}
DEMAND_TRANSITIONS: dict[tuple[DemandState, DemandState], str] = {
    (_D.HELD, _D.REQUESTED): "policy",
    (_D.HELD, _D.WITHDRAWN): "policy, close or cancel",
    (_D.REQUESTED, _D.SATISFIED): "end of the check",
    (_D.REQUESTED, _D.WITHDRAWN): "cancel (also of the check, by an operator), close or deadline",
    (_D.REQUESTED, _D.HELD): "claim that the budget cannot cover",
    (_D.SATISFIED, _D.WITHDRAWN): "retraction of the evidence, or an operator's retry of a failure",
}


def may_become(old: CheckState, new: CheckState) -> bool:
    """Whether the table lists the move."""
    return (old, new) in CHECK_TRANSITIONS


def demand_sources_of(new: DemandState) -> tuple[DemandState, ...]:
    """The states from which ``new`` can be reached, for the WHERE clause of a guarded update."""
    return tuple(old for (old, to) in DEMAND_TRANSITIONS if to is new)


def require_move(old: CheckState, new: CheckState) -> None:
    """Raise ``IllegalTransition`` unless the table lists the move."""
    if not may_become(old, new):
        raise IllegalTransition("illegal_transition", f"a check cannot go from {old} to {new}")
