"""Retractions: what is sought, what is marked, and what rests on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, false, func, or_, select, update

from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.models import LadderKey
from verifier_service.domain.ports.retractions import Marked, Resting, Taken
from verifier_service.domain.retractions import (
    KEPT,
    RETRACTED,
    Extent,
    Mode,
    NewRetraction,
    Retracted,
    RetractedBy,
    Retraction,
    RetractionState,
    Sought,
    Task,
    moment_of,
)
from verifier_service.domain.runs import Key
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clean, clock, ordered, sql
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.retraction_tables import OPEN, retractions

_checks, _demands, _runs, _cases = tables.checks, tables.demands, tables.runs, tables.trajectories
_EVIDENCE = sql("checks.state = 'succeeded' AND checks.retraction IS NULL")
_STATE = RetractionState


class SqlRetractions:
    """See ``ports.retractions.Retractions``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def builds(self, project: str, verifier: str) -> list[str]:
        return self._distinct(_checks.c.version, project, verifier)

    def params(self, project: str, verifier: str) -> list[str]:
        return self._distinct(_checks.c.params, project, verifier)

    def _distinct(self, column: ColumnElement[str], project: str, verifier: str) -> list[str]:
        mine = (_checks.c.project == project, _checks.c.verifier == verifier, _EVIDENCE)
        return [row[0] for row in self._db.all(select(column).where(*mine).distinct().order_by(column))]

    def unknown(self, project: str, keys: Collection[str]) -> list[str]:
        found = select(_checks.c.key).where(
            _checks.c.project == project, self._db.among(_checks.c.key, sorted(keys))
        )
        known = {row.key for row in self._db.all(found.distinct())}
        return [key for key in keys if key not in known]

    def extent(self, sought: Sought, mode: Mode, today: str | None) -> Extent:
        chosen = (*self._sought(sought), *_ran(sought), _EVIDENCE)
        counted = self._db.all(select(func.count()).select_from(_checks).where(*chosen))
        rests = self._resting(chosen, mode)
        return Extent(
            checks=int(counted[0][0]),
            trajectories=rests.trajectories,
            runs=rests.runs,
            stopped=len(self.live(sought, today, None)),
        )

    def counted(self, task: Task) -> Extent:
        return self._resting(self._of(task), task.mode)

    def _resting(self, chosen: Collection[ColumnElement[bool]], mode: Mode) -> Extent:
        both = select(
            func.count(_demands.c.trajectory.distinct()).label("trajectories"),
            func.count(_demands.c.run.distinct()).label("runs"),
        )
        states = or_(_STANDS, _withdrawn(mode))
        row = self._db.all(_joined(both).where(*chosen, *_rests(mode), states))[0]
        return Extent(checks=0, trajectories=int(row.trajectories), runs=int(row.runs))

    def add(self, sought: Sought, wanted: NewRetraction, id: str, by: Key) -> tuple[Retraction, bool]:
        values = {
            "project": sought.project,
            "id": id,
            "digest": wanted.content,
            "wanted": dumped(wanted.selection),
            "builds": None if sought.builds is None else json.dumps(sought.builds),
            "params": None if sought.params is None else json.dumps(sought.params),
            "since": sought.since,
            "until": sought.until,
            "reason": clean(wanted.reason),
            "mode": wanted.mode.value,
            "by_key": by.id,
            "by_name": by.name,
            "state": _STATE.MARKING.value,
            "created_at": clock(),
            **dict.fromkeys(_COUNTS, 0),
        }
        made = self._db.first(self._db.insert_new(retractions).values(values).returning(retractions.c.pk))
        row = self._row(sought.project, id)
        if made is None and row.digest != wanted.content:
            raise Conflict("retraction_conflict", f"retraction {id!r} is of something else", field="id")
        return read_retraction(row), made is not None

    def get(self, project: str, id: str) -> Retraction:
        return read_retraction(self._row(project, id))

    def listed(self, project: str, limit: int) -> list[Retraction]:
        mine = select(retractions).where(retractions.c.project == project)
        rows = self._db.all(mine.order_by(retractions.c.pk.desc()).limit(limit))
        return [read_retraction(row) for row in rows]

    def open(self, limit: int) -> list[tuple[str, str]]:
        found = select(retractions.c.project, retractions.c.id).where(sql(OPEN))
        rows = self._db.all(found.order_by(retractions.c.pk).limit(limit))
        return [(row.project, row.id) for row in rows]

    def lock(self, project: str, id: str) -> Task:
        row = self._row(project, id, lock=True)
        named = json.loads(row.wanted)
        return Task(
            pk=row.pk,
            id=row.id,
            sought=Sought(
                project=row.project,
                keys=None if named.get("checks") is None else tuple(named["checks"]),
                verifier=named.get("verifier"),
                builds=None if row.builds is None else tuple(json.loads(row.builds)),
                params=None if row.params is None else tuple(json.loads(row.params)),
                since=row.since,
                until=row.until,
            ),
            reason=row.reason,
            mode=Mode(row.mode),
            state=_STATE(row.state),
            place=row.place,
            created_at=row.created_at,
        )

    def live(self, sought: Sought, today: str | None, limit: int | None) -> list[int]:
        pks: set[int] = set()
        for found in self._live(sought, today):
            pks.update(row.pk for row in self._db.all(found.limit(limit)))
        return ordered(pks)[:limit]

    def _live(self, sought: Sought, today: str | None) -> list[Select[Any]]:
        # The indexes of what is live are short; that of the project's keys is not.
        mine = select(_checks.c.pk).where(*self._sought(sought, by_index=sought.keys is not None))
        # The bound on the time makes the index of leases usable.
        running = mine.where(sql(tables.RUNNING), _checks.c.lease_until >= 0.0)
        ways = [running.where(_checks.c.started_at <= sought.until)]
        if sought.verifier is not None and today is not None:
            tiers = _checks.c.tier.in_([tier.value for tier in TIERS])
            old = mine.where(tiers, _checks.c.version != today, _checks.c.created_at <= sought.until)
            ways += [old.where(sql(queued)) for queued in (tables.READY, tables.DELAYED)]
        return ways

    def mark(self, task: Task, limit: int) -> Marked:
        sought = task.sought
        chosen = select(_checks.c.pk, _checks.c.tier).where(_EVIDENCE, *_ran(sought))
        if sought.keys is None:
            chosen = chosen.where(*self._sought(sought), _checks.c.pk > task.place)
            rows = self._for_good(chosen.order_by(_checks.c.pk).limit(limit))
            place = rows[-1].pk if len(rows) == limit else None
        else:
            named = sought.keys[task.place : task.place + limit]
            these = (_checks.c.project == sought.project, self._db.among(_checks.c.key, named))
            rows = self._for_good(chosen.where(*these).order_by(_checks.c.pk))
            after = task.place + len(named)
            place = after if after < len(sought.keys) else None
        if rows:
            marked = update(_checks).where(self._db.among(_checks.c.pk, [row.pk for row in rows]))
            self._db.run(marked.values(retraction=task.pk))
        return Marked(dict(Counter(Tier(row.tier) for row in rows)), place)

    def _for_good(self, chosen: Select[Any]) -> list[Row[Any]]:
        """Locked as for a deletion: whoever is about to cite one of them has committed before we look, or
        waits for us and then finds it marked (see ``SqlDemands``)."""
        return list(self._db.all(chosen.with_for_update() if self._db.postgres else chosen))

    def resting(self, task: Task, limit: int) -> Resting:
        """What was withdrawn before, and for another reason now, comes last and has no place of its own."""
        pairs = select(_demands.c.trajectory, _checks.c.pk)
        found = _joined(pairs).where(*self._of(task), *_rests(task.mode))
        standing = found.where(_STANDS, _checks.c.pk >= task.place)
        rows = self._db.all(standing.order_by(_checks.c.pk).limit(limit))
        if not rows:
            before = found.where(_withdrawn(task.mode)).order_by(_checks.c.pk)
            rows = self._db.all(before.limit(limit))
            return Resting(ordered([row.trajectory for row in rows]), task.place)
        return Resting(ordered([row.trajectory for row in rows]), rows[-1].pk if rows else task.place)

    def untaught(self, since: float) -> dict[LadderKey, int]:
        done = select(retractions.c.pk).where(retractions.c.finished_at >= since)
        pks = [row.pk for row in self._db.all(done)]
        if not pks:
            return {}
        lost = (
            select(_runs.c.project, _cases.c.ladder, _cases.c.ladder_version, func.count().label("n"))
            .select_from(_checks)
            .join(_demands, _demands.c.check_pk == _checks.c.pk)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .join(_runs, _runs.c.pk == _cases.c.run)
            .where(self._db.among(_checks.c.retraction, pks), _checks.c.tier != Tier.FAST.value)
            .group_by(_runs.c.project, _cases.c.ladder, _cases.c.ladder_version)
        )
        return {LadderKey(row.project, row.ladder, row.ladder_version): row.n for row in self._db.all(lost)}

    def taken(self, task: Task, trajectories: Collection[int]) -> list[Taken]:
        found = _joined(select(_demands.c.pk, _demands.c.trajectory, _demands.c.role)).where(
            self._db.among(_demands.c.trajectory, ordered(trajectories)),
            *self._of(task, by_index=False),
            *_rests(task.mode),
            or_(_STANDS, _withdrawn(task.mode)),
        )
        return [
            Taken(row.pk, row.trajectory, row.role) for row in self._db.all(found.order_by(_demands.c.pk))
        ]

    def move(
        self,
        task: Task,
        *,
        place: int,
        checks: int = 0,
        stopped: int = 0,
        done: int = 0,
        records: int = 0,
    ) -> None:
        added = {"checks": checks, "stopped": stopped, "done": done, "records": records}
        self._set(task, place=place, **{name: retractions.c[name] + n for name, n in added.items()})

    def supersede(self, task: Task, extent: Extent) -> None:
        self._set(
            task,
            state=_STATE.SUPERSEDING.value,
            place=0,
            trajectories=extent.trajectories,
            runs=extent.runs,
        )

    def reverify(self, task: Task, extent: Extent) -> None:
        marked = task.state is not _STATE.MARKING
        counts = {"trajectories": extent.trajectories, "runs": extent.runs, "done": 0, "place": 0}
        again = {"state": _STATE.SUPERSEDING.value, "finished_at": None, **counts}
        self._set(task, mode=Mode.REVERIFY.value, **(again if marked else {}))

    def finish(self, task: Task) -> None:
        self._set(task, state=_STATE.DONE.value, finished_at=clock())

    def _set(self, task: Task, **values: Any) -> None:
        self._db.run(update(retractions).where(retractions.c.pk == task.pk).values(**values))

    def _row(self, project: str, id: str, *, lock: bool = False) -> Row[Any]:
        found = select(retractions).where(retractions.c.project == project, retractions.c.id == id)
        row = self._db.first(self._db.locked(found) if lock else found)
        if row is None:
            raise NotFound("retraction_not_found", f"no retraction {id!r}")
        return row

    def _of(self, task: Task, *, by_index: bool = True) -> tuple[ColumnElement[bool], ...]:
        """The evidence of a task that is under way. Not ``by_index`` where the checks are known: SQLite
        would find all that is sought first."""
        if task.mode is Mode.REPLACE:
            # Whoever has asked since has asked for what there is: it would be replaced by itself, for ever.
            before = _demands.c.decided_at <= task.created_at
            return (*self._sought(task.sought, by_index=by_index), *_ran(task.sought), _EVIDENCE, before)
        return ((_checks.c.retraction if by_index else _checks.c.retraction + 0) == task.pk,)

    def _sought(self, sought: Sought, *, by_index: bool = True) -> tuple[ColumnElement[bool], ...]:
        """Checks of the selection, in any state and at any time."""
        project = _checks.c.project if by_index else _checks.c.project + ""
        found = [project == sought.project]
        if sought.keys is not None:
            found.append(self._db.among(_checks.c.key, sought.keys))
        if sought.verifier is not None:
            found.append(_checks.c.verifier == sought.verifier)
        if sought.builds is not None:
            found.append(self._db.among(_checks.c.version, sought.builds))
        if sought.params is not None:
            found.append(self._db.among(_checks.c.params, sought.params))
        return tuple(found)


