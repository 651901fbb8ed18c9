"""Webhooks of the caller's project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request

from verifier_service.api.auth import Admin
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import Context, InContext
from verifier_service.api.paths import PathId
from verifier_service.api.problems import documented
from verifier_service.api.threads import in_thread
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.trajectories import Identifier
from verifier_service.domain.webhooks import (
    MAX_CURSOR,
    DeliveryPage,
    DeliveryState,
    NewWebhook,
    Replayed,
    ReplayRequest,
    RotateRequest,
    Webhook,
    WebhookChange,
    WebhookCreated,
    WebhookList,
    WebhookTested,
)
from verifier_service.services import webhooks

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

T = TypeVar("T")

WebhookId = Annotated[PathId, Path(description="The webhook's id.")]
_read_rotation = body_of(RotateRequest)
State = Literal["pending", "delivered", "failed"]


def _optional(model: type[RotateRequest]) -> dict[str, Any]:
    body = described(model)["requestBody"]
    return {"requestBody": {**body, "required": False}}


@router.post("", status_code=201, responses=documented(409), openapi_extra=described(NewWebhook))
async def register(
    caller: Admin, wanted: Annotated[NewWebhook, Depends(body_of(NewWebhook))], context: InContext
) -> WebhookCreated:
    """Register an endpoint for reward records from now on; its secret is shown this once. Scope: `admin`.

    409 when the project has as many as it may.
    """
    await context.service.courier.admit(wanted.url, project=caller.project)
    limit = context.service.settings.max_webhooks
    return await _unit(context, lambda tx: webhooks.register(tx, caller.project, wanted, limit))


@router.get("", responses=documented())
def list_webhooks(caller: Admin, context: InContext) -> WebhookList:
    """All endpoints of the project, oldest first, without secrets. Scope: `admin`."""
    with context.service.store.read() as tx:
        return WebhookList(webhooks=tx.webhooks.of_project(caller.project))


@router.get("/{webhook}", responses=documented(404))
def get_webhook(webhook: WebhookId, caller: Admin, context: InContext) -> Webhook:
    """One endpoint: whether it is enabled, how it fares. Scope: `admin`."""
    with context.service.store.read() as tx:
        return tx.webhooks.get(caller.project, webhook)


@router.patch("/{webhook}", responses=documented(404), openapi_extra=described(WebhookChange))
async def change_webhook(
    webhook: WebhookId,
    caller: Admin,
    wanted: Annotated[WebhookChange, Depends(body_of(WebhookChange))],
    context: InContext,
) -> Webhook:
    """Enable or disable an endpoint, or send to another URL. Scope: `admin`.

    An endpoint that was disabled goes on where it stood: nothing is skipped.
    """
    if wanted.url is not None:
        await context.service.courier.admit(wanted.url, project=caller.project)
    return await _unit(context, lambda tx: webhooks.change(tx, caller.project, webhook, wanted))


@router.delete("/{webhook}", responses=documented(404))
def remove_webhook(webhook: WebhookId, caller: Admin, context: InContext) -> Webhook:
    """Remove an endpoint; nothing more is sent to it. Scope: `admin`."""
    return context.service.unit(lambda tx: webhooks.remove(tx, caller.project, webhook))


async def _rotation(request: Request) -> RotateRequest:
    """The body may be left out."""
    return await _read_rotation(request) if await request.body() else RotateRequest()


@router.post("/{webhook}/rotate", responses=documented(404, 409), openapi_extra=_optional(RotateRequest))
def rotate_secret(
    webhook: WebhookId,
    caller: Admin,
    wanted: Annotated[RotateRequest, Depends(_rotation)],
    context: InContext,
) -> WebhookCreated:
    """Sign with a new secret, shown this once; for a day with the old one, too. Scope: `admin`.

    409 while both sign, because the secret that receivers have may be the old one; with `force`, only the
    new one signs from now on.
    """
    overlap_s = context.service.settings.webhook_rotation_s
    return context.service.unit(lambda tx: webhooks.rotate(tx, caller.project, webhook, wanted, overlap_s))


@router.post("/{webhook}/test", responses=documented(404))
async def test_webhook(webhook: WebhookId, caller: Admin, context: InContext) -> WebhookTested:
    """Send a `webhook.test` event at once, and say what came of it. Scope: `admin`.

    429 while another test of the endpoint runs, or as many as run at a time.
    """
    with context.trials.one(caller.project, webhook):
        place, now = await in_thread(
            _read, context, lambda tx: (tx.webhooks.place(caller.project, webhook), tx.now())
        )
        return await webhooks.probe(context.service.courier, place, now)


@router.get("/{webhook}/deliveries", responses=documented(404))
def list_deliveries(
    webhook: WebhookId,
    caller: Admin,
    context: InContext,
    run: Annotated[Identifier | None, Query(description="Only records of this run.")] = None,
    state: Annotated[State | None, Query(description="Only deliveries in this state.")] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_CURSOR, description="Only older ones.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> DeliveryPage:
    """What was sent, newest first: attempts, last status, last error. Scope: `admin`.

    Delivered ones are kept for some days, failed ones longer.
    """
    only = DeliveryState(state) if state is not None else None
    with context.service.store.read() as tx:
        found, cursor = tx.webhooks.deliveries(
            caller.project, webhook, run=run, state=only, before=before, limit=limit
        )
    return DeliveryPage(deliveries=tuple(found), cursor=cursor)


@router.post("/{webhook}/replay", responses=documented(404), openapi_extra=described(ReplayRequest))
def replay(
    webhook: WebhookId,
    caller: Admin,
    wanted: Annotated[ReplayRequest, Depends(body_of(ReplayRequest))],
    context: InContext,
) -> Replayed:
    """Send records of a run again, with the same ids, or only those that failed. Scope: `admin`.

    Long runs take several calls: go on after `cursor` until it is `complete`.
    """
    return context.service.unit(lambda tx: webhooks.replay(tx, caller.project, webhook, wanted))


async def _unit(context: Context, work: Callable[[Transaction], T]) -> T:
    return await in_thread(context.service.unit, work)


def _read(context: Context, look: Callable[[Transaction], T]) -> T:
    with context.service.store.read() as tx:
        return look(tx)
