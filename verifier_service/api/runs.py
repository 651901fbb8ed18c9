"""Runs: declared, watched, closed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from verifier_service.api.auth import Operator, Reader
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.paths import RunId
from verifier_service.api.problems import after_put, after_wait, documented
from verifier_service.api.threads import in_thread
from verifier_service.api.trajectories import allowed, json_answer
from verifier_service.api.waiting import attended
from verifier_service.domain.errors import NotFound
from verifier_service.domain.runs import RunReport, RunSpec, RunState
from verifier_service.domain.wire import MAX_WAIT_S, RunList, WaitSpec

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.get("", responses=documented())
def list_runs(caller: Reader, context: InContext) -> RunList:
    """The project's runs, newest first. Scope: `read`."""
    with context.service.store.read() as tx:
        return RunList(runs=tx.runs.of_project(caller.project))


@router.put(
    "/{run}",
    responses={201: {"model": RunReport, "description": "The run is new"}, **documented(409, 410)},
    openapi_extra=described(RunSpec),
)
def put_run(
    run: RunId,
    caller: Operator,
    spec: Annotated[RunSpec, Depends(body_of(RunSpec))],
    response: Response,
    context: InContext,
) -> RunReport:
    """Declare a run, or change its budgets and objective. Scope: `operate`."""
    created = not _exists(context, caller.project, run)
    context.service.put_run(caller.project, run, spec)
    response.status_code = after_put(created)
    return _report(context, caller.project, run)


@router.get("/{run}", responses=documented(404))
def get_run(run: RunId, caller: Reader, context: InContext) -> RunReport:
    """Spec, state, spend, and counts per tier. Scope: `read`."""
    return _report(context, caller.project, run)


@router.post(
    "/{run}/close",
    response_model=RunReport,
    responses={202: {"model": RunReport, "description": "The run is closing"}, **documented(404)},
)
async def close_run(
    run: RunId,
    request: Request,
    caller: Operator,
    context: InContext,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the close.")] = 0.0,
) -> Response:
    """Take no more trajectories, withdraw held demands and finalise every record. Scope: `operate`.

    Idempotent. 200 once the run is closed, 202 while it is closing.
    """
    seconds = allowed(context, WaitSpec(seconds=wait)).seconds
    await in_thread(context.service.close_run, caller.project, run)
    ending = context.hub.run(
        caller.project,
        run,
        lambda mark: mark.state is RunState.CLOSED,
        seconds=seconds,
        caller=caller.id,
    )
    closed = await attended(request, ending)
    report = await in_thread(_report, context, caller.project, run)
    return await json_answer(report, 1, after_wait(closed))


def _exists(context: Context, project: str, run: str) -> bool:
    with context.service.store.read() as tx:
        try:
            tx.runs.get(project, run)
        except NotFound:
            return False
    return True


def _report(context: Context, project: str, run: str) -> RunReport:
    with context.service.store.read() as tx:
        return tx.runs.report(project, run)
