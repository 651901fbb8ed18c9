"""Checks that need an operator: failed ones that something rests on, and queued ones that nobody runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, Select, and_, case, func, or_, select, tuple_

from verifier_service.domain.digests import version_of
from verifier_service.domain.evidence import Failure, Tier
from verifier_service.domain.operations import Cited, FailedCheck, StuckCheck, Waiting
from verifier_service.domain.ports.overview import Failures, Queued
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import CHECK_CANCELLED
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.domain.workers import Kind
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, sql
from verifier_service.persistence.runs import state_of
from verifier_service.persistence.tenancy import moment

_checks, _demands, _cases, _runs = tables.checks, tables.demands, tables.trajectories, tables.runs
LOOKED_AT = 2_000  # checks that one page looks at
COUNTED = 10_000  # checks of one kind among which those of a project are counted


class SqlTroubles:
    """See ``ports.overview.Troubles``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def failed(self, project: str, *, after: int | None, limit: int, run: str | None = None) -> Failures:
        mine = select(_checks.c.pk).where(_checks.c.project == project, sql(tables.FAILED))
        if after is not None:
            mine = mine.where(_checks.c.pk < after)
        looked = [row.pk for row in self._db.all(mine.order_by(_checks.c.pk.desc()).limit(LOOKED_AT))]
        citing = _resting_on(self._db, looked)
        resting = self._db.all(citing if run is None else citing.where(_runs.c.id == run))
        shown = sorted(resting, key=lambda row: -int(row.check_pk))[:limit]
        if len(shown) < len(resting):
            further = shown[-1].check_pk
        else:
            further = looked[-1] if len(looked) == LOOKED_AT else None
        return Failures(self._shown(shown), further)

    def _shown(self, resting: Sequence[Row[Any]]) -> list[FailedCheck]:
        checks = {
            row.pk: row
            for row in self._db.all(
                _CHECKS.where(self._db.among(_checks.c.pk, [one.check_pk for one in resting]))
            )
        }
        first = _cases.c.pk, _cases.c.id, _runs.c.id.label("run")
        named = select(*first).join(_runs, _runs.c.pk == _cases.c.run)
        named = named.where(self._db.among(_cases.c.pk, [one.first for one in resting]))
        places = {row.pk: row for row in self._db.all(named)}
        return [_failed(checks[one.check_pk], one, places[one.first]) for one in resting]

    def counted(self, project: str, tier: Tier, kind: Kind, most: int) -> int:
        some = _of_kind(tier, kind).limit(COUNTED).subquery()
        mine = select(some.c.pk).where(some.c.project == project).limit(most).subquery()
        return int(self._db.all(select(func.count()).select_from(mine))[0][0])

    def waiting(
        self, project: str, kinds: Collection[tuple[Tier, Kind]], *, after: int | None, limit: int
    ) -> Queued:
        at = None if after is None else self._db.first(_PLACES.where(_checks.c.pk == after))
        begin = None if at is None else (Tier(at.tier), Kind(at.verifier, at.version))
        chosen: list[int] = []
        further: int | None = None
        for tier, kind in sorted(kinds):
            if begin is not None and (tier, kind) < begin:
                continue
            queue = _of_kind(tier, kind)
            if at is not None and (tier, kind) == begin:
                queue = queue.where(tuple_(_checks.c.precedence, _checks.c.pk) > (at.precedence, at.pk))
            looked = self._db.all(queue.limit(LOOKED_AT))
            chosen += [row.pk for row in looked if row.project == project]
            if len(chosen) > limit or len(looked) == LOOKED_AT:
                further = chosen[limit - 1] if len(chosen) > limit else looked[-1].pk
                break
        chosen = chosen[:limit]
        rows = {row.pk: row for row in self._db.all(_QUEUED.where(self._db.among(_checks.c.pk, chosen)))}
        places = self._first_wanting(chosen)
        return Queued([_waiting(rows[pk], places.get(pk)) for pk in chosen], further)

    def _first_wanting(self, checks: Sequence[int]) -> dict[int, Row[Any]]:
        first = (
            select(_demands.c.check_pk, func.min(_demands.c.pk).label("pk"))
            .where(self._db.among(_demands.c.check_pk, checks), sql(tables.REQUESTED))
            .group_by(_demands.c.check_pk)
            .subquery()
        )
        found = (
            select(first.c.check_pk, _cases.c.id, _runs.c.id.label("run"))
            .join(_demands, _demands.c.pk == first.c.pk)
            .join(_cases, _cases.c.pk == _demands.c.trajectory)
            .join(_runs, _runs.c.pk == _cases.c.run)
        )
        return {row.check_pk: row for row in self._db.all(found)}

    def known(self, project: str, keys: Collection[str]) -> set[str]:
        found = select(_checks.c.key).where(
            _checks.c.project == project, self._db.among(_checks.c.key, sorted(keys))
        )
        return {row.key for row in self._db.all(found.distinct())}

    def resting(self, project: str, keys: Sequence[str], limit: int) -> list[Cited]:
        failed = and_(
            _checks.c.state == CheckState.FAILED.value, _demands.c.state == DemandState.SATISFIED.value
        )
        cancelled = and_(
            _checks.c.state == CheckState.CANCELLED.value,
            _demands.c.state == DemandState.WITHDRAWN.value,
            _demands.c.reason == CHECK_CANCELLED,
        )
        closed = case((_runs.c.state == RunState.OPEN.value, 0), else_=1)
        mine = self._cited(project, keys).join(_cases, _cases.c.pk == _demands.c.trajectory)
        mine = mine.where(or_(failed, cancelled), ~_cases.c.cancelled)
        rows = self._db.all(mine.order_by(closed, _demands.c.trajectory, _demands.c.pk).limit(limit))
        return [_cited(row) for row in rows]

    def wanted(self, project: str, keys: Sequence[str]) -> list[Cited]:
        mine = self._cited(project, keys).where(sql(f"demands.{tables.REQUESTED}"))
        live = mine.where(sql(f"checks.{tables.LIVE}"))
        return [_cited(row) for row in self._db.all(live.order_by(_demands.c.trajectory, _demands.c.pk))]

    def _cited(self, project: str, keys: Sequence[str]) -> Select[Any]:
        found = (
            select(
                _checks.c.pk.label("check_pk"),
                _checks.c.key,
                _checks.c.state.label("check_state"),
                _demands.c.pk,
                _demands.c.state.label("demand_state"),
                _demands.c.reason,
                _demands.c.role,
                _demands.c.trajectory,
                _runs.c.id.label("run"),
                _runs.c.state,
                _runs.c.purging_at,
                _runs.c.purged_at,
            )
            .select_from(_checks)
            .join(_demands, _demands.c.check_pk == _checks.c.pk)
            .join(_runs, _runs.c.pk == _demands.c.run)
        )
        return found.where(_checks.c.project == project, self._db.among(_checks.c.key, keys))


