"""Results of laboratories: imports, versions of values, maps of plates."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select

from verifier_service.domain.digests import digest
from verifier_service.domain.lab_results import (
    ImportLine,
    LabImport,
    LabValue,
    LabVersion,
    PlateMap,
    Target,
)
from verifier_service.domain.reviews import ReviewState
from verifier_service.domain.runs import Key
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.bulk import NOW, insert_new
from verifier_service.persistence.database import Database, clean, clock, sql
from verifier_service.persistence.desk_items import ALIVE, FREE
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.lab_tables import lab_imports, lab_values, plate_maps
from verifier_service.persistence.tenancy import moment

_reviews, _checks, _demands = review_tables.reviews, tables.checks, tables.demands
_cases, _runs = tables.trajectories, tables.runs
_PENDING = [ReviewState.OPEN.value, ReviewState.DECIDED.value]
_STANDS = _demands.c.state.in_(["requested", "satisfied"])


class SqlLabResults:
    """See ``ports.lab_results.LabResults``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def find(self, project: str, id: str) -> LabImport | None:
        mine = select(lab_imports).where(lab_imports.c.project == project, lab_imports.c.id == id)
        row = self._db.first(mine)
        if row is None:
            return None
        done = LabImport.model_validate_json(row.answer)
        return done.model_copy(update={"created": False, "created_at": moment(row.created_at)})

    def add(self, project: str, done: LabImport, key: Key) -> bool:
        values = {
            "project": project,
            "id": done.id,
            "digest": done.digest,
            "file": None if done.file is None else clean(done.file),
            "measured_by": None if done.by is None else clean(done.by),
            "answer": dumped(done),
            "by_key": key.id,
            "by_name": key.name,
            "created_at": clock(),
        }
        made = self._db.insert_new(lab_imports).values(values).returning(lab_imports.c.pk)
        return self._db.first(made) is not None

    def history(self, project: str, limit: int) -> list[ImportLine]:
        kept = lab_imports.c
        found = select(kept.id, kept.file, kept.measured_by, kept.by_name, kept.created_at)
        latest = found.where(kept.project == project).order_by(kept.pk.desc()).limit(limit)
        return [
            ImportLine(row.id, row.file, row.measured_by, row.by_name, moment(row.created_at))
            for row in self._db.all(latest)
        ]

    def keep(self, project: str, import_id: str, values: Mapping[int, LabValue]) -> int:
        pk = self._pk(project, import_id)
        rows = [
            {"check_pk": check, "version": one.version, "import_pk": pk, "value": dumped(one)}
            for check, one in sorted(values.items())
        ]
        return len(insert_new(self._db, lab_values, rows, "pk", created_at=NOW))

    def versions(self, project: str, check: str, limit: int) -> list[LabVersion]:
        found = (
            select(lab_values.c.value, lab_values.c.created_at, *_IMPORTED)
            .join(_checks, _checks.c.pk == lab_values.c.check_pk)
            .join(lab_imports, lab_imports.c.pk == lab_values.c.import_pk)
            .where(_checks.c.project == project, _checks.c.key == check)
        )
        return [_version(row) for row in self._db.all(found.order_by(lab_values.c.pk.desc()).limit(limit))]

    def by_review(self, project: str, reviews: Collection[str]) -> list[Target]:
        return self._targets(project, self._db.among(_reviews.c.id, sorted(reviews)), _SHOWN)

    def by_place(self, project: str, run: str, trajectories: Collection[str]) -> list[Target]:
        mine = and_(_runs.c.id == run, self._db.among(_cases.c.id, sorted(trajectories)))
        return self._targets(project, mine, _SHOWN)

    def by_candidate(self, project: str, canonical: Collection[str]) -> list[Target]:
        these = self._db.among(_cases.c.canonical, sorted(canonical))
        waiting = self._targets(project, these, sql(f"reviews.{review_tables.OPEN}"))
        return [*waiting, *self._targets(project, these, _ANSWERED)]

    def waiting(self, project: str, queue: str | None, limit: int) -> list[Target]:
        of_desk = (_reviews.c.project == project, _reviews.c.check_pk.is_not(None))
        oldest = select(_reviews.c.pk).where(*of_desk, sql(review_tables.OPEN))
        if queue is not None:
            oldest = oldest.where(_reviews.c.queue == queue)
        # Items first, or Postgres joins all that is open with what it belongs to before it sorts.
        chosen = oldest.order_by(_reviews.c.pk).limit(limit).cte("chosen")
        found = _TARGETS.join(chosen, chosen.c.pk == _reviews.c.pk).where(_cases.c.pk == _FIRST)
        rows = self._db.all(found.order_by(_reviews.c.pk, _cases.c.pk))
        return [_target(row) for row in rows]

    def answerable(
        self, project: str, queue: str | None, limit: int, *, after: str | None = None, person: str | None
    ) -> list[Target]:
        found = _TARGETS.where(
            _reviews.c.project == project,
            sql(f"reviews.{review_tables.OPEN}"),
            _cases.c.pk == _FIRST,
            FREE,
            ALIVE,
            _reviews.c.approvals == 1,
        )
        if queue is not None:
            found = found.where(_reviews.c.queue == queue)
        if person is not None:
            found = found.where(~_submitted(_OTHERS.c.check_pk == _reviews.c.check_pk, person).exists())
        if after is not None:
            last = select(_reviews.c.pk).where(_reviews.c.project == project, _reviews.c.id == after)
            found = found.where(_reviews.c.pk > last.scalar_subquery())
        rows = self._db.all(found.order_by(_reviews.c.pk).limit(limit))
        return [_target(row) for row in rows]

    def submitted_by(self, checks: Collection[int], person: str) -> set[int]:
        these = self._db.among(_OTHERS.c.check_pk, sorted(checks))
        return {row.check_pk for row in self._db.all(_submitted(these, person).distinct())}

    def gold_items(self, project: str, reviews: Collection[str]) -> list[Target]:
        these = self._db.among(_reviews.c.id, sorted(reviews))
        found = _GOLD.where(_reviews.c.project == project, these, _SHOWN)
        return [_gold_target(row) for row in self._db.all(found.order_by(_reviews.c.pk))]

    def gold_showing(self, project: str, candidates: Collection[str]) -> list[Target]:
        found = _GOLD.where(_reviews.c.project == project, sql(f"reviews.{review_tables.OPEN}"))
        open_ones = self._db.all(found.order_by(_reviews.c.pk).limit(MAX_GOLD))
        return [one for one in map(_gold_target, open_ones) if one.canonical in candidates]

    def known_reviews(self, project: str, reviews: Collection[str]) -> set[str]:
        these = self._db.among(_reviews.c.id, sorted(reviews))
        found = select(_reviews.c.id).where(_reviews.c.project == project, these)
        return {row.id for row in self._db.all(found)}

    def having(self, checks: Collection[int]) -> list[tuple[int, str, int]]:
        found = (
            select(_demands.c.check_pk, _runs.c.id.label("run"), _cases.c.pk)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .join(_runs, _runs.c.pk == _cases.c.run)
            .where(
                self._db.among(_demands.c.check_pk, sorted(checks)),
                _demands.c.state == "satisfied",
                _runs.c.purging_at.is_(None),
            )
        )
        return [(row.check_pk, row.run, row.pk) for row in self._db.all(found.order_by(_cases.c.pk))]

    def map_plates(self, project: str, import_id: str, plates: Sequence[PlateMap]) -> None:
        pk = self._pk(project, import_id) if plates else 0
        for plate in plates:
            values = {"project": project, "name": plate.name, "import_pk": pk, "map": dumped(plate)}
            self._db.run(plate_maps.insert().values(values))

    def plates(self, project: str, names: Collection[str]) -> dict[str, PlateMap]:
        these = self._db.among(plate_maps.c.name, sorted(names))
        latest = select(func.max(plate_maps.c.pk)).where(plate_maps.c.project == project, these)
        found = select(plate_maps).where(plate_maps.c.pk.in_(latest.group_by(plate_maps.c.name)))
        return {row.name: PlateMap.model_validate_json(row.map) for row in self._db.all(found)}

    def _pk(self, project: str, id: str) -> int:
        mine = select(lab_imports.c.pk).where(lab_imports.c.project == project, lab_imports.c.id == id)
        return int(self._db.connection.execute(mine).scalar_one())

    def _targets(self, project: str, *chosen: ColumnElement[bool]) -> list[Target]:
        found = _TARGETS.where(_reviews.c.project == project, *chosen)
        return [_target(row) for row in self._db.all(found.order_by(_cases.c.pk, _reviews.c.pk))]


