"""Hindsight: what went wrong in a run's trajectories, to train on."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from verifier_service.api.auth import Reader
from verifier_service.api.context import Context, InContext
from verifier_service.api.paths import RunId
from verifier_service.api.problems import documented
from verifier_service.api.rewards import MAX_CURSOR, beyond
from verifier_service.api.threads import in_thread
from verifier_service.api.trajectories import allowed, json_answer
from verifier_service.api.waiting import attended
from verifier_service.domain.hindsight import HindsightPage
from verifier_service.domain.runs import Key
from verifier_service.domain.wire import MAX_WAIT_S, WaitSpec
from verifier_service.services.hindsight import hindsight_page

router = APIRouter(prefix="/v1/runs/{run}/hindsight", tags=["rewards"])

MAX_PAGE = 500


@router.get("", response_model=HindsightPage, responses=documented(404, 410))
async def export(
    run: RunId,
    request: Request,
    caller: Reader,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=MAX_CURSOR, description="Feed position after which to read.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    wait: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the first record.")
    ] = 0.0,
) -> Response:
    """Trajectories with hints or a rejected outcome, up to the first mistake, in feed order. Scope: `read`.

    Each trajectory comes by its newest record; a later revision comes again, with `supersedes`, or is named
    in `withdrawn`. The problem's reference is no part of it, and `withheld` counts the hints that repeat a
    value of it.
    """
    seconds = allowed(context, WaitSpec(seconds=wait)).seconds
    page = await attended(request, _page(context, caller, run, after, limit, seconds))
    return await json_answer(page, len(page.records), 200)


async def _page(
    context: Context, caller: Key, run: str, after: int, limit: int, seconds: float
) -> HindsightPage:
    project, hub = caller.project, context.hub
    page = await in_thread(_read, context, project, run, after, limit)
    until = time.monotonic() + seconds
    while not (page.records or page.withdrawn) and (left := until - time.monotonic()) > 0:
        going_on = page.more or await hub.run(
            project, run, beyond(page.cursor), seconds=left, caller=caller.id
        )
        if not going_on:
            break
        page = await in_thread(_read, context, project, run, page.cursor, limit)
    return page


def _read(context: Context, project: str, run: str, after: int, limit: int) -> HindsightPage:
    with context.service.store.read() as tx:
        return hindsight_page(tx, project, run, after=after, limit=limit)
