"""Operations: failed checks that may be asked again, stuck ones with the reason, and the workers. Each part
of the page renews itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from verifier_service.bootstrap import Service
from verifier_service.bootstrap.operations import cancel_checks, retry_checks
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import InService, Operating
from verifier_service.dashboard.webhooks import Fares, address, fares
from verifier_service.domain.cursors import MAX_CURSOR, pk_of
from verifier_service.domain.operations import ActAnswer, ActStatus, FailedPage, StuckPage
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.records import Request as Form
from verifier_service.domain.retractions import CheckKey
from verifier_service.services import troubles

router = APIRouter(prefix="/operations")

PATH = "/ui/operations"
LINES = 50

Keys = Annotated[
    tuple[CheckKey, ...],
    Field(strict=False, min_length=1, max_length=LINES, description="choose at least one check"),
]
Cursor = Annotated[str | None, Query(max_length=MAX_CURSOR)]


class Chosen(Form):
    """The checks that were ticked."""

    checks: Keys


Ticked = Annotated[Filled[Chosen], Depends(form_of(Chosen))]


@router.get("")
def operations_page(
    request: Request,
    viewer: Operating,
    service: InService,
    failed_after: Cursor = None,
    stuck_after: Cursor = None,
) -> Response:
    """What needs an operator."""
    with service.store.read() as tx:
        failed = _failed(tx, viewer.project, failed_after)
        stuck = _stuck(tx, service, viewer.project, stuck_after)
        workers = tx.workers.listed()
        webhooks: list[Fares] = fares(tx, viewer.project)
    return render(
        request,
        "operations.html",
        viewer,
        failed=failed,
        stuck=stuck,
        workers=workers,
        webhooks=webhooks,
        address=address,
        failed_after=failed_after or "",
        stuck_after=stuck_after or "",
    )


@router.get("/failed")
def failed_panel(
    request: Request, viewer: Operating, service: InService, failed_after: Cursor = None
) -> Response:
    """Failed checks, a page at a time."""
    with service.store.read() as tx:
        failed = _failed(tx, viewer.project, failed_after)
    return render(request, "_operations_failed.html", viewer, failed=failed)


@router.get("/stuck")
def stuck_panel(
    request: Request, viewer: Operating, service: InService, stuck_after: Cursor = None
) -> Response:
    """Stuck checks, a page at a time."""
    with service.store.read() as tx:
        stuck = _stuck(tx, service, viewer.project, stuck_after)
    return render(request, "_operations_stuck.html", viewer, stuck=stuck, stuck_after=stuck_after or "")


@router.get("/workers")
def workers_panel(request: Request, viewer: Operating, service: InService) -> Response:
    """The workers as they were seen last."""
    with service.store.read() as tx:
        workers = tx.workers.listed()
    return render(request, "_operations_workers.html", viewer, workers=workers)


@router.post("/retry")
def retry(request: Request, viewer: Operating, service: InService, sent: Ticked) -> Response:
    """Ask again for the checks that were ticked."""
    answer = retry_checks(service, viewer.project, sent.read().checks, viewer.login)
    return redirect(request, PATH, _told(answer, "asked again"))


@router.post("/cancel")
def cancel(request: Request, viewer: Operating, service: InService, sent: Ticked) -> Response:
    """Cancel the checks that were ticked."""
    answer = cancel_checks(service, viewer.project, sent.read().checks, viewer.login)
    return redirect(request, PATH, _told(answer, "cancelled"))


def _failed(tx: Transaction, project: str, after: str | None) -> FailedPage:
    return troubles.failed(tx, project, after=_empty(after, "failed_after"), limit=LINES)


def _stuck(tx: Transaction, service: Service, project: str, after: str | None) -> StuckPage:
    return troubles.stuck(tx, service.catalog, project, after=_empty(after, "stuck_after"), limit=LINES)


def _empty(cursor: str | None, field: str) -> int | None:
    """Where to go on; panels say nothing where the page is the first."""
    return pk_of(cursor or None, field)


def _told(answer: ActAnswer, what: str) -> str:
    done = sum(one.status is ActStatus.DONE for one in answer.results)
    left = [one for one in answer.results if one.status is not ActStatus.DONE]
    first = f" {len(left)} not: {left[0].message}." if left else ""
    return f"{done} checks {what}.{first}"
