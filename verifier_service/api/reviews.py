"""The desk: items that wait for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import Reviewer
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.paths import ReviewId
from verifier_service.api.problems import after_put, documented
from verifier_service.bootstrap import desk as events
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviews import (
    ClaimRequest,
    QueueName,
    ReleaseRequest,
    RenewRequest,
    Review,
    ReviewDecision,
    SkipRequest,
)
from verifier_service.domain.runs import Key
from verifier_service.domain.trajectories import Identifier
from verifier_service.domain.wire import ReviewClaimed, ReviewDecided, ReviewList
from verifier_service.services import desk
from verifier_service.services.tenants import reviewer_through

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])

T = TypeVar("T")
State = Literal["open", "claimed", "disputed", "decided", "effective", "expired", "cancelled"]
Named = Annotated[Identifier | None, Query(description="Who looks. A key with an owner says so by itself.")]


def acting(context: Context, caller: Key, work: Callable[[Transaction], T]) -> T:
    """One unit of work whose acts are told of as come through this key."""

    def through(tx: Transaction) -> T:
        tx.reviews.through(caller.id)
        return work(tx)

    return context.service.unit(through)


def _speaking(context: Context, caller: Key, reviewer: str) -> str:
    """Who acts. Raises ``Forbidden`` for somebody else's name."""
    with context.service.store.read() as tx:
        return reviewer_through(tx, caller, reviewer)


def _looking(context: Context, caller: Key, reviewer: str | None) -> str | None:
    """Who looks: the key's owner, else the name that is given. Raises ``Forbidden`` for another's."""
    return caller.owner if reviewer is None else _speaking(context, caller, reviewer)


@router.get("", responses=documented(404))
def list_reviews(
    caller: Reviewer,
    context: InContext,
    queue: QueueName | None = None,
    state: State | None = None,
    assigned_to: Identifier | None = None,
    reviewer: Named = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    after: Annotated[
        Identifier | None, Query(description="An item, the `next` of the page before.")
    ] = None,
) -> ReviewList:
    """Items on the desk, oldest first, as this reviewer may see them. Scope: `review`.

    A page of up to `limit`; where there are more, `next` is what the next page comes `after`. 404 when that
    item is no more.
    """
    who = _looking(context, caller, reviewer)
    with context.service.store.read() as tx:
        found = desk.listed_for(
            tx,
            caller.project,
            who,
            queue=queue,
            state=state,
            limit=limit + 1,
            assigned_to=assigned_to,
            after=after,
        )
    more = found[limit - 1].id if len(found) > limit else None
    return ReviewList(reviews=tuple(found[:limit]), next=more)


@router.get("/{review}", responses=documented(404))
def get_review(review: ReviewId, caller: Reviewer, context: InContext, reviewer: Named = None) -> Review:
    """One item with all that its reviewer is shown; references are not. Scope: `review`.

    With `reviewer`, or a key with an owner, the look is noted in the trail. Of a blind item evidence and
    votes of others are left out, and `hidden` is true, until the reviewer's own vote stands.
    """
    who = _looking(context, caller, reviewer)
    if who is None:
        with context.service.store.read() as tx:
            return desk.open_item(tx, caller.project, review, None)
    return acting(context, caller, lambda tx: desk.open_item(tx, caller.project, review, who))


@router.post("/claim", responses=documented(404, 409), openapi_extra=described(ClaimRequest))
def claim(
    caller: Reviewer, wanted: Annotated[ClaimRequest, Depends(body_of(ClaimRequest))], context: InContext
) -> ReviewClaimed:
    """Reserve the best free item of a queue, or a named one, for one reviewer. Scope: `review`.

    What is kept for the reviewer comes first, then what has waited too long, then by value and age.
    `review` is null when none is free. It is held for the queue's `minutes`, or fewer if asked. 409
    `too_many_held` for whoever holds as many as one may. 403 for one's own submission, and for a name that
    is not the key owner's.
    """
    _speaking(context, caller, wanted.reviewer)
    most_held = context.service.settings.review_held
    found = acting(context, caller, lambda tx: desk.claim_review(tx, caller.project, wanted, most_held))
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

    201 for a new decision, 200 for the same again, 409 for another one by the same reviewer, and for an
    item that the reviewer does not hold (any more) or has never opened; 422 names the field that does not
    fit the form of the item's queue.
    """
    _speaking(context, caller, decision.reviewer)
    grace_s = context.service.settings.review_grace_s
    outcome = acting(
        context, caller, lambda tx: desk.decide_review(tx, caller.project, review, decision, grace_s)
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
    reviewer = _speaking(context, caller, who.reviewer)
    return acting(context, caller, lambda tx: desk.release_review(tx, caller.project, review, reviewer))


@router.post("/{review}/renew", responses=documented(404, 409), openapi_extra=described(RenewRequest))
def renew(
    review: ReviewId,
    caller: Reviewer,
    wanted: Annotated[RenewRequest, Depends(body_of(RenewRequest))],
    context: InContext,
) -> Review:
    """Hold a claimed item for longer, from now; 409 when the claim has expired. Scope: `review`.

    For the queue's `minutes`, or fewer if asked, and no longer than a day from the claim.
    """
    reviewer = _speaking(context, caller, wanted.reviewer)
    return acting(
        context, caller, lambda tx: desk.renew_review(tx, caller.project, review, reviewer, wanted.minutes)
    )


@router.post("/{review}/skip", responses=documented(404, 409), openapi_extra=described(SkipRequest))
def skip(
    review: ReviewId,
    caller: Reviewer,
    wanted: Annotated[SkipRequest, Depends(body_of(SkipRequest))],
    context: InContext,
) -> Review:
    """Put a claimed item aside, with a reason. Scope: `review`.

    For `me`: it is not offered to me again. For `others`: it is kept for me for a day, 409 `too_many_kept`
    for whoever has as many as one may. `back`: it cannot be
    judged; its check ends unscored with the reason `not_judgeable`, unless somebody has voted (409).
    """
    reviewer = _speaking(context, caller, wanted.reviewer)
    return events.skip(context.service, caller, review, reviewer, wanted.reason, wanted.for_)
