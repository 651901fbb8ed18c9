"""Files of laboratories: a dry run first, then the same bytes for good; worklists and what was imported.

Nothing of an upload is kept between the dry run and the import: the browser sends the file again, with the
digest that the dry run told of it and of the choices made. Another file, or another choice, has another
digest and is refused. That needs no store of half-finished uploads, which several server processes would
have to share, and a person who walks away leaves nothing behind.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from verifier_service.bootstrap.lab_results import import_lab_results
from verifier_service.dashboard.acting import Acting, InActing, SentForm, text_of
from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.lab_words import what_to_do
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import Operating
from verifier_service.dashboard.sizes import too_large_file
from verifier_service.domain.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    VerificationError,
)
from verifier_service.domain.lab_results import ImportState, LabImport, NewLabResults, RowStatus
from verifier_service.domain.lab_senders import of_viewer
from verifier_service.domain.lab_sheets import MAX_FILE_BYTES
from verifier_service.domain.trajectories import ID_PATTERN
from verifier_service.lab_files.sheets import sheet_of
from verifier_service.services import desk_pages
from verifier_service.services.lab_requests import worklist

router = APIRouter(prefix="/lab")

MAX_LISTED = 50
MAX_ROWS_SHOWN = 500
MAX_REQUESTED = 2_000  # as many as one import answers
MAX_NAME = 200
HEADERS = {"Content-Disposition": 'attachment; filename="lab-requests.csv"'}
CSV = "text/csv; charset=utf-8"
FILE_FIELD = "file"


@dataclass(frozen=True, slots=True)
class Upload:
    """What was chosen in the form."""

    wanted: NewLabResults
    confirmed: str  # the digest that the dry run told; empty where there was none


@router.get("")
def lab_page(request: Request, _viewer: Operating, act: InActing) -> Response:
    """The form, worklists by queue, and the latest imports."""
    return _page(request, act)


@router.post("/results")
def upload(request: Request, _viewer: Operating, act: InActing, form: SentForm) -> Response:
    """Check a file, or import it when it is the one that was checked. A part of the page for scripts."""
    try:
        chosen = _chosen(form, act.login)
        done = _imported(act, chosen)
    except (InvalidInput, Conflict) as error:
        return _answer(request, act, problem=error)
    return _answer(request, act, done=done, digest=done.digest, whole=chosen.wanted.all_or_nothing)


@router.get("/requests")
def requests(
    _viewer: Operating,
    act: InActing,
    queue: Annotated[str, Query(max_length=64, pattern=r"^[a-z0-9_-]*$")] = "",
) -> Response:
    """What waits for a laboratory, as CSV to fill in. No cell is run by a spreadsheet."""
    with act.service.store.read() as tx:
        text = worklist(tx, of_viewer(act.key, act.viewer), queue=queue or None, limit=MAX_REQUESTED)
    return Response(text, media_type=CSV, headers=HEADERS)


@router.get("/imports/{id:path}")
def one_import(
    request: Request,
    _viewer: Operating,
    act: InActing,
    id: Annotated[str, Path(pattern=ID_PATTERN)],
) -> Response:
    """One import and what became of its rows."""
    with act.service.store.read() as tx:
        found = tx.lab_results.find(act.project, id)
    if found is None:
        raise NotFound("import_not_found", "there is no such import")
    return render(request, "lab_import.html", act.viewer, **_rows(found), digest="")


def _imported(act: Acting, chosen: Upload) -> LabImport:
    """The dry run, or the import of what a dry run was made of. Raises ``Conflict`` when it is another."""
    wanted = chosen.wanted
    if not wanted.dry_run and chosen.confirmed != wanted.content_digest:
        message = "the file or a choice has changed since the dry run: run it again, then import"
        raise Conflict("not_what_was_checked", message, field=FILE_FIELD)
    return import_lab_results(act.service, wanted, sheet_of(wanted), of_viewer(act.key, act.viewer))


def _chosen(form: FormData, login: str) -> Upload:
    """Raises ``InvalidInput`` for what was not filled in, ``TooMuch`` for too large a file."""
    sent = form.get(FILE_FIELD)
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise InvalidInput("no_file", "choose a file", field=FILE_FIELD)
    raw = sent.file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise too_large_file()
    confirmed = text_of(form, "confirm")
    content = {"name": _name(sent.filename), "content": base64.b64encode(raw).decode("ascii")}
    values: dict[str, Any] = {
        "file": content,
        "by": text_of(form, "by") or login,
        "dry_run": not confirmed,
        "all_or_nothing": text_of(form, "mode") != "rows",
        "decimal": text_of(form, "decimal") or None,
    }
    try:
        return Upload(NewLabResults.model_validate(values), confirmed)
    except ValidationError as error:
        place = [str(part) for part in error.errors(include_url=False)[0]["loc"]]
        if place[:1] == ["by"]:
            raise InvalidInput(
                "bad_name", "who measured: one line, up to 200 characters", field="by"
            ) from error
        message = "its name must end in .csv, .tsv, .txt, .json or .xlsx"
        raise InvalidInput("unknown_format", message, field=FILE_FIELD) from error


def _name(sent: str) -> str:
    """What the file is called, for people to read: its last part, on one line. Nothing is opened by it."""
    last = PureWindowsPath(PurePosixPath(sent).name).name
    printable = "".join(character for character in last if character.isprintable())
    return printable[-MAX_NAME:] or "file"


def _rows(found: LabImport | None) -> dict[str, Any]:
    rows = [] if found is None else sorted(found.rows, key=lambda row: row.status is not RowStatus.REFUSED)
    wrong = sum(row.status is RowStatus.REFUSED for row in rows)
    return {
        "done": found,
        "rows": rows[:MAX_ROWS_SHOWN],
        "left_out": max(0, len(rows) - MAX_ROWS_SHOWN),
        "wrong": wrong,
        "right": sum(row.status in (RowStatus.ACCEPTED, RowStatus.AMENDED) for row in rows),
        "ImportState": ImportState,
        "what_to_do": what_to_do,
    }


def _answer(
    request: Request,
    act: Acting,
    *,
    done: LabImport | None = None,
    digest: str = "",
    whole: bool = True,
    problem: VerificationError | None = None,
) -> Response:
    if "HX-Request" in request.headers:
        values = _rows(done) | {"digest": digest, "problem": problem, "all_or_nothing": whole}
        return render(request, "_lab_result.html", act.viewer, **values)
    return _page(request, act, done=done, digest=digest, whole=whole, problem=problem)


def _page(
    request: Request,
    act: Acting,
    *,
    done: LabImport | None = None,
    digest: str = "",
    whole: bool = True,
    problem: VerificationError | None = None,
) -> Response:
    with act.service.store.read() as tx:
        history = tx.lab_results.history(act.project, MAX_LISTED)
        queues = desk_pages.queue_names(tx, act.project)
    return render(
        request,
        "lab.html",
        act.viewer,
        status=200 if problem is None else status_of(problem),
        history=history,
        queues=queues,
        login=act.login,
        limit=MAX_FILE_BYTES,
        **_rows(done),
        digest=digest,
        all_or_nothing=whole,
        problem=problem,
    )
