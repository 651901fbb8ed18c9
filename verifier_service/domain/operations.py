"""Checks that need an operator: stuck ones, failed ones, and what is done about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from verifier_service.domain.evidence import Failure, Tier
from verifier_service.domain.records import OpenEnum, Record, Request
from verifier_service.domain.retractions import CheckKeys
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.domain.trajectories import Identifier
from verifier_service.domain.workers import Kind

MAX_AT_ONCE = 1_000

FailureKind = Literal["transient", "resource", "permanent", "timed_out", "task_error"]
TrajectoryIds = Annotated[tuple[Identifier, ...], Field(strict=False, min_length=1, max_length=MAX_AT_ONCE)]


class FailedCheck(Record):
    """A check that ended without a verification, and whose failure trajectories still rest on.

    ``trajectories`` rest on it, ``unscored`` of them have no reward; ``run`` and ``trajectory`` name the
    first of them. ``attempts`` were made, the last ended at ``failed_at``. ``closed``: all its runs have
    ended, so that it cannot be retried.
    """

    key: str
    verifier: str
    version: str
    tier: Tier
    attempts: int
    failure: Failure
    failed_at: datetime | None = None
    credits: float = 0.0
    run: str
    trajectory: str
    trajectories: int
    unscored: int
    closed: bool = False


class FailedPage(Record):
    """Failed checks, newest first; ``next`` goes on, and is null at the end. A page may be shorter than its
    limit, even empty, and still have a ``next``."""

    checks: tuple[FailedCheck, ...]
    next: str | None = None


class StuckCheck(Record):
    """A queued check that no living worker will claim, and why. ``run`` pays for it; ``trajectory`` of
    ``trajectory_run`` is the first that waits for it."""

    key: str
    verifier: str
    version: str
    tier: Tier
    reason: str
    queued_at: datetime
    run: str
    trajectory_run: str | None = None
    trajectory: str | None = None


class StuckKind(Record):
    """Queued checks of one verifier in one build that nobody runs: how many (of the project, counted up to
    1,000) and why."""

    verifier: str
    version: str
    tier: Tier
    reason: str
    checks: int


class StuckPage(Record):
    """Stuck checks, oldest first, and in ``kinds`` all verifiers that nobody runs; ``next`` goes on."""

    kinds: tuple[StuckKind, ...]
    checks: tuple[StuckCheck, ...]
    next: str | None = None


class ChecksRequest(Request):
    """Keys of checks, as a case or a list of checks shows them."""

    checks: CheckKeys


class TrajectoriesRequest(Request):
    """Trajectories of one run."""

    ids: TrajectoryIds


class ActStatus(OpenEnum):
    """What became of one item: ``done`` now, ``unchanged`` because there was nothing (more) to do,
    ``conflict`` and ``unknown`` with a code."""

    DONE = "done"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    OTHER = "other"


class ActResult(Record):
    """One item of a request: a check by its key or a trajectory by its id. ``trajectories``: of how many
    it changed something."""

    id: str
    status: ActStatus
    code: str | None = None
    message: str | None = None
    trajectories: int = 0


class ActAnswer(Record):
    """What became of each item, in the order asked."""

    results: tuple[ActResult, ...]


class Cited(NamedTuple):
    """An ended or live check and a demand that rests on it, or waits for it."""

    check: int
    key: str
    state: CheckState
    demand: int
    demand_state: DemandState
    reason: str
    role: str
    trajectory: int
    run: str
    run_state: RunState


class Waiting(NamedTuple):
    """A queued check as a list of stuck ones needs it."""

    pk: int
    check: StuckCheck
    kind: Kind
