"""Counters that every process adds to, now and then."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Column, Double, Table, Text, select, update

from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.meters import Series
from verifier_service.persistence.database import Database
from verifier_service.persistence.tables import metadata

meters = Table(
    "meters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("tier", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("value", Double, nullable=False),
)


class SqlMeters:
    """See ``ports.meters.Meters``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, amounts: Mapping[Series, float]) -> None:
        for (name, tier, kind), amount in sorted(amounts.items(), key=lambda one: str(one[0])):
            row = {"name": name, "tier": "" if tier is None else tier.value, "kind": kind}
            this = update(meters).where(*(meters.c[column] == value for column, value in row.items()))
            more = this.values(value=meters.c.value + amount)
            if self._db.run(more) == 0:
                self._db.run(self._db.insert_new(meters).values(**row, value=0.0))
                self._db.run(more)

    def totals(self) -> dict[Series, float]:
        return {
            Series(row.name, Tier(row.tier) if row.tier else None, row.kind): row.value
            for row in self._db.all(select(meters))
        }
