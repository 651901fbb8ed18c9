"""Calls of every tick, claim and scrape read a bounded share of what there is, and all of it in turn."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    check,
    claim,
    complete,
    demand,
    demanded,
    ensure,
    failure,
    prepare,
    success,
    trajectory,
)
from tests.support.outbox import append, parcels, pk_of, register
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.traces import MAX_TRACES
from verifier_service.domain.webhooks import DeliveryState
from verifier_service.domain.workers import Kind
from verifier_service.persistence import demands, leases
from verifier_service.persistence.store import SqlStore
from verifier_service.services.decide import _budgets

DUE = "UPDATE checks SET not_before = 1.0 + pk WHERE state = 'queued' AND not_before IS NOT NULL"


def delayed(store: SqlStore, *keys: str) -> None:
    """Checks that have to wait for an hour."""
    ensure(store, *(check(key, priority=float(index)) for index, key in enumerate(keys)))
    complete(store, *(failure(one, delay_s=3_600.0) for one in claim(store)))


def test_due_checks_are_claimed_in_the_order_of_all(store: SqlStore) -> None:
    prepare(store)
    delayed(store, "d0", "d1", "d2")
    ensure(store, check("low", priority=0.5), check("high", priority=9.0))
    assert [one.key for one in claim(store, 1)] == ["high"]
    alter(store, DUE)
    assert [one.key for one in claim(store)] == ["d2", "d1", "low", "d0"]


def test_what_is_delayed_is_in_nobodys_way(store: SqlStore) -> None:
    prepare(store)
    delayed(store, "d0", "d1")
    [ref] = ensure(store, check("k", verifier="other", priority=-1.0))
    with store.begin() as tx:
        assert tx.checks.histories([ref.pk])[ref.pk].ahead == 0
        assert tx.checks.kinds() == [(Tier.FAST, Kind("other", "1"))]
        assert tx.checks.queued(Tier.FAST, Kind("a.b", "1"), 10) == []
    alter(store, DUE)
    with store.begin() as tx:
        assert len(tx.checks.queued(Tier.FAST, Kind("a.b", "1"), 10)) == 2
        assert tx.checks.histories([ref.pk])[ref.pk].ahead == 2


def test_a_claim_makes_a_bounded_number_ready(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(store)
    delayed(store, "d0", "d1", "d2", "d3", "d4")
    alter(store, DUE)
    monkeypatch.setattr(leases, "WOKEN", 2)
    got = [[one.key for one in claim(store)] for _ in range(4)]
    assert got == [["d1", "d0"], ["d3", "d2"], ["d4"], []], "those that waited longest come first"


def test_kinds_are_named_once_each(store: SqlStore) -> None:
    prepare(store)
    named = [("a", "1"), ("a", "2"), ("b", "1")]
    for verifier, version in named:
        for index in range(3):
            ensure(store, check(f"{verifier}{version}{index}", verifier=verifier, version=version))
    ensure(store, check("s", tier=Tier.SIMULATION, verifier="a"))
    with store.read() as tx:
        assert tx.checks.kinds() == [
            *((Tier.FAST, Kind(*one)) for one in named),
            (Tier.SIMULATION, Kind("a", "1")),
        ]


def test_every_demand_of_an_ended_check_is_found_in_turn(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(store)
    pks = [demanded(store, f"t{index}", f"k{index}")[0] for index in range(10)]
    claims = {one.key: one for one in claim(store)}
    complete(store, *(success(claims[f"k{index}"]) for index in (1, 5, 9)))
    monkeypatch.setattr(demands, "STRETCH", 4)
    found = []
    for _ in range(4):
        with store.begin() as tx:
            found.append(tx.demands.unadvanced(10))
    assert found == [[pks[1]], [pks[5]], [pks[9]], [pks[1]]]
    with store.begin() as tx:
        assert [tx.demands.unadvanced(1) for _ in range(2)] == [[pks[5]], [pks[5]]], "full: it stays there"


def test_queues_are_counted_up_to_a_number(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN, "idle")
    ensure(store, *(check(f"k{index}") for index in range(7)), check("people", tier=Tier.LAB))
    ensure(store, check("one"), run=OTHER_RUN)
    with store.read() as tx:
        assert tx.runs.queued(100) == {(PROJECT, RUN): 7, (PROJECT, OTHER_RUN): 1}
        assert tx.runs.queued(3) == {(PROJECT, RUN): 3, (PROJECT, OTHER_RUN): 1}
    claim(store, 100)
    with store.read() as tx:
        assert tx.runs.queued(100) == {}, "people are no machines"


def test_deliveries_are_counted_by_state(store: SqlStore) -> None:
    prepare(store)
    pk = pk_of(store, register(store))
    append(store, *"abcde")
    assert len(parcels(store, pk)) == 5
    alter(store, "UPDATE deliveries SET state = 'failed', ended_at = 1.0 WHERE seq <= 2")
    with store.read() as tx:
        assert tx.outbox.depths() == {DeliveryState.PENDING: 3, DeliveryState.FAILED: 2}


def test_a_check_has_as_many_traces_as_a_span_has_links(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(store)
    pks = [
        demanded(store, f"t{index:03}", "k", *(["other"] if index == 40 else []))[0] for index in range(50)
    ]
    with store.begin() as tx:
        tx.traces.note({pk: f"trace {index // 2}" for index, pk in enumerate(pks[:10])})
        tx.traces.note({pk: f"trace {index}" for index, pk in enumerate(pks) if index >= 10})
        shared, other = (ref.pk for ref in tx.checks.ensure(PROJECT, RUN, [check("k"), check("other")]))
        found = tx.traces.of_checks([shared, other])
    named = [f"trace {index}" for index in (*range(5), *range(10, 50))]
    assert found == {shared: tuple(named[:MAX_TRACES]), other: ("trace 40",)}
    monkeypatch.setattr("verifier_service.persistence.traces.MAX_CITING", 12)
    with store.read() as tx:
        assert tx.traces.of_checks([shared]) == {shared: tuple(named[:7])}


@pytest.mark.parametrize("limit", [None, 10.0])
def test_what_is_queued_is_summed_only_for_a_run_with_a_limit(store: SqlStore, limit: float | None) -> None:
    prepare(store, compute=limit)
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, RUN, [trajectory("t")])["t"]
        [ref] = tx.checks.ensure(PROJECT, RUN, [check("k")])
        tx.demands.insert([demand(pk, ref.pk, quote=4.0)])
        statements: list[str] = []
        event.listen(
            tx._database.connection,
            "before_cursor_execute",
            lambda _conn, _cursor, statement, *_: statements.append(statement),
        )
        budgets = _budgets(tx, PROJECT, RUN)
    assert budgets.compute == (float("inf") if limit is None else 6.0)
    assert any("demands" in one for one in statements) == (limit is not None)
