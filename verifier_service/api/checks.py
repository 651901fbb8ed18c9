"""Checks that need an operator: stuck ones, failed ones, asked again, cancelled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from verifier_service.api.auth import Operator
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.overview import Cursor, Limit
from verifier_service.api.paths import CheckKey
from verifier_service.api.problems import documented
from verifier_service.bootstrap.operations import cancel_checks, only, retry_checks
from verifier_service.domain.cursors import pk_of
from verifier_service.domain.operations import (
    ActAnswer,
    ActResult,
    ChecksRequest,
    FailedPage,
    FailureKind,
    StuckPage,
)
from verifier_service.domain.trajectories import Identifier
from verifier_service.services import troubles

router = APIRouter(prefix="/v1/checks", tags=["checks"])

Wanted = Annotated[ChecksRequest, Depends(body_of(ChecksRequest))]


@router.get("/stuck", responses=documented())
def list_stuck(caller: Operator, context: InContext, after: Cursor = None, limit: Limit = 100) -> StuckPage:
    """Queued checks that no living worker will claim, and why. Scope: `operate`."""
    place = pk_of(after)
    with context.service.store.read() as tx:
        return troubles.stuck(tx, context.service.catalog, caller.project, after=place, limit=limit)


@router.get("/failed", responses=documented())
def list_failed(
    caller: Operator,
    context: InContext,
    after: Cursor = None,
    limit: Limit = 100,
    run: Annotated[Identifier | None, Query(description="Of one run, also a closed one.")] = None,
    kind: Annotated[FailureKind | None, Query(description="Only failures of this kind.")] = None,
    scored: Annotated[
        bool, Query(description="Also those whose trajectories all have a reward without them.")
    ] = False,
) -> FailedPage:
    """Checks that ended without a verification and left a trajectory without a reward, newest first. Those
    of closed runs are shown only where the run is named. Scope: `operate`."""
    place = pk_of(after)
    with context.service.store.read() as tx:
        return troubles.failed(
            tx, caller.project, after=place, limit=limit, run=run, kind=kind, scored=scored
        )


@router.post("/retry", responses=documented(), openapi_extra=described(ChecksRequest))
def retry_many(caller: Operator, wanted: Wanted, context: InContext) -> ActAnswer:
    """Ask again for up to 1,000 checks that failed, or that were cancelled here. Scope: `operate`.

    For every trajectory of an open run that rests on the failure; what is found supersedes its record. Each
    check is paid as any other, within the budget of the run that pays. Idempotent: each item has its own
    answer.
    """
    return retry_checks(context.service, caller.project, wanted.checks, caller.id)


@router.post("/cancel", responses=documented(), openapi_extra=described(ChecksRequest))
def cancel_many(caller: Operator, wanted: Wanted, context: InContext) -> ActAnswer:
    """Cancel up to 1,000 checks that are queued, running or waiting for people, for everybody who wants
    them. Scope: `operate`. Idempotent."""
    return cancel_checks(context.service, caller.project, wanted.checks, caller.id)


@router.post("/{check}/retry", responses=documented(404, 409))
def retry_one(check: CheckKey, caller: Operator, context: InContext) -> ActResult:
    """Ask again for one check. Scope: `operate`. 409 where all runs that rest on it are closed."""
    return only(retry_checks(context.service, caller.project, [check], caller.id))


@router.post("/{check}/cancel", responses=documented(404))
def cancel_one(check: CheckKey, caller: Operator, context: InContext) -> ActResult:
    """Cancel one check. Scope: `operate`."""
    return only(cancel_checks(context.service, caller.project, [check], caller.id))
