"""Results of a laboratory, from files; and the worklist that asks for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import Reviewer
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import ImportId
from verifier_service.api.problems import after_put, documented
from verifier_service.bootstrap.lab_results import import_lab_results
from verifier_service.domain.errors import NotFound
from verifier_service.domain.lab_results import LabImport, LabVersionList, NewLabResults
from verifier_service.domain.lab_senders import Sender, of_key
from verifier_service.domain.retractions import CheckKey
from verifier_service.domain.reviews import QueueName
from verifier_service.domain.trajectories import Identifier
from verifier_service.lab_files.sheets import sheet_of
from verifier_service.services.lab_requests import worklist

router = APIRouter(prefix="/v1", tags=["lab results"])


def laboratory(caller: Reviewer) -> Sender:
    """Who sends files. Raises ``Forbidden`` for the key of somebody who only reviews."""
    return of_key(caller)


Laboratory = Annotated[Sender, Depends(laboratory)]

MAX_LISTED = 200
MAX_REQUESTED = 2_000  # as many as one import answers
CSV = "text/csv; charset=utf-8"
_DOWNLOAD = {
    "Content-Disposition": 'attachment; filename="lab-requests.csv"',
    "X-Content-Type-Options": "nosniff",
}


@router.post(
    "/lab-results",
    responses={201: {"model": LabImport, "description": "A new import"}, **documented(409)},
    openapi_extra=described(NewLabResults),
)
def import_results(
    sender: Laboratory,
    wanted: Annotated[NewLabResults, Depends(body_of(NewLabResults))],
    response: Response,
    context: InContext,
) -> LabImport:
    """Measurements against checks that wait at the lab tier, from a file or as rows.
    Scope: `review`; the key of a person needs `operate`, too.

    The answer says what became of every row. 201 when something was stored; 200 for a dry run, for what was
    imported before, and when a row was wrong where all or nothing was asked for: `state` is `refused` then.
    409 for other content under the same id.
    """
    answer = import_lab_results(context.service, wanted, sheet_of(wanted), sender)
    response.status_code = after_put(answer.created)
    return answer


@router.get("/lab-results", responses=documented())
def list_versions(
    sender: Laboratory,
    context: InContext,
    check: Annotated[CheckKey, Query(description="The check's key, as a case or an import shows it.")],
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
) -> LabVersionList:
    """Every version of what files said of one check, newest first: value, file, by whom, when.
    Scope: `review`; the key of a person needs `operate`, too."""
    with context.service.store.read() as tx:
        return LabVersionList(versions=tuple(tx.lab_results.versions(sender.key.project, check, limit)))


@router.get("/lab-results/{id}", responses=documented(404))
def get_import(id: ImportId, sender: Laboratory, context: InContext) -> LabImport:
    """One import, and what became of its rows.

    Scope: `review`; the key of a person needs `operate`, too."""
    with context.service.store.read() as tx:
        found = tx.lab_results.find(sender.key.project, id)
    if found is None:
        raise NotFound("import_not_found", f"no import {id!r}")
    return found


@router.get(
    "/lab-requests",
    response_class=Response,
    responses={
        200: {
            "description": "One row per check that a file may answer, oldest first",
            "content": {"text/csv": {"schema": {"type": "string"}}},
        },
        **documented(),
    },
)
def list_requests(
    sender: Laboratory,
    context: InContext,
    queue: QueueName | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_REQUESTED)] = 1_000,
    after: Annotated[
        Identifier | None, Query(description="The last review of a page: the next begins after it.")
    ] = None,
) -> Response:
    """What waits for a laboratory, as CSV to fill in and import.
    Scope: `review`; the key of a person needs `operate`, too.

    Cells that a spreadsheet would run as a formula begin with an apostrophe.
    """
    with context.service.store.read() as tx:
        text = worklist(tx, sender, queue=queue, limit=limit, after=after)
    return Response(text, media_type=CSV, headers=_DOWNLOAD)
