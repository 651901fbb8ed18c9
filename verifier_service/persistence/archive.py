"""What is stored of a run as the lines of its archive.

Documents are passed on as they are stored, unparsed: most of an archive is their text. Where references are
left out, the bodies are taken apart, because they are in there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, Select, func, null, select

from verifier_service.domain.archive import COLUMNS, Kind, Line
from verifier_service.domain.ports.retention import Cited
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import Database, ordered
from verifier_service.persistence.retractions import read_retracted
from verifier_service.persistence.runs import no_run, run_key, state_of
from verifier_service.persistence.worker_tables import attempts

_runs, _cases, _bodies, _demands = tables.runs, tables.trajectories, tables.bodies, tables.demands
_checks, _rewards = tables.checks, tables.rewards
_reviews, _votes = review_tables.reviews, review_tables.votes
_NONE: Mapping[Any, dict[str, Any]] = {}


class SqlArchives:
    """See ``ports.retention.Archives``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def run(self, project: str, run: str) -> list[Line]:
        found = select(_runs, tables.feeds.c.seq.label("feed")).join(tables.feeds)
        row = self._db.first(found.where(_runs.c.project == project, _runs.c.id == run))
        if row is None:
            raise no_run(run)
        pins, ladders, accounts = tables.pins, tables.ladders, tables.accounts
        pinned = (
            select(ladders.c.name, ladders.c.version, ladders.c.spec)
            .join(pins, (pins.c.ladder == ladders.c.name) & (pins.c.version == ladders.c.version))
            .where(ladders.c.project == project, pins.c.run == row.pk)
            .order_by(ladders.c.name)
        )
        owned = select(accounts).where(accounts.c.run == row.pk).order_by(accounts.c.kind)
        return [
            *_lines("run", [row]),
            *_lines("account", self._db.all(owned)),
            *_lines("ladder", self._db.all(pinned)),
        ]

    def cases(
        self,
        project: str,
        run: str,
        after: str,
        limit: int,
        *,
        references: bool,
        most_bytes: int,
        through: int | None = None,
    ) -> Cited:
        chosen = self._sized(project, run, after, limit, most_bytes)
        if not chosen:
            return Cited([], frozenset(), None)
        pks = ordered([row.pk for row in chosen])
        found = select(_cases, _bodies.c.body, _bodies.c.turns).join(_bodies)
        rows = self._db.all(found.where(self._db.among(_cases.c.pk, pks)).order_by(_cases.c.id))
        wanted = _demand_rows().where(self._db.among(_demands.c.trajectory, pks))
        demands = self._db.all(wanted.order_by(_cases.c.id, _demands.c.pk))
        cited = frozenset(row.check for row in demands if row.check is not None)
        late = [row.id for row in rows if through is not None and (row.seq or 0) > through]
        before = self._standing(project, run, late, through or 0)
        lines = [*_lines("trajectory", rows, _whole if references else _without_gold, before)]
        return Cited([*lines, *_lines("demand", demands)], cited, chosen[-1].id)

    def _standing(
        self, project: str, run: str, ids: Collection[str], through: int
    ) -> dict[str, dict[str, Any]]:
        """What these trajectories had been given by the position ``through`` of the feed."""
        found = select(*(_rewards.c[name] for name in ("trajectory", *_STANDING))).where(
            _rewards.c.run == run_key(project, run),
            self._db.among(_rewards.c.trajectory, sorted(ids)),
            _rewards.c.seq <= through,
        )
        rows = self._db.all(found.order_by(_rewards.c.seq)) if ids else []
        nothing = {"status": None, "reward": None, "revision": 0, "seq": None}
        return dict.fromkeys(ids, nothing) | {
            row.trajectory: {name: row._mapping[name] for name in _STANDING} for row in rows
        }

    def checks(self, pks: Collection[int]) -> list[Line]:
        these = ordered(pks)
        named = (_checks.c.pk.label("check"), _runs.c.id.label("payer_id"), null().label("untold"))
        found = select(_checks, *named)
        found = found.join(_runs, _runs.c.pk == _checks.c.payer).where(self._db.among(_checks.c.pk, these))
        rows = self._db.all(found.order_by(_checks.c.pk))
        tried = select(attempts, attempts.c.check_pk.label("check"))
        tried = tried.where(self._db.among(attempts.c.check_pk, these))
        shown = select(_reviews, _reviews.c.check_pk.label("check"))
        shown = shown.where(self._db.among(_reviews.c.check_pk, these))
        reviews = self._db.all(shown.order_by(_reviews.c.pk))
        cast = select(_votes, _reviews.c.id.label("review_id")).join(_reviews)
        votes = cast.where(self._db.among(_votes.c.review, [row.pk for row in reviews]))
        return [
            *_lines("check", rows, changes=self._retractions(rows)),
            *_lines("attempt", self._db.all(tried.order_by(attempts.c.check_pk, attempts.c.fence))),
            *_lines("review", reviews),
            *_lines("vote", self._db.all(votes.order_by(_votes.c.review, _votes.c.reviewer))),
        ]

    def _retractions(self, rows: Sequence[Row[Any]]) -> dict[int, dict[str, Any]]:
        """Of checks whose evidence was taken back: by which retraction, why, by whom and when."""
        known = read_retracted(self._db, {row.retraction for row in rows if row.retraction is not None})
        return {
            row.check: {"retraction": known[row.retraction].model_dump(mode="json")}
            for row in rows
            if row.retraction in known
        }

    def rewards(self, project: str, run: str, after: int, through: int, limit: int) -> list[Line]:
        found = select(_rewards, _rewards.c.body.label("record")).where(
            _rewards.c.run == run_key(project, run), _rewards.c.seq > after, _rewards.c.seq <= through
        )
        return list(_lines("reward", self._db.all(found.order_by(_rewards.c.seq).limit(limit))))

    def _sized(self, project: str, run: str, after: str, limit: int, most_bytes: int) -> Sequence[Row[Any]]:
        """Keys of the next trajectories whose texts fit into one page; the first always does."""
        # Postgres knows the octets of a stored text without reading it.
        length = func.octet_length if self._db.postgres else func.length
        size: ColumnElement[int] = length(_bodies.c.body) + length(_bodies.c.turns)
        found = select(_cases.c.pk, _cases.c.id, size.label("size")).join(_bodies)
        found = found.where(_cases.c.run == run_key(project, run), _cases.c.id > after)
        rows = self._db.all(found.order_by(_cases.c.id).limit(limit))
        room = most_bytes

        def fits(row: Row[Any]) -> bool:
            nonlocal room
            room -= row.size
            return bool(room >= 0)

        return [*rows[:1], *takewhile(fits, rows[1:])]


