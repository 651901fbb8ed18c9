"""Fitted models of ladders, and the labels they are fitted to."""

from __future__ import annotations

import threading

from sqlalchemy import ColumnElement, func, select

from verifier_service.domain.decisions import FittedModel
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import LadderKey, ModelSummary
from verifier_service.domain.ports.models import Bought
from verifier_service.domain.states import DemandState
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clock, sql
from verifier_service.persistence.model_tables import models
from verifier_service.persistence.tenancy import moment

_demands, _cases, _runs, _checks = tables.demands, tables.trajectories, tables.runs, tables.checks
KEEP = 64  # models of one ladder version; decisions carry the beliefs of older ones themselves
LOOKED_AT = 50_000  # the latest purchases of all ladders among which those of one are looked for


class ModelCache:
    """The latest body per ladder version: one is a few hundred kilobytes, and read by every transaction."""

    def __init__(self, most: int = 64) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._held: dict[LadderKey, FittedModel] = {}

    def get(self, ladder: LadderKey, number: int) -> FittedModel | None:
        """The model of that number, if it is the one that is held."""
        with self._lock:
            held = self._held.get(ladder)
        return held if held is not None and held.number == number else None

    def keep(self, ladder: LadderKey, model: FittedModel) -> None:
        """Hold a committed model instead of an older one."""
        with self._lock:
            held = self._held.pop(ladder, model)
            while len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            self._held[ladder] = model if model.number >= held.number else held


class SqlModels:
    """See ``ports.models.Models``."""

    def __init__(self, database: Database, cache: ModelCache) -> None:
        self._db = database
        self._cache = cache
        self._seen: dict[LadderKey, FittedModel | None] = {}

    def current(self, ladder: LadderKey) -> FittedModel | None:
        if ladder not in self._seen:
            self._seen[ladder] = self._latest(ladder)
        return self._seen[ladder]

    def labels(self, ladder: LadderKey) -> int:
        newest = select(models.c.labels).where(*_of(ladder)).order_by(models.c.number.desc()).limit(1)
        row = self._db.first(newest)
        return 0 if row is None else int(row.labels)

    def _latest(self, ladder: LadderKey) -> FittedModel | None:
        newest = select(func.max(models.c.number)).where(*_of(ladder))
        number = self._db.connection.execute(newest).scalar_one()
        if number is None:
            return None
        known = self._cache.get(ladder, number)
        if known is not None:
            return known
        row = self._db.first(select(models).where(*_of(ladder), models.c.number == number))
        if row is None:
            return None
        model = FittedModel(number=row.number, labels=row.labels, body=row.body)
        self._cache.keep(ladder, model)
        return model

    def add(self, ladder: LadderKey, model: FittedModel) -> bool:
        before = select(func.max(models.c.number)).where(*_of(ladder))
        if (self._db.connection.execute(before).scalar_one() or 0) >= model.number:
            return False
        row = dict(zip(("project", "ladder", "ladder_version"), ladder, strict=True))
        added = self._db.insert_new(models).values(**row, **model._asdict(), made_at=clock())
        if self._db.first(added.returning(models.c.number)) is None:
            return False
        self._db.run(models.delete().where(*_of(ladder), models.c.number <= model.number - KEEP))
        self._seen[ladder] = model
        return True

    def summaries(self, project: str) -> list[ModelSummary]:
        latest = (
            select(models.c.ladder, models.c.ladder_version, func.max(models.c.number).label("number"))
            .where(models.c.project == project)
            .group_by(models.c.ladder, models.c.ladder_version)
            .subquery()
        )
        found = select(
            models.c.ladder, models.c.ladder_version, models.c.number, models.c.labels, models.c.made_at
        )
        found = found.join(
            latest,
            (models.c.ladder == latest.c.ladder)
            & (models.c.ladder_version == latest.c.ladder_version)
            & (models.c.number == latest.c.number),
        ).where(models.c.project == project)
        rows = self._db.all(found.order_by(models.c.ladder, models.c.ladder_version))
        return [
            ModelSummary(
                ladder=row.ladder,
                ladder_version=row.ladder_version,
                number=row.number,
                labels=row.labels,
                made_at=moment(row.made_at),
            )
            for row in rows
        ]

    def bought(self, ladder: LadderKey, truth: Tier, limit: int) -> Bought:
        """Among the latest purchases of all ladders: those of one that nobody uses any more are not sought
        through everything that was bought since."""
        recent = (
            select(_demands.c.trajectory, _demands.c.tier, _demands.c.pk)
            .where(sql(tables.BOUGHT))
            .order_by(_demands.c.pk.desc())
            .limit(LOOKED_AT)
            .subquery()
        )
        mine = (
            select(recent.c.trajectory, recent.c.tier)
            .join(_cases, _cases.c.pk == recent.c.trajectory)
            .join(_runs, _runs.c.pk == _cases.c.run)
            .where(_cases.c.ladder == ladder.name, _cases.c.ladder_version == ladder.version)
            .where(_runs.c.project == ladder.project)
            .order_by(recent.c.pk.desc())
        )
        rows = self._db.all(mine)
        known = dict.fromkeys(row.trajectory for row in rows if row.tier == truth.value)
        partly = dict.fromkeys(row.trajectory for row in rows if row.trajectory not in known)
        return Bought(list(known)[:limit], list(partly)[:limit])

    def labelled(self, since: float) -> dict[LadderKey, int]:
        found = (
            select(_runs.c.project, _cases.c.ladder, _cases.c.ladder_version, func.count().label("n"))
            .select_from(_checks)
            .join(_demands, _demands.c.check_pk == _checks.c.pk)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .join(_runs, _runs.c.pk == _cases.c.run)
            .where(_demands.c.state == DemandState.SATISFIED.value)
            .where(
                sql(f"checks.{tables.LABELS}".replace(" AND ", " AND checks.")), _checks.c.ended_at >= since
            )
            .group_by(_runs.c.project, _cases.c.ladder, _cases.c.ladder_version)
        )
        return {
            LadderKey(row.project, row.ladder, row.ladder_version): row.n for row in self._db.all(found)
        }


def _of(ladder: LadderKey) -> tuple[ColumnElement[bool], ...]:
    return (
        models.c.project == ladder.project,
        models.c.ladder == ladder.name,
        models.c.ladder_version == ladder.version,
    )