_IMPORTED = (
    lab_imports.c.id,
    lab_imports.c.file,
    lab_imports.c.digest,
    lab_imports.c.measured_by,
    lab_imports.c.by_name,
)
_LATEST = (
    select(lab_values.c.value)
    .where(lab_values.c.check_pk == _checks.c.pk)
    .order_by(lab_values.c.version.desc())
    .limit(1)
    .scalar_subquery()
)
_OTHERS, _OWN = _demands.alias(), _cases.alias()
_FIRST = (
    select(func.min(_OTHERS.c.trajectory))
    .where(_OTHERS.c.check_pk == _checks.c.pk, _OTHERS.c.state.in_(["requested", "satisfied"]))
    .scalar_subquery()
)
_TARGETS: Select[Any] = (
    select(
        _reviews.c.id.label("review"),
        _reviews.c.queue,
        _reviews.c.state,
        _reviews.c.claimed_until,
        _reviews.c.deadline,
        _reviews.c.approvals,
        _checks.c.pk.label("check_pk"),
        _checks.c.key,
        _checks.c.verifier,
        _checks.c.retraction,
        _runs.c.id.label("run"),
        _cases.c.id.label("trajectory"),
        _cases.c.pk.label("case_pk"),
        _cases.c.canonical,
        _cases.c.ladder,
        _cases.c.ladder_version,
        _LATEST.label("latest"),
        clock().label("now"),
    )
    .join(_checks, _checks.c.pk == _reviews.c.check_pk)
    .join(_demands, and_(_demands.c.check_pk == _checks.c.pk, _STANDS))
    .join(_cases, _cases.c.pk == _demands.c.trajectory)
    .join(_runs, _runs.c.pk == _cases.c.run)
)
_GOLD: Select[Any] = select(_reviews, clock().label("now")).where(sql(f"reviews.{review_tables.GOLD}"))
MAX_GOLD = 2_000  # open gold items that are looked through for a candidate
_EFFECTIVE = _reviews.c.state == ReviewState.EFFECTIVE.value
_SHOWN = or_(_reviews.c.state.in_(_PENDING), _EFFECTIVE)
_ANSWERED = and_(_EFFECTIVE, select(lab_values.c.pk).where(lab_values.c.check_pk == _checks.c.pk).exists())


