"""Plans about webhooks: endpoints that are told of reward records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.webhooks import (
    DeliveryPage,
    Replayed,
    Webhook,
    WebhookCreated,
    WebhookList,
    WebhookTested,
)

TEST_WAIT_S = 30.0


def webhooks(session: Session) -> Plan[tuple[Webhook, ...]]:
    """The project's endpoints, without secrets."""
    call = Call(method="GET", path=path("webhooks"), read=reading(WebhookList))
    return (yield from deliver(session, call)).webhooks


def webhook(session: Session, id: str) -> Plan[Webhook]:
    """One endpoint: whether it is enabled, how it fares."""
    call = Call(method="GET", path=path("webhooks", id), read=reading(Webhook))
    return (yield from deliver(session, call))


def add_webhook(
    session: Session,
    url: str,
    *,
    run: str | None = None,
    statuses: Iterable[str] | None = None,
    description: str = "",
) -> Plan[WebhookCreated]:
    """Register an endpoint for the records of the project, or of one run, or of some statuses. Its secret
    is shown this once, so a lost answer is not tried again."""
    request: dict[str, Any] = {"url": url, "description": description}
    if run is not None:
        request["run"] = run
    if statuses is not None:
        request["statuses"] = sorted(statuses)
    call = Call(
        method="POST",
        path=path("webhooks"),
        body=as_json(request),
        read=reading(WebhookCreated),
        repeatable=False,
    )
    return (yield from deliver(session, call))


def change_webhook(
    session: Session, id: str, *, enabled: bool | None = None, url: str | None = None
) -> Plan[Webhook]:
    """Enable or disable an endpoint, or send to another URL."""
    given = {"enabled": enabled, "url": url}
    request = {name: value for name, value in given.items() if value is not None}
    call = Call(method="PATCH", path=path("webhooks", id), body=as_json(request), read=reading(Webhook))
    return (yield from deliver(session, call))


def remove_webhook(session: Session, id: str) -> Plan[Webhook]:
    """Remove an endpoint."""
    call = Call(method="DELETE", path=path("webhooks", id), read=reading(Webhook), repeatable=False)
    return (yield from deliver(session, call))


def rotate_webhook(session: Session, id: str, *, force: bool = False) -> Plan[WebhookCreated]:
    """A new secret, shown this once, so that a lost answer is not tried again. For a while both sign, and
    another rotation is a ``Conflict``; with ``force`` only the new one signs, from now on."""
    call = Call(
        method="POST",
        path=path("webhooks", id, "rotate"),
        body=as_json({"force": True}) if force else None,
        read=reading(WebhookCreated),
        repeatable=False,
    )
    return (yield from deliver(session, call))


def test_webhook(session: Session, id: str) -> Plan[WebhookTested]:
    """Send a test event at once, and learn what came of it."""
    call = Call(
        method="POST", path=path("webhooks", id, "test"), read=reading(WebhookTested), wait_s=TEST_WAIT_S
    )
    return (yield from deliver(session, call))


def deliveries(
    session: Session,
    id: str,
    *,
    run: str | None = None,
    state: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> Plan[DeliveryPage]:
    """What was sent to an endpoint, newest first."""
    given = {"run": run, "state": state, "before": before, "limit": limit}
    params = {name: value for name, value in given.items() if value is not None}
    call = Call(
        method="GET", path=path("webhooks", id, "deliveries"), params=params, read=reading(DeliveryPage)
    )
    return (yield from deliver(session, call))


def replay_webhook(
    session: Session, id: str, *, run: str, after: int = 0, failed_only: bool = False
) -> Plan[int]:
    """Send the records of a run after a position again, or only those that failed; returns how many."""
    count = 0
    while True:
        request = {"run": run, "after": after, "failed_only": failed_only}
        call = Call(
            method="POST",
            path=path("webhooks", id, "replay"),
            body=as_json(request),
            read=reading(Replayed),
        )
        answer = yield from deliver(session, call)
        count += answer.replayed
        if answer.complete:
            return count
        after = answer.cursor
