"""Reports on attempts that were cancelled meanwhile: paid once, however often they come."""

from __future__ import annotations

import threading
import time

import psycopg

from tests.contract.samples import (
    OTHER_RUN,
    RUN,
    claim,
    complete,
    demanded,
    expire_leases,
    money,
    prepare,
    reservation,
    success,
    together,
)
from tests.support.databases import PostgresServer
from verifier_service.domain.checks import Claim, Completion
from verifier_service.domain.history import Attempt, AttemptEnd
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.ledger import locked_accounts
from verifier_service.persistence.store import SqlStore

CREDITS = 5.0


def cancel(store: SqlStore, pk: int) -> None:
    with store.begin() as tx:
        tx.demands.withdraw([demand for demand, _, _ in tx.demands.wanting(pk)], reason="cancelled")
        assert tx.checks.withdraw([pk]) == [pk]


def cancelled_claim(store: SqlStore, name: str, run: str = RUN) -> Claim:
    """A claim whose check nobody wants any more."""
    demanded(store, name, f"key of {name}", run=run)
    [one] = claim(store)
    cancel(store, one.pk)
    return one


def attempts(store: SqlStore, pk: int) -> tuple[Attempt, ...]:
    with store.read() as tx:
        return tx.checks.histories([pk])[pk].attempts


def test_a_report_that_comes_three_times_is_paid_once(store: SqlStore) -> None:
    prepare(store, compute=100.0)
    one = cancelled_claim(store, "t")
    report = success(one, credits=CREDITS)
    for _ in range(3):
        assert complete(store, report) == set()
        assert money(store) == (0.0, CREDITS)
    [shown] = attempts(store, one.pk)
    assert (shown.end, shown.cpu_s, shown.credits) == (AttemptEnd.CANCELLED, 1.0, CREDITS)
    with store.read() as tx:
        view = tx.checks.view(one.pk)
        assert tx.checks.stale_completions() == 3
    assert (view.cost.cpu_s, view.credits) == (1.0, CREDITS)


def test_a_report_that_comes_twice_at_once_is_paid_once(store: SqlStore) -> None:
    prepare(store, compute=100.0)
    one = cancelled_claim(store, "t")
    report = success(one, credits=CREDITS)
    assert complete(store, report, report) == set()
    assert money(store) == (0.0, CREDITS)


def test_reports_on_several_threads_are_paid_once(store: SqlStore) -> None:
    prepare(store, compute=100.0)
    one = cancelled_claim(store, "t")
    together(4, lambda _: complete(store, success(one, credits=CREDITS)))
    assert money(store) == (0.0, CREDITS)


def test_a_lost_attempt_stays_lost_and_unpaid_when_its_check_is_cancelled(store: SqlStore) -> None:
    prepare(store, compute=100.0)
    _, [pk] = demanded(store, "t", "k")
    [one] = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(pk, 10.0)])
    expire_leases(store)
    with store.begin() as tx:
        assert tx.checks.reap(10) == [pk]
    cancel(store, pk)
    assert complete(store, success(one, credits=CREDITS)) == set()
    [shown] = attempts(store, pk)
    assert (shown.end, shown.code, shown.cpu_s, shown.credits) == (
        AttemptEnd.LOST,
        "worker_lost",
        None,
        0.0,
    )
    assert money(store) == (0.0, 0.0)


def waiting_for_locks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_two_reports_that_pay_for_each_others_runs_do_not_wait_in_a_circle(
    postgres: PostgresServer,
) -> None:
    """Each ends an attempt of one run and pays late for one of the other. Both are stopped at the first
    account that they need; let go, they must not hold what the other needs next."""
    url = postgres.migrated()
    store = create_store(url)
    prepare(store, RUN, OTHER_RUN, compute=100.0)
    reports: list[list[Completion]] = []
    for ended, late in ((RUN, OTHER_RUN), (OTHER_RUN, RUN)):
        stopped = cancelled_claim(store, f"late of {late}", run=late)
        demanded(store, f"ended of {ended}", f"ended of {ended}", run=ended)
        [one] = claim(store)
        with store.begin() as tx:
            assert tx.ledger.reserve([reservation(one.pk, CREDITS, run=ended)])
        reports.append([success(one, credits=CREDITS), success(stopped, credits=CREDITS)])

    held = threading.Event()

    def report(index: int) -> set[int]:
        if index < len(reports):
            assert held.wait(10.0)
            return complete(store, *reports[index])
        until = time.monotonic() + 10.0
        with store.begin() as tx:
            accounts = [
                (row.run, row.kind)
                for row in tx._database.connection.exec_driver_sql("SELECT run, kind FROM accounts")
            ]
            locked_accounts(tx._database, accounts)
            held.set()
            while waiting_for_locks(url) < len(reports):
                assert time.monotonic() < until, "the reports do not wait for the accounts"
                time.sleep(0.01)
        return set()

    accepted = together(3, report)
    assert [len(one) for one in accepted] == [1, 1, 0]
    assert money(store, RUN) == money(store, OTHER_RUN) == (0.0, 2 * CREDITS)
    store.close()
