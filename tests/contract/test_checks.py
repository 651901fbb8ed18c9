"""Checks: single flight, replicates, withdrawal."""

from __future__ import annotations

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    again,
    alter,
    case_of,
    check,
    claim,
    complete,
    demand,
    demanded,
    ensure,
    failure,
    money,
    prepare,
    reservation,
    success,
    together,
    trajectory,
)
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.states import CheckState
from verifier_service.persistence.store import SqlStore


def state_of(store: SqlStore, pk: int) -> CheckState:
    with store.read() as tx:
        return tx.checks.view(pk).state


def withdraw(store: SqlStore, *checks: int, run: str | None = None) -> list[int]:
    """Withdraw all demands on the checks (of one run, if named), then the checks."""
    with store.begin() as tx:
        demands = [
            pk
            for one in checks
            for pk, _, wanting in tx.demands.wanting(one)
            if run is None or wanting == run
        ]
        return tx.checks.withdraw(tx.demands.withdraw(demands, reason="test"))


def test_equal_keys_share_one_row_in_order(store: SqlStore) -> None:
    prepare(store)
    refs = ensure(store, check("b"), check("a"), check("b", priority=3.0))
    assert [one.key for one in refs] == ["b", "a", "b"]
    assert refs[0] == refs[2]
    assert all(one.created and one.state is CheckState.QUEUED for one in refs)
    later = ensure(store, check("a"), check("c"))
    assert [one.created for one in later] == [False, True]
    assert later[0].pk == refs[1].pk


def test_twenty_threads_make_one_check(store: SqlStore) -> None:
    prepare(store)
    refs = together(20, lambda _: ensure(store, check("k"))[0])
    assert len({one.pk for one in refs}) == 1
    assert sum(one.created for one in refs) == 1


def test_overlapping_sets_in_any_order_make_each_key_once(store: SqlStore) -> None:
    prepare(store)
    keys = [f"k{index}" for index in range(30)]

    def work(index: int) -> dict[str, int]:
        mine = keys if index % 2 else keys[::-1]
        return {one.key: one.pk for one in again(lambda: ensure(store, *[check(key) for key in mine]))}

    results = together(8, work)
    assert all(one == results[0] for one in results)


