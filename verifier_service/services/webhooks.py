"""Webhooks: registered, changed, replayed; and what passes between the outbox and a sender."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from verifier_service.domain.errors import Conflict, InvalidInput
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.ports.webhooks import Courier
from verifier_service.domain.webhook_rules import OPERATOR, Patience, headers, judge, new_secret
from verifier_service.domain.webhooks import (
    Answer,
    Claimed,
    NewWebhook,
    Place,
    Replayed,
    ReplayRequest,
    RotateRequest,
    Sent,
    Webhook,
    WebhookChange,
    WebhookCreated,
    WebhookTested,
)

REPLAYED_AT_ONCE = 2_000
TEST_TYPE = "webhook.test"


def register(tx: Transaction, project: str, wanted: NewWebhook, limit: int) -> WebhookCreated:
    """Store an endpoint whose URL was admitted; its secret is shown this once. Raises ``Conflict`` beyond
    ``limit`` endpoints."""
    secret = new_secret()
    return WebhookCreated(webhook=tx.webhooks.add(project, wanted, secret, limit), secret=secret)


def change(tx: Transaction, project: str, webhook: str, wanted: WebhookChange) -> Webhook:
    """Another URL, which was admitted; on or off. Raises ``NotFound``."""
    if wanted.url is not None:
        tx.webhooks.redirect(project, webhook, wanted.url)
    if wanted.enabled is True:
        tx.webhooks.enable(project, webhook)
    elif wanted.enabled is False:
        tx.webhooks.disable(project, webhook, OPERATOR)
    return tx.webhooks.get(project, webhook)


def rotate(
    tx: Transaction, project: str, webhook: str, wanted: RotateRequest, overlap_s: float
) -> WebhookCreated:
    """Sign with a new secret, and for ``overlap_s`` with the old one, too, unless that is to be dropped.
    Raises ``NotFound``, and ``Conflict`` while a rotation runs."""
    secret = new_secret()
    rotated = tx.webhooks.rotate(project, webhook, secret, overlap_s, force=wanted.force)
    return WebhookCreated(webhook=rotated, secret=secret)


def remove(tx: Transaction, project: str, webhook: str) -> Webhook:
    """Forget an endpoint; what it was. Raises ``NotFound``."""
    found = tx.webhooks.get(project, webhook)
    tx.webhooks.remove(project, webhook)
    return found


def replay(tx: Transaction, project: str, webhook: str, wanted: ReplayRequest) -> Replayed:
    """Make records of a run due again, some thousands per call. Raises ``NotFound``, and ``InvalidInput``
    for a run that the endpoint is not told of."""
    found = tx.webhooks.get(project, webhook)
    if found.run is not None and found.run != wanted.run:
        raise InvalidInput("other_run", f"this webhook is for run {found.run!r}", field="run")
    return tx.webhooks.replay(
        project,
        webhook,
        run=wanted.run,
        after=wanted.after,
        until=wanted.until,
        failed_only=wanted.failed_only,
        limit=REPLAYED_AT_ONCE,
    )


def replay_one(tx: Transaction, project: str, webhook: str, run: str, seq: int) -> Replayed:
    """Make one record of a run due again. Raises ``NotFound``, and ``Conflict`` where that record is no
    more, or the endpoint has not come to it yet."""
    again = tx.webhooks.replay(
        project, webhook, run=run, after=seq - 1, until=seq, failed_only=False, limit=1
    )
    if again.replayed != 1:
        raise Conflict("no_such_delivery", f"record {seq} of run {run!r} cannot be sent to this webhook")
    return again


def exchange(
    tx: Transaction,
    webhook: int,
    sent: Sequence[Sent],
    *,
    want: int,
    lease_s: float,
    patience: Patience,
) -> Claimed:
    """Write how attempts ended and lease up to ``want`` more deliveries, in one transaction."""
    if sent:
        place = tx.outbox.lock(webhook)
        if place is None:
            return Claimed(place=None)
        outcomes, health = judge(place, sent, tx.now(), patience)
        tx.outbox.settle(webhook, outcomes, health)
    return tx.outbox.claim(webhook, want, lease_s)


async def probe(courier: Courier, place: Place, now: float) -> WebhookTested:
    """Send a ``webhook.test`` event at once, whatever state the endpoint is in, which does not change."""
    event = "msg_test_" + secrets.token_hex(16)
    issued = datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")
    body = json.dumps({"type": TEST_TYPE, "timestamp": issued, "data": {"webhook": place.id}}).encode()
    line = courier.line()
    try:
        answer: Answer = await line.post(place.url, headers(place.secrets, event, int(now), body), body)
    finally:
        await line.close()
    return WebhookTested(event=event, delivered=answer.delivered, status=answer.status, error=answer.error)
