"""Leases: who works on which check, until when."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, select, text, tuple_, update

from verifier_service.domain.checks import Claim
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Kind
from verifier_service.persistence import tables
from verifier_service.persistence.database import (
    NOW_ON_POSTGRES,
    NOW_ON_SQLITE,
    Database,
    clock,
    ordered,
    sql,
)

_checks, _runs = tables.checks, tables.runs
SPARE = 64  # looked at beyond the limit, where several workers claim the same kinds at once
WOKEN = 256  # delayed checks that one claim makes ready


class Leases:
    """The part of ``ports.work.Checks`` between a claim and the end of an attempt."""

    _db: Database

    def claim(
        self,
        tier: Tier,
        limit: int,
        owner: str,
        ttl_s: float,
        without: Collection[str] = (),
        only: Collection[Kind] | None = None,
    ) -> list[Claim]:
        """Rows locked by another claim are skipped, so two claims never wait for each other."""
        if limit <= 0:
            return []
        self._wake(tier)
        best = _ready(_CLAIMED, tier).limit(limit)
        if only is not None:
            kinds = [kind for kind in sorted(only) if kind.verifier not in without]
            narrowed = self._of_kinds(tier, kinds, limit + SPARE)
            if narrowed is None:
                return []
            best = best.where(narrowed)
        elif without:
            best = best.where(~self._db.among(_checks.c.verifier, sorted(without)))
        rows = self._db.all(self._db.locked(best, of=_checks, skip=True))
        if not rows:
            return []
        leased = update(_checks).where(self._db.among(_checks.c.pk, [row.pk for row in rows]))
        self._db.run(
            leased.values(
                state=CheckState.RUNNING.value,
                lease_owner=owner,
                lease_until=clock() + ttl_s,
                started_at=clock(),
                not_before=None,
                fence=_checks.c.fence + 1,
            )
        )
        self._db.count("claims", tier, amount=len(rows))
        params = {text: json.loads(text) for text in {row.params for row in rows}}
        return [_claim(row, tier, params[row.params]) for row in rows]

    def _wake(self, tier: Tier) -> None:
        """Delayed checks that are due become ready, those that waited longest first. From there they are
        claimed in the order of all, and nothing has to walk over those that are not due."""
        self._db.run(_WAKE_ON_POSTGRES if self._db.postgres else _WAKE, {"tier": tier.value, "most": WOKEN})

    def _of_kinds(self, tier: Tier, kinds: Sequence[Kind], limit: int) -> ColumnElement[bool] | None:
        """That a check is of one of these kinds; ``None`` when there is none to claim.

        On Postgres, where workers share a queue, the best of each kind are looked up first, unlocked:
        however much of other kinds is queued, none of it is read.
        """
        if not kinds:
            return None
        if not self._db.postgres:
            pairs = tuple_(_checks.c.verifier, _checks.c.version)
            return pairs.in_([tuple(kind) for kind in kinds])
        names, versions = zip(*kinds, strict=True)
        given = {"names": list(names), "versions": list(versions), "tier": tier.value, "most": limit}
        pks = [row.pk for row in self._db.all(_BEST, given)]
        return self._db.among(_checks.c.pk, pks) if pks else None

    def kinds(self) -> list[tuple[Tier, Kind]]:
        """A look into the index per kind, however many checks each has."""
        found: list[tuple[Tier, Kind]] = []
        row = self._db.first(_KINDS.limit(1))
        while row is not None:
            found.append((Tier(row.tier), Kind(row.verifier, row.version)))
            row = self._db.first(_KINDS.where(tuple_(*row) < _KIND).limit(1))
        return found

    def queued(self, tier: Tier, kind: Kind, limit: int) -> list[int]:
        self._wake(tier)
        return [row.pk for row in self._db.all(_of_kind(tier, kind).limit(limit))]

    def beat(self, owner: str, fences: Mapping[int, int], ttl_s: float) -> set[int]:
        mine = select(_checks.c.pk, _checks.c.fence).where(
            self._db.among(_checks.c.pk, ordered(fences)),
            sql(tables.RUNNING),
            _checks.c.lease_owner == owner,
        )
        rows = self._db.all(self._db.locked(mine.order_by(_checks.c.pk)))
        held = {row.pk for row in rows if row.fence == fences[row.pk]}
        renewed = update(_checks).where(self._db.among(_checks.c.pk, ordered(held)))
        self._db.run(renewed.values(lease_until=clock() + ttl_s))
        return held

    def wait_external(self, owner: str, pk: int, fence: int) -> bool:
        handed = update(_checks).where(
            _checks.c.pk == pk,
            sql(tables.RUNNING),
            _checks.c.lease_owner == owner,
            _checks.c.fence == fence,
        )
        state = CheckState.WAITING_EXTERNAL.value
        return self._db.run(handed.values(state=state, lease_owner=None, lease_until=None)) == 1

    def cancelled(self, pks: Collection[int]) -> set[int]:
        running = select(_checks.c.pk).where(
            self._db.among(_checks.c.pk, ordered(pks)), sql(tables.RUNNING)
        )
        return set(pks) - {row.pk for row in self._db.all(running)}

    def ready(self) -> frozenset[Tier]:
        """The first row of each tier tells, however many there are."""
        return frozenset(tier for tier in TIERS if any(self._db.first(one) for one in _first(tier)))

    def oldest_queued(self) -> dict[Tier, float]:
        """Seconds since the oldest of each tier's queued checks was made, or came back to the queue."""
        since = func.min(func.coalesce(_checks.c.queued_at, _checks.c.created_at))
        age = (clock() - since).label("age")
        found = select(_checks.c.tier, age).where(sql(tables.QUEUED)).group_by(_checks.c.tier)
        return {Tier(row.tier): max(0.0, row.age) for row in self._db.all(found)}

    def live(self) -> dict[tuple[Tier, CheckState], int]:
        counted = select(_checks.c.tier, _checks.c.state, func.count().label("n")).where(sql(tables.LIVE))
        rows = self._db.all(counted.group_by(_checks.c.tier, _checks.c.state))
        return {(Tier(row.tier), CheckState(row.state)): row.n for row in rows}


