"""Who works: the threads that drain tiers, on every machine."""

from __future__ import annotations

from fastapi import APIRouter

from verifier_service.api.auth import Operator
from verifier_service.api.context import InContext
from verifier_service.api.problems import documented
from verifier_service.domain.workers import WorkerList

router = APIRouter(prefix="/v1/workers", tags=["workers"])


@router.get("", responses=documented())
def list_workers(_: Operator, context: InContext) -> WorkerList:
    """Every worker with its resources, verifiers, current checks and counts: the living first. Those that
    have ended are shown for a day. Workers serve all projects. Scope: `operate`."""
    with context.service.store.read() as tx:
        return WorkerList(workers=tuple(tx.workers.listed()))
