"""The trail of the desk: rows are added, and never changed but when a run is purged."""

from __future__ import annotations

import json

from sqlalchemy import insert, select

from verifier_service.domain.digests import canonical_json
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_trail import Act, ReviewEvent
from verifier_service.persistence.database import Database, clean, clock
from verifier_service.persistence.review_tables import review_events
from verifier_service.persistence.tenancy import moment

_events = review_events


class SqlReviewTrail:
    """See ``ports.review_queues.ReviewTrail``. ``key`` is what the acts of the transaction came through."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.key: str | None = None

    def note(
        self,
        project: str,
        kind: Act,
        actor: str,
        *,
        queue: str | None = None,
        review: str | None = None,
        detail: JsonObject | None = None,
    ) -> None:
        values = {
            "project": project,
            "at": clock(),
            "kind": kind.value,
            "actor": actor,
            "through": self.key,
            "queue": queue,
            "review": review,
            "detail": clean(canonical_json(detail)) if detail else None,
        }
        self._db.run(insert(_events).values(**values))

    def has_opened(self, review: str, actor: str) -> bool:
        """Whether somebody has looked at an item, or claimed it, which shows it."""
        return self.first_seen(review, actor) is not None

    def first_seen(self, review: str, actor: str) -> float | None:
        """When somebody first looked at an item or claimed it."""
        looks = _events.c.kind.in_([Act.OPENED.value, Act.CLAIMED.value])
        found = select(_events.c.at).where(_events.c.review == review, _events.c.actor == actor, looks)
        row = self._db.first(found.order_by(_events.c.pk).limit(1))
        return None if row is None else float(row.at)

    def page(
        self,
        project: str,
        *,
        after: int,
        limit: int,
        queue: str | None = None,
        review: str | None = None,
        actor: str | None = None,
        before: int | None = None,
    ) -> list[ReviewEvent]:
        found = select(_events).where(_events.c.project == project, _events.c.pk > after)
        if before is not None:
            found = found.where(_events.c.pk < before)
        wanted = ((_events.c.queue, queue), (_events.c.review, review), (_events.c.actor, actor))
        for column, value in wanted:
            if value is not None:
                found = found.where(column == value)
        order = _events.c.pk if before is None else _events.c.pk.desc()
        return [
            ReviewEvent(
                seq=row.pk,
                at=moment(row.at),
                kind=Act(row.kind),
                actor=row.actor,
                key=row.through,
                queue=row.queue,
                review=row.review,
                detail=json.loads(row.detail) if row.detail else {},
            )
            for row in self._db.all(found.order_by(order).limit(limit))
        ]
