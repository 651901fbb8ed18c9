"""Rewards: asked for by id, or read from the run's feed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from verifier_service.api.auth import Reader
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.envelopes import NO_WAIT, rank_of
from verifier_service.api.paths import RunId
from verifier_service.api.problems import after_wait, documented
from verifier_service.api.threads import in_thread
from verifier_service.api.trajectories import allowed, json_answer
from verifier_service.api.waiting import attended
from verifier_service.domain.cases import Standing
from verifier_service.domain.ports.runs import RunMark
from verifier_service.domain.runs import Key
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import MAX_WAIT_S, RewardsAnswer, RewardsPage, RewardsQuery, WaitSpec

router = APIRouter(prefix="/v1/runs/{run}/rewards", tags=["rewards"])

MAX_PAGE = 1_000
MAX_CURSOR = 2**53
Status = Literal["unscored", "provisional", "final", "retracted"]


@router.post(
    "/query",
    response_model=RewardsAnswer,
    responses={
        202: {"model": RewardsAnswer, "description": "Not all items are met yet"},
        **documented(404, 410),
    },
    openapi_extra=described(RewardsQuery),
)
async def query(
    run: RunId,
    caller: Reader,
    wanted: Annotated[RewardsQuery, Depends(body_of(RewardsQuery))],
    request: Request,
    context: InContext,
) -> Response:
    """The latest record per id, without uploading again. Scope: `read`.

    Ids that the run does not have are listed as `unknown` and count as met.
    """
    wait = allowed(context, wanted.wait or NO_WAIT)
    found, cursor = await in_thread(_find, context, caller.project, run, wanted.ids)
    pks = {standing.pk: name for name, standing in found.items()}
    watching = context.hub.rewards(
        caller.project,
        run,
        pks,
        rank=rank_of(wait),
        seconds=wait.seconds,
        linger=wait.linger,
        caller=caller.id,
    )
    seen = await attended(request, watching)
    answer = RewardsAnswer(
        records=tuple(seen.records[name] for name in dict.fromkeys(wanted.ids) if name in seen.records),
        unknown=tuple(name for name in dict.fromkeys(wanted.ids) if name not in found),
        pending=tuple(name for name, standing in found.items() if standing.pk in seen.left),
        complete=seen.met,
        cursor=cursor,
    )
    return await json_answer(answer, len(answer.records), after_wait(seen.met))


@router.get("", response_model=RewardsPage, responses=documented(404, 410))
async def feed(
    run: RunId,
    request: Request,
    caller: Reader,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=MAX_CURSOR, description="Position after which to read.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 256,
    wait: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the first record.")
    ] = 0.0,
    status: Annotated[Status | None, Query(description="Only records of this status.")] = None,
) -> Response:
    """The run's records in commit order: none is skipped, none comes twice. Scope: `read`.

    With `wait`, an empty page is answered only when nothing has come for so many seconds.
    """
    seconds = allowed(context, WaitSpec(seconds=wait)).seconds
    only = RewardStatus(status) if status is not None else None
    page = await attended(request, _page(context, caller, run, after, limit, only, seconds))
    return await json_answer(page, len(page.records), after_wait(met=True))


async def _page(
    context: Context,
    caller: Key,
    run: str,
    after: int,
    limit: int,
    status: RewardStatus | None,
    seconds: float,
) -> RewardsPage:
    project, hub = caller.project, context.hub
    page = await in_thread(_read, context, project, run, after, limit, status)
    until = time.monotonic() + seconds
    while not page.records and (left := until - time.monotonic()) > 0:
        if not await hub.run(project, run, beyond(page.cursor), seconds=left, caller=caller.id):
            break
        page = await in_thread(_read, context, project, run, page.cursor, limit, status)
    return page


def beyond(cursor: int) -> Callable[[RunMark], bool]:
    """Whether the feed of a run goes on after a cursor."""
    return lambda mark: mark.feed > cursor


def _read(
    context: Context, project: str, run: str, after: int, limit: int, status: RewardStatus | None
) -> RewardsPage:
    """One page. A filter reads past what it leaves out: a page that is not full ends at the head."""
    with context.service.store.read() as tx:
        head = tx.rewards.head(project, run)
        rewards = tx.rewards.feed(project, run, after, limit, status)
    full = len(rewards) == limit
    return RewardsPage(records=tuple(rewards), cursor=rewards[-1].seq if full else max(head, after))


def _find(
    context: Context, project: str, run: str, ids: tuple[str, ...]
) -> tuple[dict[str, Standing], int]:
    with context.service.store.read() as tx:
        return tx.trajectories.find(project, run, set(ids)), tx.rewards.head(project, run)
