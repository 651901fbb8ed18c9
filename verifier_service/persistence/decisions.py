"""The log of decisions, and the alarms of the watch over audits."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, select, update

from verifier_service.domain.decisions import Estimate, LoggedDecision
from verifier_service.domain.evidence import Tier
from verifier_service.domain.insight import Foretold, PricePoint, Rested, TierSpend
from verifier_service.domain.models import Alarm, LadderKey, RaisedAlarm
from verifier_service.domain.ports.models import Audit, NewDecision, Watch
from verifier_service.domain.states import DemandState
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import NOW, insert_new
from verifier_service.persistence.database import Database, clean, clock, finite, sql
from verifier_service.persistence.model_tables import AUDITED, STANDING, alarms, decisions, watches
from verifier_service.persistence.runs import no_run, run_key
from verifier_service.persistence.tenancy import moment

_cases, _runs = tables.trajectories, tables.runs


class SqlDecisions:
    """See ``ports.models.DecisionLog``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, project: str, run: str, made: Sequence[NewDecision]) -> None:
        if not made:
            return
        owner = self._db.first(select(run_key(project, run).label("pk")))
        if owner is None or owner.pk is None:
            raise no_run(run)
        rows = [{"run": owner.pk, **_row(one)} for one in made]
        insert_new(self._db, decisions, rows, decided_at=NOW)

    def of_trajectory(self, pk: int) -> list[LoggedDecision]:
        rows = self._db.all(_logged().where(decisions.c.trajectory == pk).order_by(decisions.c.pk))
        return [_line(row) for row in rows]

    def page(
        self, project: str, run: str, after: int, limit: int
    ) -> tuple[list[LoggedDecision], int | None]:
        mine = _logged().where(decisions.c.run == run_key(project, run), decisions.c.pk > after)
        rows = self._db.all(mine.order_by(decisions.c.pk).limit(limit))
        return [_line(row) for row in rows], rows[-1].pk if rows else None

    def foretold(self, project: str, run: str, limit: int) -> list[Foretold]:
        rewards, demands, checks = tables.rewards, tables.demands, tables.checks
        found = (
            select(decisions, _cases.c.ladder, _cases.c.outcome.label("found"), checks.c.verifier)
            .add_columns(checks.c.version)
            .join(_cases, _cases.c.pk == decisions.c.trajectory)
            .join(rewards, (rewards.c.run == _cases.c.run) & (rewards.c.seq == _cases.c.seq))
            .outerjoin(
                demands,
                (demands.c.trajectory == decisions.c.trajectory)
                & (demands.c.tier == decisions.c.level)
                & (demands.c.role == "measure")
                & (demands.c.state == DemandState.SATISFIED.value),
            )
            .outerjoin(checks, checks.c.pk == demands.c.check_pk)
            .where(decisions.c.run == run_key(project, run), decisions.c.action == "request")
            .where(decisions.c.outcome.is_not(None), decisions.c.level != decisions.c.tier)
            .where(rewards.c.tier == decisions.c.tier, _cases.c.outcome.is_not(None))
        )
        rows = self._db.all(found.order_by(decisions.c.pk.desc()).limit(limit))
        return [
            Foretold(
                ladder=row.ladder,
                level=Tier(row.level),
                truth=Tier(row.tier),
                verifier=row.verifier,
                version=row.version,
                outcome=row.outcome,
                low=row.low,
                high=row.high,
                found=row.found,
                audited=row.audited,
                propensity=row.propensity,
            )
            for row in {row.pk: row for row in rows}.values()
        ]

    def rested(self, project: str, run: str, limit: int) -> list[Rested]:
        rewards = tables.rewards
        latest = (
            select(decisions.c.pk, decisions.c.propensity, decisions.c.audited, decisions.c.tier)
            .add_columns(_cases.c.predicted, _cases.c.outcome, rewards.c.tier.label("reached"))
            .join(_cases, _cases.c.pk == decisions.c.trajectory)
            .join(rewards, (rewards.c.run == _cases.c.run) & (rewards.c.seq == _cases.c.seq))
            .where(decisions.c.run == run_key(project, run), decisions.c.propensity.is_not(None))
            .where(_cases.c.predicted.is_not(None))
            .order_by(decisions.c.pk.desc())
            .limit(limit)
        )
        found: list[Rested] = []
        for row in reversed(self._db.all(latest)):
            sent = row.audited or row.propensity >= 1.0
            back = sent and row.outcome is not None and row.reached == row.tier
            if back or not sent:
                outcome = row.outcome if back else None
                found.append(Rested(row.predicted, row.propensity, sent, outcome))
        return found

    def spend(self, project: str, run: str) -> list[TierSpend]:
        found = (
            select(
                decisions.c.tier,
                func.count().label("n"),
                func.sum(decisions.c.quote).label("quoted"),
                func.sum(func.coalesce(decisions.c.utility, 0.0)).label("worth"),
            )
            .where(decisions.c.run == run_key(project, run), decisions.c.action == "request")
            .group_by(decisions.c.tier)
        )
        spent = [
            TierSpend(tier=Tier(row.tier), requests=row.n, quoted=row.quoted, worth=row.worth)
            for row in self._db.all(found)
        ]
        return sorted(spent, key=lambda one: one.tier.rank)

    def prices(self, project: str, run: str, points: int) -> list[PricePoint]:
        asked = case((decisions.c.action == "request", decisions.c.quote), else_=0.0)
        worth = case((decisions.c.action == "request", func.coalesce(decisions.c.utility, 0.0)), else_=0.0)
        parts = (
            select(
                decisions.c.decided_at,
                decisions.c.price,
                asked.label("quoted"),
                worth.label("worth"),
                func.ntile(points).over(order_by=decisions.c.pk).label("part"),
            )
            .where(decisions.c.run == run_key(project, run))
            .subquery()
        )
        found = select(
            func.max(parts.c.decided_at).label("until"),
            func.avg(parts.c.price).label("price"),
            func.sum(parts.c.quoted).label("quoted"),
            func.sum(parts.c.worth).label("worth"),
        ).group_by(parts.c.part)
        shown: list[PricePoint] = []
        for row in self._db.all(found.order_by(parts.c.part)):
            before = (shown[-1].quoted, shown[-1].worth) if shown else (0.0, 0.0)
            shown.append(
                PricePoint(
                    until=moment(row.until),
                    price=row.price,
                    quoted=before[0] + row.quoted,
                    worth=before[1] + row.worth,
                )
            )
        return shown

    def audits(self, ladder: LadderKey, after: int, limit: int) -> list[Audit]:
        found = (
            select(decisions)
            .join(_cases, _cases.c.pk == decisions.c.trajectory)
            .join(_runs, _runs.c.pk == decisions.c.run)
            .where(
                sql(AUDITED.replace("action", "decisions.action").replace("audited", "decisions.audited"))
            )
            .where(decisions.c.pk > after, _cases.c.ladder == ladder.name)
            .where(_cases.c.ladder_version == ladder.version, _runs.c.project == ladder.project)
        )
        return [
            Audit(row.pk, row.trajectory, row.mean, row.outcome, row.propensity)
            for row in self._db.all(found.order_by(decisions.c.pk).limit(limit))
        ]


