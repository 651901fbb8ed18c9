"""Removal of closed runs, in short steps.

A step removes a bounded number of rows and commits; there is no other record of how far a purge has come
than what is left. Steps of one run queue at its row, so that two processes at once do no harm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, exists, select, update

from verifier_service.domain.states import LIVE_CHECKS
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.checks import SqlChecks
from verifier_service.persistence.database import Database, clock, ordered, sql
from verifier_service.persistence.lab_tables import lab_values
from verifier_service.persistence.model_tables import decisions
from verifier_service.persistence.runs import run_key
from verifier_service.persistence.settlement_tables import event_waits
from verifier_service.persistence.webhook_tables import deliveries, webhooks
from verifier_service.persistence.worker_tables import attempts

_runs, _cases, _bodies, _demands = tables.runs, tables.trajectories, tables.bodies, tables.demands
_checks, _rewards = tables.checks, tables.rewards
_reviews, _votes = review_tables.reviews, review_tables.votes
_skips, _events = review_tables.review_skips, review_tables.review_events
_INCREMENTAL = 2  # https://sqlite.org/pragma.html#pragma_auto_vacuum


class SqlRetention:
    """See ``ports.retention.Retention``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(self, project: str, run: str) -> None:
        marked = update(_runs).where(_runs.c.project == project, _runs.c.id == run)
        self._db.run(marked.where(_runs.c.purging_at.is_(None)).values(purging_at=clock()))

    def purging(self) -> tuple[tuple[str, str], ...]:
        found = select(_runs.c.project, _runs.c.id).where(sql(tables.PURGING)).order_by(_runs.c.pk)
        return tuple((row.project, row.id) for row in self._db.all(found))

    def drop_rewards(self, project: str, run: str, limit: int) -> int:
        mine = _rewards.c.run == run_key(project, run)
        first = select(_rewards.c.seq).where(mine).order_by(_rewards.c.seq).limit(limit)
        seqs = [row.seq for row in self._db.all(first)]
        if not seqs:
            return 0
        return self._db.run(delete(_rewards).where(mine, _rewards.c.seq <= seqs[-1]))

    def drop_deliveries(self, project: str, run: str, limit: int) -> int:
        """By endpoint: the only index that knows the run begins with it."""
        endpoints = select(webhooks.c.pk).where(webhooks.c.project == project)
        for endpoint in self._db.all(endpoints.order_by(webhooks.c.pk)):
            mine = (deliveries.c.webhook == endpoint.pk, deliveries.c.run == run_key(project, run))
            first = select(deliveries.c.pk).where(*mine).limit(limit)
            found = [row.pk for row in self._db.all(first)]
            if found:
                return self._delete(deliveries, deliveries.c.pk, found)
        return 0

    def drop_cases(self, project: str, run: str, limit: int) -> int:
        first = select(_cases.c.pk).where(_cases.c.run == run_key(project, run))
        pks = ordered([row.pk for row in self._db.all(first.order_by(_cases.c.id).limit(limit))])
        if not pks:
            return 0
        cited = select(_demands.c.check_pk).where(self._db.among(_demands.c.trajectory, pks))
        rows = self._db.all(cited.where(_demands.c.check_pk.is_not(None)).distinct())
        checks = ordered([row.check_pk for row in rows])
        states = self._locked(checks)
        self._delete(_demands, _demands.c.trajectory, pks)
        self._delete(_bodies, _bodies.c.trajectory, pks)
        self._delete(decisions, decisions.c.trajectory, pks)
        self._delete(_cases, _cases.c.pk, pks)
        SqlChecks(self._db).withdraw([pk for pk, state in states.items() if state in LIVE_CHECKS])
        self._drop_uncited(checks)
        return len(pks)

    def _locked(self, checks: Collection[int]) -> dict[int, str]:
        """States of checks, locked as for a deletion: whoever is about to cite one of them has committed
        before we look, or waits for us and then finds that it is gone."""
        held = select(_checks.c.pk, _checks.c.state).where(self._db.among(_checks.c.pk, checks))
        held = held.order_by(_checks.c.pk)
        rows = self._db.all(held.with_for_update() if self._db.postgres else held)
        return {row.pk: row.state for row in rows}

    def finish(self, project: str, run: str) -> None:
        done = update(_runs).where(_runs.c.project == project, _runs.c.id == run, sql(tables.PURGING))
        self._db.run(done.values(purged_at=clock()))

    def give_back(self, pages: int) -> bool:
        if self._db.postgres or self._pragma("auto_vacuum") != _INCREMENTAL:
            return False
        if self._pragma("freelist_count") < pages:
            return False
        cursor = self._db.connection.connection.cursor()
        for _ in range(pages):  # the driver takes one step of a statement without columns: one page
            cursor.execute("PRAGMA incremental_vacuum(1)")
        cursor.close()
        return True

    def _drop_uncited(self, checks: Collection[int]) -> None:
        again = exists().where(_demands.c.check_pk == _checks.c.pk)
        alone = select(_checks.c.pk).where(self._db.among(_checks.c.pk, checks), ~again)
        gone = [row.pk for row in self._db.all(alone)]
        reviews = select(_reviews.c.pk).where(self._db.among(_reviews.c.check_pk, gone))
        self._forget_reviews([row.pk for row in self._db.all(reviews)])
        self._delete(_reviews, _reviews.c.check_pk, gone)
        self._delete(lab_values, lab_values.c.check_pk, gone)
        self._delete(event_waits, event_waits.c.check_pk, gone)
        self._delete(attempts, attempts.c.check_pk, gone)
        self._delete(_checks, _checks.c.pk, gone)

    def _forget_reviews(self, pks: Collection[int]) -> None:
        """Of the trail stays who did what and when, without what was written."""
        if not pks:
            return
        ids = select(_reviews.c.id).where(self._db.among(_reviews.c.pk, pks))
        told = update(_events).where(_events.c.review.in_(ids), _events.c.detail.is_not(None))
        self._db.run(told.values(detail=None))
        self._delete(_skips, _skips.c.review, pks)
        self._delete(_votes, _votes.c.review, pks)

    def _delete(self, table: Table, column: ColumnElement[Any], values: Collection[int]) -> int:
        if not values:
            return 0
        return self._db.run(delete(table).where(self._db.among(column, values)))

    def _pragma(self, name: str) -> int:
        return int(self._db.connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