_CLAIMED = select(
    _checks.c.pk,
    _checks.c.key,
    _checks.c.project,
    _checks.c.verifier,
    _checks.c.version,
    _checks.c.method,
    _checks.c.params,
    _checks.c.item,
    _checks.c.attempt,
    _checks.c.max_attempts,
    _checks.c.fence,
    _runs.c.id.label("payer"),
    _checks.c.external,
    _checks.c.replicate,
    _checks.c.deadline,
).join(_runs, _runs.c.pk == _checks.c.payer)


_BEST = text(
    f"""
    SELECT best.pk FROM unnest(CAST(:names AS text[]), CAST(:versions AS text[])) AS kind (name, version)
    CROSS JOIN LATERAL (
        SELECT pk, precedence FROM checks
        WHERE {tables.READY} AND tier = :tier AND verifier = kind.name AND version = kind.version
        ORDER BY precedence, pk LIMIT :most
    ) AS best
    ORDER BY best.precedence, best.pk LIMIT :most
    """  # noqa: S608 - constants
)

_DUE = f"{tables.DELAYED} AND tier = :tier AND not_before <= {{now}} ORDER BY not_before LIMIT :most"
_WAKE = text(
    f"""
    UPDATE checks SET not_before = NULL
    WHERE pk IN (SELECT pk FROM checks WHERE {_DUE.format(now=NOW_ON_SQLITE)})
    """  # noqa: S608 - constants
)
# An array is computed once; a subquery with locks might be run again for every row.
_WAKE_ON_POSTGRES = text(
    f"""
    UPDATE checks SET not_before = NULL
    WHERE pk = ANY (ARRAY(
        SELECT pk FROM checks WHERE {_DUE.format(now=NOW_ON_POSTGRES)} FOR NO KEY UPDATE SKIP LOCKED
    ))
    """  # noqa: S608 - constants
)
_KIND = tuple_(_checks.c.tier, _checks.c.verifier, _checks.c.version)
_KINDS = (
    select(_checks.c.tier, _checks.c.verifier, _checks.c.version)
    .where(sql(tables.READY))
    .order_by(_checks.c.tier, _checks.c.verifier, _checks.c.version)
)


def _first(tier: Tier) -> tuple[Select[Any], Select[Any]]:
    """The best check that is ready, and the one that has been due for longest."""
    delayed = select(_checks.c.pk).where(sql(tables.DELAYED), _checks.c.tier == tier.value)
    due = delayed.where(_checks.c.not_before <= clock()).order_by(_checks.c.not_before)
    return _ready(select(_checks.c.pk), tier).limit(1), due.limit(1)


def _ready(columns: Select[Any], tier: Tier) -> Select[Any]:
    """Ready checks of a tier, best first."""
    ready = columns.where(sql(f"checks.{tables.READY}"), _checks.c.tier == tier.value)
    return ready.order_by(_checks.c.precedence, _checks.c.pk)


def _of_kind(tier: Tier, kind: Kind) -> Select[Any]:
    """Ready checks of one kind, best first: a range of ``ix_checks_ready_kind``."""
    return _ready(select(_checks.c.pk), tier).where(
        _checks.c.verifier == kind.verifier, _checks.c.version == kind.version
    )


def _claim(row: Row[Any], tier: Tier, params: Any) -> Claim:
    return Claim(
        pk=row.pk,
        key=row.key,
        project=row.project,
        verifier=row.verifier,
        version=row.version,
        tier=tier,
        params=params,
        item=row.item,
        method=row.method,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        fence=row.fence + 1,
        payer=row.payer,
        external=row.external,
        replicate=row.replicate,
        deadline=row.deadline,
    )
