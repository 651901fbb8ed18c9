"""The history of attempts: written with their end, read with their case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, func, select, tuple_, update

from verifier_service.domain.checks import Completion
from verifier_service.domain.digests import version_of
from verifier_service.domain.evidence import Cost, Failure
from verifier_service.domain.history import Attempt, AttemptEnd, Queueing, Ran
from verifier_service.domain.states import CheckState
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import insert_all
from verifier_service.persistence.cases import read_cost, read_evidence
from verifier_service.persistence.database import Database, clean, ordered, sql
from verifier_service.persistence.worker_tables import attempts, workers

_checks = tables.checks
MAX_AHEAD = 1_000  # behind how many a check stands is counted up to this
_UNKNOWN = Ran(host="")


def row(
    attempt: Row[Any],
    end: AttemptEnd,
    ran: Ran | None,
    failure: Failure | None,
    cost: Cost | None,
    credits: float,
) -> dict[str, Any]:
    """The row of an attempt that ends now, from the row of its check and what its worker knows."""
    ran = ran or _UNKNOWN
    claimed_at, ended_at = attempt.started_at, attempt.now - ran.ago_s
    if claimed_at is not None:
        ended_at = max(ended_at, claimed_at)
    started_at = None if ran.wall_s is None else ended_at - ran.wall_s
    if started_at is not None and claimed_at is not None:
        started_at = max(started_at, claimed_at)
    return {
        "check_pk": attempt.pk,
        "fence": attempt.fence,
        "worker": attempt.lease_owner,
        "host": ran.host or None,
        "version": ran.version or version_of(attempt.version),
        "libraries": None if ran.libraries is None else orjson.dumps(ran.libraries).decode(),
        "queued_at": attempt.created_at if attempt.queued_at is None else attempt.queued_at,
        "claimed_at": claimed_at,
        "started_at": started_at,
        "ended_at": ended_at,
        "ended_as": end.value,
        "code": None if failure is None else clean(failure.code),
        "wall_s": ran.wall_s,
        "cpu_s": None if cost is None else cost.cpu_s,
        "peak_mb": ran.peak_mb,
        "credits": credits,
    }


def write(database: Database, rows: Sequence[dict[str, Any]]) -> None:
    """Store attempts. The host of a worker that did not report is what it once said of itself."""
    absent = {one["worker"] for one in rows if one["host"] is None and one["worker"] is not None}
    if absent:
        known = select(workers.c.id, workers.c.host).where(database.among(workers.c.id, sorted(absent)))
        host_of = {found.id: found.host for found in database.all(known)}
        rows = [one | {"host": one["host"] or host_of.get(one["worker"])} for one in rows]
    insert_all(database, attempts, rows)


def measured_late(database: Database, one: Completion) -> bool:
    """Note what a cancelled attempt had used, once its worker has stopped it. False where that is known
    already (a report that was sent again), or the attempt ended in another way (its lease was lost)."""
    changes: dict[str, Any] = {"cpu_s": one.cost.cpu_s}
    if one.ran is not None:
        changes |= {"wall_s": one.ran.wall_s, "peak_mb": one.ran.peak_mb, "host": one.ran.host or None}
    unknown = (attempts.c.ended_as == AttemptEnd.CANCELLED.value, attempts.c.cpu_s.is_(None))
    return database.run(update(attempts).where(*_this(one), *unknown).values(**changes)) == 1


def charged_late(database: Database, one: Completion, credits: float) -> None:
    """Note what was charged for it."""
    charged = attempts.c.credits + credits
    database.run(update(attempts).where(*_this(one)).values(credits=charged))


def _this(one: Completion) -> tuple[ColumnElement[bool], ...]:
    return attempts.c.check_pk == one.pk, attempts.c.fence == one.fence


class Histories:
    """The part of ``ports.work.Checks`` that says what was tried, and what stands before a check."""

    _db: Database

    def histories(self, pks: Collection[int]) -> dict[int, Queueing]:
        stored: dict[int, list[Attempt]] = defaultdict(list)
        these = select(attempts).where(self._db.among(attempts.c.check_pk, ordered(pks)))
        for found in self._db.all(these.order_by(attempts.c.check_pk, attempts.c.fence)):
            stored[found.check_pk].append(_attempt(found))
        checks = self._db.all(_TOLD.where(self._db.among(_checks.c.pk, ordered(pks))))
        return {
            check.pk: Queueing(
                build=check.version,
                attempts=(*stored[check.pk], *_on_its_row(check, stored[check.pk])),
                ahead=self._ahead(check) if check.state == CheckState.QUEUED else None,
            )
            for check in checks
        }

    def _ahead(self, check: Row[Any]) -> int:
        """How many checks of its tier are ready and claimed before it, at most ``MAX_AHEAD`` and one."""
        place = tuple_(_checks.c.precedence, _checks.c.pk) < tuple_(check.precedence, check.pk)
        before = select(_checks.c.pk).where(sql(tables.READY), _checks.c.tier == check.tier, place)
        counted = select(func.count()).select_from(before.limit(MAX_AHEAD + 1).subquery())
        return int(self._db.connection.execute(counted).scalar_one())


_TOLD = select(
    _checks.c.pk,
    _checks.c.version,
    _checks.c.tier,
    _checks.c.state,
    _checks.c.precedence,
    _checks.c.fence,
    _checks.c.lease_owner,
    _checks.c.created_at,
    _checks.c.queued_at,
    _checks.c.started_at,
    _checks.c.ended_at,
    _checks.c.spent,
    _checks.c.cost,
    _checks.c.evidence,
    _checks.c.failure,
    workers.c.host,
).join(workers, workers.c.id == _checks.c.lease_owner, isouter=True)


def _on_its_row(check: Row[Any], stored: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The attempt that only the check's row knows: one that runs, or one that was judged before the check
    was stored."""
    if check.state in (CheckState.RUNNING, CheckState.WAITING_EXTERNAL):
        queued_at = check.created_at if check.queued_at is None else check.queued_at
        return (
            Attempt(
                number=check.fence,
                worker=check.lease_owner,
                host=check.host,
                version=version_of(check.version),
                queued_at=_when(queued_at),
                claimed_at=_when(check.started_at),
            ),
        )
    ended = check.state in (CheckState.SUCCEEDED, CheckState.FAILED)
    if not ended or any(one.number == check.fence for one in stored):
        return ()
    told = None if check.evidence is None else read_evidence(check.evidence).provenance
    failure = None if check.failure is None else Failure.model_validate_json(check.failure)
    return (
        Attempt(
            number=check.fence,
            worker=None if told is None else told.worker,
            version=version_of(check.version),
            libraries={} if told is None else told.libraries,
            started_at=_when(check.started_at),
            ended_at=_when(check.ended_at),
            end=AttemptEnd(check.state),
            code=None if failure is None else failure.code,
            cpu_s=read_cost(check.cost).cpu_s,
            credits=check.spent,
        ),
    )


def _attempt(found: Row[Any]) -> Attempt:
    libraries: Mapping[str, str] = {} if found.libraries is None else orjson.loads(found.libraries)
    return Attempt(
        number=found.fence,
        worker=found.worker,
        host=found.host,
        version=found.version,
        libraries=dict(libraries),
        queued_at=_when(found.queued_at),
        claimed_at=_when(found.claimed_at),
        started_at=_when(found.started_at),
        ended_at=_when(found.ended_at),
        end=AttemptEnd(found.ended_as),
        code=found.code,
        wall_s=found.wall_s,
        cpu_s=found.cpu_s,
        peak_memory_mb=found.peak_mb,
        credits=found.credits,
    )


def _when(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
