"""Plans about reviews: what waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.reviews import Review, ReviewMeasurement
from verifier_service.domain.wire import ReviewClaimed, ReviewDecided, ReviewList


def reviews(
    session: Session, *, queue: str | None = None, state: str | None = None, limit: int = 100
) -> Plan[tuple[Review, ...]]:
    """Items of the desk, oldest first."""
    params: dict[str, str | int | float] = {"limit": limit}
    params.update(
        {key: value for key, value in {"queue": queue, "state": state}.items() if value is not None}
    )
    call = Call(method="GET", path=path("reviews"), params=params, read=reading(ReviewList))
    return (yield from deliver(session, call)).reviews


def review(session: Session, id: str) -> Plan[Review]:
    """One item with all that its reviewer is shown."""
    call = Call(method="GET", path=path("reviews", id), read=reading(Review))
    return (yield from deliver(session, call))


def claim(
    session: Session,
    reviewer: str,
    *,
    queue: str | None = None,
    review: str | None = None,
    minutes: float = 30.0,
) -> Plan[Review | None]:
    """Reserve the next free item, or a named one; ``None`` when nothing is free."""
    request: dict[str, Any] = {"reviewer": reviewer, "minutes": minutes}
    request.update(
        {key: value for key, value in (("queue", queue), ("review", review)) if value is not None}
    )
    call = Call(
        method="POST",
        path=path("reviews", "claim"),
        body=as_json(request),
        read=reading(ReviewClaimed),
        repeatable=review is not None,  # "the next one", asked twice, may reserve two
    )
    return (yield from deliver(session, call)).review


def decide(
    session: Session,
    review: str,
    *,
    reviewer: str,
    verdict: Literal["accept", "reject"],
    reason: str = "",
    measurements: Iterable[ReviewMeasurement | Mapping[str, Any]] = (),
    human_s: float | None = None,
) -> Plan[ReviewDecided]:
    """Vote on an item. The same vote again is a no-op; a rejection needs a reason."""
    request: dict[str, Any] = {
        "reviewer": reviewer,
        "verdict": verdict,
        "reason": reason,
        "measurements": [
            item.model_dump(mode="json") if isinstance(item, ReviewMeasurement) else dict(item)
            for item in measurements
        ],
    }
    if human_s is not None:
        request["human_s"] = human_s
    call = Call(
        method="POST",
        path=path("reviews", review, "decision"),
        body=as_json(request),
        read=reading(ReviewDecided),
    )
    return (yield from deliver(session, call))


def release(session: Session, review: str, *, reviewer: str) -> Plan[Review]:
    """Give a claimed item back, or undo a vote within its grace."""
    call = Call(
        method="POST",
        path=path("reviews", review, "release"),
        body=as_json({"reviewer": reviewer}),
        read=reading(Review),
        repeatable=False,
    )
    return (yield from deliver(session, call))
