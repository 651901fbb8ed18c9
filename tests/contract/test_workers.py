"""Workers: heartbeats, what they hold, and who is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.samples import alter, check, claim, complete, ensure, prepare, success
from verifier_service.domain.evidence import Tier
from verifier_service.domain.resources import Offer
from verifier_service.domain.workers import Counts, Kind, VerifierHere, Worker, WorkerCard, WorkerState
from verifier_service.persistence.store import SqlStore


def card(id: str = "vm-1/7/fast/0", **changes: Any) -> WorkerCard:
    values: dict[str, Any] = {
        "id": id,
        "host": "vm-1",
        "pid": 7,
        "tier": Tier.FAST,
        "resources": Offer(cpus=1.5, gpus=1, memory_mb=4_096, tags=("a100", "gaussian")),
        "verifiers": (VerifierHere(name="a.b", version="1"),),
        "packages": {"rdkit": "1"},
    }
    return WorkerCard(**(values | changes))


def beat(store: SqlStore, *cards: WorkerCard, counts: Counts = Counts()) -> None:
    with store.begin() as tx:
        tx.workers.beat([(one, counts) for one in cards])


def listed(store: SqlStore, tier: Tier | None = None) -> list[Worker]:
    with store.read() as tx:
        return tx.workers.listed(tier)


def silence(store: SqlStore, seconds: float, id: str = "vm-1/7/fast/0") -> None:
    alter(store, "UPDATE workers SET beat_at = beat_at - :s WHERE id = :id", s=seconds, id=id)


def test_a_worker_says_what_it_is(store: SqlStore) -> None:
    beat(store, card(), counts=Counts(done=3, failed=2, rejected=1))
    [one] = listed(store)
    assert one.card == card()
    assert one.card.runs() == {Kind("a.b", "1")}
    assert one.alive
    assert (one.done, one.failed, one.rejected) == (3, 2, 1)
    assert one.started_at <= one.beat_at
    assert one.silent_s < 60.0
    assert one.current == ()


def test_heartbeats_renew_and_carry_counts(store: SqlStore) -> None:
    beat(store, card())
    silence(store, 14.0)
    [before] = listed(store)
    assert before.alive, "two beats of 5 s were missed"
    beat(store, card(), counts=Counts(done=9))
    [after] = listed(store)
    assert (after.done, after.started_at) == (9, before.started_at)
    assert after.beat_at > before.beat_at


def test_three_missed_beats_and_it_is_lost_until_it_beats_again(store: SqlStore) -> None:
    beat(store, card())
    silence(store, 15.1)
    [one] = listed(store)
    assert one.state is WorkerState.LOST
    assert one.silent_s == pytest.approx(15.1, abs=1.0)
    beat(store, card())
    assert listed(store)[0].alive


def test_its_own_pace_counts(store: SqlStore) -> None:
    beat(store, card("slow", beat_s=60.0), card("quick", beat_s=0.5))
    for id in ("slow", "quick"):
        silence(store, 10.0, id)
    assert {one.card.id: one.alive for one in listed(store)} == {"slow": True, "quick": False}


def test_one_that_left_is_not_lost(store: SqlStore) -> None:
    beat(store, card())
    with store.begin() as tx:
        tx.workers.leave([card().id, "nobody"])
    assert listed(store)[0].state is WorkerState.STOPPED
    beat(store, card())
    assert listed(store)[0].alive, "a frozen one that comes back"


def test_the_living_come_first_and_tiers_may_be_chosen(store: SqlStore) -> None:
    beat(store, card("b"), card("a"), card("s", tier=Tier.SIMULATION), card("dead"))
    silence(store, 99.0, "dead")
    assert [one.card.id for one in listed(store)] == ["a", "b", "s", "dead"]
    assert [one.card.id for one in listed(store, Tier.SIMULATION)] == ["s"]


def test_what_it_holds(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k1"), check("k2"), check("k3", verifier="c.d"))
    beat(store, card("w"), card("idle"))
    claims = claim(store)
    now = {one.card.id: one.current for one in listed(store)}
    assert now["idle"] == ()
    assert {(one.verifier, one.checks) for one in now["w"]} == {("a.b", 2), ("c.d", 1)}
    complete(store, *map(success, claims))
    assert [one.current for one in listed(store)] == [(), ()]


def test_the_dead_are_forgotten_and_the_living_are_not(store: SqlStore) -> None:
    beat(store, card("old"), card("new"), card("alive", beat_s=600.0))
    silence(store, 500.0, "old")
    silence(store, 100.0, "new")
    silence(store, 1_000.0, "alive")
    with store.begin() as tx:
        assert tx.workers.prune(400.0, 10) == 1
        assert {one.card.id for one in tx.workers.listed()} == {"new", "alive"}
        assert tx.workers.prune(400.0, 0) == 1
        assert {one.card.id for one in tx.workers.listed()} == {"alive"}
        assert tx.workers.prune(0.0, 0) == 0


def test_a_forgotten_one_that_beats_is_entered_again(store: SqlStore) -> None:
    beat(store, card())
    silence(store, 99.0)
    with store.begin() as tx:
        tx.workers.prune(1.0, 0)
    assert listed(store) == []
    beat(store, card())
    assert listed(store)[0].alive