def _demand_rows() -> Select[Any]:
    columns = [_demands.c[name] for name in COLUMNS["demand"] if name not in ("trajectory", "check")]
    named = (_cases.c.id.label("trajectory"), _demands.c.check_pk.label("check"))
    return select(*named, *columns).join(_cases, _cases.c.pk == _demands.c.trajectory)


# Columns of a trajectory that its latest record decides.
_STANDING = ("status", "reward", "revision", "seq")

# Columns that are called otherwise in the tables than in the archive.
_CALLED = {
    ("check", "payer"): "payer_id",
    ("check", "retraction"): "untold",
    ("vote", "review"): "review_id",
}
_NAMED: Mapping[Kind, str] = {"check": "check"}


def _lines(
    kind: Kind, rows: Iterable[Row[Any]], body: Any = None, changes: Mapping[Any, dict[str, Any]] = _NONE
) -> Iterator[Line]:
    """Each row with the columns of its kind; documents as they are stored. ``changes`` by the row's name go
    before what is stored."""
    columns = [
        (name, _CALLED.get((kind, name), name), shape == "json") for name, shape in COLUMNS[kind].items()
    ]
    for row in rows:
        stored = row._mapping
        values = {name: _json(stored[at]) if document else stored[at] for name, at, document in columns}
        if kind == "run":
            values["state"] = state_of(row)
        if body is not None:
            values["body"] = body(row.body)
        if changes:
            values |= changes.get(stored[_NAMED.get(kind, "id")], {})
        yield Line(kind, orjson.dumps(values))


def _json(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)


def _whole(body: str) -> object:
    return orjson.Fragment(body)


def _without_gold(body: str) -> object:
    document = orjson.loads(body)
    document.pop("reference", None)
    return document
