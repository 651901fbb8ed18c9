"""The rows of deliveries: pruned, replayed, listed, and written by two senders at once; both databases."""

from __future__ import annotations

import threading

import pytest

from tests.contract.samples import OTHER_RUN, PROJECT, RUN, again, alter, prepare, together
from tests.support.outbox import (
    DELIVERED,
    FAILED,
    append,
    claim,
    events,
    listed,
    parcels,
    pk_of,
    register,
    replay,
    settle,
    working,
)
from verifier_service.domain.errors import NotFound
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.webhooks import (
    Replayed,
)
from verifier_service.persistence.store import SqlStore


def test_a_removed_endpoint_is_gone_and_its_rows_go_by_and_by(store: SqlStore) -> None:
    prepare(store)
    kept, webhook = register(store), register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b", "c")
    held = parcels(store, pk)
    parcels(store, pk_of(store, kept))
    with store.begin() as tx:
        tx.webhooks.remove(PROJECT, webhook.id)
        assert [one.id for one in tx.webhooks.of_project(PROJECT)] == [kept.id]
    append(store, "d")
    assert working(store) == [pk_of(store, kept)]
    assert claim(store, pk).place is None
    settle(store, pk, *held)
    pruned = []
    for _ in range(4):
        with store.begin() as tx:
            pruned.append(tx.outbox.prune(1e9, 1e9, 2))
    assert pruned == [2, 1, 0, 0]
    with store.begin() as tx:
        rows = tx._database.connection.exec_driver_sql("SELECT count(*) FROM webhooks").scalar_one()
        cursors = tx._database.connection.exec_driver_sql(
            "SELECT count(DISTINCT webhook) FROM webhook_cursors"
        ).scalar_one()
    assert (rows, cursors, len(listed(store, kept))) == (1, 1, 3)


def test_pruning_keeps_what_is_young_failed_ones_longer_and_what_is_pending(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b", "c", "d")
    delivered, failed, young, _ = parcels(store, pk)
    settle(store, pk, delivered, young)
    settle(store, pk, failed, state=FAILED)
    alter(
        store,
        "UPDATE deliveries SET ended_at = ended_at - 100, created_at = 1"
        " WHERE state <> 'pending' AND pk <> :pk",
        pk=young.pk,
    )
    with store.begin() as tx:
        assert tx.outbox.prune(50.0, 500.0, 10) == 1
    assert [row[1:3] for row in listed(store, webhook)] == [
        (4, "pending"), (3, "delivered"), (2, "failed"),
    ]  # fmt: skip
    with store.begin() as tx:
        assert tx.outbox.prune(50.0, 99.0, 10) == 1
    assert working(store) == []
    assert replay(store, webhook).replayed == 4
    assert len(parcels(store, pk)) == 3


def test_replay_in_pages_of_what_the_endpoint_takes(store: SqlStore) -> None:
    prepare(store)
    append(store, "before", status=RewardStatus.FINAL)
    webhook = register(store, statuses=("final",))
    pk = pk_of(store, webhook)
    append(store, "a", "b", status=RewardStatus.FINAL)
    append(store, "no")
    append(store, "c", status=RewardStatus.FINAL)
    sent = parcels(store, pk)
    settle(store, pk, *sent[:2])
    settle(store, pk, sent[2], state=FAILED)
    append(store, "beyond", status=RewardStatus.FINAL)
    assert replay(store, webhook, failed_only=True, until=4) == Replayed(replayed=0, cursor=0)
    assert replay(store, webhook, failed_only=True, until=5) == Replayed(replayed=1, cursor=5)
    assert events(parcels(store, pk, limit=1)) == [sent[2].event]
    assert replay(store, webhook, failed_only=True) == Replayed(replayed=0, cursor=0)
    assert replay(store, webhook, limit=2) == Replayed(replayed=2, cursor=2, complete=False)
    assert replay(store, webhook, after=2, limit=9) == Replayed(replayed=2, cursor=5)
    assert replay(store, webhook, after=1, until=3) == Replayed(replayed=2, cursor=3)
    again_sent = parcels(store, pk)
    assert {*events(sent[:2])} < {*events(again_sent)}
    assert [row[1] for row in listed(store, webhook)].count(1) == 1
    with pytest.raises(NotFound):
        replay(store, webhook, run="unknown")


def test_a_replay_leaves_alone_what_is_under_way(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a")
    [flying] = parcels(store, pk)
    assert replay(store, webhook).replayed == 1
    assert parcels(store, pk) == []
    settle(store, pk, flying)
    assert [row[2] for row in listed(store, webhook)] == ["delivered"]


def test_deliveries_are_listed_in_pages(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b")
    parcels(store, pk)
    append(store, "c", run=OTHER_RUN)
    settle(store, pk, *parcels(store, pk))
    with store.read() as tx:
        first, cursor = tx.webhooks.deliveries(
            PROJECT, webhook.id, run=None, state=None, before=None, limit=2
        )
        rest, end = tx.webhooks.deliveries(
            PROJECT, webhook.id, run=None, state=None, before=cursor, limit=2
        )
    assert [(one.run, one.seq) for one in (*first, *rest)] == [(OTHER_RUN, 1), (RUN, 2), (RUN, 1)]
    assert end is None
    assert listed(store, webhook, state=DELIVERED) == [(OTHER_RUN, 1, "delivered", 1)]
    assert len(listed(store, webhook, run=RUN)) == 2


def test_a_record_that_is_no_more_has_no_body(store: SqlStore) -> None:
    prepare(store)
    pk = pk_of(store, register(store))
    append(store, "a")
    parcels(store, pk, lease_s=-1.0)
    alter(store, "DELETE FROM rewards")
    assert [one.body for one in parcels(store, pk)] == [None]


def test_the_rows_of_a_removed_run_go_with_it(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    append(store, "a")
    parcels(store, pk_of(store, webhook))
    for table in ("rewards", "feeds", "pins", "accounts"):
        alter(store, f"DELETE FROM {table}")
    alter(store, "DELETE FROM runs")
    assert listed(store, webhook) == []


def test_two_senders_while_records_are_written_lose_none_and_claim_none_twice(store: SqlStore) -> None:
    """Writers commit to three runs while senders claim and settle: one row and one id per record."""
    runs = ("r1", "r2", "r3")
    prepare(store, *runs)
    webhook = register(store)
    pk = pk_of(store, webhook)
    writing = threading.Event()
    seen: list[str] = []

    def write(index: int) -> None:
        for batch in range(8):
            names = [f"{index}-{batch}-{n}" for n in range(5)]
            again(lambda names=names: append(store, *names, run=runs[index]))  # type: ignore[misc]

    def send() -> list[str]:
        mine: list[str] = []
        while True:
            over = writing.is_set()
            found = again(lambda: parcels(store, pk, limit=7))
            again(lambda found=found: settle(store, pk, *found))  # type: ignore[misc]
            mine += events(found)
            if over and not found:
                return mine

    def act(index: int) -> list[str]:
        if index >= len(runs):
            return send()
        write(index)
        done.append(index)
        if len(done) == len(runs):
            writing.set()
        return []

    done: list[int] = []
    for mine in together(len(runs) + 2, act):
        seen += mine
    assert len(seen) == len(set(seen)) == 120
    assert {row[2] for row in listed(store, webhook, limit=500)} == {"delivered"}
    assert len(listed(store, webhook, limit=500)) == 120
