"""Webhooks of the project as operators see them: how each fares, what was sent, and sending again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from verifier_service.bootstrap import operations
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.ids import PathId
from verifier_service.dashboard.pages import redirect, render, segment
from verifier_service.dashboard.sessions import InService, Operating
from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.records import Request as Form
from verifier_service.domain.trajectories import Identifier
from verifier_service.domain.webhooks import (
    MAX_CURSOR,
    Delivery,
    DeliveryState,
    ReplayRequest,
    Webhook,
)
from verifier_service.services import webhooks

router = APIRouter(prefix="/operations/webhooks")

LINES = 50
COUNTED = 100
STATES = ("pending", "delivered", "failed")

Before = Annotated[int | None, Query(ge=1, le=MAX_CURSOR)]
State = Literal["pending", "delivered", "failed", ""]


class Again(Form):
    """The delivery to send again: the record of which run, by its position there."""

    run: Identifier
    seq: Annotated[int, Field(ge=1, le=MAX_CURSOR)]


@dataclass(frozen=True, slots=True)
class Fares:
    """An endpoint, the latest of its deliveries, and how many were given up, at most ``COUNTED``; ``many``
    says that there are more."""

    webhook: Webhook
    latest: Delivery | None
    failed: int
    many: bool


def fares(tx: Transaction, project: str) -> list[Fares]:
    """How every endpoint of the project fares."""
    found = []
    for one in tx.webhooks.of_project(project):
        latest, _ = tx.webhooks.deliveries(project, one.id, run=None, state=None, before=None, limit=1)
        failed, more = tx.webhooks.deliveries(
            project, one.id, run=None, state=DeliveryState.FAILED, before=None, limit=COUNTED
        )
        found.append(Fares(one, latest[0] if latest else None, len(failed), more is not None))
    return found


def address(webhook: Webhook, viewer: Viewer) -> str:
    """Where it is sent to: paths may hold what only admins know, others see the host."""
    if viewer.may(Right.ADMINISTER):
        return webhook.url
    parts = urlsplit(webhook.url)
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname or ''}{port}/…"


@router.get("")
def webhooks_panel(request: Request, viewer: Operating, service: InService) -> Response:
    """All endpoints: a part of the page *Operations*."""
    with service.store.read() as tx:
        found = fares(tx, viewer.project)
    return render(request, "_operations_webhooks.html", viewer, webhooks=found, address=address)


@router.get("/{webhook}")
def webhook_page(
    request: Request,
    webhook: PathId,
    viewer: Operating,
    service: InService,
    state: State = "",
    before: Before = None,
) -> Response:
    """One endpoint with what was sent, newest first."""
    return _shown(request, "webhook.html", viewer, service, webhook, state, before)


@router.get("/{webhook}/deliveries")
def deliveries_panel(
    request: Request,
    webhook: PathId,
    viewer: Operating,
    service: InService,
    state: State = "",
    before: Before = None,
) -> Response:
    """What was sent, as it stands by now."""
    return _shown(request, "_webhook_deliveries.html", viewer, service, webhook, state, before)


@router.post("/{webhook}/again")
def send_again(
    request: Request,
    webhook: PathId,
    viewer: Operating,
    service: InService,
    sent: Annotated[Filled[Again], Depends(form_of(Again))],
) -> Response:
    """Send one record again, with the same id."""
    one = sent.read()
    service.unit(lambda tx: webhooks.replay_one(tx, viewer.project, webhook, one.run, one.seq))
    return redirect(request, _path(webhook), f"Record {one.seq} of {one.run} is due again.")


@router.post("/{webhook}/replay")
def replay(
    request: Request,
    webhook: PathId,
    viewer: Operating,
    service: InService,
    sent: Annotated[Filled[ReplayRequest], Depends(form_of(ReplayRequest))],
) -> Response:
    """Send the records of a run again from a position on, or only those that were given up."""
    done = operations.replay(service, viewer.project, webhook, sent.read())
    more = "" if done.complete else f" There are more: go on after {done.cursor}."
    return redirect(request, _path(webhook), f"{done.replayed} records are due again.{more}")


def _path(webhook: str) -> str:
    return f"/ui/operations/webhooks/{segment(webhook)}"


def _shown(
    request: Request,
    template: str,
    viewer: Viewer,
    service: InService,
    webhook: str,
    state: str,
    before: int | None,
) -> Response:
    only = DeliveryState(state) if state else None
    with service.store.read() as tx:
        found = tx.webhooks.get(viewer.project, webhook)
        deliveries, cursor = tx.webhooks.deliveries(
            viewer.project, webhook, run=None, state=only, before=before, limit=LINES
        )
        runs = tx.runs.of_project(viewer.project)[:LINES] if found.run is None else ()
    return render(
        request,
        template,
        viewer,
        webhook=found,
        address=address(found, viewer),
        deliveries=deliveries,
        cursor=cursor,
        runs=[run.id for run in runs] if found.run is None else [found.run],
        states=STATES,
        state=state,
        before=before,
        page=_path(webhook),
    )
