"""Settlements of events, the checks that wait for them, and when sources are asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Row, Select, Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from verifier_service.domain.digests import canonical_json
from verifier_service.domain.forecasts import Question
from verifier_service.domain.settlements import (
    Actual,
    Behind,
    Due,
    Poll,
    Settlement,
    SettlementState,
    Wanting,
)
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import NOW, insert_new
from verifier_service.persistence.database import Database, clean, clock, ordered
from verifier_service.persistence.settlement_tables import event_polls, event_waits, events_due, settlements
from verifier_service.persistence.tenancy import moment

_checks, _demands, _cases = tables.checks, tables.demands, tables.trajectories
MAX_QUESTIONS = 50
MAX_ERROR_CHARS = 200


class SqlSettlements:
    """See ``ports.settlements.Settlements``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def latest(self, project: str, events: Collection[str]) -> dict[str, Settlement]:
        newest = self._of(select(func.max(settlements.c.pk)), project, events)
        newest = newest.group_by(settlements.c.event)
        rows = self._db.all(select(settlements).where(settlements.c.pk.in_(newest)))
        return {row.event: _settlement(row) for row in rows}

    def known_since(self, project: str, events: Collection[str]) -> dict[str, float]:
        first = self._of(select(settlements.c.event, settlements.c.created_at), project, events)
        rows = self._db.all(first.where(settlements.c.version == 1))
        return {row.event: float(row.created_at) for row in rows}

    def add(
        self,
        project: str,
        actuals: Mapping[str, tuple[int, Actual]],
        *,
        source: str,
        import_id: str | None = None,
        by: str | None = None,
    ) -> int:
        rows = [
            {
                "project": project,
                "event": event,
                "version": version,
                "state": actual.state.value,
                "actual": None if actual.text is None else clean(actual.text),
                "number": actual.number,
                "source": source,
                "import_id": import_id,
                "by_name": None if by is None else clean(by),
            }
            for event, (version, actual) in sorted(actuals.items())
        ]
        made = [row.event for row in insert_new(self._db, settlements, rows, "event", created_at=NOW)]
        for event in made:
            self._make_due(project, event)
        over = delete(event_polls).where(event_polls.c.project == project)
        if made:
            self._db.run(over.where(self._db.among(event_polls.c.event, made)))
        return len(made)

    def listed(self, project: str, *, after: int, event: str | None, limit: int) -> list[Settlement]:
        found = select(settlements).where(settlements.c.project == project, settlements.c.pk > after)
        if event is not None:
            found = found.where(settlements.c.event == event)
        return [_settlement(row) for row in self._db.all(found.order_by(settlements.c.pk).limit(limit))]

    def wait(
        self,
        project: str,
        check: int,
        event: str,
        question: Question,
        *,
        source: str | None,
        not_before: float,
    ) -> None:
        values = {
            "check_pk": check,
            "project": project,
            "event": event,
            "kind": question.kind,
            "outcomes": canonical_json(question.outcomes),
            "version": 0,
        }
        made = self._upsert(event_waits).values(values)
        self._db.run(
            made.on_conflict_do_update(index_elements=[event_waits.c.check_pk], set_={"version": 0})
        )
        self._make_due(project, event)
        if source is not None:
            self._poll(project, source, event, not_before)

    def _poll(self, project: str, source: str, event: str, not_before: float) -> None:
        earliest = func.max if not self._db.postgres else func.greatest
        values = {
            "project": project,
            "source": source,
            "event": event,
            "next_at": earliest(not_before, clock()),
            "failures": 0,
        }
        sooner = func.min if not self._db.postgres else func.least
        columns = [event_polls.c.project, event_polls.c.event, event_polls.c.source]
        made = self._upsert(event_polls).values(values)
        at = sooner(event_polls.c.next_at, made.excluded.next_at)
        self._db.run(made.on_conflict_do_update(index_elements=columns, set_={"next_at": at}))

    def questions(self, project: str, events: Collection[str]) -> dict[str, list[Question]]:
        mine = select(event_waits.c.event, event_waits.c.kind, event_waits.c.outcomes).where(
            event_waits.c.project == project, self._db.among(event_waits.c.event, sorted(events))
        )
        found: dict[str, list[Question]] = {}
        for row in self._db.all(mine.distinct().order_by(event_waits.c.event, event_waits.c.outcomes)):
            known = found.setdefault(row.event, [])
            if len(known) < MAX_QUESTIONS:
                known.append(Question(row.kind, tuple(json.loads(row.outcomes))))
        return found

    def forecast_by(self, project: str, events: Collection[str], person: str) -> set[str]:
        found = (
            select(event_waits.c.event)
            .join(_demands, _demands.c.check_pk == event_waits.c.check_pk)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .where(
                event_waits.c.project == project,
                self._db.among(event_waits.c.event, sorted(events)),
                _cases.c.submitter == person,
            )
        )
        return {row.event for row in self._db.all(found.distinct())}

    def due(self, limit: int) -> list[Due]:
        found = select(events_due).order_by(events_due.c.pk).limit(limit)
        return [Due(row.project, row.event, row.token) for row in self._db.all(found)]

    def behind(self, project: str, event: str, version: int, limit: int) -> list[Behind]:
        found = (
            select(
                _checks.c.pk,
                _checks.c.key,
                _checks.c.verifier,
                _checks.c.item,
                _checks.c.state,
                _checks.c.retraction,
            )
            .join(event_waits, event_waits.c.check_pk == _checks.c.pk)
            .where(
                event_waits.c.project == project,
                event_waits.c.event == event,
                event_waits.c.version < version,
            )
        )
        rows = self._db.all(found.order_by(_checks.c.pk).limit(limit))
        return [
            Behind(row.pk, row.key, row.verifier, row.item, row.state, row.retraction is not None)
            for row in rows
        ]

    def told(self, checks: Collection[int], version: int) -> None:
        these = update(event_waits).where(self._db.among(event_waits.c.check_pk, ordered(checks)))
        self._db.run(these.values(version=version))

    def done(self, due: Due) -> None:
        mine = (events_due.c.project == due.project, events_due.c.event == due.event)
        self._db.run(delete(events_due).where(*mine, events_due.c.token == due.token))

    def wanting(self, checks: Collection[int]) -> list[Wanting]:
        at = func.coalesce(_cases.c.registered_at, _cases.c.created_at).label("at")
        found = (
            select(_demands.c.check_pk, _demands.c.pk, _demands.c.trajectory, at)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .where(
                self._db.among(_demands.c.check_pk, ordered(checks)),
                _demands.c.state == DemandState.REQUESTED.value,
            )
        )
        rows = self._db.all(found.order_by(_demands.c.pk))
        return [Wanting(row.check_pk, row.pk, row.trajectory, float(row.at)) for row in rows]

    def asking(self, sources: Collection[str]) -> list[str]:
        these = self._db.among(event_polls.c.source, sorted(sources))
        ready = select(event_polls.c.source).where(these, event_polls.c.next_at <= clock()).distinct()
        return [row.source for row in self._db.all(ready.order_by(event_polls.c.source))]

    def claim_polls(self, sources: Collection[str], limit: int, lease_s: float) -> list[Poll]:
        self._forget_polls()
        ready = select(event_polls).where(
            self._db.among(event_polls.c.source, sorted(sources)), event_polls.c.next_at <= clock()
        )
        ready = ready.order_by(event_polls.c.next_at, event_polls.c.pk).limit(limit)
        rows = self._db.all(self._db.locked(ready, skip=True))
        held = update(event_polls).where(self._db.among(event_polls.c.pk, [row.pk for row in rows]))
        if rows:
            self._db.run(held.values(next_at=clock() + lease_s))
        return [Poll(row.pk, row.project, row.source, row.event, row.failures) for row in rows]

    def _forget_polls(self) -> None:
        """Of events that no check waits for."""
        waits = (
            select(event_waits.c.check_pk)
            .join(_checks, _checks.c.pk == event_waits.c.check_pk)
            .where(
                event_waits.c.project == event_polls.c.project,
                event_waits.c.event == event_polls.c.event,
                _checks.c.state == CheckState.WAITING_EXTERNAL.value,
            )
        )
        ready = event_polls.c.next_at <= clock()
        self._db.run(delete(event_polls).where(ready, ~waits.exists()))

    def put_off(self, poll: int, delay_s: float, *, failures: int, error: str | None) -> None:
        text = None if error is None else clean(error)[:MAX_ERROR_CHARS]
        mine = update(event_polls).where(event_polls.c.pk == poll)
        self._db.run(mine.values(next_at=clock() + delay_s, failures=failures, error=text))

    def pause(self, source: str, delay_s: float) -> None:
        sooner = (event_polls.c.source == source, event_polls.c.next_at < clock() + delay_s)
        self._db.run(update(event_polls).where(*sooner).values(next_at=clock() + delay_s))

    def _of(self, found: Select[Any], project: str, events: Collection[str]) -> Select[Any]:
        these = self._db.among(settlements.c.event, sorted(events))
        return found.where(settlements.c.project == project, these)

    def _make_due(self, project: str, event: str) -> None:
        """An event that is due waits for whoever is about to say that it is done: see ``done``."""
        made = self._upsert(events_due).values(project=project, event=event, token=1)
        columns = [events_due.c.project, events_due.c.event]
        again = {"token": events_due.c.token + 1}
        self._db.run(made.on_conflict_do_update(index_elements=columns, set_=again))

    def _upsert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        return postgresql.insert(table) if self._db.postgres else sqlite.insert(table)


def _settlement(row: Row[Any]) -> Settlement:
    return Settlement(
        seq=row.pk,
        event=row.event,
        version=row.version,
        state=SettlementState(row.state),
        actual=row.actual,
        number=row.number,
        source=row.source,
        import_id=row.import_id,
        by=row.by_name,
        created_at=moment(row.created_at),
    )
