"""Rows of the desk: read, locked, and told of in the trail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, and_, not_, or_, select

from verifier_service.domain.errors import Forbidden, NotFound
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_trail import SERVICE, Act
from verifier_service.domain.reviews import Review
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import Database, clock, sql
from verifier_service.persistence.desk_items import ALIVE, FREE, IS_OPEN, ITEMS, KEPT, read_review
from verifier_service.persistence.review_trail import SqlReviewTrail

_reviews, _votes = review_tables.reviews, review_tables.votes
_skips = review_tables.review_skips
_demands, _cases = tables.demands, tables.trajectories
TOLD = (_reviews.c.project, _reviews.c.queue, _reviews.c.id)


class DeskRows:
    """What every part of the desk works with."""

    def __init__(self, database: Database, trail: SqlReviewTrail) -> None:
        self._db = database
        self._trail = trail

    def get(self, project: str, review: str) -> Review:
        return self._read(self._row(project, review))

    def submitted(self, project: str, review: str, reviewer: str) -> bool:
        own = own_demands(reviewer).where(_demands.c.check_pk == self._row(project, review).check_pk)
        return self._db.first(own.limit(1)) is not None

    def _row(self, project: str, review: str, *, lock: bool = False) -> Row[Any]:
        found = ITEMS.where(_reviews.c.project == project, _reviews.c.id == review)
        row = self._db.first(self._db.locked(found, of=_reviews) if lock else found)
        if row is None:
            raise NotFound("review_not_found", f"no review {review!r}")
        return row

    def _require_not_own(self, row: Row[Any], reviewer: str) -> None:
        if row.check_pk is None:
            return
        own = own_demands(reviewer).where(_demands.c.check_pk == row.check_pk)
        if self._db.first(own.limit(1)) is not None:
            message = f"{reviewer!r} submitted what review {row.id!r} is about, and cannot judge it"
            raise Forbidden("own_submission", message)

    def _vote(self, review: int, reviewer: str) -> Row[Any] | None:
        return self._db.first(
            select(_votes).where(_votes.c.review == review, _votes.c.reviewer == reviewer)
        )

    def _read(self, row: Row[Any]) -> Review:
        return self._read_all([row])[0]

    def _read_all(self, rows: Sequence[Row[Any]]) -> list[Review]:
        votes = self._votes_among([row.pk for row in rows])
        return [read_review(row, votes.get(row.pk, [])) for row in rows]

    def _votes_among(self, reviews: Iterable[int]) -> dict[int, list[Row[Any]]]:
        """Votes by review, oldest first."""
        cast = select(_votes).where(self._db.among(_votes.c.review, reviews))
        found: dict[int, list[Row[Any]]] = defaultdict(list)
        for vote in self._db.all(cast.order_by(_votes.c.decided_at, _votes.c.reviewer)):
            found[vote.review].append(vote)
        return found

    def _note(self, row: Row[Any], kind: Act, actor: str, detail: JsonObject | None = None) -> None:
        self._trail.note(row.project, kind, actor, queue=row.queue, review=row.id, detail=detail)

    def _note_each(
        self, rows: Iterable[Row[Any]], kind: Act, actor: str, details: Mapping[str, JsonObject]
    ) -> None:
        for row in sorted(rows, key=lambda row: str(row.id)):
            self._note(row, kind, actor, details.get(row.id))

    def _told(
        self, changed: Update, kind: Act, actor: str = SERVICE, detail: JsonObject | None = None
    ) -> int:
        """Change items, and say so in the trail; how many there were."""
        rows = self._db.all(changed.returning(*TOLD))
        for row in rows:
            self._trail.note(row.project, kind, actor, queue=row.queue, review=row.id, detail=detail)
        return len(rows)


def own_demands(reviewer: str) -> Select[Any]:
    """Demands that want a check for what this person submitted."""
    return (
        select(_demands.c.pk)
        .join(_cases, _cases.c.pk == _demands.c.trajectory)
        .where(sql(f"demands.{tables.REQUESTED}"), _cases.c.submitter == reviewer)
    )


def kept_for(reviewer: str) -> ColumnElement[bool]:
    """Items that are kept for this person."""
    return and_(_reviews.c.assigned_to == reviewer, KEPT)


def open_to(reviewer: str) -> ColumnElement[bool]:
    """Free items that may be offered to this person: not what they have voted on or submitted, nor what
    they have put aside unless it is kept for them, nor what is another's."""
    voted = select(_votes.c.review).where(_votes.c.review == _reviews.c.pk, _votes.c.reviewer == reviewer)
    aside = select(_skips.c.review).where(_skips.c.review == _reviews.c.pk, _skips.c.reviewer == reviewer)
    own = own_demands(reviewer).where(_demands.c.check_pk == _reviews.c.check_pk)
    return and_(
        IS_OPEN,
        FREE,
        ALIVE,
        or_(kept_for(reviewer), and_(not_(KEPT), ~aside.exists())),
        or_(_reviews.c.dealt_to.is_(None), _reviews.c.dealt_to == reviewer),
        ~voted.exists(),
        ~own.exists(),
    )


def held_by(project: str, reviewer: str) -> tuple[ColumnElement[bool], ...]:
    """Items that this person holds."""
    mine = (_reviews.c.project == project, _reviews.c.claimed_by == reviewer)
    return (*mine, _reviews.c.claimed_until > clock(), IS_OPEN, ALIVE)
