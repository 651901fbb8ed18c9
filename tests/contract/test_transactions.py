"""What a transaction promises."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from tests.contract.samples import (
    PROJECT,
    RUN,
    check,
    demanded,
    ensure,
    other_transaction,
    prepare,
    together,
    trajectory,
)
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.ports.store import Transaction
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore


class Stop(Exception):
    """Raised by tests inside transactions."""


def test_a_raising_body_rolls_everything_back(store: SqlStore) -> None:
    def work() -> None:
        with store.begin() as tx:
            tx.projects.ensure("gone")
            raise Stop

    with pytest.raises(Stop):
        work()
    with store.read() as tx:
        assert tx.projects.names() == ()


def test_a_savepoint_rolls_back_alone(store: SqlStore) -> None:
    prepare(store)

    def inside(tx: Transaction) -> None:
        with tx.savepoint():
            tx.trajectories.insert(PROJECT, RUN, [trajectory("inside")])
            with tx.savepoint():
                tx.checks.ensure(PROJECT, RUN, [check("k")])
            raise Stop

    with store.begin() as tx:
        tx.trajectories.insert(PROJECT, RUN, [trajectory("before")])
        with pytest.raises(Stop):
            inside(tx)
        tx.trajectories.insert(PROJECT, RUN, [trajectory("after")])
    with store.read() as tx:
        assert tx.trajectories.find(PROJECT, RUN, ["before", "inside", "after"]).keys() == {
            "before",
            "after",
        }
        assert tx.checks.ready() == frozenset()


def test_a_savepoint_survives_a_database_error(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.trajectories.insert(PROJECT, RUN, [trajectory("good")])
        with pytest.raises(DBAPIError), tx.savepoint():
            tx.trajectories.insert(PROJECT, RUN, [trajectory("bad", body=None)])
        assert tx.trajectories.find(PROJECT, RUN, ["good", "bad"]).keys() == {"good"}


def test_readers_see_only_commits_and_one_snapshot(store: SqlStore) -> None:
    prepare(store)
    with store.read() as reader:
        assert reader.trajectories.find(PROJECT, RUN, ["t"]) == {}
        with other_transaction(store) as step:
            step(lambda tx: tx.trajectories.insert(PROJECT, RUN, [trajectory("t")]))
            assert reader.trajectories.find(PROJECT, RUN, ["t"]) == {}
        assert reader.trajectories.find(PROJECT, RUN, ["t"]) == {}
    with store.read() as tx:
        assert tx.trajectories.find(PROJECT, RUN, ["t"]).keys() == {"t"}


def test_readers_block_no_writer_and_wait_for_none(store: SqlStore) -> None:
    prepare(store)
    with store.read() as reader:
        reader.projects.names()
        with store.begin() as writer:
            writer.trajectories.insert(PROJECT, RUN, [trajectory("t")])
            started = time.monotonic()
            with store.read() as second:
                second.projects.names()
            assert time.monotonic() - started < 10.0


def test_a_reader_cannot_write(store: SqlStore) -> None:
    with pytest.raises(DBAPIError), store.read() as tx:
        tx.projects.ensure("x")


def test_database_time_moves_and_is_now(store: SqlStore) -> None:
    with store.begin() as tx:
        first = tx.now()
        time.sleep(0.02)
        second = tx.now()
    assert 0.005 < second - first < 5
    assert abs(second - time.time()) < 60


def test_a_named_lock_has_one_holder(store: SqlStore) -> None:
    with store.begin() as tx:
        assert tx.try_lock("sweep")
        assert tx.try_lock("sweep")
    with store.begin() as tx:
        assert tx.try_lock("sweep")


def test_a_named_lock_excludes_other_transactions(store: SqlStore) -> None:
    inside = 0
    most = 0
    guard = threading.Lock()

    def work(_: int) -> None:
        nonlocal inside, most
        with store.begin() as tx:
            if not tx.try_lock("sweep"):
                return
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with guard:
                inside -= 1

    together(6, work)
    assert most == 1


def test_a_second_process_is_told_that_the_database_is_busy(
    store: SqlStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store_url.startswith("postgresql"):
        # Two rows locked crosswise: Postgres ends one of the two.
        prepare(store, "a", "b")
        first_locked = threading.Barrier(2)

        def cross(index: int) -> bool:
            names = ("a", "b") if index == 0 else ("b", "a")
            try:
                with store.begin() as tx:
                    tx.runs.lock(PROJECT, names[0])
                    first_locked.wait()
                    tx.runs.lock(PROJECT, names[1])
            except Contended:
                return False
            return True

        assert sorted(together(2, cross)) == [False, True]
        return
    monkeypatch.setattr("verifier_service.persistence.engine.BUSY_TIMEOUT_S", 0.05)
    other = create_store(store_url)
    try:
        with store.begin() as tx:
            tx.projects.names()
            with pytest.raises(Contended), other.begin():
                pass
    finally:
        other.close()


def test_many_writers_lose_nothing(store: SqlStore) -> None:
    prepare(store)

    def work(index: int) -> None:
        for step in range(5):
            with store.begin() as tx:
                tx.trajectories.insert(PROJECT, RUN, [trajectory(f"{index}-{step}")])

    together(8, work)
    with store.read() as tx:
        assert tx.runs.report(PROJECT, RUN).trajectories == 40


def test_text_that_a_database_refuses_is_kept_readable(store: SqlStore) -> None:
    """Intake refuses NUL and lone surrogates; what verifiers say about a candidate may still hold them."""
    prepare(store)
    pk, [check_pk] = demanded(store, "t", "k")
    with store.begin() as tx:
        tx.trajectories.identify({pk: ("digest", "C\x00C\ud800é😀")})
        tx.demands.withdraw([tx.demands.wanting(check_pk)[0][0]], reason="odd \x00 reason")
        [case] = tx.trajectories.cases([pk])
    assert case.standing.canonical == "C\ufffdC\ufffdé😀"
    assert case.demands[0].reason == "odd \ufffd reason"


def test_large_bodies_come_back_whole(store: SqlStore) -> None:
    prepare(store)
    text = "é😀" * 500_000
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, RUN, [trajectory("t", body=f'{{"answer":"{text}"}}')])["t"]
    with store.read() as tx:
        assert tx.trajectories.bodies([pk])[pk].answer == text
    [ref] = ensure(store, check("k", item=text))
    with store.begin() as tx:
        [claim] = tx.checks.claim(check("k").tier, 1, "w", 60.0)
    assert (claim.pk, claim.item) == (ref.pk, text)


def test_commits_on_sqlite_are_synced(sqlite: SqliteFiles) -> None:
    """An acknowledged submission survives power loss: the write-ahead log is synced at every commit."""
    store = create_store(sqlite.migrated())
    for scope in (store.begin(), store.read()):
        with scope as tx:
            connection = tx._database.connection
            values = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert values == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 30_000,
        }
    store.close()


def test_a_database_without_room_is_away(sqlite: SqliteFiles) -> None:
    store = create_store(sqlite.migrated())
    with pytest.raises(Unavailable), store.begin() as tx:
        fill(tx._database.connection)
    store.close()


def fill(connection: Connection) -> None:
    """More than the file may hold."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    connection.exec_driver_sql("CREATE TABLE hoard (x)")
    connection.exec_driver_sql("INSERT INTO hoard VALUES (zeroblob(1000000))")


@pytest.mark.parametrize("state", ["53100", "53200", "57014", "57P01", "58030", "25006", "08006"])
def test_a_server_that_cannot_work_now_is_away(postgres: PostgresServer, state: str) -> None:
    store = create_store(postgres.migrated())
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'by hand' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(Unavailable), store.begin() as tx:
        tx._database.connection.exec_driver_sql(raising)
    store.close()
