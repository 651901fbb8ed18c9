"""Plans about reviews: what waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.reviews import Review, ReviewMeasurement
from verifier_service.domain.wire import ReviewClaimed, ReviewDecided, ReviewList


def reviews(
    session: Session,
    *,
    queue: str | None = None,
    state: str | None = None,
    limit: int = 100,
    assigned_to: str | None = None,
    reviewer: str | None = None,
    after: str | None = None,
) -> Plan[tuple[Review, ...]]:
    """Items of the desk, oldest first, as a reviewer may see them. For the next page, ``after`` is the id
    of the last item of this one."""
    named = {
        **{"queue": queue, "state": state, "assigned_to": assigned_to},
        **{"reviewer": reviewer, "after": after},
    }
    params: dict[str, str | int | float] = {"limit": limit}
    params.update({key: value for key, value in named.items() if value is not None})
    call = Call(method="GET", path=path("reviews"), params=params, read=reading(ReviewList))
    return (yield from deliver(session, call)).reviews


def review(session: Session, id: str, *, reviewer: str | None = None) -> Plan[Review]:
    """One item with all that its reviewer is shown; that ``reviewer`` looked at it is noted."""
    params: dict[str, str | int | float] = {} if reviewer is None else {"reviewer": reviewer}
    call = Call(method="GET", path=path("reviews", id), params=params, read=reading(Review))
    return (yield from deliver(session, call))


def claim(
    session: Session,
    reviewer: str,
    *,
    queue: str | None = None,
    review: str | None = None,
    minutes: float | None = None,
) -> Plan[Review | None]:
    """Reserve the best free item, or a named one, by default for as long as its queue says; ``None`` when
    nothing is free."""
    named = (("queue", queue), ("review", review), ("minutes", minutes))
    request: dict[str, Any] = {"reviewer": reviewer}
    request.update({key: value for key, value in named if value is not None})
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
    scores: Mapping[str, int] | None = None,
    comment: str | None = None,
) -> Plan[ReviewDecided]:
    """Vote on an item that is claimed. The same vote again is a no-op; a rejection needs a reason."""
    request: dict[str, Any] = {
        "reviewer": reviewer,
        "verdict": verdict,
        "reason": reason,
        "measurements": [
            item.model_dump(mode="json") if isinstance(item, ReviewMeasurement) else dict(item)
            for item in measurements
        ],
    }
    given = {"human_s": human_s, "scores": None if scores is None else dict(scores), "comment": comment}
    request.update({name: value for name, value in given.items() if value is not None})
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


def renew(session: Session, review: str, *, reviewer: str, minutes: float | None = None) -> Plan[Review]:
    """Hold a claimed item for longer, from now."""
    request: dict[str, Any] = {"reviewer": reviewer}
    if minutes is not None:
        request["minutes"] = minutes
    call = Call(
        method="POST",
        path=path("reviews", review, "renew"),
        body=as_json(request),
        read=reading(Review),
    )
    return (yield from deliver(session, call))


def skip(
    session: Session,
    review: str,
    *,
    reviewer: str,
    reason: str,
    whom: Literal["me", "others", "back"] = "me",
) -> Plan[Review]:
    """Put a claimed item aside: not offered to me again, kept for me for a day, or sent back unscored."""
    call = Call(
        method="POST",
        path=path("reviews", review, "skip"),
        body=as_json({"reviewer": reviewer, "reason": reason, "for": whom}),
        read=reading(Review),
        repeatable=False,
    )
    return (yield from deliver(session, call))
