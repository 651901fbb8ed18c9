"""Trajectories: taken in, grown turn by turn, cancelled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from verifier_service.api.auth import Submitter
from verifier_service.api.batches import Batch, parse_batch
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.envelopes import NO_WAIT, BatchRequest, GrowAnswer, Growth, item_error, rank_of
from verifier_service.api.paths import RunId, TrajectoryId
from verifier_service.api.problems import LimitExceeded, documented
from verifier_service.api.threads import by_size, in_thread
from verifier_service.api.waiting import Seen, attended
from verifier_service.domain.cases import Standing
from verifier_service.domain.wire import (
    CancelResponse,
    SubmitResponse,
    SubmitResult,
    SubmitStatus,
    WaitSpec,
)
from verifier_service.services.intake import Intake

router = APIRouter(prefix="/v1/runs/{run}/trajectories", tags=["trajectories"])

GROW_WAIT_S = 5.0
NOT_YET = "The wait is not met for every item"
RECORD_BYTES = 1_000  # a reward record in JSON, roughly


@router.post(
    "",
    response_model=SubmitResponse,
    responses={
        202: {"model": SubmitResponse, "description": "Not all items are met yet"},
        **documented(409, 413),
    },
    openapi_extra=described(BatchRequest),
)
async def submit(run: RunId, request: Request, caller: Submitter, context: InContext) -> Response:
    """Take trajectories in; with ``wait``, hold the answer until their rewards have come so far.

    Scope: `submit`. A bad item is `invalid` and its neighbours go on. Unknown runs are created.
    """
    raw = await request.body()
    batch: Batch = await by_size(len(raw), parse_batch, raw, context.service.settings.max_batch)
    wait = allowed(context, batch.wait or NO_WAIT)
    taken = await context.gatherer.submit(caller.project, run, [parsed.item for parsed in batch.items])
    pks = {
        result.pk: result.id for result in taken.results if result.pk is not None and result.id is not None
    }
    watching = context.hub.rewards(caller.project, run, pks, rank=rank_of(wait), seconds=wait.seconds)
    seen = await attended(request, watching)
    answer = _answer(batch, taken, seen)
    return await json_answer(answer, len(batch.items), 200 if seen.met else 202)


@router.post(
    "/{trajectory}/turns",
    response_model=GrowAnswer,
    responses={202: {"model": GrowAnswer, "description": NOT_YET}, **documented(404, 409, 413)},
    openapi_extra=described(Growth),
)
async def grow(
    run: RunId,
    trajectory: TrajectoryId,
    caller: Submitter,
    growth: Annotated[Growth, Depends(body_of(Growth))],
    request: Request,
    context: InContext,
) -> Response:
    """Add turns to an unfinished trajectory; the process rewards of the new turns come back.

    Scope: `submit`. Idempotent by `index`.
    """
    most = context.service.settings.max_wait_s
    wait = allowed(context, growth.wait or WaitSpec(until="fast", seconds=min(GROW_WAIT_S, most)))
    before = await in_thread(_position, context, caller.project, run, trajectory)
    grown = await in_thread(
        lambda: context.service.grow(
            caller.project,
            run,
            trajectory,
            index=growth.index,
            turns=growth.turns,
            answer=growth.answer,
            finished=growth.finished,
        ),
    )
    watching = context.hub.rewards(
        caller.project,
        run,
        {grown.pk: trajectory},
        rank=rank_of(wait),
        seconds=wait.seconds,
        beyond=before if grown.changed else 0,
    )
    seen = await attended(request, watching)
    standing = await in_thread(_standing, context, grown.pk)
    end = growth.index + len(growth.turns)
    reward = seen.records.get(trajectory)
    judged = reward.process[growth.index : end] if reward is not None else ()
    answer = GrowAnswer(
        id=trajectory,
        changed=grown.changed,
        n_turns=standing.n_turns,
        finished=standing.finished,
        process=(*judged, *[None] * (len(growth.turns) - len(judged))),
        complete=seen.met,
        reward=reward,
    )
    return await json_answer(answer, 1 + standing.n_turns // 100, 200 if seen.met else 202)


@router.post("/{trajectory}/cancel", responses=documented(404))
def cancel(run: RunId, trajectory: TrajectoryId, caller: Submitter, context: InContext) -> CancelResponse:
    """Withdraw what is still wanted for a trajectory. Scope: `submit`. Idempotent."""
    context.service.cancel(caller.project, run, trajectory)
    with context.service.store.read() as tx:
        latest = tx.rewards.latest(caller.project, run, [trajectory])
    return CancelResponse(id=trajectory, cancelled=True, reward=latest.get(trajectory))


def allowed(context: Context, wait: WaitSpec) -> WaitSpec:
    """The wait, when it is within the server's maximum. Raises ``LimitExceeded``."""
    most = context.service.settings.max_wait_s
    if wait.seconds > most:
        message = f"a wait may last at most {most:g} seconds"
        raise LimitExceeded("wait_too_long", message, limit=most, field="wait.seconds")
    return wait


async def json_answer(answer: BaseModel, records: int, status: int) -> Response:
    """A JSON response of about so many records, dumped off the loop when it is large."""
    content = await by_size(records * RECORD_BYTES, lambda: answer.model_dump_json(by_alias=True).encode())
    return Response(content, status_code=status, media_type="application/json")


def _position(context: Context, project: str, run: str, trajectory: str) -> int:
    """Feed position of the trajectory's latest record: what is known before its new turns are judged."""
    with context.service.store.read() as tx:
        found = tx.trajectories.find(project, run, [trajectory])
    return (found[trajectory].seq or 0) if trajectory in found else 0


def _standing(context: Context, pk: int) -> Standing:
    with context.service.store.read() as tx:
        return tx.trajectories.standings([pk])[pk]


def _answer(batch: Batch, taken: Intake, seen: Seen) -> SubmitResponse:
    results = []
    for parsed, result in zip(batch.items, taken.results, strict=True):
        name = result.id if result.id is not None else parsed.id
        results.append(
            SubmitResult(
                id=name,
                status=SubmitStatus(result.status),
                error=item_error(result.error) if result.error is not None else None,
                reward=seen.records.get(name) if result.pk is not None and name is not None else None,
            )
        )
    return SubmitResponse(results=tuple(results), complete=seen.met, cursor=taken.cursor)
