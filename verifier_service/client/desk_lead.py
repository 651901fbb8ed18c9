"""Plans of those who look after the desk: queues, assignments, gold items, agreement, the trail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.gold import GoldItem, GoldList, GoldStored, NewGold
from verifier_service.domain.review_queues import Queue, QueueList, QueueSpec, QueueStored
from verifier_service.domain.review_trail import TrailPage
from verifier_service.domain.reviewer_error import Agreement
from verifier_service.domain.reviews import BulkAnswer, Review


def queues(session: Session) -> Plan[tuple[Queue, ...]]:
    """The latest version of every declared queue. Needs the scope ``review``."""
    call = Call(method="GET", path=path("review-queues"), read=reading(QueueList))
    return (yield from deliver(session, call)).queues


def queue(session: Session, name: str, *, version: int | None = None) -> Plan[Queue]:
    """One version of a queue, the latest when none is named. Needs the scope ``review``."""
    params: dict[str, str | int | float] = {} if version is None else {"version": version}
    call = Call(method="GET", path=path("review-queues", name), params=params, read=reading(Queue))
    return (yield from deliver(session, call))


def put_queue(session: Session, spec: QueueSpec | Mapping[str, Any]) -> Plan[QueueStored]:
    """Store a queue; a changed one is a new version. Needs the scope ``admin``."""
    body = spec.model_dump(mode="json") if isinstance(spec, QueueSpec) else dict(spec)
    name = str(body.get("name", ""))
    call = Call(
        method="PUT", path=path("review-queues", name), body=as_json(body), read=reading(QueueStored)
    )
    return (yield from deliver(session, call))


def reassign(
    session: Session, reviews: Iterable[str], to: str | None, *, hours: float = 72.0, reason: str = ""
) -> Plan[BulkAnswer]:
    """Keep items for one person, or for nobody. Needs the scope ``operate``."""
    body = {"reviews": list(reviews), "to": to, "hours": hours, "reason": reason}
    call = Call(
        method="POST", path=path("reviews", "reassign"), body=as_json(body), read=reading(BulkAnswer)
    )
    return (yield from deliver(session, call))


def withdraw_reviews(session: Session, reviews: Iterable[str], *, reason: str) -> Plan[BulkAnswer]:
    """Take items without a vote off the desk, unscored. Needs the scope ``operate``."""
    call = Call(
        method="POST",
        path=path("reviews", "withdraw"),
        body=as_json({"reviews": list(reviews), "reason": reason}),
        read=reading(BulkAnswer),
        repeatable=False,
    )
    return (yield from deliver(session, call))


def retract_review(session: Session, review: str, *, reason: str, again: bool = False) -> Plan[Review]:
    """Take an effective decision back. Needs the scope ``admin``."""
    call = Call(
        method="POST",
        path=path("reviews", review, "retract"),
        body=as_json({"reason": reason, "again": again}),
        read=reading(Review),
    )
    return (yield from deliver(session, call))


def add_gold(session: Session, item: NewGold | Mapping[str, Any]) -> Plan[GoldStored]:
    """Store a known item of a queue. Needs the scope ``gold``."""
    body = item.model_dump(mode="json") if isinstance(item, NewGold) else dict(item)
    call = Call(method="POST", path=path("reviews", "gold"), body=as_json(body), read=reading(GoldStored))
    return (yield from deliver(session, call))


def gold(session: Session, *, queue: str | None = None, limit: int = 100) -> Plan[tuple[GoldItem, ...]]:
    """Known items, newest first. Needs the scope ``gold``."""
    params: dict[str, str | int | float] = {"limit": limit}
    if queue is not None:
        params["queue"] = queue
    call = Call(method="GET", path=path("reviews", "gold"), params=params, read=reading(GoldList))
    return (yield from deliver(session, call)).items


def retire_gold(session: Session, id: str) -> Plan[GoldItem]:
    """Show a known item to nobody any more. Needs the scope ``gold``."""
    call = Call(method="POST", path=path("reviews", "gold", id, "retire"), read=reading(GoldItem))
    return (yield from deliver(session, call))


def agreement(session: Session, queue: str) -> Plan[Agreement]:
    """How far the reviewers of a queue agree, and how often each is wrong. Needs the scope ``operate``."""
    call = Call(
        method="GET",
        path=path("reviews", "agreement"),
        params={"queue": queue},
        read=reading(Agreement),
    )
    return (yield from deliver(session, call))


def trail(
    session: Session,
    *,
    after: int = 0,
    limit: int = 1_000,
    queue: str | None = None,
    review: str | None = None,
    actor: str | None = None,
) -> Plan[TrailPage]:
    """What people did at the desk after a cursor, oldest first. Needs the scope ``operate``."""
    named = {"queue": queue, "review": review, "actor": actor}
    params: dict[str, str | int | float] = {"after": after, "limit": limit}
    params.update({name: value for name, value in named.items() if value is not None})
    call = Call(method="GET", path=path("reviews", "trail"), params=params, read=reading(TrailPage))
    return (yield from deliver(session, call))
