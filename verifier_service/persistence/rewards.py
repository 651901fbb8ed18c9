"""The reward feed: append-only, numbered in commit order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import func, select, update

from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import insert_all
from verifier_service.persistence.database import Database
from verifier_service.persistence.runs import no_run, purged_run, run_key

_rewards, _feeds, _runs = tables.rewards, tables.feeds, tables.runs


class SqlRewards:
    """See ``ports.rewards.Rewards``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def append(self, project: str, run: str, records: Sequence[RewardRecord]) -> list[RewardRecord]:
        """Holds the feed's row until the commit, so numbers are handed out in commit order."""
        if not records:
            return []
        moved = update(_feeds).where(_feeds.c.run == run_key(project, run))
        moved = moved.values(seq=_feeds.c.seq + len(records)).returning(_feeds.c.run, _feeds.c.seq)
        row = self._db.first(moved)
        if row is None:
            raise no_run(run)
        first = row.seq - len(records) + 1
        stored = [one.model_copy(update={"seq": first + index}) for index, one in enumerate(records)]
        rows = [
            {
                "run": row.run,
                "seq": one.seq,
                "trajectory": one.trajectory,
                "revision": one.revision,
                "status": one.status.value,
                "tier": None if one.tier is None else one.tier.value,
                "reward": one.reward,
                "body": one.model_dump_json(),
            }
            for one in stored
        ]
        insert_all(self._db, _rewards, rows)
        for one in stored:
            self._db.count("records", one.tier, one.status.value)
        return stored

    def feed(
        self, project: str, run: str, after: int, limit: int, status: RewardStatus | None = None
    ) -> list[RewardRecord]:
        found = select(_rewards.c.body).where(
            _rewards.c.run == run_key(project, run), _rewards.c.seq > after
        )
        if status is not None:
            found = found.where(_rewards.c.status == status.value)
        rows = self._db.all(found.order_by(_rewards.c.seq).limit(limit))
        return [RewardRecord.model_validate_json(row.body) for row in rows]

    def head(self, project: str, run: str) -> int:
        found = select(_feeds.c.seq, _runs.c.purging_at).join(_runs, _runs.c.pk == _feeds.c.run)
        row = self._db.first(found.where(_runs.c.project == project, _runs.c.id == run))
        if row is None:
            raise no_run(run)
        if row.purging_at is not None:
            raise purged_run(run)
        return int(row.seq)

    def latest(self, project: str, run: str, ids: Collection[str]) -> dict[str, RewardRecord]:
        newest = (
            select(_rewards.c.trajectory, func.max(_rewards.c.revision).label("revision"))
            .where(_rewards.c.run == run_key(project, run), self._db.among(_rewards.c.trajectory, ids))
            .group_by(_rewards.c.trajectory)
            .subquery()
        )
        found = select(_rewards.c.trajectory, _rewards.c.body).join(
            newest,
            (newest.c.trajectory == _rewards.c.trajectory) & (newest.c.revision == _rewards.c.revision),
        )
        rows = self._db.all(found.where(_rewards.c.run == run_key(project, run)))
        return {row.trajectory: RewardRecord.model_validate_json(row.body) for row in rows}

    def history(self, project: str, run: str, trajectory: str) -> list[RewardRecord]:
        found = select(_rewards.c.body).where(
            _rewards.c.run == run_key(project, run), _rewards.c.trajectory == trajectory
        )
        rows = self._db.all(found.order_by(_rewards.c.revision))
        return [RewardRecord.model_validate_json(row.body) for row in rows]
