"""Evidence that is taken back because its verifier was found to be wrong."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from verifier_service.api.auth import Admin
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import RetractionId
from verifier_service.api.problems import after_wait, documented
from verifier_service.domain.retractions import (
    NewRetraction,
    Retraction,
    RetractionAnswer,
    RetractionList,
    RetractionState,
)
from verifier_service.services.retract import asked
from verifier_service.services.retract import reverify as again

router = APIRouter(prefix="/v1/retractions", tags=["retractions"])

MAX_LISTED = 200


@router.post(
    "",
    responses={
        202: {"model": RetractionAnswer, "description": "It is being worked off"},
        **documented(404, 409),
    },
    openapi_extra=described(NewRetraction),
)
def retract(
    caller: Admin,
    wanted: Annotated[NewRetraction, Depends(body_of(NewRetraction))],
    response: Response,
    context: InContext,
) -> RetractionAnswer:
    """Take evidence back, in every run of the project that it was given to. Scope: `admin`.

    Idempotent by `id`, and without one by content. 202 while the sweep works it off, 200 once it is done
    and for a dry run, which only counts.
    """
    service = context.service
    work = partial(asked, catalog=service.catalog, project=caller.project, wanted=wanted, by=caller)
    if wanted.dry_run:
        with service.store.read() as tx:
            return work(tx)
    answer = service.unit(work)
    pending = answer.retraction is not None and answer.retraction.state is not RetractionState.DONE
    response.status_code = after_wait(not pending)
    return answer


@router.post(
    "/{retraction}/reverify",
    responses={202: {"model": Retraction, "description": "It is being worked off"}, **documented(404)},
)
def reverify(retraction: RetractionId, caller: Admin, response: Response, context: InContext) -> Retraction:
    """In open runs, ask again for what was only taken back (idempotent). Scope: `admin`."""
    found = context.service.unit(lambda tx: again(tx, caller.project, retraction))
    response.status_code = after_wait(found.state is RetractionState.DONE)
    return found


@router.get("", responses=documented())
def list_retractions(caller: Admin, context: InContext) -> RetractionList:
    """The latest 200 retractions of the project, newest first. Scope: `admin`."""
    with context.service.store.read() as tx:
        return RetractionList(retractions=tuple(tx.retractions.listed(caller.project, MAX_LISTED)))


@router.get("/{retraction}", responses=documented(404))
def get_retraction(retraction: RetractionId, caller: Admin, context: InContext) -> Retraction:
    """One retraction, and how far it has come. Scope: `admin`."""
    with context.service.store.read() as tx:
        return tx.retractions.get(caller.project, retraction)
