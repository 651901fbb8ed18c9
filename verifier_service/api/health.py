"""Is the process there, and can it do its work."""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter, Response

from verifier_service.api.context import InContext
from verifier_service.domain.records import Record

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])


class Health(Record):
    """``open_waits``: requests that wait for something at this moment."""

    status: Literal["ok"] = "ok"
    open_waits: int


class Readiness(Record):
    """What the service needs to do its work."""

    ready: bool
    database: bool
    workers: bool


@router.get("/healthz")
async def healthz(context: InContext) -> Health:
    """The process answers. No key needed."""
    return Health(open_waits=context.hub.open_waits)


@router.get("/readyz", responses={503: {"model": Readiness, "description": "Not ready"}})
def readyz(context: InContext, response: Response) -> Readiness:
    """The database is reachable and migrated, the workers live. No key needed."""
    database = True
    try:
        with context.service.store.read() as tx:
            database = context.service.settings.project in tx.projects.names()
    except Exception:
        log.exception("the database is not ready")
        database = False
    workers = context.alive()
    ready = database and workers
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, database=database, workers=workers)
