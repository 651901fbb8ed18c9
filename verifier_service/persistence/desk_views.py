"""Reads for the pages of the desk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, case, func, or_, select, text

from verifier_service.domain.ports.desk_views import Behind, Placed, QueueLoad
from verifier_service.domain.reviews import Review
from verifier_service.domain.trajectories import Turn
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.desk_items import IS_OPEN, ITEMS, KEPT, places, read_review
from verifier_service.persistence.desk_rows import DeskRows, held_by, open_to

_reviews, _votes = review_tables.reviews, review_tables.votes
_demands, _cases, _runs = tables.demands, tables.trajectories, tables.runs
COUNTED = 1_000  # open items of one queue that are looked at, those that wait longest
# The queues are found one after another, however much waits in each of them.
_OPEN_QUEUES = text(
    f"""
    WITH RECURSIVE named (queue) AS (
        SELECT min(queue) FROM reviews WHERE project = :project AND {review_tables.OPEN}
        UNION ALL
        SELECT (SELECT min(queue) FROM reviews
            WHERE project = :project AND {review_tables.OPEN} AND queue > named.queue)
        FROM named WHERE named.queue IS NOT NULL
    )
    SELECT queue FROM named WHERE queue IS NOT NULL ORDER BY queue
    """  # noqa: S608 - constants
)


class SqlDeskViews(DeskRows):
    """See ``ports.desk_views.DeskViews``."""

    def queues(self, project: str) -> list[str]:
        return [row.queue for row in self._db.all(_OPEN_QUEUES, {"project": project})]

    def loads(self, project: str, reviewer: str) -> list[QueueLoad]:
        mine = select(_reviews.c.queue, func.count().label("n")).where(*held_by(project, reviewer))
        held = {row.queue: row.n for row in self._db.all(mine.group_by(_reviews.c.queue))}
        found = [self._load(project, name, reviewer, held.get(name, 0)) for name in self.queues(project)]
        return [one for one in found if one.open or one.more or one.mine]

    def _load(self, project: str, queue: str, reviewer: str, mine: int) -> QueueLoad:
        offered = open_to(reviewer)
        not_another = or_(_reviews.c.dealt_to.is_(None), _reviews.c.dealt_to == reviewer)
        of_queue = select(
            _reviews.c.created_at,
            case((offered, 1), else_=0).label("offered"),
            case((KEPT, 0), else_=1).label("fresh"),
        ).where(_reviews.c.project == project, _reviews.c.queue == queue, IS_OPEN, not_another)
        oldest = of_queue.order_by(_reviews.c.pk).limit(COUNTED).subquery()
        aged = of_queue.where(_reviews.c.lane == 0, _reviews.c.escalated_at.is_not(None))
        late = aged.order_by(_reviews.c.precedence, _reviews.c.pk).limit(COUNTED).subquery()
        [waits] = self._db.all(
            select(
                func.count().label("looked"),
                func.count(case((oldest.c.offered == 1, 1))).label("open"),
                func.count(case((oldest.c.offered * oldest.c.fresh == 1, 1))).label("fresh"),
                func.min(case((oldest.c.offered == 1, oldest.c.created_at))).label("oldest"),
            )
        )
        [escalated] = self._db.all(
            select(
                func.count(case((late.c.offered == 1, 1))).label("n"),
                func.count(case((late.c.offered * late.c.fresh == 1, 1))).label("fresh"),
            )
        )
        return QueueLoad(
            queue,
            waits.open,
            mine,
            escalated.n,
            waits.oldest,
            waits.looked == COUNTED,
            fresh=waits.fresh,
            fresh_escalated=escalated.fresh,
        )

    def held(self, project: str, reviewer: str, limit: int) -> list[Review]:
        mine = ITEMS.where(*held_by(project, reviewer))
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
        chosen = places(project, queue, state, limit, _reviews.c.pk > after).subquery()
        found = ITEMS.join(chosen, chosen.c.pk == _reviews.c.pk)
        return self._placed(self._db.all(found.order_by(_reviews.c.pk)))

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
