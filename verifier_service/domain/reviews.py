"""The desk: checks that wait for a person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from verifier_service.domain.evidence import Evidence, Measurement
from verifier_service.domain.records import JsonObject, JsonValue, OpenEnum, Record, Request
from verifier_service.domain.trajectories import Identifier

QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
ReviewIds = Annotated[tuple[Identifier, ...], Field(strict=False, min_length=1, max_length=1_000)]
Why = Annotated[str, Field(min_length=1, max_length=2_000)]
Minutes = Annotated[float, Field(gt=0, le=1_440)]
MAX_ASSIGNED_HOURS = 720.0


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
    """What a reviewer says. A rejection needs a reason. ``scores`` are grades by name, as the queue's form
    asks for them."""

    reviewer: Identifier
    verdict: Literal["accept", "reject"]
    reason: Annotated[str, Field(max_length=2_000)] = ""
    measurements: Annotated[tuple[ReviewMeasurement, ...], Field(strict=False, max_length=20)] = ()
    scores: Annotated[dict[Annotated[str, Field(max_length=100)], int], Field(max_length=20)] = {}
    comment: Annotated[str, Field(max_length=10_000)] | None = None
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
    scores: dict[str, int] = {}
    comment: str | None = None
    human_s: float = 0.0
    decided_at: datetime
    effective_at: datetime


class Review(Record):
    """One item on the desk. ``approvals``, ``blind`` and the version of its queue (0: a queue that nobody
    declared) were frozen when the item was made.

    ``disputed``: its votes differ, and one further person decides. ``escalated``: it has waited too long.
    ``assigned_to``: until ``assigned_until`` it is kept for that person. ``hidden``: evidence and votes are
    left out until the asking reviewer's own vote stands. ``gold``: it was a known item, which is told once
    the vote on it has taken effect. ``retracted``: what was decided was taken back.
    """

    id: str
    check: str
    queue: str
    queue_version: int = 0
    state: ReviewState
    approvals: int
    blind: bool = False
    disputed: bool = False
    escalated: bool = False
    ladder: str | None = None
    candidate: JsonValue = None
    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    evidence: tuple[Evidence, ...] = ()
    hidden: bool = False
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    assigned_to: str | None = None
    assigned_until: datetime | None = None
    deadline: datetime | None = None
    votes: tuple[Vote, ...] = ()
    gold: bool = False
    retracted: bool = False
    created_at: datetime


def shown_to(item: Review, reviewer: str | None, now: datetime) -> Review:
    """The item as a reviewer may see it.

    A blind one shows no evidence and no votes of others until the reviewer's own vote can be undone no
    more: else it could be changed after a look at theirs. When it has ended everybody sees it.
    """
    if not item.blind or item.state not in (ReviewState.OPEN, ReviewState.CLAIMED, ReviewState.DECIDED):
        return item
    mine = tuple(vote for vote in item.votes if vote.reviewer == reviewer)
    if any(vote.effective_at <= now for vote in mine):
        return item
    return item.model_copy(update={"evidence": (), "votes": mine, "disputed": False, "hidden": True})


class ClaimRequest(Request):
    """Take the next open item of a queue, or a named one, for as long as the queue says, or for fewer
    ``minutes``."""

    reviewer: Identifier
    queue: QueueName | None = None
    review: Identifier | None = None
    minutes: Minutes | None = None


class ReleaseRequest(Request):
    """Give a claimed item back, or undo a decision within its grace."""

    reviewer: Identifier


class RenewRequest(Request):
    """Hold a claimed item for longer, from now: for as long as the queue says, or for fewer ``minutes``,
    and no longer than a day from the claim."""

    reviewer: Identifier
    minutes: Minutes | None = None


class SkipRequest(Request):
    """Put a claimed item aside. ``me``: it is not offered to me again. ``others``: nobody else is offered
    it for a day, I come back to it. ``back``: it cannot be judged, and goes back unscored."""

    reviewer: Identifier
    reason: Why
    for_: Annotated[Literal["me", "others", "back"], Field(alias="for")] = "me"


class ReassignRequest(Request):
    """Keep items for one person for some hours, or for nobody (``to`` null). Claims on them end."""

    reviews: ReviewIds
    to: Identifier | None
    hours: Annotated[float, Field(gt=0, le=MAX_ASSIGNED_HOURS)] = 72.0
    reason: Annotated[str, Field(max_length=2_000)] = ""


class WithdrawRequest(Request):
    """Take items off the desk, unscored: nobody judges them. Only while they have no vote."""

    reviews: ReviewIds
    reason: Why


class RetractRequest(Request):
    """Take an effective decision back. ``again``: in open runs people are asked again."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]
    again: bool = False


class BulkItem(Record):
    """What became of one item of a bulk action; ``code`` and ``message`` say why it was refused."""

    review: str
    done: bool
    code: str | None = None
    message: str | None = None


class BulkAnswer(Record):
    """One result per id, in the order of the request."""

    results: tuple[BulkItem, ...]
    done: int
