"""Review rows as records, and what may be done with them at the time they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Row, Select, and_, or_, select, union_all

from verifier_service.domain.digests import digest
from verifier_service.domain.errors import Conflict
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState, Vote
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import clock, sql
from verifier_service.persistence.tenancy import moment

_reviews, _checks = review_tables.reviews, tables.checks
DISPUTED = "disputed"
_NOT_STORED = (ReviewState.CLAIMED, ReviewState.OTHER)
_STORED = [state.value for state in ReviewState if state not in _NOT_STORED]

ITEMS = select(_reviews, _checks.c.key, clock().label("now")).join(
    _checks, _checks.c.pk == _reviews.c.check_pk, isouter=True
)
IS_OPEN = sql(f"reviews.{review_tables.OPEN}")
FREE = or_(_reviews.c.claimed_until.is_(None), _reviews.c.claimed_until <= clock())
ALIVE = or_(_reviews.c.deadline.is_(None), _reviews.c.deadline > clock())
# One vote decides a gold item; while its queue asks for more, it goes on as if it waited for them.
_VEILED = and_(
    sql(f"reviews.{review_tables.DECIDED}"), _reviews.c.gold.is_not(None), _reviews.c.approvals > 1
)
KEPT = and_(
    _reviews.c.assigned_to.is_not(None),
    or_(_reviews.c.assigned_until.is_(None), _reviews.c.assigned_until > clock()),
)


# The same, of what a smaller index than that of states has: SQLite would take the one with more columns.
_IS_OPEN_AMONG_FEW = _reviews.c.state.concat("") == ReviewState.OPEN.value
_CLAIMED_NOW = and_(_reviews.c.claimed_until.is_not(None), _reviews.c.claimed_until > clock())


def in_state(state: str | None) -> tuple[ColumnElement[bool], ...]:
    """Items that read as being in a state, all for none: conditions of which none holds where another does,
    each of which an index serves in the order of keys. A vote on a gold item does not show before it takes
    effect."""
    if state is None:
        return tuple(_reviews.c.state == one for one in _STORED)
    if state == ReviewState.CLAIMED:
        return (and_(_IS_OPEN_AMONG_FEW, sql(review_tables.CLAIMED), _CLAIMED_NOW),)
    if state == DISPUTED:
        return (and_(_IS_OPEN_AMONG_FEW, sql(review_tables.DISPUTED)),)
    if state == ReviewState.OPEN:
        return and_(_reviews.c.state == state, ~_CLAIMED_NOW), _VEILED
    if state == ReviewState.DECIDED:
        return (and_(_reviews.c.state == state, ~_VEILED),)
    return (_reviews.c.state == state,)


def places(
    project: str,
    queue: str | None,
    state: str | None,
    limit: int,
    *more: ColumnElement[bool],
    by: Sequence[Column[Any]] = (_reviews.c.pk,),
) -> Select[Any]:
    """Keys of items of a project in the order of ``by``: the first of each of a state's parts, merged."""
    names = [column.name for column in by]
    mine = select(_reviews.c.pk, *(column for column in by if column.name != "pk"))
    mine = mine.where(_reviews.c.project == project, *more)
    if queue is not None:
        mine = mine.where(_reviews.c.queue == queue)
    parts = (mine.where(part).order_by(*by).limit(limit).subquery() for part in in_state(state))
    merged = union_all(*(select(part) for part in parts)).subquery()
    return select(merged.c.pk).order_by(*(merged.c[name] for name in names)).limit(limit)


def claimed_now(row: Row[Any]) -> bool:
    """Whether a claim holds at the time the row was read; an expired one counts as none."""
    return row.claimed_until is not None and row.claimed_until > row.now


def assigned_now(row: Row[Any]) -> bool:
    """Whether the item is kept for somebody."""
    return row.assigned_to is not None and (row.assigned_until is None or row.assigned_until > row.now)


