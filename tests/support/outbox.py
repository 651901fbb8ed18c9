"""Short ways to the webhooks of a store, for tests of its contract."""

from __future__ import annotations

from typing import Any

from tests.contract.samples import PROJECT, RUN, record
from verifier_service.domain.webhooks import (
    Claimed,
    DeliveryState,
    Health,
    NewWebhook,
    Outcome,
    Parcel,
    Replayed,
    Webhook,
)
from verifier_service.persistence.store import SqlStore

URL = "https://hooks.example.com/rewards"
SECRET, OTHER_SECRET = "whsec_b25l", "whsec_dHdv"
LEASE_S = 60.0
PENDING, DELIVERED, FAILED = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.FAILED


def register(store: SqlStore, project: str = PROJECT, **wanted: Any) -> Webhook:
    with store.begin() as tx:
        return tx.webhooks.add(project, NewWebhook(url=URL, **wanted), SECRET, 8)


def pk_of(store: SqlStore, webhook: Webhook, project: str = PROJECT) -> int:
    with store.read() as tx:
        return tx.webhooks.place(project, webhook.id).pk


def append(store: SqlStore, *names: str, run: str = RUN, project: str = PROJECT, **changes: Any) -> None:
    with store.begin() as tx:
        tx.rewards.append(project, run, [record(name, run=run, **changes) for name in names])


def claim(store: SqlStore, pk: int, limit: int = 100, lease_s: float = LEASE_S) -> Claimed:
    with store.begin() as tx:
        return tx.outbox.claim(pk, limit, lease_s)


def parcels(store: SqlStore, pk: int, limit: int = 100, lease_s: float = LEASE_S) -> list[Parcel]:
    return list(claim(store, pk, limit, lease_s).parcels)


def settle(
    store: SqlStore, pk: int, *sent: Parcel, state: DeliveryState = DELIVERED, health: Health | None = None,
    **changes: Any,
) -> None:  # fmt: skip
    outcomes = [Outcome(parcel=one, state=state, attempts=one.attempts + 1, **changes) for one in sent]
    with store.begin() as tx:
        tx.outbox.settle(pk, outcomes, health)


def listed(store: SqlStore, webhook: Webhook, **only: Any) -> list[tuple[str, int, str, int]]:
    asked = {"run": None, "state": None, "before": None, "limit": 100} | only
    with store.read() as tx:
        found, _ = tx.webhooks.deliveries(PROJECT, webhook.id, **asked)
    return [(one.run, one.seq, str(one.state), one.attempts) for one in found]


def working(store: SqlStore, runs: set[str] | None = None) -> list[int]:
    with store.read() as tx:
        return tx.outbox.working(runs)


def replay(store: SqlStore, webhook: Webhook, **changes: Any) -> Replayed:
    asked = {"run": RUN, "after": 0, "failed_only": False, "limit": 100} | changes
    with store.begin() as tx:
        return tx.webhooks.replay(PROJECT, webhook.id, **asked)


def events(sent: list[Parcel]) -> list[str]:
    return [one.event for one in sent]
