"""Runs, their pinned ladders, and what a report counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, case, exists, func, insert, select, text, update

from verifier_service.domain.errors import Conflict, Gone, NotFound
from verifier_service.domain.evidence import TIERS, WORKED_TIERS, Tier
from verifier_service.domain.ports.runs import RunMark
from verifier_service.domain.runs import Run, RunReport, RunSpec, RunState, TierCount
from verifier_service.domain.states import RewardStatus
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clock, sql
from verifier_service.persistence.ledger import accounts_of
from verifier_service.persistence.model_tables import decisions
from verifier_service.persistence.tenancy import moment

_runs = tables.runs


def run_key(project: str, run: str) -> ScalarSelect[int]:
    """The run's primary key, as a subquery."""
    return select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run).scalar_subquery()


def no_run(run: str) -> NotFound:
    """The error for an unknown run."""
    return NotFound("run_not_found", f"no run {run!r}")


def purged_run(run: str) -> Gone:
    """The error for a run that is emptied, or has been."""
    return Gone("run_purged", f"run {run!r} was purged: its records are gone, and its id stays taken")


def state_of(row: Row[Any]) -> RunState:
    """The state of a run's row."""
    if row.purging_at is None:
        return RunState(row.state)
    return RunState.PURGING if row.purged_at is None else RunState.PURGED