def require_free(row: Row[Any], reviewer: str) -> None:
    """Raise ``Conflict`` unless the reviewer may claim the item, or holds it."""
    _require_open(row)
    if claimed_now(row) and row.claimed_by != reviewer:
        raise _claimed(row)
    if assigned_now(row) and row.assigned_to != reviewer:
        raise Conflict("review_assigned", f"review {row.id!r} is kept for somebody else")
    if row.dealt_to not in (None, reviewer):
        raise _claimed(row)


def require_held(row: Row[Any], reviewer: str, has_opened: Callable[[str, str], bool]) -> None:
    """Raise ``Conflict`` unless the reviewer's claim holds; ``has_opened`` tells who has looked at which
    item before."""
    _require_open(row)
    if claimed_now(row):
        if row.claimed_by != reviewer:
            raise _claimed(row)
        return
    if row.claimed_by != reviewer and not has_opened(row.id, reviewer):
        message = f"{reviewer!r} has not opened review {row.id!r}: claim it and look at its evidence first"
        raise Conflict("not_opened", message)
    raise Conflict("claim_expired", f"{reviewer!r} holds review {row.id!r} no more: claim it again")


def _claimed(row: Row[Any]) -> Conflict:
    return Conflict("review_claimed", f"review {row.id!r} is claimed by somebody else")


def _veiled(row: Row[Any]) -> bool:
    """See ``_VEILED``."""
    return row.gold is not None and row.state == ReviewState.DECIDED and row.approvals > 1


def _require_open(row: Row[Any]) -> None:
    if row.state != ReviewState.OPEN and not _veiled(row):
        raise Conflict("review_not_open", f"review {row.id!r} is {row.state}")
    if row.deadline is not None and row.deadline <= row.now:
        raise Conflict("review_expired", f"the deadline of review {row.id!r} has passed")


def same_decision(stored: str, decision: ReviewDecision) -> bool:
    """Whether a vote says again what is stored, however long it took to say it."""
    before = ReviewDecision.model_validate_json(stored)
    return before.model_copy(update={"human_s": decision.human_s}) == decision


def read_review(row: Row[Any], votes: Sequence[Row[Any]]) -> Review:
    """The item with what the reviewer sees, its claim and its votes. A gold one looks like any other until
    the vote on it has taken effect."""
    claimed = row.state == ReviewState.OPEN and claimed_now(row)
    kept = assigned_now(row)
    state = ReviewState.OPEN if _veiled(row) else ReviewState(row.state)
    return Review.model_validate(
        {
            **json.loads(row.shown),
            "id": row.id,
            "check": row.key if row.gold is None else digest("check", row.id),
            "queue": row.queue,
            "queue_version": row.queue_version,
            "state": ReviewState.CLAIMED if claimed else state,
            "approvals": row.approvals,
            "blind": row.blind,
            "disputed": row.disputed,
            "escalated": row.escalated_at is not None,
            "claimed_by": row.claimed_by if claimed else None,
            "claimed_until": moment(row.claimed_until) if claimed else None,
            "assigned_to": row.assigned_to if kept else None,
            "assigned_until": moment(row.assigned_until) if kept and row.assigned_until else None,
            "deadline": None if row.deadline is None else moment(row.deadline),
            "created_at": moment(row.created_at),
            "votes": [read_vote(vote) for vote in votes],
            "gold": row.gold is not None and state is ReviewState.EFFECTIVE,
            "retracted": row.retracted_at is not None,
        }
    )


def read_vote(row: Row[Any]) -> Vote:
    """One vote as it was cast."""
    decision = json.loads(row.decision)
    return Vote.model_validate(
        {
            "reviewer": row.reviewer,
            "verdict": row.verdict,
            "reason": decision["reason"],
            "measurements": decision["measurements"],
            "scores": decision.get("scores", {}),
            "comment": decision.get("comment"),
            "human_s": row.human_s,
            "decided_at": moment(row.decided_at),
            "effective_at": moment(row.effective_at),
        }
    )