def _target(row: Row[Any]) -> Target:
    return Target(
        review=row.review,
        queue=row.queue,
        check=row.check_pk,
        key=row.key,
        verifier=row.verifier,
        state=row.state,
        claimed=row.claimed_until is not None and row.claimed_until > row.now,
        expired=row.deadline is not None and row.deadline <= row.now,
        approvals=row.approvals,
        run=row.run,
        trajectory=row.trajectory,
        pk=row.case_pk,
        canonical=row.canonical,
        ladder=row.ladder,
        ladder_version=row.ladder_version,
        deadline=row.deadline,
        retracted=row.retraction is not None,
        latest=None if row.latest is None else LabValue.model_validate_json(row.latest),
    )


def _gold_target(row: Row[Any]) -> Target:
    """A gold item, with the looks of the item that it imitates: while that would wait for further votes, it
    does."""
    shown = json.loads(row.shown)
    candidate = shown.get("candidate")
    veiled = row.state == ReviewState.DECIDED and row.approvals > 1
    return Target(
        review=row.id,
        queue=row.queue,
        check=-row.pk,
        key=digest("check", row.id),
        verifier="",
        state=ReviewState.OPEN.value if veiled else row.state,
        claimed=row.claimed_until is not None and row.claimed_until > row.now,
        expired=row.deadline is not None and row.deadline <= row.now,
        approvals=row.approvals,
        run="",
        trajectory="",
        pk=0,
        canonical=candidate if isinstance(candidate, str) else None,
        ladder=shown.get("ladder") or "",
        ladder_version=0,
        deadline=row.deadline,
        retracted=False,
        latest=None,
    )


def _submitted(checks: ColumnElement[bool], person: str) -> Select[Any]:
    """Checks that are, or were, wanted for what this person submitted."""
    return (
        select(_OTHERS.c.check_pk)
        .join(_OWN, _OWN.c.pk == _OTHERS.c.trajectory)
        .where(checks, _OTHERS.c.state.in_(["requested", "satisfied"]), _OWN.c.submitter == person)
    )


def _version(row: Row[Any]) -> LabVersion:
    return LabVersion(
        value=LabValue.model_validate_json(row.value),
        import_id=row.id,
        file=row.file,
        digest=row.digest,
        by=row.measured_by,
        key=row.by_name,
        created_at=moment(row.created_at),
    )
