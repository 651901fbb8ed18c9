"""The desk: items that wait for people, their claims and votes."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, exists, insert, or_, select, update

from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clock, ordered, sql
from verifier_service.persistence.desk_items import claimed_now, read_review, same_decision
from verifier_service.persistence.documents import dumped

_reviews, _votes, _checks = tables.reviews, tables.votes, tables.checks
_OPEN, _DECIDED = ReviewState.OPEN.value, ReviewState.DECIDED.value
_ID_BYTES = 12


class SqlReviews:
    """See ``ports.reviews.Reviews``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def open(
        self, project: str, check: int, *, queue: str, approvals: int, deadline: float | None, shown: str
    ) -> str:
        """Idempotent while the check's item is pending; a check that is sent again gets a new one."""
        values = {
            "id": secrets.token_hex(_ID_BYTES),
            "project": project,
            "check_pk": check,
            "queue": queue,
            "state": _OPEN,
            "approvals": approvals,
            "deadline": deadline,
            "shown": shown,
            "created_at": clock(),
        }
        self._db.run(self._db.insert_new(_reviews).values(values))
        pending = select(_reviews.c.id).where(_reviews.c.check_pk == check, sql(tables.PENDING))
        return str(self._db.connection.execute(pending).scalar_one())

    def get(self, project: str, review: str) -> Review:
        return self._read(self._row(project, review))

    def check_of(self, project: str, review: str) -> int:
        return int(self._row(project, review).check_pk)

    def listed(self, project: str, *, queue: str | None, state: str | None, limit: int) -> list[Review]:
        found = _ITEMS.where(_reviews.c.project == project)
        if queue is not None:
            found = found.where(_reviews.c.queue == queue)
        if state is not None:
            found = found.where(_in_state(state))
        return [self._read(row) for row in self._db.all(found.order_by(_reviews.c.pk).limit(limit))]

    def claim(
        self, project: str, *, reviewer: str, queue: str | None, review: str | None, minutes: float
    ) -> Review | None:
        """Claiming an item that the reviewer already holds renews the claim."""
        if review is not None:
            row = self._row(project, review, lock=True)
            _require_free(row, reviewer)
            if self._vote(row.pk, reviewer) is not None:
                raise Conflict("already_voted", f"{reviewer!r} has decided on review {review!r}")
        else:
            offered = self._offered(project, reviewer, queue)
            if offered is None:
                return None
            row = offered
        held = update(_reviews).where(_reviews.c.pk == row.pk)
        self._db.run(held.values(claimed_by=reviewer, claimed_until=clock() + minutes * 60.0))
        return self.get(project, row.id)

    def decide(
        self, project: str, review: str, decision: ReviewDecision, grace_s: float
    ) -> tuple[Review, bool]:
        row = self._row(project, review, lock=True)
        vote = self._vote(row.pk, decision.reviewer)
        if vote is not None:
            if same_decision(vote.decision, decision):
                return self._read(row), False
            raise Conflict("already_decided", f"{decision.reviewer!r} has decided otherwise")
        _require_free(row, decision.reviewer)
        values = {
            "review": row.pk,
            "reviewer": decision.reviewer,
            "verdict": decision.verdict,
            "decision": dumped(decision),
            "human_s": decision.human_s or 0.0,
            "decided_at": row.now,
            "effective_at": row.now + grace_s,
        }
        self._db.run(insert(_votes).values(values))
        self._recount(row, effective_at=row.now + grace_s)
        return self.get(project, review), True

    def release(self, project: str, review: str, reviewer: str) -> Review:
        row = self._row(project, review, lock=True)
        if row.state == _OPEN and claimed_now(row) and row.claimed_by == reviewer:
            freed = update(_reviews).where(_reviews.c.pk == row.pk)
            self._db.run(freed.values(claimed_by=None, claimed_until=None))
            return self.get(project, review)
        vote = self._vote(row.pk, reviewer)
        if vote is None or row.state not in (_OPEN, _DECIDED) or vote.effective_at <= row.now:
            raise Conflict("nothing_to_release", f"{reviewer!r} has nothing to release on {review!r}")
        this = (_votes.c.review == row.pk, _votes.c.reviewer == reviewer)
        self._db.run(delete(_votes).where(*this))
        self._recount(row, effective_at=row.effective_at)
        return self.get(project, review)

    def due(self, limit: int) -> list[tuple[str, str, int]]:
        passed = _ITEMS.where(sql(f"reviews.{tables.DECIDED}"), _reviews.c.effective_at <= clock())
        rows = self._db.all(passed.order_by(_reviews.c.effective_at, _reviews.c.pk).limit(limit))
        return [(row.project, row.id, row.check_pk) for row in rows]

    def close_free(self, checks: Collection[int]) -> int:
        free = or_(_reviews.c.claimed_until.is_(None), _reviews.c.claimed_until <= clock())
        voted = exists().where(_votes.c.review == _reviews.c.pk)
        these = self._db.among(_reviews.c.check_pk, ordered(checks))
        answered = update(_reviews).where(these, sql(tables.OPEN), free, ~voted)
        values = {"state": ReviewState.EFFECTIVE.value, "claimed_by": None, "claimed_until": None}
        return self._db.run(answered.values(**values))

    def close(self, check: int, state: str) -> None:
        """Does nothing when the check has no pending item."""
        ended = update(_reviews).where(_reviews.c.check_pk == check, sql(tables.PENDING))
        self._db.run(ended.values(state=state, claimed_by=None, claimed_until=None))

    def _row(self, project: str, review: str, *, lock: bool = False) -> Row[Any]:
        found = _ITEMS.where(_reviews.c.project == project, _reviews.c.id == review)
        row = self._db.first(self._db.locked(found, of=_reviews) if lock else found)
        if row is None:
            raise NotFound("review_not_found", f"no review {review!r}")
        return row

    def _offered(self, project: str, reviewer: str, queue: str | None) -> Row[Any] | None:
        """The oldest free item; items that others are claiming right now are skipped."""
        voted = exists().where(_votes.c.review == _reviews.c.pk, _votes.c.reviewer == reviewer)
        free = or_(_reviews.c.claimed_until.is_(None), _reviews.c.claimed_until <= clock())
        alive = or_(_reviews.c.deadline.is_(None), _reviews.c.deadline > clock())
        found = _ITEMS.where(
            _reviews.c.project == project, sql(f"reviews.{tables.OPEN}"), free, alive, ~voted
        )
        if queue is not None:
            found = found.where(_reviews.c.queue == queue)
        return self._db.first(
            self._db.locked(found.order_by(_reviews.c.pk).limit(1), of=_reviews, skip=True)
        )

    def _vote(self, review: int, reviewer: str) -> Row[Any] | None:
        return self._db.first(
            select(_votes).where(_votes.c.review == review, _votes.c.reviewer == reviewer)
        )

    def _recount(self, row: Row[Any], *, effective_at: float | None) -> None:
        """Judge the votes with the item locked, so that simultaneous ones are all seen."""
        votes = self._db.all(select(_votes.c.verdict).where(_votes.c.review == row.pk))
        accepts = sum(vote.verdict == "accept" for vote in votes)
        decided = accepts >= row.approvals or accepts < len(votes)
        judged = update(_reviews).where(_reviews.c.pk == row.pk)
        self._db.run(
            judged.values(
                state=_DECIDED if decided else _OPEN,
                effective_at=effective_at if decided else None,
                claimed_by=None,
                claimed_until=None,
            )
        )

    def _read(self, row: Row[Any]) -> Review:
        votes = select(_votes).where(_votes.c.review == row.pk)
        return read_review(row, self._db.all(votes.order_by(_votes.c.decided_at, _votes.c.reviewer)))


_ITEMS = select(_reviews, _checks.c.key, clock().label("now")).join(
    _checks, _checks.c.pk == _reviews.c.check_pk
)


def _in_state(state: str) -> ColumnElement[bool]:
    claimed = and_(_reviews.c.claimed_until.is_not(None), _reviews.c.claimed_until > clock())
    if state == ReviewState.CLAIMED:
        return and_(_reviews.c.state == _OPEN, claimed)
    if state == ReviewState.OPEN:
        return and_(_reviews.c.state == _OPEN, ~claimed)
    return _reviews.c.state == state


def _require_free(row: Row[Any], reviewer: str) -> None:
    if row.state != _OPEN:
        raise Conflict("review_not_open", f"review {row.id!r} is {row.state}")
    if claimed_now(row) and row.claimed_by != reviewer:
        raise Conflict("review_claimed", f"review {row.id!r} is claimed by somebody else")
    if row.deadline is not None and row.deadline <= row.now:
        raise Conflict("review_expired", f"the deadline of review {row.id!r} has passed")
