"""Reads for the pages of the desk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, case, func, or_, select

from verifier_service.domain.ports.desk_views import Behind, Placed, QueueLoad
from verifier_service.domain.reviews import Review
from verifier_service.domain.trajectories import Turn
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import clock
from verifier_service.persistence.desk_items import ALIVE, FREE, IS_OPEN, ITEMS, KEPT, in_state, read_review
from verifier_service.persistence.desk_rows import DeskRows

_reviews, _votes = review_tables.reviews, review_tables.votes
_demands, _cases, _runs = tables.demands, tables.trajectories, tables.runs


class SqlDeskViews(DeskRows):
    """See ``ports.desk_views.DeskViews``."""

    def loads(self, project: str, reviewer: str) -> list[QueueLoad]:
        held = (_reviews.c.claimed_by == reviewer) & ~FREE
        offered = FREE & or_(~KEPT, _reviews.c.assigned_to == reviewer)
        waits = case((offered, 1))
        found = (
            select(
                _reviews.c.queue,
                func.count(waits).label("open"),
                func.count(case((held, 1))).label("mine"),
                func.count(case((offered & _reviews.c.escalated_at.is_not(None), 1))).label("escalated"),
                func.min(case((offered, _reviews.c.created_at))).label("oldest"),
            )
            .where(_reviews.c.project == project, IS_OPEN, ALIVE, or_(offered, held))
            .group_by(_reviews.c.queue)
            .order_by(_reviews.c.queue)
        )
        return [
            QueueLoad(row.queue, row.open, row.mine, row.escalated, row.oldest)
            for row in self._db.all(found)
        ]

    def held(self, project: str, reviewer: str, limit: int) -> list[Review]:
        mine = ITEMS.where(_reviews.c.project == project, IS_OPEN, _reviews.c.claimed_by == reviewer)
        mine = mine.where(_reviews.c.claimed_until > clock(), ALIVE)
        return self._read_all(self._db.all(mine.order_by(_reviews.c.claimed_until).limit(limit)))

    def decided(self, project: str, reviewer: str, limit: int) -> list[Review]:
        mine = ITEMS.join(_votes, _votes.c.review == _reviews.c.pk).where(
            _reviews.c.project == project, _votes.c.reviewer == reviewer
        )
        latest = mine.order_by(_votes.c.decided_at.desc(), _reviews.c.pk.desc()).limit(limit)
        return self._read_all(self._db.all(latest))

    def page(
        self, project: str, *, queue: str | None, state: str | None, after: int, limit: int
    ) -> list[Placed]:
        found = ITEMS.where(_reviews.c.project == project, _reviews.c.pk > after)
        if queue is not None:
            found = found.where(_reviews.c.queue == queue)
        if state is not None:
            found = found.where(in_state(state))
        rows = self._db.all(found.order_by(_reviews.c.pk).limit(limit))
        return self._placed(rows)

    def behind(self, project: str, review: str, limit: int) -> list[Behind]:
        check = self._row(project, review).check_pk
        if check is None:
            return []
        found = (
            select(_cases.c.pk, _runs.c.id.label("run"), _cases.c.id)
            .join(_demands, _demands.c.trajectory == _cases.c.pk)
            .join(_runs, _runs.c.pk == _cases.c.run)
            .where(_demands.c.check_pk == check, _demands.c.state.in_(["requested", "satisfied"]))
            .order_by(_cases.c.pk)
            .limit(limit)
        )
        return [Behind(row.pk, row.run, row.id) for row in self._db.all(found)]

    def told(self, project: str, review: str) -> tuple[Turn, ...]:
        stored = json.loads(self._row(project, review).shown).get("turns", [])
        return tuple(Turn.model_validate(turn) for turn in stored)

    def _placed(self, rows: Sequence[Row[Any]]) -> list[Placed]:
        votes = self._votes_among([row.pk for row in rows])
        return [Placed(row.pk, read_review(row, votes.get(row.pk, []))) for row in rows]