def test_projects_share_nothing(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.projects.ensure("other")
        tx.runs.ensure("other", RUN, tx.runs.get(PROJECT, RUN).spec, seed=1)
        [foreign] = tx.checks.ensure("other", RUN, [check("k")])
        [mine] = tx.checks.ensure(PROJECT, RUN, [check("k")])
        with pytest.raises(NotFound):
            tx.checks.ensure(PROJECT, "unknown", [check("k")])
    assert foreign.pk != mine.pk


def test_a_reused_live_check_gets_the_highest_priority(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("first", priority=1.0), check("second", priority=2.0))
    ensure(store, check("first", priority=5.0), check("second", priority=0.0))
    assert [one.key for one in claim(store)] == ["first", "second"]


def test_evidence_is_served_again(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [one] = claim(store)
    complete(store, success(one))
    [ref] = ensure(store, check("k"))
    assert (ref.pk, ref.state, ref.created) == (one.pk, CheckState.SUCCEEDED, False)


@pytest.mark.parametrize("end", [CheckState.FAILED, CheckState.CANCELLED])
def test_failures_are_never_served(store: SqlStore, end: CheckState) -> None:
    prepare(store)
    _, [pk] = demanded(store, "t", "k")
    if end is CheckState.FAILED:
        [one] = claim(store)
        complete(store, failure(one, CheckState.FAILED))
    else:
        assert withdraw(store, pk) == [pk]
    assert state_of(store, pk) is end
    [ref] = ensure(store, check("k"))
    assert (ref.pk != pk, ref.state, ref.created) == (True, CheckState.QUEUED, True)
    [second] = claim(store)
    assert (second.replicate, second.key) == (1, "k")


def test_force_makes_a_replicate_unless_one_is_live(store: SqlStore) -> None:
    prepare(store)
    [first] = ensure(store, check("k"), force=True)
    [same] = ensure(store, check("k"), force=True)
    assert (same.pk, same.created) == (first.pk, False)
    complete(store, success(claim(store)[0]))
    [second] = ensure(store, check("k"), force=True)
    assert (second.pk != first.pk, second.created) == (True, True)
    # While the replicate runs, others are served the evidence that is there.
    [served] = ensure(store, check("k"))
    assert (served.pk, served.state) == (first.pk, CheckState.SUCCEEDED)
    complete(store, success(claim(store)[0]))
    [newest] = ensure(store, check("k"))
    assert newest.pk == second.pk


def test_forced_together_there_is_still_one_live_row(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    complete(store, success(claim(store)[0]))
    refs = together(12, lambda _: ensure(store, check("k"), force=True)[0])
    assert len({one.pk for one in refs}) == 1
    assert sum(one.created for one in refs) == 1


def test_a_view_shows_one_check(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k", tier=Tier.SIMULATION))
    with store.read() as tx:
        view = tx.checks.view(ref.pk)
        with pytest.raises(NotFound):
            tx.checks.view(ref.pk + 1)
    assert (view.pk, view.key, view.tier, view.state, view.attempt) == (
        ref.pk,
        "k",
        Tier.SIMULATION,
        CheckState.QUEUED,
        0,
    )
    assert (view.payer, view.credits, view.evidence, view.failure, view.started_at) == (
        RUN,
        0.0,
        None,
        None,
        None,
    )


def test_passed_deadlines_are_of_external_checks_not_yet_ended(store: SqlStore) -> None:
    prepare(store)
    past = {"external": True, "tier": Tier.LAB, "deadline": 1.0}
    refs = ensure(
        store,
        check("past", **past),
        check("future", external=True, tier=Tier.LAB, deadline=1e12),
        check("none", external=True, tier=Tier.LAB),
        check("inside", deadline=1.0),
        check("waiting", **past, priority=9.0),
        check("ended", **past, priority=8.0),
    )
    pks = {one.key: one.pk for one in refs}
    with store.begin() as tx:
        waiting, ended = tx.checks.claim(Tier.LAB, 2, "w", 60.0)
        assert tx.checks.wait_external("w", waiting.pk, waiting.fence)
        assert tx.checks.wait_external("w", ended.pk, ended.fence)
        tx.checks.finish_external(ended.pk, CheckState.FAILED)
        assert set(tx.checks.with_passed_deadline(10)) == {pks["past"], pks["waiting"]}
        assert len(tx.checks.with_passed_deadline(1)) == 1


def test_withdrawing_the_last_demand_cancels(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    _, [pk] = demanded(store, "a", "k")
    demanded(store, "b", "k", run=OTHER_RUN)
    assert withdraw(store, pk, run=OTHER_RUN) == []
    assert state_of(store, pk) is CheckState.QUEUED
    assert withdraw(store, pk, run=RUN) == [pk]
    assert state_of(store, pk) is CheckState.CANCELLED
    with store.begin() as tx:
        assert tx.checks.withdraw([pk]) == []


def test_withdrawal_refunds_a_running_check(store: SqlStore) -> None:
    prepare(store, compute=10.0)
    _, [pk] = demanded(store, "a", "k")
    [one] = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(pk, 4.0)])
    assert money(store) == (4.0, 0.0)
    assert withdraw(store, pk) == [pk]
    assert money(store) == (0.0, 0.0)
    assert complete(store, success(one)) == set()


def test_ended_checks_stay_as_they_are(store: SqlStore) -> None:
    prepare(store)
    _, [pk] = demanded(store, "a", "k")
    complete(store, success(claim(store)[0]))
    assert withdraw(store, pk) == []
    assert state_of(store, pk) is CheckState.SUCCEEDED


def test_the_next_demanding_run_takes_over_the_bill(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN, "r3", compute=10.0)
    _, [pk] = demanded(store, "a", "k")
    demanded(store, "b", "k", run=OTHER_RUN)
    demanded(store, "c", "k", run="r3")
    [one] = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(pk, 4.0)])
    assert withdraw(store, pk, run=RUN) == []
    assert [money(store, run) for run in (RUN, OTHER_RUN, "r3")] == [(0.0, 0.0), (4.0, 0.0), (0.0, 0.0)]
    assert complete(store, success(one, 3.0)) == {pk}
    assert [money(store, run) for run in (RUN, OTHER_RUN, "r3")] == [(0.0, 0.0), (0.0, 3.0), (0.0, 0.0)]


def test_a_takeover_never_overspends_the_heir(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN, "r3", compute=10.0)
    alter(store, "UPDATE accounts SET spent = 8.0 WHERE run = (SELECT pk FROM runs WHERE id = 'r2')")
    _, [pk] = demanded(store, "a", "k")
    demanded(store, "b", "k", run=OTHER_RUN)
    [one] = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(pk, 4.0)])
    assert withdraw(store, pk, run=RUN) == []
    # Nobody can carry the reservation: the attempt ends on the budget it was started within.
    assert (money(store, RUN), money(store, OTHER_RUN)) == ((4.0, 0.0), (0.0, 8.0))
    demanded(store, "c", "k", run="r3")
    with store.begin() as tx:
        tx.checks.withdraw([pk])
    assert (money(store, RUN), money(store, "r3")) == ((0.0, 0.0), (4.0, 0.0))
    assert complete(store, success(one, 4.0)) == {pk}
    assert (money(store, RUN), money(store, "r3")) == ((0.0, 0.0), (0.0, 4.0))


