"""What people look at: lists in the order of an index, and counts of whole runs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, Integer, Row, Select, case, cast, func, select, text, union_all

from verifier_service.domain.evidence import TIERS
from verifier_service.domain.listings import PENDING, Listed, QueueLine, TrajectoryLine
from verifier_service.domain.ports.overview import Binned
from verifier_service.domain.states import CheckState, RewardStatus
from verifier_service.persistence import tables
from verifier_service.persistence.database import NOW_ON_POSTGRES, NOW_ON_SQLITE, Database
from verifier_service.persistence.runs import no_run, run_key
from verifier_service.persistence.tenancy import moment

Statuses = tuple[str | None, ...]

_cases = tables.trajectories
STATUSES = (None, *(one.value for one in RewardStatus if one is not RewardStatus.OTHER))
WALKED = 5_000  # rows that are looked at, newest first, for those with a prefix
SORTED = 50_000  # rows with a prefix that are sorted where walking finds too few


class SqlOverview:
    """See ``ports.overview.Overview``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def trajectories(
        self,
        project: str,
        run: str,
        *,
        after: int | None,
        limit: int,
        status: str | None = None,
        group: str | None = None,
    ) -> Listed:
        owner = self._owner(project, run)
        statuses = STATUSES if status is None else (None if status == PENDING else status,)
        if group is None:
            found = self._newest(owner, statuses, after, limit)
            return self._listed(found, found[-1] if len(found) == limit else None)
        walked = self._newest(owner, statuses, after, WALKED)
        matching = self._with_prefix(walked, group)[:limit]
        if len(matching) == limit or len(walked) < WALKED:
            return self._listed(matching, matching[-1] if len(matching) == limit else None)
        sorted_ = self._sorted(owner, statuses, group, after, limit)
        if sorted_ is None:
            return self._listed(matching, walked[-1])
        return self._listed(sorted_, sorted_[-1] if len(sorted_) == limit else None)

    def rewards(self, project: str, run: str, top: float, bins: int) -> list[Binned]:
        place = cast(func.floor(_cases.c.reward * (bins / top)), Integer)
        bounded = case((place >= bins, bins - 1), (place < 0, 0), else_=place).label("bin")
        counted: Select[Any] = select(_cases.c.status, bounded, func.count().label("n"))
        mine = counted.where(_cases.c.run == self._owner(project, run), _cases.c.reward.is_not(None))
        rows = self._db.all(mine.group_by(_cases.c.status, bounded))
        return [Binned(row.status, row.bin, row.n) for row in rows]

    def statuses(self, project: str, run: str) -> dict[str, int]:
        counted = select(_cases.c.status, func.count().label("n")).where(
            _cases.c.run == self._owner(project, run)
        )
        return {row.status or PENDING: row.n for row in self._db.all(counted.group_by(_cases.c.status))}

    def queues(self, project: str) -> list[QueueLine]:
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        counted = _LIVE_ON_POSTGRES if self._db.postgres else _LIVE_ON_SQLITE
        for row in self._db.all(counted, {"project": project}):
            found[row.tier][row.state] = row.n
            name = _AGES.get(row.state)
            if name is not None and row.age is not None:
                found[row.tier][name] = max(0.0, row.age)
        return [QueueLine.model_validate({"tier": tier, **found[tier.value]}) for tier in TIERS]

    def _owner(self, project: str, run: str) -> int:
        row = self._db.first(select(run_key(project, run).label("pk")))
        if row is None or row.pk is None:
            raise no_run(run)
        return int(row.pk)

    def _newest(self, owner: int, statuses: Statuses, after: int | None, limit: int) -> list[int]:
        """The newest of each status, merged: every part is the end of a range of one index."""
        parts = [_end_of(owner, status, after).limit(limit).subquery() for status in statuses]
        merged = union_all(*(select(part.c.pk) for part in parts)).subquery()
        rows = self._db.all(select(merged.c.pk).order_by(merged.c.pk.desc()).limit(limit))
        return [row.pk for row in rows]

    def _with_prefix(self, pks: list[int], group: str) -> list[int]:
        matching = select(_cases.c.pk).where(
            self._db.among(_cases.c.pk, pks), func.substr(_cases.c.group_id, 1, len(group)) == group
        )
        return sorted((row.pk for row in self._db.all(matching)), reverse=True)

    def _sorted(
        self, owner: int, statuses: Statuses, group: str, after: int | None, limit: int
    ) -> list[int] | None:
        """All with the prefix, sorted; ``None`` where there are too many."""
        named = select(_cases.c.pk, _cases.c.status).where(
            _cases.c.run == owner, _cases.c.group_id.is_not(None), *self._range(group)
        )
        found = self._db.all(named.limit(SORTED + 1))
        if len(found) > SORTED:
            return None
        pks = (row.pk for row in found if row.status in statuses and (after is None or row.pk < after))
        return sorted(pks, reverse=True)[:limit]

    def _range(self, group: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        """Groups from a prefix up to its successor, byte by byte: ids are ASCII."""
        beyond = group[:-1] + chr(ord(group[-1]) + 1)
        if not self._db.postgres:
            return _cases.c.group_id >= group, _cases.c.group_id < beyond
        return _cases.c.group_id.op("~>=~")(group), _cases.c.group_id.op("~<~")(beyond)

    def _listed(self, pks: list[int], after: int | None) -> Listed:
        rows = {row.pk: row for row in self._db.all(_LINES.where(self._db.among(_cases.c.pk, pks)))}
        return Listed(tuple(_line(rows[pk]) for pk in pks if pk in rows), after)


def _end_of(owner: int, status: str | None, after: int | None) -> Select[Any]:
    """The newest of one status. Postgres does not know that what is null is all equal, hence the order."""
    mine = select(_cases.c.pk).where(_cases.c.run == owner)
    mine = mine.where(_cases.c.status.is_(None) if status is None else _cases.c.status == status)
    if after is not None:
        mine = mine.where(_cases.c.pk < after)
    return mine.order_by(_cases.c.status.desc(), _cases.c.pk.desc())


# SQLite would walk over all checks of the project: it takes both indexes that begin with it for as good.
_LIVE = f"""
    SELECT tier, state, count(*) AS n, {{now}} - min(
        CASE WHEN state = '{CheckState.WAITING_EXTERNAL.value}' THEN started_at
        ELSE coalesce(queued_at, created_at) END
    ) AS age
    FROM checks {{index}} WHERE project = :project AND {tables.LIVE} GROUP BY tier, state
"""  # noqa: S608 - constants
_LIVE_ON_SQLITE = text(_LIVE.format(now=NOW_ON_SQLITE, index="INDEXED BY uq_checks_live"))
_LIVE_ON_POSTGRES = text(_LIVE.format(now=NOW_ON_POSTGRES, index=""))
_AGES = {CheckState.QUEUED: "oldest_queued_s", CheckState.WAITING_EXTERNAL: "oldest_waiting_s"}
_LINES = select(
    _cases.c.pk,
    _cases.c.id,
    _cases.c.group_id,
    _cases.c.ladder,
    _cases.c.ladder_version,
    _cases.c.policy_version,
    _cases.c.multiplicity,
    _cases.c.finished,
    _cases.c.cancelled,
    _cases.c.canonical,
    _cases.c.status,
    _cases.c.reward,
    _cases.c.variance,
    _cases.c.revision,
    _cases.c.created_at,
)


def _line(row: Row[Any]) -> TrajectoryLine:
    return TrajectoryLine(
        id=row.id,
        group=row.group_id,
        ladder=row.ladder,
        ladder_version=row.ladder_version,
        policy_version=row.policy_version,
        multiplicity=row.multiplicity,
        finished=row.finished,
        cancelled=row.cancelled,
        canonical=row.canonical,
        status=None if row.status is None else RewardStatus(row.status),
        reward=row.reward,
        variance=row.variance,
        revision=row.revision,
        created_at=moment(row.created_at),
    )
