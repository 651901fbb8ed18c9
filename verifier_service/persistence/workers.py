"""Workers: their heartbeats, and what they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, delete, func, or_, select, update

from verifier_service.domain.evidence import Tier
from verifier_service.domain.workers import MISSED_BEATS, Counts, Current, Worker, WorkerCard, WorkerState
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clock, sql
from verifier_service.persistence.worker_tables import workers

_checks = tables.checks
_LOST = workers.c.beat_at + MISSED_BEATS * workers.c.beat_s < clock()
_DEAD = or_(workers.c.left_at.is_not(None), _LOST)


class SqlWorkers:
    """See ``ports.workers.Workers``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def beat(self, beats: Sequence[tuple[WorkerCard, Counts]]) -> None:
        for card, counts in sorted(beats, key=lambda beat: beat[0].id):
            done = counts._asdict()
            mine = update(workers).where(workers.c.id == card.id)
            if self._db.run(mine.values(beat_at=clock(), left_at=None, **done)) == 0:
                self._db.run(
                    self._db.insert_new(workers).values(
                        id=card.id,
                        tier=card.tier.value,
                        host=card.host,
                        card=card.model_dump_json(),
                        beat_s=card.beat_s,
                        started_at=clock(),
                        beat_at=clock(),
                        **done,
                    )
                )

    def leave(self, ids: Collection[str]) -> None:
        gone = update(workers).where(self._db.among(workers.c.id, sorted(ids)))
        self._db.run(gone.values(left_at=clock()))

    def listed(self, tier: Tier | None = None, *, current: bool = True) -> list[Worker]:
        found = select(workers, clock().label("now"))
        if tier is not None:
            found = found.where(workers.c.tier == tier.value)
        holding = self._holding() if current else {}
        shown = [_worker(row, holding.get(row.id, ())) for row in self._db.all(found)]
        return sorted(shown, key=lambda one: (not one.alive, one.card.tier.rank, one.card.id))

    def prune(self, keep_s: float, keep: int) -> int:
        latest = select(workers.c.id).where(_DEAD).order_by(workers.c.beat_at.desc()).limit(keep)
        old = or_(workers.c.beat_at < clock() - keep_s, workers.c.id.not_in(latest))
        return self._db.run(delete(workers).where(_DEAD, old))

    def _holding(self) -> dict[str, Sequence[Current]]:
        """What is running, by owner. The bound on the time makes the index of leases usable."""
        held = (
            select(
                _checks.c.lease_owner,
                _checks.c.verifier,
                func.count().label("n"),
                func.min(_checks.c.started_at).label("since"),
            )
            .where(sql(tables.RUNNING), _checks.c.lease_until >= 0.0)
            .group_by(_checks.c.lease_owner, _checks.c.verifier)
            .order_by(_checks.c.lease_owner, func.min(_checks.c.started_at))
        )
        holding: dict[str, list[Current]] = defaultdict(list)
        for row in self._db.all(held):
            current = Current(verifier=row.verifier, checks=row.n, since=_time(row.since))
            holding[row.lease_owner].append(current)
        return dict(holding)


def _worker(row: Row[Any], current: Sequence[Current]) -> Worker:
    lost = row.beat_at + MISSED_BEATS * row.beat_s < row.now
    state = WorkerState.LOST if lost else WorkerState.ALIVE
    return Worker(
        card=WorkerCard.model_validate_json(row.card),
        state=WorkerState.STOPPED if row.left_at is not None else state,
        started_at=_time(row.started_at),
        beat_at=_time(row.beat_at),
        silent_s=max(0.0, row.now - row.beat_at),
        current=tuple(current),
        done=row.done,
        failed=row.failed,
        rejected=row.rejected,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
