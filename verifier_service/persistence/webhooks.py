"""Endpoints of webhooks, and what was sent to them."""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, insert, literal, or_, select, update

from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.webhook_rules import OPERATOR, event_id
from verifier_service.domain.webhooks import (
    MAX_CURSOR,
    Delivery,
    DeliveryState,
    NewWebhook,
    Place,
    Replayed,
    Webhook,
)
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import insert_new
from verifier_service.persistence.database import Database, clock
from verifier_service.persistence.runs import no_run, run_key
from verifier_service.persistence.tenancy import moment
from verifier_service.persistence.webhook_tables import deliveries, webhook_cursors, webhooks

_runs, _feeds, _rewards = tables.runs, tables.feeds, tables.rewards
_PENDING = DeliveryState.PENDING.value
_ID_BYTES = 8
ID_PREFIX = "wh_"


class SqlWebhooks:
    """See ``ports.webhooks.Webhooks``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, project: str, wanted: NewWebhook, secret: str, limit: int) -> Webhook:
        """Additions to a project queue on its row, so that the limit holds."""
        self._db.run(
            self._db.locked(select(tables.projects.c.name).where(tables.projects.c.name == project))
        )
        if len(self.of_project(project)) >= limit:
            raise Conflict("too_many_webhooks", f"a project has at most {limit} webhooks")
        name = ID_PREFIX + secrets.token_hex(_ID_BYTES)
        values = {
            "id": name,
            "project": project,
            "url": wanted.url,
            "run": wanted.run,
            "statuses": None if wanted.statuses is None else json.dumps(sorted(set(wanted.statuses))),
            "description": wanted.description,
            "secret": secret,
            "enabled": True,
            "streak": 0,
            "created_at": clock(),
        }
        made = self._db.all(insert(webhooks).values(values).returning(webhooks.c.pk))[0].pk
        present = select(literal(made), _feeds.c.run, _feeds.c.seq).join(_runs, _runs.c.pk == _feeds.c.run)
        present = present.where(_runs.c.project == project)
        if wanted.run is not None:
            present = present.where(_runs.c.id == wanted.run)
        self._db.run(insert(webhook_cursors).from_select(["webhook", "run", "seq"], present))
        return self.get(project, name)

    def of_project(self, project: str) -> tuple[Webhook, ...]:
        found = select(webhooks).where(webhooks.c.project == project, webhooks.c.removed_at.is_(None))
        return tuple(_read(row) for row in self._db.all(found.order_by(webhooks.c.pk)))

    def get(self, project: str, webhook: str) -> Webhook:
        return _read(self._row(project, webhook))

    def place(self, project: str, webhook: str) -> Place:
        return read_place(self._row(project, webhook), self._db.now())

    def enable(self, project: str, webhook: str) -> Webhook:
        row = self._row(project, webhook, lock=True)
        if not row.enabled:
            self._change(
                row, enabled=True, disabled_reason=None, streak=0, failing_since=None, paused_until=None
            )
            at_once = update(deliveries).where(
                deliveries.c.webhook == row.pk, deliveries.c.state == _PENDING
            )
            self._db.run(at_once.values(not_before=clock()))
        return self.get(project, webhook)

    def disable(self, project: str, webhook: str, reason: str = OPERATOR) -> Webhook:
        row = self._row(project, webhook, lock=True)
        if row.enabled:
            self._change(row, enabled=False, disabled_reason=reason)
        return self.get(project, webhook)

    def redirect(self, project: str, webhook: str, url: str) -> Webhook:
        self._change(self._row(project, webhook, lock=True), url=url, paused_until=None)
        return self.get(project, webhook)

    def rotate(self, project: str, webhook: str, secret: str, overlap_s: float, *, force: bool) -> Webhook:
        row = self._row(project, webhook, lock=True)
        if not force and row.old_secret_until is not None and row.old_secret_until > self._db.now():
            ends = moment(row.old_secret_until).isoformat()
            raise Conflict(
                "rotation_running",
                f"the secret before the present one signs until {ends}; force drops both at once",
            )
        old: dict[str, Any] = {"old_secret": None, "old_secret_until": None}
        if overlap_s > 0 and not force:
            old = {"old_secret": row.secret, "old_secret_until": clock() + overlap_s}
        self._change(row, secret=secret, **old)
        return self.get(project, webhook)

    def remove(self, project: str, webhook: str) -> None:
        row = self._row(project, webhook, lock=True)
        self._change(row, enabled=False, disabled_reason="removed", removed_at=clock())

    def deliveries(
        self,
        project: str,
        webhook: str,
        *,
        run: str | None,
        state: DeliveryState | None,
        before: int | None,
        limit: int,
    ) -> tuple[list[Delivery], int | None]:
        """Positions are primary keys."""
        named = _sent(self._row(project, webhook).pk)
        if run is not None:
            named = named.where(_runs.c.id == run)
        if state is not None:
            named = named.where(deliveries.c.state == state.value)
        if before is not None:
            named = named.where(deliveries.c.pk < before)
        rows = self._db.all(named.order_by(deliveries.c.pk.desc()).limit(limit))
        return [_delivery(webhook, row) for row in rows], rows[-1].pk if len(rows) == limit else None

    def replay(
        self,
        project: str,
        webhook: str,
        *,
        run: str,
        after: int,
        until: int | None = None,
        failed_only: bool,
        limit: int,
    ) -> Replayed:
        row = self._row(project, webhook, lock=True)
        key = self._db.first(select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run))
        if key is None:
            raise no_run(run)
        last = MAX_CURSOR if until is None else until
        seqs = self._again(row, key.pk, after, last, failed_only, limit)
        stale = update(deliveries).where(
            deliveries.c.webhook == row.pk,
            deliveries.c.run == key.pk,
            self._db.among(deliveries.c.seq, seqs),
            or_(deliveries.c.state != _PENDING, deliveries.c.attempt > 0),
        )
        self._db.run(stale.values(state=_PENDING, attempt=0, not_before=clock(), ended_at=None))
        if not failed_only:
            insert_deliveries(self._db, row.pk, key.pk, seqs)
        return Replayed(replayed=len(seqs), cursor=seqs[-1] if seqs else after, complete=len(seqs) < limit)

    def _again(
        self, row: Row[Any], run: int, after: int, until: int, failed_only: bool, limit: int
    ) -> list[int]:
        """What lies beyond the endpoint's position comes by itself."""
        if failed_only:
            found = select(deliveries.c.seq).where(
                deliveries.c.webhook == row.pk,
                deliveries.c.run == run,
                deliveries.c.seq > after,
                deliveries.c.seq <= until,
                deliveries.c.state == DeliveryState.FAILED.value,
            )
            rows = self._db.all(found.order_by(deliveries.c.seq).limit(limit))
            return [int(one.seq) for one in rows]
        reached = select(webhook_cursors.c.seq).where(
            webhook_cursors.c.webhook == row.pk, webhook_cursors.c.run == run
        )
        taken = select(_rewards.c.seq).where(
            _rewards.c.run == run,
            _rewards.c.seq > after,
            _rewards.c.seq <= until,
            _rewards.c.seq <= func.coalesce(reached.scalar_subquery(), 0),
        )
        if row.run is not None:
            taken = taken.where(run_key(row.project, row.run) == run)
        if row.statuses is not None:
            taken = taken.where(self._db.among(_rewards.c.status, json.loads(row.statuses)))
        return [int(one.seq) for one in self._db.all(taken.order_by(_rewards.c.seq).limit(limit))]

    def _row(self, project: str, webhook: str, *, lock: bool = False) -> Row[Any]:
        found = select(webhooks).where(
            webhooks.c.project == project, webhooks.c.id == webhook, webhooks.c.removed_at.is_(None)
        )
        row = self._db.first(self._db.locked(found) if lock else found)
        if row is None:
            raise NotFound("webhook_not_found", f"no webhook {webhook!r}")
        return row

    def _change(self, row: Row[Any], **values: Any) -> None:
        self._db.run(update(webhooks).where(webhooks.c.pk == row.pk).values(**values))


