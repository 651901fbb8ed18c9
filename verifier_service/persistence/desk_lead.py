"""The part of the desk that looks after items: lists, assignments, deadlines, ends."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import exists, select, update

from verifier_service.domain.errors import Conflict, Forbidden
from verifier_service.domain.gold import GoldExpected
from verifier_service.domain.ports.reviews import Details
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_trail import SERVICE, Act
from verifier_service.domain.review_votes import Judged
from verifier_service.domain.reviews import Review, ReviewState
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import clock, ordered, sql
from verifier_service.persistence.desk_items import ITEMS, read_vote
from verifier_service.persistence.desk_rows import TOLD, DeskRows

_reviews, _votes, _gold = review_tables.reviews, review_tables.votes, review_tables.gold_items
_checks = tables.checks
_OPEN = ReviewState.OPEN.value
_ENDS = {
    ReviewState.EFFECTIVE.value: Act.EFFECTIVE,
    ReviewState.EXPIRED.value: Act.EXPIRED,
    ReviewState.CANCELLED.value: Act.CANCELLED,
}
_UNCLAIMED = {"claimed_by": None, "claimed_until": None}


class Leading(DeskRows):
    """See ``ports.reviews.Reviews``."""

    def assign(
        self, project: str, review: str, to: str | None, hours: float, *, by: str, reason: str
    ) -> Review:
        row = self._row(project, review, lock=True)
        if row.state != _OPEN or row.gold is not None:
            raise Conflict("review_not_open", f"review {review!r} cannot be given to somebody")
        if to is not None:
            if self._vote(row.pk, to) is not None:
                raise Conflict("already_voted", f"{to!r} has decided on review {review!r}")
            if self.submitted(project, review, to):
                raise Forbidden("own_submission", f"{to!r} submitted what review {review!r} is about")
        until = None if to is None else clock() + hours * 3600.0
        kept = update(_reviews).where(_reviews.c.pk == row.pk)
        self._db.run(kept.values(assigned_to=to, assigned_until=until, **_UNCLAIMED))
        detail: JsonObject = {"to": to, "from": row.assigned_to or row.claimed_by, "reason": reason}
        self._note(row, Act.REASSIGNED, by, detail)
        return self.get(project, review)

    def require_unvoted(self, project: str, review: str) -> int:
        row = self._row(project, review, lock=True)
        if row.state != _OPEN or row.check_pk is None:
            raise Conflict("review_not_open", f"review {review!r} cannot be taken off the desk")
        if self._db.first(select(_votes.c.review).where(_votes.c.review == row.pk).limit(1)) is not None:
            raise Conflict("has_votes", f"review {review!r} has a vote, which counts")
        return int(row.check_pk)

    def due(self, limit: int) -> list[tuple[str, str, int | None]]:
        passed = ITEMS.where(sql(f"reviews.{review_tables.DECIDED}"), _reviews.c.effective_at <= clock())
        rows = self._db.all(passed.order_by(_reviews.c.effective_at, _reviews.c.pk).limit(limit))
        return [(row.project, row.id, row.check_pk) for row in rows]

    def take_due(self, project: str, review: str) -> Review | None:
        row = self._row(project, review, lock=True)
        due = row.state == ReviewState.DECIDED and row.effective_at <= row.now
        return self._read(row) if due else None

    def is_decided(self, check: int) -> bool:
        mine = select(_reviews.c.state).where(_reviews.c.check_pk == check, sql(review_tables.PENDING))
        row = self._db.first(self._db.locked(mine))
        return row is not None and row.state == ReviewState.DECIDED

    def escalate(self, limit: int) -> int:
        ageing = select(_reviews.c.pk).where(
            sql(f"reviews.{review_tables.AGEING}"), _reviews.c.escalate_at <= clock()
        )
        due = self._db.locked(ageing.order_by(_reviews.c.escalate_at).limit(limit), skip=True)
        pks = [row.pk for row in self._db.all(due)]
        raised = update(_reviews).where(self._db.among(_reviews.c.pk, ordered(pks)))
        return self._told(raised.values(lane=0, escalated_at=clock()), Act.ESCALATED) if pks else 0

    def close_free(
        self, project: str, reviews: Collection[str], *, by: str = SERVICE, details: Details | None = None
    ) -> int:
        free = (_reviews.c.claimed_until.is_(None)) | (_reviews.c.claimed_until <= clock())
        voted = exists().where(_votes.c.review == _reviews.c.pk)
        these = (_reviews.c.project == project, self._db.among(_reviews.c.id, sorted(reviews)))
        answered = update(_reviews).where(*these, sql(review_tables.OPEN), free, ~voted)
        answered = answered.values(state=ReviewState.EFFECTIVE.value, **_UNCLAIMED)
        rows = self._db.all(answered.returning(*TOLD))
        self._note_each(rows, Act.ANSWERED, by, details or {})
        return len(rows)

    def note_amended(self, project: str, reviews: Collection[str], *, by: str, details: Details) -> None:
        these = self._db.among(_reviews.c.id, sorted(reviews))
        rows = self._db.all(select(*TOLD).where(_reviews.c.project == project, these))
        self._note_each(rows, Act.AMENDED, by, details)

    def close(self, check: int, state: str, *, by: str = SERVICE, reason: str = "") -> None:
        """Does nothing when the check has no pending item."""
        ended = update(_reviews).where(_reviews.c.check_pk == check, sql(review_tables.PENDING))
        kind = Act.WITHDRAWN if by != SERVICE and state == ReviewState.CANCELLED else _ENDS[state]
        detail: JsonObject | None = {"reason": reason} if reason else None
        self._told(ended.values(state=state, **_UNCLAIMED), kind, by, detail)

    def close_gold(self, project: str, review: str) -> None:
        ended = update(_reviews).where(_reviews.c.project == project, _reviews.c.id == review)
        ended = ended.where(sql(review_tables.PENDING), _reviews.c.gold.is_not(None))
        self._told(ended.values(state=ReviewState.EFFECTIVE.value, **_UNCLAIMED), Act.EFFECTIVE)

    def cancel_gold(self, project: str, review: str, *, by: str, reason: str) -> bool:
        """Take an instance of a gold item off the desk; False for an item that is none."""
        ended = update(_reviews).where(_reviews.c.project == project, _reviews.c.id == review)
        ended = ended.where(sql(review_tables.PENDING), _reviews.c.gold.is_not(None))
        closed = ended.values(state=ReviewState.CANCELLED.value, **_UNCLAIMED)
        return self._told(closed, Act.WITHDRAWN, by, {"reason": reason}) > 0

    def expire_gold(self) -> int:
        late = update(_reviews).where(
            sql(review_tables.GOLD), sql(review_tables.OPEN), _reviews.c.deadline <= clock()
        )
        return self._told(late.values(state=ReviewState.EXPIRED.value, **_UNCLAIMED), Act.EXPIRED)

    def take_back(self, project: str, review: str, *, by: str, reason: str) -> str:
        row = self._row(project, review, lock=True)
        if row.state != ReviewState.EFFECTIVE or row.check_pk is None:
            raise Conflict("not_effective", f"nothing of review {review!r} is in effect")
        if row.retracted_at is None:
            marked = update(_reviews).where(_reviews.c.pk == row.pk)
            self._db.run(marked.values(retracted_at=clock()))
            self._note(row, Act.RETRACTED, by, {"reason": reason})
        return str(row.key)

    def judged(self, project: str, queue: str, limit: int) -> list[Judged]:
        found = (
            select(_reviews.c.pk, _reviews.c.id, _reviews.c.approvals, _gold.c.expected)
            .join(_gold, _gold.c.pk == _reviews.c.gold, isouter=True)
            .join(_checks, _checks.c.pk == _reviews.c.check_pk, isouter=True)
            .where(
                _reviews.c.project == project,
                _reviews.c.queue == queue,
                sql(f"reviews.{review_tables.ENDED}"),
                _reviews.c.retracted_at.is_(None),
                _checks.c.retraction.is_(None),
            )
        )
        rows = self._db.all(found.order_by(_reviews.c.pk.desc()).limit(limit))
        votes = self._votes_among([row.pk for row in rows])
        return [
            Judged(
                review=row.id,
                approvals=row.approvals,
                expected=None if row.expected is None else GoldExpected.model_validate_json(row.expected),
                votes=tuple(read_vote(vote) for vote in votes[row.pk]),
            )
            for row in rows
            if row.pk in votes
        ]
