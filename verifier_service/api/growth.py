"""Unfinished trajectories, turn by turn."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from verifier_service.api.auth import Submitter
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.envelopes import GrowAnswer, Growth, rank_of
from verifier_service.api.paths import RunId, TrajectoryId
from verifier_service.api.problems import after_wait, documented
from verifier_service.api.threads import in_thread
from verifier_service.api.trajectories import NOT_YET, allowed, json_answer
from verifier_service.api.waiting import Seen, attended
from verifier_service.domain.cases import Standing
from verifier_service.domain.wire import WaitSpec
from verifier_service.services.grow import Grown

router = APIRouter(prefix="/v1/runs/{run}/trajectories", tags=["trajectories"])

DEFAULT_WAIT_S = 5.0


@router.post(
    "/{trajectory}/turns",
    response_model=GrowAnswer,
    responses={202: {"model": GrowAnswer, "description": NOT_YET}, **documented(404, 409)},
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
    wait = allowed(context, growth.wait or WaitSpec(until="fast", seconds=min(DEFAULT_WAIT_S, most)))
    await context.admission.turns(caller, run, trajectory, growth)
    grown, before = await in_thread(_grow, context, caller.project, run, trajectory, growth)
    watching = context.hub.rewards(
        caller.project,
        run,
        {grown.pk: trajectory},
        rank=rank_of(wait),
        seconds=wait.seconds,
        beyond=before if grown.changed else 0,
        caller=caller.id,
    )
    seen = await attended(request, watching)
    standing = await in_thread(_standing, context, grown.pk)
    answer = _answer(standing, grown, growth, seen)
    return await json_answer(answer, 1 + standing.n_turns // 100, after_wait(seen.met))


def _grow(context: Context, project: str, run: str, trajectory: str, growth: Growth) -> tuple[Grown, int]:
    """Grow, and the feed position of what was known before the new turns were judged."""
    with context.service.store.read() as tx:
        found = tx.trajectories.find(project, run, [trajectory])
    before = found[trajectory].seq if trajectory in found else None
    grown = context.service.grow(
        project,
        run,
        trajectory,
        index=growth.index,
        turns=growth.turns,
        answer=growth.answer,
        finished=growth.finished,
    )
    return grown, before or 0


def _standing(context: Context, pk: int) -> Standing:
    with context.service.store.read() as tx:
        return tx.trajectories.standings([pk])[pk]


def _answer(standing: Standing, grown: Grown, growth: Growth, seen: Seen) -> GrowAnswer:
    reward = seen.records.get(standing.id)
    end = growth.index + len(growth.turns)
    judged = reward.process[growth.index : end] if reward is not None else ()
    return GrowAnswer(
        id=standing.id,
        changed=grown.changed,
        n_turns=standing.n_turns,
        finished=standing.finished,
        process=(*judged, *[None] * (len(growth.turns) - len(judged))),
        complete=seen.met,
        reward=reward,
    )
