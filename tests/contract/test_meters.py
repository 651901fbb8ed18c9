"""Counters: what is committed is counted, by every process into one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.contract.samples import check, claim, ensure, prepare
from tests.support.databases import SqliteFiles
from verifier_service.domain.checks import Completion
from verifier_service.domain.errors import Unavailable
from verifier_service.domain.evidence import Failure, Tier
from verifier_service.domain.ports.meters import Series
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.states import CheckState
from verifier_service.meter import Meter
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

CLAIMS = Series("claims", Tier.FAST)


def fail(tx: Transaction) -> None:
    tx.count("claims", Tier.FAST, amount=10)
    raise RuntimeError


def test_amounts_add_up(store: SqlStore) -> None:
    for _ in range(2):
        with store.begin() as tx:
            tx.meters.add({CLAIMS: 2.0, Series("records", None, "final"): 1.0})
    with store.read() as tx:
        assert tx.meters.totals() == {CLAIMS: 4.0, Series("records", None, "final"): 2.0}


def test_what_is_rolled_back_is_not_counted(sqlite: SqliteFiles) -> None:
    told: Counter[Series] = Counter()

    def hear(counts: Mapping[Series, int]) -> None:
        told.update(counts)

    store = create_store(sqlite.migrated(), hear)
    with pytest.raises(RuntimeError), store.begin() as tx:
        fail(tx)
    with store.begin() as tx:
        tx.count("claims", Tier.FAST)
        with pytest.raises(RuntimeError), tx.savepoint():
            fail(tx)
    store.close()
    assert told == {CLAIMS: 1}


def test_claims_and_ends_are_counted(sqlite: SqliteFiles) -> None:
    meter = Meter()
    store = create_store(sqlite.migrated(), meter.add)
    prepare(store)
    ensure(store, check("a"), check("b"))
    claims = claim(store, 2)
    failure = Failure(kind="transient", code="x", message="y", retryable=True)
    ends = [
        Completion(pk=one.pk, fence=one.fence, state=state, failure=failure)
        for one, state in zip(claims, (CheckState.QUEUED, CheckState.FAILED), strict=True)
    ]
    with store.begin() as tx:
        tx.checks.complete("w", ends)
    written: dict[Series, float] = {}
    meter.flush(written.update)
    meter.flush(written.update)  # nothing is told twice
    store.close()
    assert written == {
        CLAIMS: 2,
        Series("attempts", Tier.FAST, "requeued"): 1,
        Series("attempts", Tier.FAST, "failed"): 1,
    }


def test_counts_are_kept_while_the_database_is_away() -> None:
    meter = Meter()
    meter.add({CLAIMS: 3})

    def refuse(_: Mapping[Series, float]) -> None:
        raise Unavailable("database_unavailable", "gone")

    meter.flush(refuse)
    written: dict[Series, float] = {}
    meter.flush(written.update)
    assert written == {CLAIMS: 3}


def test_age_and_money_of_all_runs(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("a"))
    with store.read() as tx:
        ages = tx.checks.oldest_queued()
        accounts = {account.kind: account for account in tx.ledger.totals()}
        assert tx.outbox.depths() == {}
    assert set(ages) == {Tier.FAST}
    assert 0.0 <= ages[Tier.FAST] < 60.0
    assert set(accounts) == {"compute", "human"}
    assert (accounts["compute"].spent, accounts["compute"].reserved) == (0.0, 0.0)
