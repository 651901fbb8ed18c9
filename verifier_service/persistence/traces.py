"""The traces of trajectories: filled only where tracing is on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import BigInteger, Column, ForeignKey, Table, Text, select

from verifier_service.persistence import tables
from verifier_service.persistence.bulk import insert_new
from verifier_service.persistence.database import Database, ordered
from verifier_service.persistence.tables import metadata

traces = Table(
    "traces",
    metadata,
    Column(
        "trajectory",
        BigInteger,
        ForeignKey("trajectories.pk", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("traceparent", Text, nullable=False),
)


class SqlTraces:
    """See ``ports.traces.Traces``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def note(self, of: Mapping[int, str]) -> None:
        rows = [{"trajectory": pk, "traceparent": parent} for pk, parent in sorted(of.items())]
        if rows:
            insert_new(self._db, traces, rows)

    def of_checks(self, pks: Collection[int]) -> dict[int, tuple[str, ...]]:
        demands = tables.demands
        wanted = (
            select(demands.c.check_pk, traces.c.traceparent)
            .join(traces, traces.c.trajectory == demands.c.trajectory)
            .where(self._db.among(demands.c.check_pk, ordered(pks)), demands.c.check_pk.is_not(None))
            .order_by(demands.c.check_pk, demands.c.pk)
        )
        found: dict[int, list[str]] = defaultdict(list)
        for row in self._db.all(wanted):
            if row.traceparent not in found[row.check_pk]:
                found[row.check_pk].append(row.traceparent)
        return {pk: tuple(parents) for pk, parents in found.items()}
