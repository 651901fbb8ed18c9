"""Gold items and their instances on the desk."""

from __future__ import annotations

import json
import secrets
from typing import Any

from sqlalchemy import Row, func, insert, literal, select, update

from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.gold import GoldExpected, GoldItem, NewGold
from verifier_service.persistence.database import Database, clean, clock, sql
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.review_tables import GOLD_IN_USE, gold_items, review_turns, reviews
from verifier_service.persistence.tenancy import moment

_gold, _turns, _reviews = gold_items, review_turns, reviews
ID_BYTES = 12
MAX_UNSEEN = 1_000
_COPIED = (
    "project",
    "queue",
    "queue_version",
    "approvals",
    "blind",
    "minutes",
    "deadline",
    "lane",
    "precedence",
    "escalate_at",
    "escalated_at",
)
_ABOUT_S = 900.0  # an instance is a little older than the item it stands before
_LITTLE_S = 1.0  # as long as that is the oldest, which pages tell of


class SqlGold:
    """See ``ports.review_queues.GoldItems``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, project: str, wanted: NewGold, id: str) -> tuple[GoldItem, bool]:
        shown = clean(canonical_json(wanted.shown.model_dump(mode="json")))
        expected = dumped(wanted.expected)
        content = digest("gold", wanted.queue, shown, expected)
        values = {
            "project": project,
            "id": id,
            "queue": wanted.queue,
            "shown": shown,
            "expected": expected,
            "digest": content,
            "created_at": clock(),
        }
        created = self._db.first(self._db.insert_new(_gold).values(**values).returning(_gold.c.pk))
        row = self._row(project, id)
        if row.digest != content:
            raise Conflict("gold_conflict", f"gold item {id!r} is another one", field="id")
        return _item(row), created is not None

    def get(self, project: str, id: str) -> GoldItem:
        return _item(self._row(project, id))

    def listed(self, project: str, queue: str | None, limit: int) -> list[GoldItem]:
        found = select(_gold).where(_gold.c.project == project)
        if queue is not None:
            found = found.where(_gold.c.queue == queue)
        return [_item(row) for row in self._db.all(found.order_by(_gold.c.pk.desc()).limit(limit))]

    def retire(self, project: str, id: str) -> GoldItem:
        ended = update(_gold).where(_gold.c.project == project, _gold.c.id == id)
        self._db.run(ended.values(retired_at=func.coalesce(_gold.c.retired_at, clock())))
        return self.get(project, id)

    def turn(self, project: str, queue: str, reviewer: str) -> int:
        who = {"project": project, "queue": queue, "reviewer": reviewer}
        self._db.run(self._db.insert_new(_turns).values(**who, taken=0))
        more = update(_turns).where(*(_turns.c[name] == value for name, value in who.items()))
        counted = more.values(taken=_turns.c.taken + 1).returning(_turns.c.taken)
        return int(self._db.connection.execute(counted).scalar_one()) - 1

    def taken(self, project: str, queue: str, reviewer: str) -> int:
        found = select(_turns.c.taken).where(
            _turns.c.project == project, _turns.c.queue == queue, _turns.c.reviewer == reviewer
        )
        row = self._db.first(found)
        return 0 if row is None else int(row.taken)

    def seen(self, project: str, queue: str) -> dict[str, int]:
        found = (
            select(_reviews.c.dealt_to, func.count().label("n"))
            .join(_gold, _gold.c.pk == _reviews.c.gold)
            .where(_gold.c.project == project, _gold.c.queue == queue)
        )
        return {row.dealt_to: row.n for row in self._db.all(found.group_by(_reviews.c.dealt_to))}

    def unseen(self, project: str, queue: str, reviewer: str) -> list[str]:
        given = select(_reviews.c.pk).where(_reviews.c.gold == _gold.c.pk, _reviews.c.dealt_to == reviewer)
        found = select(_gold.c.id).where(
            _gold.c.project == project, _gold.c.queue == queue, sql(GOLD_IN_USE), ~given.exists()
        )
        return [row.id for row in self._db.all(found.order_by(_gold.c.pk).limit(MAX_UNSEEN))]

    def deal(self, project: str, id: str, reviewer: str, like: str) -> str:
        row = self._row(project, id)
        made = secrets.token_hex(ID_BYTES)
        own = {
            "id": made,
            "state": "open",
            "shown": self._shown_like(row.shown, project, like),
            "gold": row.pk,
            "dealt_to": reviewer,
            "created_at": self._a_little_older(project, like),
        }
        alike = select(
            *(_reviews.c[name] for name in _COPIED),
            *(literal(value, _reviews.c[name].type) for name, value in own.items()),
        ).where(_reviews.c.project == project, _reviews.c.id == like)
        self._db.run(insert(_reviews).from_select([*_COPIED, *own], alike))
        return made

    def _a_little_older(self, project: str, like: str) -> float:
        """A time between the making of an item and of the one before it that is open in its queue."""
        this = select(_reviews.c.queue, _reviews.c.created_at)
        row = self._db.connection.execute(
            this.where(_reviews.c.project == project, _reviews.c.id == like)
        ).one()
        earlier = select(func.max(_reviews.c.created_at).label("at")).where(
            _reviews.c.project == project,
            _reviews.c.queue == row.queue,
            _reviews.c.state == "open",
            _reviews.c.created_at < row.created_at,
        )
        before = self._db.connection.execute(earlier).scalar_one()
        apart = _LITTLE_S if before is None else min(_ABOUT_S, row.created_at - before)
        return float(row.created_at - apart * (1 + secrets.randbelow(998)) / 1_000)

    def _shown_like(self, shown: str, project: str, like: str) -> str:
        """What is shown, with the ladder of the item that it stands before where none is given: by it pages
        know what a candidate is, and without it a gold item is shown otherwise than the rest."""
        told = json.loads(shown)
        if told.get("ladder") is not None:
            return shown
        place = _reviews.c.project == project, _reviews.c.id == like
        other = self._db.first(select(_reviews.c.shown).where(*place))
        told["ladder"] = None if other is None else json.loads(other.shown).get("ladder")
        return clean(canonical_json(told))

    def _row(self, project: str, id: str) -> Row[Any]:
        row = self._db.first(select(_gold).where(_gold.c.project == project, _gold.c.id == id))
        if row is None:
            raise NotFound("gold_not_found", f"no gold item {id!r}")
        return row


def _item(row: Row[Any]) -> GoldItem:
    return GoldItem(
        id=row.id,
        queue=row.queue,
        shown=json.loads(row.shown),
        expected=GoldExpected.model_validate_json(row.expected),
        created_at=moment(row.created_at),
        retired_at=None if row.retired_at is None else moment(row.retired_at),
    )
