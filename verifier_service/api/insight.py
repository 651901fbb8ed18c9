"""How the scheduler decided, how well it foretold, and what that cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from verifier_service.api.auth import Operator, Reader
from verifier_service.api.context import InContext
from verifier_service.api.paths import AlarmId, RunId
from verifier_service.api.problems import documented
from verifier_service.domain.errors import NotFound
from verifier_service.domain.insight import RunCalibration, RunEconomics
from verifier_service.domain.models import AlarmList, LadderKey, ModelList, RaisedAlarm
from verifier_service.domain.wire import DecisionPage
from verifier_service.services import insight

MAX_PAGE = 1_000
MAX_ALARMS = 500

router = APIRouter(prefix="/v1", tags=["scheduler"])


@router.get("/runs/{run}/calibration", responses=documented(404))
def get_calibration(run: RunId, caller: Reader, context: InContext) -> RunCalibration:
    """How the beliefs, on which a run's dear checks were requested, compared with what those found: bias,
    coverage and reliability by ladder, pair of tiers and build of the verifier; and whether, by the audits,
    candidates deserved what they were paid more and more. Scope: `read`."""
    with context.service.store.read() as tx:
        return insight.run_calibration(tx, context.service.beliefs, caller.project, run)


@router.get("/runs/{run}/economics", responses=documented(404))
def get_economics(run: RunId, caller: Reader, context: InContext) -> RunEconomics:
    """What was spent at each tier and what it was worth, the price of a credit over time, and what it
    would have cost to send everything to one tier. Scope: `read`."""
    with context.service.store.read() as tx:
        return insight.run_economics(tx, caller.project, run)


@router.get("/runs/{run}/decisions", responses=documented(404))
def list_decisions(
    run: RunId,
    caller: Reader,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=2**53, description="Position behind which to read.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> DecisionPage:
    """The log of decisions, oldest first: what was decided, why, at what price and on what belief.

    Scope: `read`.
    """
    with context.service.store.read() as tx:
        tx.runs.get(caller.project, run)
        lines, last = tx.decisions.page(caller.project, run, after, limit)
    return DecisionPage(decisions=tuple(lines), next=after if last is None else last)


@router.get("/models", responses=documented())
def list_models(caller: Reader, context: InContext) -> ModelList:
    """What has been learned: the latest model of every ladder version. Scope: `read`."""
    with context.service.store.read() as tx:
        return ModelList(models=tuple(tx.models.summaries(caller.project)))


@router.get("/alarms", responses=documented())
def list_alarms(caller: Reader, context: InContext) -> AlarmList:
    """Where audits no longer look like earlier ones: drift, or a policy that games a cheap verifier. Newest
    first. Scope: `read`."""
    with context.service.store.read() as tx:
        return AlarmList(alarms=tuple(tx.alarms.of_project(caller.project, MAX_ALARMS)))


@router.post("/alarms/{alarm}/clear", responses=documented(404))
def clear_alarm(alarm: AlarmId, caller: Operator, context: InContext) -> RaisedAlarm:
    """End an alarm, once its cause is known: the stratum is treated as before. Scope: `operate`."""
    found = context.service.unit(lambda tx: insight.clear_alarm(tx, caller.project, alarm))
    if found is None:
        raise NotFound("unknown_alarm", f"no alarm {alarm!r} stands")
    context.service.learn(LadderKey(caller.project, found.ladder, found.ladder_version))
    return found