_COUNTS = ("place", "stopped", "checks", "trajectories", "runs", "done", "records")
# With the ended check of a demand that nobody has advanced yet.
_STANDS = _demands.c.state.in_(["requested", "satisfied"])


def _withdrawn(mode: Mode) -> ColumnElement[bool]:
    """Demands whose evidence counts although they were withdrawn, or, in open runs, is to be had again."""
    if mode is Mode.REPLACE:
        return false()
    withdrawn, kept = _demands.c.state == "withdrawn", _demands.c.reason == KEPT
    if mode is Mode.RETRACT:
        return and_(withdrawn, kept)
    unasked = and_(_demands.c.reason == RETRACTED, _runs.c.state == "open")
    return and_(withdrawn, or_(kept, unasked))


def _ran(sought: Sought) -> tuple[ColumnElement[bool], ...]:
    """Ended checks whose attempt was under way at some time of the range."""
    began = case((_checks.c.external, _checks.c.ended_at), else_=_checks.c.started_at)
    ran = [began <= sought.until]
    if sought.since is not None:
        ran.append(_checks.c.ended_at >= sought.since)
    return tuple(ran)


def _rests(mode: Mode) -> tuple[ColumnElement[bool], ...]:
    """Demands that a task of that mode changes, as far as their run and role decide."""
    if mode is Mode.REPLACE:  # under another identity it would be another candidate
        return (_runs.c.state == "open", _demands.c.role != "identify")
    return (_runs.c.purging_at.is_(None),)


