"""Claims, heartbeats and fencing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    check,
    claim,
    complete,
    demanded,
    ensure,
    expire_leases,
    failure,
    money,
    prepare,
    reservation,
    success,
    together,
)
from verifier_service.domain.checks import Claim
from verifier_service.domain.errors import IllegalTransition
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Kind
from verifier_service.persistence.endings import MAX_INTERRUPTIONS
from verifier_service.persistence.store import SqlStore


def beat(store: SqlStore, *claims: Claim, owner: str = "w") -> set[int]:
    with store.begin() as tx:
        return tx.checks.beat(owner, {one.pk: one.fence for one in claims}, 60.0)


def reap(store: SqlStore, limit: int = 10) -> list[int]:
    with store.begin() as tx:
        return tx.checks.reap(limit)


def test_a_claim_carries_what_the_worker_needs(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(
        store, check("k", params={"b": 1, "a": [2]}, external=True, deadline=9e9, max_attempts=5)
    )
    [one] = claim(store)
    assert one == Claim(
        pk=ref.pk,
        key="k",
        project=PROJECT,
        verifier="a.b",
        version="1",
        tier=Tier.FAST,
        params={"a": [2], "b": 1},
        item='{"candidate":"CCO"}',
        method="",
        attempt=0,
        max_attempts=5,
        fence=1,
        payer=RUN,
        external=True,
        replicate=0,
        deadline=9e9,
    )
    assert claim(store) == []


def test_claims_go_by_priority_then_age(store: SqlStore) -> None:
    prepare(store)
    for key, priority in (("old", 1.0), ("new", 1.0), ("best", 2.0), ("last", -1.0)):
        ensure(store, check(key, priority=priority))
    assert [one.key for one in claim(store, 3)] == ["best", "old", "new"]
    assert [one.key for one in claim(store, 3)] == ["last"]


def test_a_batch_may_mix_verifiers_but_not_tiers(store: SqlStore) -> None:
    prepare(store)
    for key, changes in {
        "1": {"params": {"x": 1, "y": 2}},
        "2": {"params": {"x": 2}},
        "3": {"verifier": "a.c"},
        "4": {"tier": Tier.LAB},
    }.items():
        ensure(store, check(key, **changes))
    claims = claim(store)
    assert [one.key for one in claims] == ["1", "2", "3"]
    assert [one.params for one in claims][:2] == [{"x": 1, "y": 2}, {"x": 2}]
    assert [one.key for one in claim(store, tier=Tier.LAB)] == ["4"]


@pytest.mark.parametrize("limit", [0, -1])
def test_nothing_is_claimed_without_a_limit(store: SqlStore, limit: int) -> None:
    prepare(store)
    ensure(store, check("k"))
    assert claim(store, limit) == []


def test_no_check_is_claimed_twice(store: SqlStore) -> None:
    prepare(store)
    ensure(store, *[check(f"k{index}") for index in range(60)])

    def work(index: int) -> list[int]:
        mine: list[int] = []
        while got := claim(store, 7, owner=f"w{index}"):
            mine += [one.pk for one in got]
        return mine

    taken = [pk for mine in together(8, work) for pk in mine]
    assert len(taken) == len(set(taken)) == 60


def test_a_delayed_check_waits_for_its_time(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [one] = claim(store)
    complete(store, failure(one, delay_s=60.0))
    with store.read() as tx:
        assert tx.checks.ready() == frozenset()
        assert (tx.checks.view(one.pk).not_before or 0.0) > tx.now() + 50.0
    assert claim(store) == []
    alter(store, "UPDATE checks SET not_before = not_before - 61")
    with store.read() as tx:
        assert tx.checks.ready() == {Tier.FAST}
    [second] = claim(store)
    assert (second.attempt, second.fence) == (1, 2)


def test_heartbeats_keep_a_lease(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("a"), check("b"), check("c"))
    a, b, c = claim(store)
    complete(store, success(c))
    wrong = replace(b, fence=b.fence + 1)
    assert beat(store, a, wrong, c) == {a.pk}
    assert beat(store, a, owner="somebody else") == set()
    expire_leases(store)
    assert beat(store, a) == {a.pk}
    assert reap(store) == [b.pk]
    assert beat(store, a, b) == {a.pk}


def test_a_fence_rises_with_every_claim_and_keeps_the_stale_out(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [first] = claim(store, owner="slow")
    expire_leases(store)
    assert reap(store) == [first.pk]
    [second] = claim(store, owner="fast")
    assert second.fence == first.fence + 1
    assert complete(store, success(first), owner="slow") == set()
    assert complete(store, success(first), owner="fast") == set()
    assert complete(store, success(second), owner="slow") == set()
    assert complete(store, success(second, evidence=success(second).evidence), owner="fast") == {first.pk}
    assert complete(store, failure(second), owner="fast") == set()
    with store.read() as tx:
        assert tx.checks.stale_completions() == 4
        assert tx.checks.view(first.pk).state is CheckState.SUCCEEDED


def test_one_stale_completion_does_not_hurt_its_batch(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("a"), check("b"))
    a, b = claim(store)
    stale = success(b)
    complete(store, failure(b, CheckState.FAILED))
    assert complete(store, success(a), stale, success(a)) == {a.pk}
    with store.read() as tx:
        assert tx.checks.stale_completions() == 2


def test_retries_count_attempts_and_end(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k", max_attempts=2))
    [one] = claim(store)
    complete(store, failure(one))
    [two] = claim(store)
    assert (one.attempt, two.attempt) == (0, 1)
    complete(store, failure(two))
    assert claim(store) == []
    with store.read() as tx:
        view = tx.checks.view(one.pk)
    assert (view.state, view.attempt, view.cost) == (CheckState.FAILED, 2, Cost(cpu_s=2.0))
    assert view.failure is not None
    assert view.failure.code == "broken"


def test_a_release_spends_no_attempt(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k", max_attempts=1))
    for fence in (1, 2, 3):
        [one] = claim(store)
        assert (one.attempt, one.fence) == (0, fence)
        complete(store, failure(one, spend_attempt=False, failure=None))


def test_success_needs_evidence(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [one] = claim(store)
    with store.begin() as tx, pytest.raises(IllegalTransition):
        tx.checks.complete("w", [success(one, evidence=None)])
    with store.begin() as tx, pytest.raises(IllegalTransition):
        tx.checks.complete("w", [failure(one, CheckState.RUNNING)])


def test_reaping_ends_at_the_last_attempt(store: SqlStore) -> None:
    prepare(store, compute=10.0)
    ensure(store, check("once", max_attempts=1), check("twice", max_attempts=2))
    once, twice = claim(store)
    assert reap(store) == []
    with store.begin() as tx:
        tx.ledger.reserve([reservation(once.pk, 2.0), reservation(twice.pk, 3.0)])
    expire_leases(store)
    assert set(reap(store)) == {once.pk, twice.pk}
    assert money(store) == (0.0, 0.0)
    with store.read() as tx:
        failed, queued = tx.checks.view(once.pk), tx.checks.view(twice.pk)
    assert (failed.state, failed.attempt, queued.state, queued.attempt) == (
        CheckState.FAILED,
        1,
        CheckState.QUEUED,
        1,
    )
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.retryable) == ("worker_lost", True)


def test_reaping_is_bounded_and_shared(store: SqlStore) -> None:
    prepare(store)
    ensure(store, *[check(f"k{index}") for index in range(20)])
    claim(store, 20)
    expire_leases(store)
    assert len(reap(store, 8)) == 8
    moved = [pk for mine in together(4, lambda _: reap(store, 20)) for pk in mine]
    assert len(moved) == len(set(moved)) == 12


def test_reclaim_counts_interruptions_not_attempts(store: SqlStore) -> None:
    prepare(store, compute=10.0)
    ensure(store, check("k", max_attempts=1))
    for round_ in range(MAX_INTERRUPTIONS):
        [one] = claim(store, owner=f"embedded/{round_}/fast")
        assert one.attempt == 0
        with store.begin() as tx:
            tx.ledger.reserve([reservation(one.pk, 2.0)])
            assert tx.checks.reclaim("other/") == []
            assert tx.checks.reclaim("embedded_") == []
            assert tx.checks.reclaim("embedded/") == [one.pk]
        assert money(store) == (0.0, 0.0)
    assert claim(store) == []
    with store.read() as tx:
        view = tx.checks.view(one.pk)
    assert (view.state, view.attempt) == (CheckState.FAILED, 0)
    assert view.failure is not None
    assert view.failure.code == "interrupted"


def test_cancelled_names_what_no_longer_runs(store: SqlStore) -> None:
    prepare(store)
    _, [running, withdrawn] = demanded(store, "t", "a", "b")
    claims = claim(store)
    with store.begin() as tx:
        [(demand, _, _)] = tx.demands.wanting(withdrawn)
        tx.checks.withdraw(tx.demands.withdraw([demand], reason="test"))
    with store.read() as tx:
        assert tx.checks.cancelled([one.pk for one in claims]) == {withdrawn}
        assert tx.checks.cancelled([running, 10_000]) == {10_000}
        assert tx.checks.cancelled([]) == set()


def test_waiting_outside_keeps_the_reservation_until_the_end(store: SqlStore) -> None:
    prepare(store, human=10.0)
    [ref] = ensure(store, check("k", external=True, tier=Tier.LAB))
    [one] = claim(store, tier=Tier.LAB)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(ref.pk, 6.0, account="human")])
        assert not tx.checks.wait_external("w", ref.pk, one.fence + 1)
        assert not tx.checks.wait_external("somebody else", ref.pk, one.fence)
        assert not tx.checks.finish_external(ref.pk, CheckState.FAILED)
        assert tx.checks.wait_external("w", ref.pk, one.fence)
        assert not tx.checks.wait_external("w", ref.pk, one.fence)
    assert money(store, kind="human") == (6.0, 0.0)
    expire_leases(store)
    assert reap(store) == []
    cost = Cost(human_s=60.0)
    with store.begin() as tx:
        assert tx.checks.finish_external(
            ref.pk, CheckState.SUCCEEDED, evidence=success(one).evidence, cost=cost, credits=2.0
        )
        assert not tx.checks.finish_external(ref.pk, CheckState.CANCELLED)
        view = tx.checks.view(ref.pk)
    assert money(store, kind="human") == (0.0, 2.0)
    assert (view.state, view.cost, view.credits) == (CheckState.SUCCEEDED, cost, 2.0)


def test_ready_names_the_tiers_with_claimable_checks(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    ensure(store, check("a"), check("b"), check("c", tier=Tier.LAB))
    for left in ({Tier.FAST, Tier.LAB}, {Tier.FAST, Tier.LAB}, {Tier.LAB}):
        with store.read() as tx:
            assert tx.checks.ready() == left
        claim(store, 1)


def test_a_worker_claims_what_it_has_and_nothing_else(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("a", verifier="one"), check("b", verifier="two"), check("c", verifier="three"))
    with store.begin() as tx:
        assert tx.checks.claim(Tier.FAST, 10, "w", 60.0, only=()) == []
        mine = [Kind("one", "1"), Kind("two", "1"), Kind("three", "2")]
        found = tx.checks.claim(Tier.FAST, 10, "w", 60.0, ["one"], mine)
    assert [one.key for one in found] == ["b"]
    assert {one.key for one in claim(store)} == {"a", "c"}


def test_claims_of_several_kinds_go_by_priority_then_age(store: SqlStore) -> None:
    prepare(store)
    kinds = [Kind("one", "1"), Kind("two", "1"), Kind("two", "2")]
    for index, priority in enumerate((0.0, 5.0, 0.0, 5.0, 1.0, 9.0)):
        kind = kinds[index % 3]
        ensure(store, check(f"k{index}", verifier=kind.verifier, version=kind.version, priority=priority))
    ensure(store, check("other", verifier="three", priority=99.0))
    got = []
    for limit in (2, 10):
        with store.begin() as tx:
            got += [one.key for one in tx.checks.claim(Tier.FAST, limit, "w", 60.0, only=kinds)]
    assert got == ["k5", "k1", "k3", "k4", "k0", "k2"]


def test_a_delayed_check_of_a_kind_waits_as_well(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [one] = claim(store)
    complete(store, failure(one, delay_s=60.0))
    with store.begin() as tx:
        assert tx.checks.claim(Tier.FAST, 10, "w", 60.0, only=[Kind("a.b", "1")]) == []


def test_claims_of_which_their_owner_never_heard_go_back(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("a"), check("b"), check("c"))
    [known] = claim(store, 1, owner="w/1")
    claim(store, 1, owner="w/1")  # the answer to this commit was lost
    [other] = claim(store, 1, owner="w/10")
    with store.begin() as tx:
        [moved] = tx.checks.disown("w/1", {known.pk: known.fence})
        assert tx.checks.disown("w/1", {known.pk: known.fence}) == []
        assert tx.checks.view(moved).state is CheckState.QUEUED
        assert tx.checks.view(moved).attempt == 0
        assert tx.checks.cancelled([known.pk, other.pk]) == set()
