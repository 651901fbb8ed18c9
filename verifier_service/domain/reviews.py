"""The desk: checks that wait for a person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from verifier_service.domain.evidence import Evidence, Measurement
from verifier_service.domain.records import JsonObject, JsonValue, OpenEnum, Record, Request
from verifier_service.domain.trajectories import Identifier

QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class ReviewState(OpenEnum):
    """``decided`` becomes ``effective`` after the undo grace; an expired claim reads as ``open``."""

    OPEN = "open"
    CLAIMED = "claimed"
    DECIDED = "decided"
    EFFECTIVE = "effective"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    OTHER = "other"


class ReviewMeasurement(Request):
    """A number the reviewer measured, with unit and one standard deviation."""

    quantity: Annotated[str, Field(max_length=200)]
    value: Annotated[float, Field(ge=-1e12, le=1e12)]
    unit: Annotated[str, Field(max_length=50)]
    sigma: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None


class ReviewDecision(Request):
    """What a reviewer says. A rejection needs a reason."""

    reviewer: Identifier
    verdict: Literal["accept", "reject"]
    reason: Annotated[str, Field(max_length=2_000)] = ""
    measurements: Annotated[tuple[ReviewMeasurement, ...], Field(strict=False, max_length=20)] = ()
    human_s: Annotated[float, Field(ge=0, le=86_400)] | None = None

    @model_validator(mode="after")
    def _rejections_have_a_reason(self) -> ReviewDecision:
        if self.verdict == "reject" and not self.reason.strip():
            raise ValueError("a rejection needs a reason")
        return self


class Vote(Record):
    """One reviewer's decision as stored; ``effective_at`` is when the undo grace ends."""

    reviewer: str
    verdict: Literal["accept", "reject"]
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    human_s: float = 0.0
    decided_at: datetime
    effective_at: datetime


class Review(Record):
    """One item on the desk. ``approvals`` was frozen when the item was made."""

    id: str
    check: str
    queue: str
    state: ReviewState
    approvals: int
    ladder: str | None = None
    candidate: JsonValue = None
    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    evidence: tuple[Evidence, ...] = ()
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    deadline: datetime | None = None
    votes: tuple[Vote, ...] = ()
    created_at: datetime


class ClaimRequest(Request):
    """Take the next open item of a queue, or a named one."""

    reviewer: Identifier
    queue: QueueName | None = None
    review: Identifier | None = None
    minutes: Annotated[float, Field(gt=0, le=1_440)] = 30.0


class ReleaseRequest(Request):
    """Give a claimed item back, or undo a decision within its grace."""

    reviewer: Identifier