def _joined(columns: Any) -> Select[Any]:
    cited: Select[Any] = columns.select_from(_checks).join(_demands, _demands.c.check_pk == _checks.c.pk)
    return cited.join(_runs, _runs.c.pk == _demands.c.run)


def read_retraction(row: Row[Any]) -> Retraction:
    """A row as a record."""
    return Retraction.model_validate(
        {
            "id": row.id,
            "selection": json.loads(row.wanted),
            "reason": row.reason,
            "reverify": row.mode != Mode.RETRACT,
            "keep": row.mode == Mode.REPLACE,
            "by": {"key": row.by_key, "name": row.by_name},
            "state": row.state,
            **{name: row._mapping[name] for name in _COUNTS if name != "place"},
            "created_at": moment_of(row.created_at),
            "finished_at": None if row.finished_at is None else moment_of(row.finished_at),
        }
    )


def read_retracted(database: Database, pks: Collection[int]) -> dict[int, Retracted]:
    """What a case shows of retractions, by their primary keys."""
    found = select(retractions).where(database.among(retractions.c.pk, ordered(pks)))
    return {
        row.pk: Retracted(
            id=row.id,
            reason=row.reason,
            by=RetractedBy(key=row.by_key, name=row.by_name),
            at=moment_of(row.created_at),
        )
        for row in (database.all(found) if pks else ())
    }