class SqlRuns:
    """See ``ports.runs.Runs``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def ensure(self, project: str, run: str, spec: RunSpec, seed: int) -> Run:
        found = self._find(project, run)
        if found is not None:
            return found
        self._create(project, run, spec, seed)
        return self.get(project, run)

    def get(self, project: str, run: str) -> Run:
        found = self._find(project, run)
        if found is None:
            raise no_run(run)
        return found

    def marks(self, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], RunMark]:
        names: dict[str, list[str]] = {}
        for project, run in places:
            names.setdefault(project, []).append(run)
        found: dict[tuple[str, str], RunMark] = {}
        for project, ids in names.items():
            mine = (
                _runs.c.project == project,
                self._db.among(_runs.c.id, ids),
                _runs.c.purging_at.is_(None),
            )
            rows = select(_runs.c.id, _runs.c.state, tables.feeds.c.seq).join(tables.feeds).where(*mine)
            for row in self._db.all(rows):
                found[project, row.id] = RunMark(RunState(row.state), int(row.seq))
        return found

    def put(self, project: str, run: str, spec: RunSpec, seed: int) -> Run:
        if not self._create(project, run, spec, seed):
            if self.lock(project, run).state in (RunState.PURGING, RunState.PURGED):
                raise purged_run(run)
            self._db.run(
                update(_runs)
                .where(_runs.c.project == project, _runs.c.id == run)
                .values(spec=spec.model_dump_json())
            )
            self._limit(project, run, spec)
        return self.get(project, run)

    def pin(self, project: str, run: str, ladder: str, version: int) -> int:
        pins = tables.pins
        pinned = select(pins.c.version).where(pins.c.run == run_key(project, run), pins.c.ladder == ladder)
        found = self._db.first(pinned)
        if found is None:
            row = self._db.first(select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run))
            if row is None:
                raise no_run(run)
            self._db.run(self._db.insert_new(pins).values(run=row.pk, ladder=ladder, version=version))
            found = self._db.first(pinned)
        return int(found.version) if found is not None else version

    def lock(self, project: str, run: str) -> Run:
        row = select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run)
        if self._db.first(self._db.locked(row)) is None:
            raise no_run(run)
        return self.get(project, run)

    def share(self, project: str, run: str) -> Run:
        if self._db.postgres:
            row = select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run)
            self._db.run(row.with_for_update(read=True))
        return self.get(project, run)

    def pace(self, project: str, run: str, pacing: str | None) -> None:
        mine = update(_runs).where(_runs.c.project == project, _runs.c.id == run)
        self._db.run(mine.values(pacing=pacing))

    def set_state(self, project: str, run: str, state: RunState) -> None:
        closed = clock() if state is RunState.CLOSED else _runs.c.closed_at
        moved = update(_runs).where(_runs.c.project == project, _runs.c.id == run)
        if self._db.run(moved.values(state=state.value, closed_at=closed)) == 0:
            raise no_run(run)

    def of_project(self, project: str) -> tuple[Run, ...]:
        rows = self._db.all(_run_rows(_runs.c.project == project).order_by(_runs.c.pk.desc()))
        return tuple(self._run(row) for row in rows)

    def undecided(self, limit: int) -> tuple[tuple[str, str], ...]:
        cases = tables.trajectories
        return self._open_with(exists().where(cases.c.run == _runs.c.pk, sql(tables.UNDECIDED)), limit)

    def holding(self, limit: int) -> tuple[tuple[str, str], ...]:
        demands = tables.demands
        return self._open_with(exists().where(demands.c.run == _runs.c.pk, sql(tables.HELD)), limit)

    def _open_with(self, condition: ColumnElement[bool], limit: int) -> tuple[tuple[str, str], ...]:
        found = select(_runs.c.project, _runs.c.id).where(_runs.c.state == RunState.OPEN.value, condition)
        return tuple((row.project, row.id) for row in self._db.all(found.order_by(_runs.c.pk).limit(limit)))

    def in_state(self, state: RunState) -> tuple[tuple[str, str], ...]:
        found = select(_runs.c.project, _runs.c.id).where(_runs.c.state == state.value)
        return tuple((row.project, row.id) for row in self._db.all(found.order_by(_runs.c.pk)))

    def queued(self, most: int) -> dict[tuple[str, str], int]:
        rows = self._db.all(_QUEUED, {"most": most})
        return {(row.project, row.id): int(row.n) for row in rows if row.n}

    def report(self, project: str, run: str) -> RunReport:
        found = self.get(project, run)
        row = self._db.first(select(run_key(project, run).label("pk")))
        key = int(row.pk) if row is not None else 0
        statuses = self._statuses(key)
        return RunReport(
            run=found,
            trajectories=sum(statuses.values()),
            statuses=statuses,
            tiers=self._tiers(key),
            settled_per_tier=self._settled(key),
            price={"compute": self._price(key, human=False), "human": self._price(key, human=True)},
        )

    def _find(self, project: str, run: str) -> Run | None:
        row = self._db.first(_run_rows(_runs.c.project == project, _runs.c.id == run))
        return None if row is None else self._run(row)

    def _run(self, row: Any) -> Run:
        pins = self._db.all(select(tables.pins).where(tables.pins.c.run == row.pk))
        return Run(
            project=row.project,
            id=row.id,
            spec=RunSpec.model_validate_json(row.spec),
            state=state_of(row),
            ladder_versions={pin.ladder: pin.version for pin in pins},
            accounts=accounts_of(self._db, row.pk),
            feed=row.feed,
            seed=row.seed,
            pacing=row.pacing,
            created_at=moment(row.created_at),
            closed_at=None if row.closed_at is None else moment(row.closed_at),
            purged_at=None if row.purged_at is None else moment(row.purged_at),
        )

    def _create(self, project: str, run: str, spec: RunSpec, seed: int) -> bool:
        values = {
            "project": project,
            "id": run,
            "spec": spec.model_dump_json(),
            "state": RunState.OPEN.value,
            "seed": seed,
            "created_at": clock(),
        }
        row = self._db.first(self._db.insert_new(_runs).values(values).returning(_runs.c.pk))
        if row is None:
            return False
        limits = {"compute": spec.budgets.compute, "human": spec.budgets.human}
        self._db.run(
            insert(tables.accounts),
            [{"run": row.pk, "kind": kind, "credit_limit": limit} for kind, limit in limits.items()],
        )
        self._db.run(insert(tables.feeds), [{"run": row.pk}])
        return True

    def _limit(self, project: str, run: str, spec: RunSpec) -> None:
        """Refuses limits below what is already spent or reserved: the invariant holds at every commit."""
        accounts = tables.accounts
        of_run = select(accounts).where(accounts.c.run == run_key(project, run)).order_by(accounts.c.kind)
        limits = {"compute": spec.budgets.compute, "human": spec.budgets.human}
        for account in self._db.all(self._db.locked(of_run)):
            limit = limits[account.kind]
            if limit is not None and account.reserved + account.spent > limit:
                raise Conflict(
                    "budget_below_spend",
                    f"{account.kind}: {account.spent:g} credits spent, {account.reserved:g} reserved",
                    field=f"budgets.{account.kind}",
                )
            this = (accounts.c.run == account.run, accounts.c.kind == account.kind)
            self._db.run(update(accounts).where(*this).values(credit_limit=limit))

    def _price(self, run: int, *, human: bool) -> float | None:
        """What a credit had to buy when the policy last priced one."""
        lab = decisions.c.tier == Tier.LAB.value
        mine = select(decisions.c.price).where(decisions.c.run == run, decisions.c.price.is_not(None))
        row = self._db.first(mine.where(lab if human else ~lab).order_by(decisions.c.pk.desc()).limit(1))
        return None if row is None else row.price

    def _statuses(self, run: int) -> dict[str, int]:
        cases = tables.trajectories
        status = func.coalesce(cases.c.status, "pending").label("status")
        counted = select(status, func.count().label("n")).where(cases.c.run == run).group_by(cases.c.status)
        return {row.status: row.n for row in self._db.all(counted)}

    def _settled(self, run: int) -> dict[str, int]:
        cases, rewards = tables.trajectories, tables.rewards
        final = (
            select(rewards.c.tier, func.count().label("n"))
            .join(cases, (cases.c.run == rewards.c.run) & (cases.c.seq == rewards.c.seq))
            .where(cases.c.run == run, cases.c.status == RewardStatus.FINAL.value)
            .group_by(rewards.c.tier)
        )
        return {row.tier or "none": row.n for row in self._db.all(final)}

    def _tiers(self, run: int) -> tuple[TierCount, ...]:
        demands, checks, cases = tables.demands, tables.checks, tables.trajectories
        mine = demands.c.trajectory.in_(select(cases.c.pk).where(cases.c.run == run))
        stands = case((demands.c.state.in_(["requested", "satisfied"]), 1), else_=0)
        wanted = (
            select(demands.c.check_pk, func.max(stands).label("stands"))
            .where(mine, demands.c.check_pk.is_not(None))
            .group_by(demands.c.check_pk)
            .subquery()
        )
        counted = (
            select(
                checks.c.tier,
                checks.c.state,
                func.sum(wanted.c.stands).label("n"),
                func.sum(case((checks.c.payer == run, checks.c.spent), else_=0.0)).label("credits"),
            )
            .join(wanted, wanted.c.check_pk == checks.c.pk)
            .group_by(checks.c.tier, checks.c.state)
        )
        counts: dict[Tier, Counter[str]] = {tier: Counter() for tier in TIERS}
        credits = dict.fromkeys(TIERS, 0.0)
        for row in self._db.all(counted):
            counts[Tier(row.tier)][row.state] += int(row.n)
            credits[Tier(row.tier)] += row.credits
        held = select(demands.c.tier, func.count().label("n")).where(demands.c.run == run, sql(tables.HELD))
        for row in self._db.all(held.group_by(demands.c.tier)):
            counts[Tier(row.tier)]["held"] = row.n
        return tuple(
            TierCount.model_validate({"tier": tier, "credits": credits[tier], **counts[tier]})
            for tier in TIERS
        )


# The payers of what is queued are found one after another, however much each of them has there.
_QUEUED = text(
    f"""
    WITH RECURSIVE payers (pk) AS (
        SELECT min(payer) FROM checks WHERE {tables.QUEUED}
        UNION ALL
        SELECT (SELECT min(payer) FROM checks WHERE {tables.QUEUED} AND payer > payers.pk)
        FROM payers WHERE payers.pk IS NOT NULL
    )
    SELECT runs.project, runs.id, (
        SELECT count(*) FROM (
            SELECT 1 FROM checks WHERE {tables.QUEUED} AND payer = runs.pk
            AND tier IN ({tables.listed(tier.value for tier in WORKED_TIERS)}) LIMIT :most
        ) AS waiting
    ) AS n
    FROM payers JOIN runs ON runs.pk = payers.pk
    """  # noqa: S608 - constants
)


def _run_rows(*where: ColumnElement[bool]) -> Any:
    return select(_runs, tables.feeds.c.seq.label("feed")).join(tables.feeds).where(*where)