class SqlAlarms:
    """See ``ports.models.Alarms``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def watch(self, ladder: LadderKey) -> Watch:
        row = self._db.first(select(watches).where(*_of(watches, ladder)))
        return Watch(0, None) if row is None else Watch(row.through, row.state)

    def watched(self, ladder: LadderKey, watch: Watch) -> None:
        values = watch._asdict()
        if self._db.run(update(watches).where(*_of(watches, ladder)).values(**values)) == 0:
            self._db.run(self._db.insert_new(watches).values(**_key(ladder), **values))

    def raise_(self, ladder: LadderKey, alarm: Alarm) -> None:
        row = {"stratum": alarm.stratum, "body": alarm.model_dump_json(), "raised_at": clock()}
        made = self._db.insert_new(alarms).values(id=f"alarm-{uuid.uuid4().hex}", **_key(ladder), **row)
        self._db.run(made)

    def standing(self, ladder: LadderKey) -> list[Alarm]:
        mine = select(alarms).where(*_of(alarms, ladder), sql(STANDING)).order_by(alarms.c.pk)
        return [Alarm.model_validate_json(row.body) for row in self._db.all(mine)]

    def of_project(self, project: str, limit: int) -> list[RaisedAlarm]:
        mine = select(alarms).where(alarms.c.project == project).order_by(alarms.c.pk.desc()).limit(limit)
        return [_alarm(row) for row in self._db.all(mine)]

    def get(self, project: str, alarm: str) -> RaisedAlarm | None:
        this = select(alarms).where(alarms.c.project == project, alarms.c.id == alarm)
        row = self._db.first(this)
        return None if row is None else _alarm(row)

    def clear(self, project: str, alarm: str) -> bool:
        this = update(alarms).where(alarms.c.project == project, alarms.c.id == alarm, sql(STANDING))
        return self._db.run(this.values(cleared_at=clock())) == 1


def _logged() -> Any:
    return select(decisions, _cases.c.id.label("id")).join(_cases, _cases.c.pk == decisions.c.trajectory)


def _line(row: Row[Any]) -> LoggedDecision:
    return LoggedDecision(
        trajectory=row.id,
        at=moment(row.decided_at),
        action=row.action,
        tier=None if row.tier is None else Tier(row.tier),
        code=row.code,
        reason=row.reason,
        cost=row.quote,
        utility=row.utility,
        price=row.price,
        propensity=row.propensity,
        draw=row.draw,
        audited=row.audited,
        level=None if row.level is None else Tier(row.level),
        model=row.model,
        outcome=row.outcome,
        variance=row.variance,
        low=row.low,
        high=row.high,
    )


def _row(made: NewDecision) -> dict[str, Any]:
    decision, estimate = made
    return {
        "trajectory": decision.trajectory,
        "action": decision.action,
        "tier": None if decision.tier is None else decision.tier.value,
        "code": decision.code,
        "reason": clean(decision.reason),
        "quote": finite(decision.quote),
        "utility": _number(decision.utility),
        "price": _number(decision.price),
        "propensity": decision.propensity,
        "draw": decision.draw,
        "audited": decision.audited,
        **_believed(estimate),
    }


def _believed(estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return dict.fromkeys(("level", "model", "outcome", "variance", "low", "high", "mean", "sd"))
    return {
        "level": estimate.tier.value,
        "model": estimate.model,
        "outcome": estimate.outcome,
        "variance": estimate.outcome_variance,
        "low": estimate.low,
        "high": estimate.high,
        "mean": _number(estimate.mean),
        "sd": None if estimate.variance is None else finite(estimate.variance**0.5),
    }


def _number(value: float | None) -> float | None:
    return None if value is None else finite(value)


def _alarm(row: Row[Any]) -> RaisedAlarm:
    body = Alarm.model_validate_json(row.body)
    return RaisedAlarm(
        **dict(body),
        id=row.id,
        ladder=row.ladder,
        ladder_version=row.ladder_version,
        raised_at=moment(row.raised_at),
        cleared_at=None if row.cleared_at is None else moment(row.cleared_at),
    )


def _key(ladder: LadderKey) -> dict[str, str | int]:
    return {"project": ladder.project, "ladder": ladder.name, "ladder_version": ladder.version}


def _of(table: Any, ladder: LadderKey) -> tuple[ColumnElement[bool], ...]:
    return tuple(table.c[name] == value for name, value in _key(ladder).items())