def test_a_queued_check_passes_on_without_money(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN, compute=0.0)
    pk, [check_pk] = demanded(store, "a", "k")
    demanded(store, "b", "k", run=OTHER_RUN)
    assert withdraw(store, check_pk, run=RUN) == []
    [view] = case_of(store, pk).demands
    assert view.check is not None
    assert view.check.payer == OTHER_RUN


def test_withdrawal_and_a_new_demand_at_once_leave_no_cancelled_wish(store: SqlStore) -> None:
    """Whoever comes second sees the first: a requested demand never points at a cancelled check unseen."""
    prepare(store, RUN, OTHER_RUN)
    for round_ in range(10):
        key = f"k{round_}"
        _, [pk] = demanded(store, f"a{round_}", key)

        def work(index: int, key: str = key, pk: int = pk, round_: int = round_) -> object:
            if index == 0:
                return again(lambda: withdraw(store, pk, run=RUN))
            return again(lambda: demanded(store, f"b{round_}", key, run=OTHER_RUN))

        together(2, work)
    with store.begin() as tx:
        assert tx.demands.unadvanced(100) == []
        pks = [
            one.pk
            for one in tx.trajectories.find(PROJECT, OTHER_RUN, [f"b{i}" for i in range(10)]).values()
        ]
        for case in tx.trajectories.cases(pks):
            [view] = case.demands
            assert view.check is not None
            assert view.check.state is CheckState.QUEUED


def test_bulk_of_a_thousand(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        pks = tx.trajectories.insert(PROJECT, RUN, [trajectory(f"t{i}") for i in range(1_024)])
        refs = tx.checks.ensure(PROJECT, RUN, [check(f"k{i % 5_000}") for i in range(5_120)])
        tx.demands.insert(
            [
                demand(pk, ref.pk, path=f"fast/{place}")
                for index, pk in enumerate(pks.values())
                for place, ref in enumerate(refs[5 * index : 5 * index + 5])
            ]
        )
        assert len(pks) == 1_024
        assert len({one.pk for one in refs}) == 5_000
        assert sum(len(case.demands) for case in tx.trajectories.cases(list(pks.values()))) == 5_120