def insert_deliveries(database: Database, webhook: int, run: int, seqs: list[int]) -> None:
    """Rows for records that have none, due now."""
    rows = [
        {"webhook": webhook, "run": run, "seq": seq, "fence": 0, "attempt": 0, "state": _PENDING}
        for seq in seqs
    ]
    now = database.now()
    insert_new(database, deliveries, rows, not_before=now, created_at=now)


def read_place(row: Row[Any], now: float) -> Place:
    """An endpoint as the sender sees it at ``now``."""
    old = row.old_secret if row.old_secret is not None and row.old_secret_until > now else None
    return Place(
        pk=row.pk,
        id=row.id,
        url=row.url,
        secrets=(row.secret,) if old is None else (row.secret, old),
        streak=row.streak,
        failing_since=row.failing_since,
        paused_until=row.paused_until,
    )


def _sent(webhook: int) -> Select[Any]:
    columns = (deliveries, _runs.c.id.label("run_id"), _runs.c.created_at.label("run_made_at"))
    return (
        select(*columns).join(_runs, _runs.c.pk == deliveries.c.run).where(deliveries.c.webhook == webhook)
    )


def _delivery(webhook: str, row: Row[Any]) -> Delivery:
    pending = row.state == _PENDING
    return Delivery(
        event=event_id(webhook, row.run_id, row.run_made_at, row.seq),
        run=row.run_id,
        seq=row.seq,
        state=DeliveryState(row.state),
        attempts=row.attempt,
        status=row.last_status,
        error=row.last_error,
        next_at=moment(row.not_before) if pending else None,
        created_at=moment(row.created_at),
        ended_at=None if pending else moment(row.ended_at),
    )


def _read(row: Row[Any]) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        run=row.run,
        statuses=None
        if row.statuses is None
        else tuple(RewardStatus(status) for status in json.loads(row.statuses)),
        description=row.description,
        enabled=row.enabled,
        disabled_reason=row.disabled_reason,
        streak=row.streak,
        failing_since=_when(row.failing_since),
        paused_until=_when(row.paused_until),
        created_at=moment(row.created_at),
    )


def _when(epoch: float | None) -> datetime | None:
    return None if epoch is None else moment(epoch)
