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
from verifier_service.domain.retractions import CheckKey
from verifier_service.domain.reviews import QueueName
from verifier_service.lab_files.sheets import sheet_of
from verifier_service.services.lab_requests import worklist

router = APIRouter(prefix="/v1", tags=["lab results"])

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
    caller: Reviewer,
    wanted: Annotated[NewLabResults, Depends(body_of(NewLabResults))],
    response: Response,
    context: InContext,
) -> LabImport:
    """Measurements against checks that wait at the lab tier, from a file or as rows. Scope: `review`.

    The answer says what became of every row. 201 when something was stored; 200 for a dry run, for what was
    imported before, and when a row was wrong where all or nothing was asked for: `state` is `refused` then.
    409 for other content under the same id.
    """
    answer = import_lab_results(context.service, wanted, sheet_of(wanted), caller)
    response.status_code = after_put(answer.created)
    return answer


@router.get("/lab-results", responses=documented())
def list_versions(
    caller: Reviewer,
    context: InContext,
    check: Annotated[CheckKey, Query(description="The check's key, as a case or an import shows it.")],
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
) -> LabVersionList:
    """Every version of what files said of one check, newest first: value, file, by whom, when.
    Scope: `review`."""
    with context.service.store.read() as tx:
        return LabVersionList(versions=tuple(tx.lab_results.versions(caller.project, check, limit)))


@router.get("/lab-results/{id}", responses=documented(404))
def get_import(id: ImportId, caller: Reviewer, context: InContext) -> LabImport:
    """One import, and what became of its rows. Scope: `review`."""
    with context.service.store.read() as tx:
        found = tx.lab_results.find(caller.project, id)
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
    caller: Reviewer,
    context: InContext,
    queue: QueueName | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_REQUESTED)] = 1_000,
) -> Response:
    """What waits for a laboratory, as CSV to fill in and import. Scope: `review`.

    Cells that a spreadsheet would run as a formula begin with an apostrophe.
    """
    with context.service.store.read() as tx:
        text = worklist(tx, caller.project, queue=queue, limit=limit)
    return Response(text, media_type=CSV, headers=_DOWNLOAD)
