"""Attempts that the cost model learns from are each taken once, and nobody waits for another because of
them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.cost_model import PowerLaw
from tests.contract.samples import again, other_transaction, together
from tests.support.databases import PostgresServer
from tiers.catalog import VerifierCatalog
from verifier_service.domain.costs import LearnedCost, NotedAttempt
from verifier_service.domain.ports.store import Transaction
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore
from verifier_service.services.learn_costs import LOCK, learn_costs

MODEL = PowerLaw()


@pytest.fixture(scope="module")
def catalog() -> VerifierCatalog:
    return VerifierCatalog()


def attempt(number: int, *, verifier: str = "pyscf.gap", method: str = "m") -> NotedAttempt:
    return NotedAttempt(verifier, method, 100.0 + number, 1.5 * number + 1.0, number % 3 > 0)


def note(store: SqlStore, *attempts: NotedAttempt) -> None:
    with store.begin() as tx:
        tx.costs.note(attempts)


def take(store: SqlStore, limit: int = 100) -> list[NotedAttempt]:
    with store.begin() as tx:
        return tx.costs.take(limit)


def test_noted_attempts_come_back_once_and_in_order(store: SqlStore) -> None:
    with store.read() as tx:
        assert not tx.costs.noted()
    note(store)
    attempts = [attempt(number) for number in range(5)]
    note(store, *attempts[:3])
    note(store, *attempts[3:])
    with store.read() as tx:
        assert tx.costs.noted()
    assert take(store, 2) == attempts[:2]
    assert take(store) == attempts[2:]
    assert take(store) == []


def test_what_is_rolled_back_was_neither_noted_nor_taken(store: SqlStore) -> None:
    note(store, attempt(1))

    def fail(tx: Transaction) -> None:
        tx.costs.note([attempt(2)])
        assert len(tx.costs.take(10)) == 2
        raise RuntimeError

    with pytest.raises(RuntimeError), store.begin() as tx:
        fail(tx)
    assert take(store) == [attempt(1)]


def test_what_was_learned_is_replaced_by_method(store: SqlStore) -> None:
    with store.begin() as tx:
        assert (tx.costs.learned("m"), dict(tx.costs.fits())) == (None, {})
        tx.costs.put("v", "m", LearnedCost("fit", "attempts"))
        tx.costs.put("v", "n", LearnedCost("other", "more"))
    with store.begin() as tx:
        tx.costs.put("v", "m", LearnedCost("better", "attempts 2"))
    with store.read() as tx:
        assert tx.costs.learned("m") == LearnedCost("better", "attempts 2")
        assert dict(tx.costs.fits()) == {"m": "better", "n": "other"}


def test_many_who_note_while_others_take_do_not_wait_for_each_other(store: SqlStore) -> None:
    """None of them is contended: nothing has to be tried again."""

    def work(worker: int) -> list[NotedAttempt]:
        found = []
        for number in range(20):
            if worker % 4:
                again(lambda number=number: note(store, attempt(100 * worker + number)), times=1)
            else:
                found += again(lambda: take(store, 7), times=1)
        return found

    taken = [one for found in together(8, work) for one in found] + take(store, 1_000)
    wanted = [attempt(100 * worker + number) for worker in range(8) if worker % 4 for number in range(20)]
    assert sorted(taken) == sorted(wanted)


@pytest.fixture
def on_postgres(postgres: PostgresServer) -> Iterator[SqlStore]:
    """On SQLite one writes at a time anyway."""
    store = create_store(postgres.migrated())
    yield store
    store.close()


def test_an_open_transaction_that_noted_holds_up_nobody(on_postgres: SqlStore) -> None:
    note(on_postgres, attempt(1))
    with other_transaction(on_postgres) as step:
        step(lambda tx: tx.costs.note([attempt(2)]))
        assert take(on_postgres) == [attempt(1)]
        note(on_postgres, attempt(3))
    assert sorted(take(on_postgres)) == [attempt(2), attempt(3)]


def test_learning_takes_everything_in_once(store: SqlStore, catalog: VerifierCatalog) -> None:
    attempts = [attempt(number) for number in range(9)]
    others = [attempt(number, method="n") for number in range(3)]
    note(store, *attempts[:4], *others, attempt(1, verifier="gone"), *attempts[4:])
    counts = []
    for _ in range(4):
        with store.begin() as tx:
            counts.append(learn_costs(tx, catalog, MODEL, limit=6))
    assert counts == [6, 6, 1, 0]
    info = catalog.verifier("pyscf.gap")
    with store.read() as tx:
        assert tx.costs.learned("m") == MODEL.learn(info, attempts, None)
        assert tx.costs.fits()["n"] == MODEL.learn(info, others, None).fit
        assert set(tx.costs.fits()) == {"m", "n"}


def test_what_one_is_taking_another_leaves(on_postgres: SqlStore) -> None:
    note(on_postgres, attempt(1), attempt(2))
    with other_transaction(on_postgres) as step:
        assert step(lambda tx: tx.costs.take(1)) == [attempt(1)]
        assert together(1, lambda _: take(on_postgres)) == [[attempt(2)]]
    assert take(on_postgres) == []


def test_one_learns_at_a_time(on_postgres: SqlStore, catalog: VerifierCatalog) -> None:
    note(on_postgres, attempt(1))
    with other_transaction(on_postgres) as step:
        assert step(lambda tx: tx.try_lock(LOCK))
        with on_postgres.begin() as tx:
            assert learn_costs(tx, catalog, MODEL) == 0
    with on_postgres.begin() as tx:
        assert learn_costs(tx, catalog, MODEL) == 1
