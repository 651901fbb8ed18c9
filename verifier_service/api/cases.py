"""The whole case of one trajectory: what was asked, found, decided and issued, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fastapi import APIRouter, Response

from verifier_service.api.auth import Reader
from verifier_service.api.context import InContext
from verifier_service.api.envelopes import CaseAnswer
from verifier_service.api.paths import RunId, TrajectoryId
from verifier_service.api.problems import documented
from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.history import Queueing
from verifier_service.domain.reasons import waiting_for
from verifier_service.domain.runs import Scope
from verifier_service.domain.wire import CheckLine, DemandLine
from verifier_service.services.inspect_case import WholeCase, whole_case

router = APIRouter(prefix="/v1/runs/{run}/trajectories", tags=["trajectories"])


@router.get("/{trajectory}", response_model=CaseAnswer, responses=documented(404))
def inspect(run: RunId, trajectory: TrajectoryId, caller: Reader, context: InContext) -> Response:
    """The whole case. Scope: `read`; the reference is shown only to keys that hold `gold` as well."""
    with context.service.store.read() as tx:
        whole = whole_case(tx, context.service.catalog, caller.project, run, trajectory)
        now = tx.now()
    answer = _shown(whole, now, gold=Scope.GOLD in caller.scopes)
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


def _shown(whole: WholeCase, now: float, *, gold: bool) -> CaseAnswer:
    standing, body = whole.case.standing, whole.body
    return CaseAnswer(
        id=standing.id,
        run=standing.run,
        group=standing.group,
        group_size=standing.group_size,
        policy_version=standing.policy_version,
        ladder=standing.ladder,
        ladder_version=standing.ladder_version,
        multiplicity=standing.multiplicity,
        finished=standing.finished,
        cancelled=standing.cancelled,
        status=standing.status,
        reward=standing.reward,
        revision=standing.revision,
        created_at=_time(standing.created_at),
        prompt=body.prompt,
        inputs=body.inputs,
        reference=body.reference if gold else None,
        reference_hidden=not gold,
        turns=tuple(turn.model_dump(mode="json", exclude_defaults=True) for turn in body.turns),
        answer=body.answer,
        canonical=standing.canonical,
        metadata=body.metadata,
        decision=standing.decision,
        waiting=tuple(waiting_for(whole.case, now, whole.queueing, whole.stuck)),
        demands=tuple(_demand(demand, whole.queueing) for demand in whole.case.demands),
        decisions=tuple(whole.decisions),
        rewards=tuple(whole.history),
    )


def _demand(demand: DemandView, queueing: Mapping[int, Queueing]) -> DemandLine:
    return DemandLine(
        path=demand.path,
        role=demand.role,
        tier=demand.tier,
        state=demand.state,
        reason=demand.reason,
        quote=demand.quote,
        rank=demand.rank,
        propensity=demand.propensity,
        decided_at=_when(demand.decided_at),
        check=_check(demand.check, queueing.get(demand.check.pk)) if demand.check is not None else None,
    )


def _check(check: CheckView, queueing: Queueing | None) -> CheckLine:
    """Without the check's inputs, which may hold references."""
    return CheckLine(
        key=check.key,
        verifier=check.verifier,
        tier=check.tier,
        state=check.state,
        attempt=check.attempt,
        payer=check.payer,
        credits=check.credits,
        cost=check.cost,
        evidence=check.evidence,
        failure=check.failure,
        not_before=_when(check.not_before),
        started_at=_when(check.started_at),
        version=None if queueing is None else queueing.version,
        build=None if queueing is None else queueing.build,
        retracted=check.retracted,
        attempts=() if queueing is None else queueing.attempts,
    )


def _when(seconds: float | None) -> datetime | None:
    return _time(seconds) if seconds is not None else None


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
