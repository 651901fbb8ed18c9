"""The desk as its leads see it: bulk actions, gold items, the trail."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import Admin, DeskLead, Golden
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import GoldId, ReviewId
from verifier_service.api.problems import after_put, documented
from verifier_service.api.reviews import acting
from verifier_service.bootstrap import desk as events
from verifier_service.domain.gold import GoldItem, GoldList, GoldStored, NewGold
from verifier_service.domain.review_queues import DEFAULT_QUEUE
from verifier_service.domain.review_trail import TrailPage
from verifier_service.domain.reviewer_error import Agreement
from verifier_service.domain.reviews import (
    BulkAnswer,
    QueueName,
    ReassignRequest,
    RetractRequest,
    Review,
    WithdrawRequest,
)
from verifier_service.domain.trajectories import Identifier
from verifier_service.services.desk_quality import agreement, trail, trail_csv
from verifier_service.services.queues import add_gold, retire_gold

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])

CSV = "text/csv; charset=utf-8"
MAX_PAGE = 10_000


@router.post("/reassign", responses=documented(), openapi_extra=described(ReassignRequest))
def reassign(
    caller: DeskLead,
    wanted: Annotated[ReassignRequest, Depends(body_of(ReassignRequest))],
    context: InContext,
) -> BulkAnswer:
    """Keep items for one person for some hours, or for nobody; claims on them end. Scope: `operate`.

    Each by itself: an item that has ended, or that the person has voted on or submitted, is refused with a
    code, and the others go on. All are refused for a person who may not review here (`no_such_reviewer`,
    `reviewer_disabled`, `not_a_reviewer`): a user must be enabled and have a role that reviews, other names
    must own a key or have reviewed before.
    """
    return events.reassign(context.service, caller, wanted.reviews, wanted.to, wanted.hours, wanted.reason)


@router.post("/withdraw", responses=documented(), openapi_extra=described(WithdrawRequest))
def withdraw(
    caller: DeskLead,
    wanted: Annotated[WithdrawRequest, Depends(body_of(WithdrawRequest))],
    context: InContext,
) -> BulkAnswer:
    """Take items off the desk, unscored; refused for those that have a vote. Scope: `operate`.

    Rewards that rest on cheaper tiers stay as they are; where nothing else estimates the outcome the record
    is `unscored` with the reason `review_withdrawn`. There is no bulk verdict.
    """
    return events.withdraw(context.service, caller, wanted.reviews, wanted.reason)


@router.post(
    "/gold",
    responses={201: {"model": GoldStored, "description": "A new item"}, **documented(409)},
    openapi_extra=described(NewGold),
)
def add(
    caller: Golden,
    wanted: Annotated[NewGold, Depends(body_of(NewGold))],
    response: Response,
    context: InContext,
) -> GoldStored:
    """Store a known item of a queue, to be shown among the others. Scope: `gold`.

    201 when it is new, 200 for the same again, 409 for other content under the same id.
    """
    item, created = acting(context, caller, lambda tx: add_gold(tx, caller.project, wanted, caller.acts_as))
    response.status_code = after_put(created)
    return GoldStored(item=item, created=created)


@router.get("/gold", responses=documented())
def list_gold(
    caller: Golden,
    context: InContext,
    queue: QueueName | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> GoldList:
    """Known items, newest first. Scope: `gold`."""
    with context.service.store.read() as tx:
        return GoldList(items=tuple(tx.gold.listed(caller.project, queue, limit)))


@router.post("/gold/{gold}/retire", responses=documented(404))
def retire(gold: GoldId, caller: Golden, context: InContext) -> GoldItem:
    """Show a known item to nobody any more (idempotent). Scope: `gold`."""
    return acting(context, caller, lambda tx: retire_gold(tx, caller.project, gold, caller.acts_as))


@router.get("/agreement", responses=documented())
def get_agreement(
    caller: DeskLead,
    context: InContext,
    queue: QueueName = DEFAULT_QUEUE,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = MAX_PAGE,
) -> Agreement:
    """How far the reviewers of a queue agree, from its latest items in effect. Scope: `operate`.

    Kappa of verdicts (Cohen's for two raters, Fleiss' for more), intraclass correlation of each graded
    score, every reviewer's error on gold items and against what several people decided, and the scatter of
    measurements. `mistaken` is the probability that one vote of the queue is wrong.
    """
    with context.service.store.read() as tx:
        return agreement(tx, caller.project, queue, limit)


@router.get(
    "/trail",
    response_model=TrailPage,
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
        **documented(),
    },
)
def get_trail(
    caller: DeskLead,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    queue: QueueName | None = None,
    review: Identifier | None = None,
    actor: Annotated[str | None, Query(max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1_000,
    format: Literal["json", "csv"] = "json",
) -> TrailPage | Response:
    """What people did at the desk, oldest first, after a cursor. Scope: `operate`.

    As CSV, the cursor of the next page is in `Next-Cursor`, and cells that a spreadsheet would run as a
    formula begin with an apostrophe.
    """
    with context.service.store.read() as tx:
        page = trail(tx, caller.project, after=after, limit=limit, queue=queue, review=review, actor=actor)
    if format == "json":
        return page
    headers = {
        "Content-Disposition": 'attachment; filename="trail.csv"',
        "X-Content-Type-Options": "nosniff",
        "Next-Cursor": str(page.cursor),
    }
    return Response(trail_csv(page), media_type=CSV, headers=headers)


@router.post("/{review}/retract", responses=documented(404, 409), openapi_extra=described(RetractRequest))
def retract(
    review: ReviewId,
    caller: Admin,
    wanted: Annotated[RetractRequest, Depends(body_of(RetractRequest))],
    context: InContext,
) -> Review:
    """Take an effective decision back. Scope: `admin`.

    A retraction of the check's evidence is begun under the id `review-…`; records that rested on it are
    superseded. With `again` people are asked again in open runs. 409 when nothing is in effect, and when it
    was taken back before with other words; the message says how to have people asked again.
    """
    return events.take_back(context.service, caller, review, wanted)
