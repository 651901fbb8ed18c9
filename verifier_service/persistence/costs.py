"""Attempts as the cost model learns from them, and what it has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Boolean, Column, Double, Table, Text, delete, select, update

from verifier_service.domain.costs import LearnedCost, NotedAttempt
from verifier_service.persistence.bulk import insert_all
from verifier_service.persistence.database import Database, clock
from verifier_service.persistence.tables import PK, metadata

# A queue: appended by whoever ends an attempt, emptied by one process. Rows never change.
noted_attempts = Table(
    "noted_attempts",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("verifier", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("size", Double, nullable=False),
    Column("cpu_s", Double, nullable=False),
    Column("found", Boolean, nullable=False),
)

learned_costs = Table(
    "learned_costs",
    metadata,
    Column("method", Text, primary_key=True),
    Column("verifier", Text, nullable=False),
    Column("fit", Text, nullable=False),
    Column("attempts", Text, nullable=False),
    Column("learned_at", Double, nullable=False),
)


class SqlCosts:
    """See ``ports.costs.Costs``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def note(self, attempts: Sequence[NotedAttempt]) -> None:
        insert_all(self._db, noted_attempts, [one._asdict() for one in attempts])

    def noted(self) -> bool:
        return self._db.first(select(noted_attempts.c.pk).limit(1)) is not None

    def take(self, limit: int) -> list[NotedAttempt]:
        oldest = self._db.locked(
            select(noted_attempts).order_by(noted_attempts.c.pk).limit(limit), skip=True
        )
        rows = self._db.all(oldest)
        these = self._db.among(noted_attempts.c.pk, [row.pk for row in rows])
        self._db.run(delete(noted_attempts).where(these))
        return [NotedAttempt(row.verifier, row.method, row.size, row.cpu_s, row.found) for row in rows]

    def fits(self) -> Mapping[str, str]:
        return {
            row.method: row.fit for row in self._db.all(select(learned_costs.c.method, learned_costs.c.fit))
        }

    def learned(self, method: str) -> LearnedCost | None:
        row = self._db.first(select(learned_costs).where(learned_costs.c.method == method))
        return None if row is None else LearnedCost(row.fit, row.attempts)

    def put(self, verifier: str, method: str, learned: LearnedCost) -> None:
        values = {"verifier": verifier, **learned._asdict(), "learned_at": clock()}
        this = update(learned_costs).where(learned_costs.c.method == method).values(**values)
        if self._db.run(this) == 0:
            self._db.run(self._db.insert_new(learned_costs).values(method=method, **values))
