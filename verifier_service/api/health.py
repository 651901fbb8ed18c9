"""Is the process there, and can it do its work."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response

from verifier_service.api.context import InContext
from verifier_service.api.problems import of_readiness
from verifier_service.domain.records import Record

router = APIRouter(tags=["health"])


class Health(Record):
    """``open_waits``: requests that wait for something at this moment."""

    status: Literal["ok"] = "ok"
    open_waits: int


class Readiness(Record):
    """What the service needs to do its work: a migrated ``database`` that answers, living ``workers`` of
    this process, and some process that sweeps. ``missing`` names what there is not."""

    ready: bool
    database: bool
    workers: bool
    sweep: bool
    missing: tuple[str, ...] = ()


@router.get("/healthz")
async def healthz(context: InContext) -> Health:
    """The process answers. No key needed."""
    return Health(open_waits=context.hub.open_waits)


@router.get("/readyz", responses={503: {"model": Readiness, "description": "Not ready"}})
async def readyz(context: InContext, response: Response) -> Readiness:
    """Whether the service can do its work, answered within three seconds. No key needed."""
    found = await context.probe.look()
    parts = {"database": found.database, "workers": context.alive(), "sweep": found.sweep}
    missing = tuple(name for name, there in parts.items() if not there)
    response.status_code = of_readiness(not missing)
    return Readiness(ready=not missing, missing=missing, **parts)
