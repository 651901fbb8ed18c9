"""Trajectories: taken in, and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from verifier_service.api.auth import Submitter
from verifier_service.api.batches import Batch, parse_batch
from verifier_service.api.bodies import described
from verifier_service.api.context import Context, InContext
from verifier_service.api.envelopes import NO_WAIT, BatchRequest, item_error, rank_of
from verifier_service.api.expectations import expected_costs
from verifier_service.api.paths import RunId, TrajectoryId
from verifier_service.api.problems import after_wait, documented
from verifier_service.api.threads import by_size
from verifier_service.api.waiting import Seen, attended
from verifier_service.domain.costs import ExpectedCost
from verifier_service.domain.errors import LimitExceeded
from verifier_service.domain.pricing import Pricing
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.wire import (
    CancelResponse,
    SubmitResponse,
    SubmitResult,
    SubmitStatus,
    WaitSpec,
)
from verifier_service.services.intake import Intake

router = APIRouter(prefix="/v1/runs/{run}/trajectories", tags=["trajectories"])

NOT_YET = "The wait is not met for every item"
EAGER_S = 4.0  # who waits that long may be answered after the fast checks and not before
RECORD_BYTES = 1_000  # a reward record in JSON, roughly


@router.post(
    "",
    response_model=SubmitResponse,
    responses={
        202: {"model": SubmitResponse, "description": "Not all items are met yet"},
        **documented(409),
    },
    openapi_extra=described(BatchRequest),
)
async def submit(run: RunId, request: Request, caller: Submitter, context: InContext) -> Response:
    """Take trajectories in; with ``wait``, hold the answer until their rewards have come so far.

    Scope: `submit`. A bad item is `invalid` and its neighbours go on. Unknown runs are created. With 429
    (`rate_limited`, `queue_full`) nothing of the batch is stored: send it again after `Retry-After`.
    A full queue refuses only batches with something new to it.
    """
    came_at = asyncio.get_running_loop().time()
    raw = await request.body()
    batch: Batch = await by_size(len(raw), parse_batch, raw, context.service.settings.max_batch)
    wait = allowed(context, batch.wait or NO_WAIT)
    items = [parsed.item for parsed in batch.items]
    await context.admission.batch(caller, run, items)
    taken = await context.gatherer.submit(
        caller.project, run, items, eager=wait.seconds >= EAGER_S, submitter=caller.owner
    )
    pks = {
        result.pk: result.id for result in taken.results if result.pk is not None and result.id is not None
    }
    watching = context.hub.rewards(
        caller.project,
        run,
        pks,
        rank=rank_of(wait),
        seconds=wait.seconds,
        linger=wait.linger,
        caller=caller.id,
        came_at=came_at,
        issued=taken.issued,
    )
    seen = await attended(request, watching)
    costs = await by_size(len(raw), _costs, context.expectations.prices(), caller.project, batch, taken)
    answer = _answer(batch, taken, seen, costs)
    return await json_answer(answer, len(batch.items), after_wait(seen.met))


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


def _costs(pricing: Pricing, project: str, batch: Batch, taken: Intake) -> list[ExpectedCost | None]:
    """Of every item that was accepted."""
    pairs = zip(batch.items, taken.results, strict=True)
    items = [one.item if result.status == "accepted" else None for one, result in pairs]
    sound = [item if isinstance(item, TrajectorySubmission) else None for item in items]
    return expected_costs(pricing, project, taken.ladders, sound)


def _answer(
    batch: Batch, taken: Intake, seen: Seen, costs: Sequence[ExpectedCost | None]
) -> SubmitResponse:
    results = []
    for parsed, result, cost in zip(batch.items, taken.results, costs, strict=True):
        name = result.id if result.id is not None else parsed.id
        results.append(
            SubmitResult(
                id=name,
                status=SubmitStatus(result.status),
                error=item_error(result.error) if result.error is not None else None,
                reward=seen.records.get(name) if result.pk is not None and name is not None else None,
                met=result.pk not in seen.left,
                expected_cost=cost,
            )
        )
    return SubmitResponse(results=tuple(results), complete=seen.met, cursor=taken.cursor)
