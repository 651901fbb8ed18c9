"""The traces of trajectories: filled only where tracing is on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import BigInteger, Column, ForeignKey, Table, Text, select

from verifier_service.domain.ports.traces import MAX_TRACES
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import insert_new
from verifier_service.persistence.database import Database, ordered
from verifier_service.persistence.tables import metadata

_demands = tables.demands
MAX_CITING = 1_000  # demands of a check whose traces are looked at

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
        found: dict[int, list[str]] = defaultdict(list)
        for pk, parent in self._cited(ordered(pks)):
            if len(found[pk]) < MAX_TRACES and parent not in found[pk]:
                found[pk].append(parent)
        return {pk: tuple(parents) for pk, parents in found.items()}

    def _cited(self, pks: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Traces of the demands that the index has first for each check: its oldest, whose batches often
        share a trace. A check may be cited by any number of trajectories."""
        for pk in pks:
            of_check = select(_demands.c.pk, _demands.c.trajectory).where(
                _demands.c.check_pk == pk, _demands.c.check_pk.is_not(None)
            )
            first = of_check.limit(MAX_CITING).subquery()
            cited = select(traces.c.traceparent).join(first, first.c.trajectory == traces.c.trajectory)
            for row in self._db.all(cited.order_by(first.c.pk)):
                yield pk, row.traceparent
