"""The desk: items that wait for people."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import Reviewer
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import ReviewId
from verifier_service.api.problems import after_put, documented
from verifier_service.domain.reviews import (
    ClaimRequest,
    QueueName,
    ReleaseRequest,
    Review,
    ReviewDecision,
)
from verifier_service.domain.wire import ReviewClaimed, ReviewDecided, ReviewList
from verifier_service.services import desk

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])

State = Literal["open", "claimed", "decided", "effective", "expired", "cancelled"]


@router.get("", responses=documented())
def list_reviews(
    caller: Reviewer,
    context: InContext,
    queue: QueueName | None = None,
    state: State | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> ReviewList:
    """Items on the desk, oldest first. Scope: `review`."""
    with context.service.store.read() as tx:
        found = desk.listed(tx, caller.project, queue=queue, state=state, limit=limit)
    return ReviewList(reviews=tuple(found))


@router.get("/{review}", responses=documented(404))
def get_review(review: ReviewId, caller: Reviewer, context: InContext) -> Review:
    """One item with all that its reviewer is shown; references are not. Scope: `review`."""
    with context.service.store.read() as tx:
        return tx.reviews.get(caller.project, review)


@router.post("/claim", responses=documented(404, 409), openapi_extra=described(ClaimRequest))
def claim(
    caller: Reviewer, wanted: Annotated[ClaimRequest, Depends(body_of(ClaimRequest))], context: InContext
) -> ReviewClaimed:
    """Reserve the next free item of a queue, or a named one, for one reviewer. Scope: `review`.

    `review` is null when none is free.
    """
    found = context.service.unit(lambda tx: desk.claim_review(tx, caller.project, wanted))
    return ReviewClaimed(review=found)


@router.post(
    "/{review}/decision",
    responses={201: {"model": ReviewDecided, "description": "A new decision"}, **documented(404, 409)},
    openapi_extra=described(ReviewDecision),
)
def decide(
    review: ReviewId,
    caller: Reviewer,
    decision: Annotated[ReviewDecision, Depends(body_of(ReviewDecision))],
    response: Response,
    context: InContext,
) -> ReviewDecided:
    """Record a decision; it takes effect after the undo grace. Scope: `review`.

    201 for a new decision, 200 for the same again, 409 for another one by the same reviewer.
    """
    grace_s = context.service.settings.review_grace_s
    outcome = context.service.unit(
        lambda tx: desk.decide_review(tx, caller.project, review, decision, grace_s)
    )
    response.status_code = after_put(outcome.created)
    return ReviewDecided(review=outcome.review, created=outcome.created)


@router.post("/{review}/release", responses=documented(404, 409), openapi_extra=described(ReleaseRequest))
def release(
    review: ReviewId,
    caller: Reviewer,
    who: Annotated[ReleaseRequest, Depends(body_of(ReleaseRequest))],
    context: InContext,
) -> Review:
    """Give a claimed item back, or undo a decision within its grace. Scope: `review`."""
    return context.service.unit(lambda tx: desk.release_review(tx, caller.project, review, who.reviewer))
