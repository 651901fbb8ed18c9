"""Runs, their budgets, and the tenant's keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from verifier_service.domain.errors import Conflict, Forbidden
from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import OpenEnum, Record, Request

Credits = Annotated[float, Field(ge=0.0, le=1e12)]


class Budgets(Request):
    """Credits per account; ``None`` = not limited."""

    compute: Credits | None = None
    human: Credits | None = None


class Horizon(Request):
    """How many trajectories, or until when, the budgets must last."""

    trajectories: Annotated[int, Field(ge=1)] | None = None
    until: Annotated[datetime, Field(strict=False)] | None = None


class MixObjective(Request):
    """Weight of discovery against advantage, in [0, 1]."""

    mix: Annotated[float, Field(ge=0.0, le=1.0)]


class RunSpec(Request):
    """What a trainer may declare about a run. Unknown runs are created with these defaults."""

    budgets: Budgets = Budgets()
    horizon: Horizon = Horizon()
    objective: Literal["advantage", "discovery", "value"] | MixObjective = "advantage"
    audit_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    on_close: Literal["settle", "drain"] = "settle"


class RunState(OpenEnum):
    """``closing`` runs drain: nothing new is accepted or requested. Of ``purging`` and ``purged`` ones
    nothing can be read any more but their spec and what they spent; their ids stay taken."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    PURGING = "purging"
    PURGED = "purged"
    OTHER = "other"


class Account(Record):
    """One budget of a run as the ledger holds it, in credits. ``limit`` ``None`` = not limited."""

    kind: Literal["compute", "human"]
    limit: float | None
    reserved: float
    spent: float

    @property
    def available(self) -> float:
        """Credits that can still be reserved; infinite where there is no limit."""
        return float("inf") if self.limit is None else max(0.0, self.limit - self.reserved - self.spent)


class TierCount(Record):
    """Work of one tier in one run, by check state, and what the run's demands cost there."""

    tier: Tier
    held: int = 0
    queued: int = 0
    running: int = 0
    waiting_external: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    credits: float = 0.0


class Run(Record):
    """A run as stored."""

    project: str
    id: str
    spec: RunSpec
    state: RunState
    ladder_versions: dict[str, int]
    accounts: tuple[Account, ...] = ()
    feed: int = 0
    seed: int = 0
    pacing: Annotated[str | None, Field(exclude=True)] = None
    created_at: datetime
    closed_at: datetime | None = None
    purged_at: datetime | None = None


def require_open(run: Run) -> None:
    """Raise ``Conflict`` when a run takes nothing more."""
    if run.state is not RunState.OPEN:
        raise Conflict("run_closed", f"run {run.id!r} is {run.state} and takes nothing more")


class RunReport(Record):
    """What ``GET /v1/runs/{run}`` shows."""

    run: Run
    trajectories: int
    statuses: dict[str, int]
    tiers: tuple[TierCount, ...]
    settled_per_tier: dict[str, int]
    price: dict[str, float | None] = {}


class Scope(OpenEnum):
    """What a key may do; no scope implies another."""

    SUBMIT = "submit"
    READ = "read"
    REVIEW = "review"
    OPERATE = "operate"
    ADMIN = "admin"
    GOLD = "gold"
    OTHER = "other"


class Key(Record):
    """An API key as stored: only a hash of the secret. ``owner`` is the login of the person for whom it was
    made, and who reviews and submits through it; a key without one speaks for nobody who has a login."""

    id: str
    project: str
    name: str
    owner: str | None = None
    scopes: frozenset[Scope]
    created_at: datetime
    revoked_at: datetime | None = None

    @property
    def acts_as(self) -> str:
        """Who is said to have acted: the owner, else the key by its name."""
        return self.owner if self.owner is not None else f"key:{self.name}"


def speaking(key: Key, reviewer: str) -> str:
    """The reviewer who speaks through a key. Raises ``Forbidden`` when the key is somebody else's."""
    if key.owner is not None and key.owner != reviewer:
        message = f"this key is {key.owner!r}'s, and nobody else reviews through it"
        raise Forbidden("not_your_name", message, field="reviewer")
    return reviewer