_CHECKS = select(
    _checks.c.pk,
    _checks.c.key,
    _checks.c.verifier,
    _checks.c.version,
    _checks.c.tier,
    _checks.c.attempt,
    _checks.c.failure,
    _checks.c.ended_at,
    _checks.c.spent,
)
_PLACES = select(
    _checks.c.pk,
    _checks.c.project,
    _checks.c.tier,
    _checks.c.verifier,
    _checks.c.version,
    _checks.c.precedence,
)
_QUEUED = select(
    _checks.c.pk,
    _checks.c.key,
    _checks.c.verifier,
    _checks.c.version,
    _checks.c.tier,
    func.coalesce(_checks.c.queued_at, _checks.c.created_at).label("since"),
    _runs.c.id.label("payer"),
).join(_runs, _runs.c.pk == _checks.c.payer)


_UNTOLD = Failure(kind="transient", code="unknown", message="nothing is known of its end", retryable=True)


def _resting_on(database: Database, checks: Collection[int]) -> Select[Any]:
    """By check: how many trajectories rest on its failure, how many of them have no reward, in how many of
    them the run is open, and the first of them."""
    open_ = case((_runs.c.state == RunState.OPEN.value, 1), else_=0)
    unscored = case((_cases.c.reward.is_(None), 1), else_=0)
    return (
        select(
            _demands.c.check_pk,
            func.count(_demands.c.trajectory.distinct()).label("trajectories"),
            func.sum(unscored).label("unscored"),
            func.sum(open_).label("open"),
            func.min(_demands.c.trajectory).label("first"),
        )
        .join(_cases, _cases.c.pk == _demands.c.trajectory)
        .join(_runs, _runs.c.pk == _cases.c.run)
        .where(database.among(_demands.c.check_pk, checks), _demands.c.state == DemandState.SATISFIED.value)
        .where(_runs.c.purging_at.is_(None))
        .group_by(_demands.c.check_pk)
    )


def _of_kind(tier: Tier, kind: Kind) -> Select[Any]:
    """Checks of a kind that are due, of all projects, in the order in which they would be claimed."""
    ready = _PLACES.where(sql(tables.READY), _checks.c.tier == tier.value)
    mine = ready.where(_checks.c.verifier == kind.verifier, _checks.c.version == kind.version)
    return mine.order_by(_checks.c.precedence, _checks.c.pk)


def _failed(check: Row[Any], resting: Row[Any], place: Row[Any]) -> FailedCheck:
    return FailedCheck(
        key=check.key,
        verifier=check.verifier,
        version=version_of(check.version),
        tier=Tier(check.tier),
        attempts=check.attempt,
        failure=_UNTOLD if check.failure is None else Failure.model_validate_json(check.failure),
        failed_at=None if check.ended_at is None else moment(check.ended_at),
        credits=check.spent,
        run=place.run,
        trajectory=place.id,
        trajectories=resting.trajectories,
        unscored=resting.unscored,
        closed=not resting.open,
    )


def _waiting(row: Row[Any], place: Row[Any] | None) -> Waiting:
    shown = StuckCheck(
        key=row.key,
        verifier=row.verifier,
        version=version_of(row.version),
        tier=Tier(row.tier),
        reason="",
        queued_at=moment(row.since),
        run=row.payer,
        trajectory_run=None if place is None else place.run,
        trajectory=None if place is None else place.id,
    )
    return Waiting(row.pk, shown, Kind(row.verifier, row.version))


def _cited(row: Row[Any]) -> Cited:
    return Cited(
        check=row.check_pk,
        key=row.key,
        state=CheckState(row.check_state),
        demand=row.pk,
        demand_state=DemandState(row.demand_state),
        reason=row.reason,
        role=row.role,
        trajectory=row.trajectory,
        run=row.run,
        run_state=state_of(row),
    )
