"""Demands: the wishes of runs for checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Update, bindparam, func, select, update

from verifier_service.domain.checks import NewDemand
from verifier_service.domain.errors import Contended, IllegalTransition, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.states import (
    LIVE_CHECKS,
    LIVE_DEMANDS,
    DemandState,
    RewardStatus,
    demand_sources_of,
)
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import NOW, insert_new
from verifier_service.persistence.database import Database, clean, clock, finite, ordered, sql
from verifier_service.persistence.runs import run_key

_checks, _demands, _cases, _runs = tables.checks, tables.demands, tables.trajectories, tables.runs
_counters = tables.counters
STRETCH = 8_192  # requested demands that ``unadvanced`` looks at in one go
PLACE = "unadvanced_place"


class SqlDemands:
    """See ``ports.work.Demands``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def insert(self, demands: Sequence[NewDemand]) -> None:
        if not demands:
            return
        cases = select(_cases.c.pk, _cases.c.run)
        cases = cases.where(self._db.among(_cases.c.pk, ordered([one.trajectory for one in demands])))
        run_of = {row.pk: row.run for row in self._db.all(cases)}
        live = self._live([one.check for one in demands if one.check is not None])
        rows = [_row(one, run_of[one.trajectory], live) for one in demands]
        rows.sort(key=lambda row: (row["trajectory"], row["path"]))
        insert_new(self._db, _demands, rows, decided_at=NOW)
        self._require_standing([row["check_pk"] for row in rows if row["state"] == DemandState.SATISFIED])

    def request(self, demand: int, check: int, *, reason: str, quote: float) -> None:
        """Raises ``IllegalTransition`` unless the demand is held."""
        state = DemandState.REQUESTED if self._live([check]) else DemandState.SATISFIED
        moved = update(_demands).values(check_pk=check, quote=quote, state=state.value)
        self._move(demand, moved, demand_sources_of(DemandState.REQUESTED), reason)
        if state is DemandState.SATISFIED:
            self._require_standing([check])

    def hold(self, demand: int, *, reason: str, rank: float | None) -> None:
        """Raises ``IllegalTransition`` unless the demand is requested or held."""
        sources = (DemandState.HELD, *demand_sources_of(DemandState.HELD))
        moved = update(_demands).values(
            rank=None if rank is None else finite(rank), state=DemandState.HELD.value
        )
        self._move(demand, moved, sources, reason)

    def withdraw(self, demands: Collection[int], *, reason: str) -> list[int]:
        sources = [state.value for state in sorted(LIVE_DEMANDS)]
        these = select(_demands.c.pk, _demands.c.check_pk)
        these = these.where(self._db.among(_demands.c.pk, ordered(demands)), _demands.c.state.in_(sources))
        rows = self._db.all(self._db.locked(these.order_by(_demands.c.pk)))
        self._set([row.pk for row in rows], DemandState.WITHDRAWN, reason=clean(reason), decided_at=clock())
        return ordered([row.check_pk for row in rows if row.check_pk is not None])

    def take_back(self, demands: Collection[int], *, reason: str) -> None:
        self._set(ordered(demands), DemandState.WITHDRAWN, reason=clean(reason), decided_at=clock())

    def satisfy(self, checks: Collection[int]) -> list[int]:
        if not checks:
            return []
        these = (
            select(_demands.c.pk, _demands.c.trajectory)
            .join(_checks, _checks.c.pk == _demands.c.check_pk)
            .where(self._db.among(_demands.c.check_pk, ordered(checks)))
            .where(sql(f"demands.{tables.REQUESTED}"), _checks.c.state.not_in(_live_values()))
        )
        rows = self._db.all(self._db.locked(these.order_by(_demands.c.pk), of=_demands))
        self._set([row.pk for row in rows], DemandState.SATISFIED)
        return ordered([row.trajectory for row in rows])

    def lock(self, checks: Collection[int]) -> list[int]:
        wanting = select(_demands.c.trajectory).where(
            self._db.among(_demands.c.check_pk, ordered(checks)), sql(tables.REQUESTED)
        )
        pks = ordered([row.trajectory for row in self._db.all(wanting)])
        if pks and self._db.postgres:
            rows = select(_cases.c.pk).where(self._db.among(_cases.c.pk, pks)).order_by(_cases.c.pk)
            self._db.run(self._db.locked(rows))
        return pks

    def wanting(self, check: int) -> list[tuple[int, int, str]]:
        found = (
            select(_demands.c.pk, _demands.c.trajectory, _runs.c.id)
            .join(_runs, _runs.c.pk == _demands.c.run)
            .where(_demands.c.check_pk == check, sql(f"demands.{tables.REQUESTED}"))
        )
        return [(row.pk, row.trajectory, row.id) for row in self._db.all(found.order_by(_demands.c.pk))]

    def outstanding(self, project: str, run: str) -> dict[str, float]:
        # As a literal: of a parameter the planner expects, at best, as many rows as the average run has.
        owner = self._db.first(select(run_key(project, run).label("pk")))
        if owner is None or owner.pk is None:
            return {}
        quoted = (
            select(_checks.c.account, _checks.c.pk, func.max(_demands.c.quote).label("quote"))
            .join(_demands, _demands.c.check_pk == _checks.c.pk)
            .where(
                _checks.c.payer == bindparam("payer", owner.pk, literal_execute=True),
                sql(f"checks.{tables.QUEUED}"),
            )
            .where(sql(f"demands.{tables.REQUESTED}"))
            .group_by(_checks.c.account, _checks.c.pk)
            .subquery()
        )
        summed = select(quoted.c.account, func.sum(quoted.c.quote).label("credits"))
        rows = self._db.all(summed.group_by(quoted.c.account))
        return {row.account: float(row.credits) for row in rows}

    def unpaid(self, project: str, run: str, reason: str) -> list[int]:
        found = select(_demands.c.trajectory).join(_cases, _cases.c.pk == _demands.c.trajectory)
        found = found.where(
            _cases.c.run == run_key(project, run),
            _cases.c.status.in_([RewardStatus.UNSCORED.value, RewardStatus.RETRACTED.value]),
            _demands.c.state == DemandState.WITHDRAWN.value,
            _demands.c.reason == reason,
            _demands.c.tier == Tier.FAST.value,
        )
        return ordered([row.trajectory for row in self._db.all(found)])

    def unadvanced(self, limit: int) -> list[int]:
        """A stretch of the requested demands by check per call, the next one from where the last ended:
        nearly all of them wait for checks that have not ended. One stretch is all, unless very many wait.
        """
        place = self._db.first(select(_counters.c.value).where(_counters.c.name == PLACE))
        after = 0 if place is None else int(place.value)
        last = self._stretch(after)
        # The sum and the function keep SQLite from walking indexes of every demand there ever was.
        trajectory = (_demands.c.trajectory + 0).label("pk")
        found = (
            select(trajectory)
            .join(_checks, _checks.c.pk == func.coalesce(_demands.c.check_pk, 0))
            .where(sql(f"demands.{tables.REQUESTED}"), _demands.c.check_pk > after)
            .where(_checks.c.state.not_in(_live_values()))
            .distinct()
        )
        if last is not None:
            found = found.where(_demands.c.check_pk <= last)
        pks = [row.pk for row in self._db.all(found.order_by(trajectory).limit(limit))]
        if len(pks) < limit and (last or 0) != after:
            self._db.run(self._db.insert_new(_counters).values(name=PLACE, value=0))
            moved = update(_counters).where(_counters.c.name == PLACE)
            self._db.run(moved.values(value=last or 0))
        return pks

    def _stretch(self, after: int) -> int | None:
        """The check at which a stretch ends that begins behind ``after``; null where nothing follows."""
        ahead = select(_demands.c.check_pk).where(sql(tables.REQUESTED), _demands.c.check_pk > after)
        row = self._db.first(ahead.order_by(_demands.c.check_pk).offset(STRETCH - 1).limit(1))
        return None if row is None else int(row.check_pk)

    def _require_standing(self, checks: Collection[int]) -> None:
        """The stored demand keeps a retraction from marking its check until the commit: what is marked by
        now was marked before, and after the check had been found. On SQLite nobody writes in between."""
        if not checks or not self._db.postgres:
            return
        marked = select(_checks.c.pk).where(self._db.among(_checks.c.pk, ordered(checks)))
        if self._db.first(marked.where(_checks.c.retraction.is_not(None)).limit(1)) is not None:
            raise Contended("evidence_retracted", "evidence was retracted while it was being cited")

    def _live(self, checks: Collection[int]) -> set[int]:
        if not checks:
            return set()
        found = select(_checks.c.pk).where(self._db.among(_checks.c.pk, ordered(checks)))
        return {row.pk for row in self._db.all(found.where(_checks.c.state.in_(_live_values())))}

    def _set(self, pks: Sequence[int], state: DemandState, **values: Any) -> None:
        if pks:
            moved = update(_demands).where(self._db.among(_demands.c.pk, pks))
            self._db.run(moved.values(state=state.value, **values))

    def _move(self, demand: int, moved: Update, sources: Sequence[DemandState], reason: str) -> None:
        moved = moved.where(_demands.c.pk == demand, _demands.c.state.in_([one.value for one in sources]))
        if self._db.run(moved.values(reason=clean(reason), decided_at=clock())) == 1:
            return
        row = self._db.first(select(_demands.c.state).where(_demands.c.pk == demand))
        if row is None:
            raise NotFound("demand_not_found", f"no demand {demand}")
        raise IllegalTransition("illegal_transition", f"demand {demand} is {row.state}")


def _live_values() -> list[str]:
    return sorted(state.value for state in LIVE_CHECKS)


def _row(one: NewDemand, run: int, live: set[int]) -> dict[str, Any]:
    ended = one.state is DemandState.REQUESTED and one.check not in live
    return {
        "run": run,
        "trajectory": one.trajectory,
        "check_pk": one.check,
        "path": one.path,
        "role": one.role,
        "tier": one.tier.value,
        "state": (DemandState.SATISFIED if ended else one.state).value,
        "reason": clean(one.reason),
        "quote": one.quote,
        "rank": None if one.rank is None else finite(one.rank),
        "propensity": one.propensity,
    }
