"""The outbox of the webhooks: positions in the feeds, deliveries that are due, and their ends."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import Update

from verifier_service.domain.webhook_rules import event_id, payload
from verifier_service.domain.webhooks import Claimed, DeliveryState, Health, Outcome, Parcel, Place
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database, clock, sql
from verifier_service.persistence.webhook_tables import (
    ENDED,
    PENDING,
    deliveries,
    webhook_cursors,
    webhooks,
)
from verifier_service.persistence.webhooks import insert_deliveries, read_place

_runs, _feeds, _rewards = tables.runs, tables.feeds, tables.rewards
FEEDS_AT_ONCE = 8
SCANNED_AT_ONCE = 4_096
MAX_DEPTH = 100_000  # deliveries of a state are counted up to this


class SqlOutbox:
    """See ``ports.webhooks.Outbox``. Whoever changes deliveries of an endpoint holds its row."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def any_enabled(self) -> bool:
        return self._db.first(select(webhooks.c.pk).where(webhooks.c.enabled).limit(1)) is not None

    def working(self, runs: Collection[str] | None) -> list[int]:
        now = clock()
        due = exists().where(
            deliveries.c.webhook == webhooks.c.pk, sql(PENDING), deliveries.c.not_before <= now
        )
        reached = (
            select(webhook_cursors.c.seq)
            .where(webhook_cursors.c.webhook == webhooks.c.pk, webhook_cursors.c.run == _feeds.c.run)
            .correlate(webhooks, _feeds)
            .scalar_subquery()
        )
        news = (
            select(_feeds.c.run)
            .join(_runs, _runs.c.pk == _feeds.c.run)
            .where(
                _runs.c.project == webhooks.c.project,
                or_(webhooks.c.run.is_(None), _runs.c.id == webhooks.c.run),
                _feeds.c.seq > func.coalesce(reached, 0),
            )
            .correlate(webhooks)
        )
        if runs is not None:
            news = news.where(self._db.among(_runs.c.id, runs))
        found = select(webhooks.c.pk).where(
            webhooks.c.enabled,
            or_(webhooks.c.paused_until.is_(None), webhooks.c.paused_until <= now),
            or_(due, news.exists()),
        )
        return [int(row.pk) for row in self._db.all(found.order_by(webhooks.c.pk))]

    def lock(self, webhook: int) -> Place | None:
        row = self._row(webhook)
        return None if row is None else read_place(row, self._db.now())

    def claim(self, webhook: int, limit: int, lease_s: float) -> Claimed:
        row, now = self._row(webhook), self._db.now()
        if row is None or not row.enabled or (row.paused_until or 0.0) > now:
            return Claimed(place=None)
        place = read_place(row, now)
        limit = min(limit, 1) if place.streak else limit
        due = self._due(webhook, limit) if limit else []
        if len(due) < limit and self._take_off(row, limit - len(due)):
            due = self._due(webhook, limit)
        if not due:
            return Claimed(place=place)
        held = update(deliveries).where(self._db.among(deliveries.c.pk, due))
        self._db.run(held.values(fence=deliveries.c.fence + 1, not_before=clock() + lease_s))
        return Claimed(place=place, parcels=self._parcels(place, due), now=now)

    def settle(self, webhook: int, outcomes: Sequence[Outcome], health: Health | None) -> None:
        tried = [one for one in outcomes if one.tried]
        for state, statement in _ENDS.items():
            self._db.run(statement, [_values(one) for one in tried if one.state is state])
        back = [_values(one) for one in outcomes if not one.tried]
        self._db.run(_GIVE_BACK, back)
        if health is not None:
            self._write(webhook, health)

    def depths(self) -> dict[DeliveryState, int]:
        counts = self._db.all(_DEPTHS)[0]
        return {state: n for state, n in zip(_ENDS, counts, strict=True) if n}

    def prune(self, keep_delivered_s: float, keep_failed_s: float, limit: int) -> int:
        gone = select(webhooks.c.pk).where(webhooks.c.removed_at.is_not(None))
        pruned = self._delete(deliveries.c.webhook.in_(gone), limit)
        for state, keep_s in (("delivered", keep_delivered_s), ("failed", keep_failed_s)):
            old = and_(sql(ENDED), deliveries.c.state == state, deliveries.c.ended_at < clock() - keep_s)
            pruned += self._delete(old, limit)
        if not pruned:
            empty = [row.pk for row in self._db.all(gone)]
            for table, column in (
                (webhook_cursors, webhook_cursors.c.webhook),
                (webhooks, webhooks.c.pk),
            ):
                self._db.run(delete(table).where(self._db.among(column, empty)))
        return pruned

    def _row(self, webhook: int) -> Row[Any] | None:
        found = select(webhooks).where(webhooks.c.pk == webhook, webhooks.c.removed_at.is_(None))
        return self._db.first(self._db.locked(found))

    def _due(self, webhook: int, limit: int) -> list[int]:
        found = select(deliveries.c.pk).where(
            deliveries.c.webhook == webhook, sql(PENDING), deliveries.c.not_before <= clock()
        )
        ordered = found.order_by(deliveries.c.not_before, deliveries.c.pk).limit(limit)
        return [int(row.pk) for row in self._db.all(ordered)]

    def _take_off(self, row: Row[Any], limit: int) -> int:
        """Records beyond the endpoint's positions become deliveries. Runs are taken at random, so that none
        waits for the others to end. Returns how far it moved, over all runs."""
        moved = 0
        feeds = self._db.all(_ahead(row).order_by(func.random()).limit(FEEDS_AT_ONCE))
        share = -(-limit // max(len(feeds), 1))
        for feed in feeds:
            upper = min(feed.head, feed.reached + SCANNED_AT_ONCE)
            seqs = self._wanted(row, feed, upper, share)
            reached = seqs[-1] if len(seqs) == share else upper
            insert_deliveries(self._db, row.pk, feed.run, seqs)
            self._move(row.pk, feed.run, reached)
            moved += reached - feed.reached
        return moved

    def _wanted(self, row: Row[Any], feed: Row[Any], upper: int, limit: int) -> list[int]:
        found = select(_rewards.c.seq).where(
            _rewards.c.run == feed.run, _rewards.c.seq > feed.reached, _rewards.c.seq <= upper
        )
        if row.statuses is not None:
            found = found.where(self._db.among(_rewards.c.status, json.loads(row.statuses)))
        return [int(one.seq) for one in self._db.all(found.order_by(_rewards.c.seq).limit(limit))]

    def _move(self, webhook: int, run: int, seq: int) -> None:
        known = update(webhook_cursors).where(
            webhook_cursors.c.webhook == webhook, webhook_cursors.c.run == run
        )
        if not self._db.run(known.values(seq=seq)):
            made = self._db.insert_new(webhook_cursors).values(webhook=webhook, run=run, seq=seq)
            self._db.run(made)

    def _parcels(self, place: Place, pks: list[int]) -> list[Parcel]:
        columns = (
            deliveries,
            _runs.c.id.label("run_id"),
            _runs.c.created_at.label("run_made_at"),
            _rewards.c.status,
            _rewards.c.body,
        )
        found = (
            select(*columns)
            .join(_runs, _runs.c.pk == deliveries.c.run)
            .outerjoin(
                _rewards, and_(_rewards.c.run == deliveries.c.run, _rewards.c.seq == deliveries.c.seq)
            )
            .where(self._db.among(deliveries.c.pk, pks))
        )
        return [
            Parcel(
                pk=row.pk,
                fence=row.fence,
                event=event_id(place.id, row.run_id, row.run_made_at, row.seq),
                attempts=row.attempt,
                body=None if row.body is None else payload(row.status, row.body),
            )
            for row in self._db.all(found.order_by(deliveries.c.pk))
        ]

    def _write(self, webhook: int, health: Health) -> None:
        row = update(webhooks).where(webhooks.c.pk == webhook)
        self._db.run(
            row.values(
                streak=health.streak, failing_since=health.failing_since, paused_until=health.paused_until
            )
        )
        if health.disabled_reason is not None:
            standing = row.where(webhooks.c.enabled)
            self._db.run(standing.values(enabled=False, disabled_reason=health.disabled_reason))

    def _delete(self, condition: ColumnElement[bool], limit: int) -> int:
        chosen = select(deliveries.c.pk).where(condition).limit(limit)
        return self._db.run(delete(deliveries).where(deliveries.c.pk.in_(chosen)))


def _ahead(row: Row[Any]) -> Select[Any]:
    """Feeds of the endpoint's runs that go on beyond its position."""
    cursor = webhook_cursors
    reached = func.coalesce(cursor.c.seq, 0)
    found = (
        select(_feeds.c.run, _feeds.c.seq.label("head"), reached.label("reached"))
        .join(_runs, _runs.c.pk == _feeds.c.run)
        .outerjoin(cursor, and_(cursor.c.webhook == row.pk, cursor.c.run == _feeds.c.run))
        .where(_runs.c.project == row.project, _feeds.c.seq > reached)
    )
    return found if row.run is None else found.where(_runs.c.id == row.run)


_ONE = update(deliveries).where(deliveries.c.pk == bindparam("b_pk"))
_OURS = _ONE.where(deliveries.c.fence == bindparam("b_fence"), deliveries.c.state == "pending")
_TRIED: dict[str, Any] = {
    "attempt": bindparam("b_attempts"),
    "last_status": bindparam("b_status"),
    "last_error": bindparam("b_error"),
}
_LATER: dict[str, Any] = {"not_before": bindparam("b_not_before")}
_GIVE_BACK = _OURS.values(_LATER)
_ENDS: dict[DeliveryState, Update] = {
    DeliveryState.DELIVERED: _ONE.where(deliveries.c.state != "delivered").values(
        {**_TRIED, "state": "delivered", "ended_at": clock()}
    ),
    DeliveryState.FAILED: _OURS.values({**_TRIED, "state": "failed", "ended_at": clock()}),
    DeliveryState.PENDING: _OURS.values({**_TRIED, **_LATER}),
}


def _depth(state: DeliveryState) -> ScalarSelect[int]:
    """How many deliveries are in a state: entries of a partial index, and not more than are counted."""
    indexed = sql(PENDING if state is DeliveryState.PENDING else ENDED)
    these = select(deliveries.c.pk).where(indexed, deliveries.c.state == state.value).limit(MAX_DEPTH)
    return select(func.count()).select_from(these.subquery()).scalar_subquery()


_DEPTHS = select(*[_depth(state) for state in _ENDS])


def _values(outcome: Outcome) -> dict[str, Any]:
    return {
        "b_pk": outcome.parcel.pk,
        "b_fence": outcome.parcel.fence,
        "b_attempts": outcome.attempts,
        "b_status": outcome.status,
        "b_error": outcome.error,
        "b_not_before": outcome.not_before,
    }
