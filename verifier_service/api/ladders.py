"""Ladders: immutable versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import Admin, Reader
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import LadderName
from verifier_service.api.problems import after_put, documented
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.wire import LadderList, LadderStored
from verifier_service.services import tenants

router = APIRouter(prefix="/v1/ladders", tags=["ladders"])


@router.get("", responses=documented())
def list_ladders(caller: Reader, context: InContext) -> LadderList:
    """The latest version of every ladder of the project. Scope: `read`."""
    with context.service.store.read() as tx:
        return LadderList(ladders=tuple(tx.ladders.of_project(caller.project)))


@router.get("/{name}", responses=documented(404))
def get_ladder(
    name: LadderName,
    caller: Reader,
    context: InContext,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Default: the latest.")] = None,
) -> Ladder:
    """One version of a ladder. Scope: `read`."""
    with context.service.store.read() as tx:
        if version is not None:
            return tx.ladders.version(caller.project, name, version)
        latest = tx.ladders.latest(caller.project, name)
    if latest is None:
        raise NotFound("unknown_ladder", f"no ladder is called {name!r}")
    return latest


@router.put(
    "/{name}",
    responses={201: {"model": LadderStored, "description": "A new version"}, **documented()},
    openapi_extra=described(LadderSpec),
)
def put_ladder(
    name: LadderName,
    caller: Admin,
    spec: Annotated[LadderSpec, Depends(body_of(LadderSpec))],
    response: Response,
    context: InContext,
) -> LadderStored:
    """Store a ladder: a changed one is a new version, the same content the same version. Scope: `admin`."""
    if spec.name != name:
        raise InvalidInput("name_mismatch", f"the ladder calls itself {spec.name!r}", field="name")
    service = context.service
    ladder, created = service.unit(lambda tx: tenants.put_ladder(tx, service.catalog, caller.project, spec))
    response.status_code = after_put(created)
    return LadderStored(ladder=ladder, created=created)
