"""A run seen from above: its trajectories page by page, and figures that are counted now and then."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from verifier_service.api.auth import Operator, Reader
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import RunId
from verifier_service.api.problems import documented
from verifier_service.bootstrap import overviews
from verifier_service.bootstrap.operations import cancel_trajectories
from verifier_service.domain.cursors import MAX_CURSOR, pk_of
from verifier_service.domain.listings import (
    GroupPrefix,
    ListedStatus,
    QueueList,
    RewardDistribution,
    RunSpending,
    TrajectoryPage,
)
from verifier_service.domain.operations import ActAnswer, TrajectoriesRequest
from verifier_service.services import overview

MAX_PAGE = 1_000

Cursor = Annotated[
    str | None, Query(min_length=1, max_length=MAX_CURSOR, description="`next` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]

router = APIRouter(prefix="/v1", tags=["runs"])


@router.get("/runs/{run}/trajectories", responses=documented(404))
def list_trajectories(
    run: RunId,
    caller: Reader,
    context: InContext,
    after: Cursor = None,
    limit: Limit = 100,
    status: Annotated[ListedStatus | None, Query(description="`pending`: without a record yet.")] = None,
    group: Annotated[GroupPrefix | None, Query(description="Groups that begin with this.")] = None,
) -> TrajectoryPage:
    """A run's trajectories, newest first. Scope: `read`.

    With a filter a page may be shorter than `limit`: go on until `next` is null.
    """
    place = pk_of(after)
    with context.service.store.read() as tx:
        return overview.trajectories(
            tx, caller.project, run, after=place, limit=limit, status=status, group=group
        )


@router.get("/runs/{run}/distribution", responses=documented(404))
def get_distribution(run: RunId, caller: Reader, context: InContext) -> RewardDistribution:
    """The histogram of a run's rewards, by status. Scope: `read`. On large runs it is counted now and then:
    `as_of` says when."""
    return overviews.distribution(context.service, caller.project, run).now()


@router.get("/runs/{run}/spending", responses=documented(404))
def get_spending(run: RunId, caller: Reader, context: InContext) -> RunSpending:
    """Spend against budget, and what the policy had asked for over time. Scope: `read`."""
    return overviews.spending(context.service, caller.project, run).now()


@router.get("/queues", responses=documented())
def list_queues(caller: Operator, context: InContext) -> QueueList:
    """What is queued, runs and waits for people, by tier, and since when. Scope: `operate`."""
    return overviews.queues(context.service, caller.project).now()


@router.post(
    "/runs/{run}/trajectories/cancel",
    responses=documented(404),
    openapi_extra=described(TrajectoriesRequest),
)
def cancel_many(
    run: RunId,
    caller: Operator,
    wanted: Annotated[TrajectoriesRequest, Depends(body_of(TrajectoriesRequest))],
    context: InContext,
) -> ActAnswer:
    """Withdraw what is still wanted for up to 1,000 trajectories. Scope: `operate`. Idempotent."""
    return cancel_trajectories(context.service, caller.project, run, wanted.ids)
