"""Demands: one standing wish per rung, and what is left between steps."""

from __future__ import annotations

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    case_of,
    check,
    claim,
    complete,
    demand,
    demanded,
    ensure,
    failure,
    prepare,
    success,
    together,
    trajectory,
)
from verifier_service.domain.checks import Claim
from verifier_service.domain.errors import IllegalTransition, NotFound
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence.store import SqlStore


def new_case(store: SqlStore, name: str = "t") -> int:
    with store.begin() as tx:
        return tx.trajectories.insert(PROJECT, RUN, [trajectory(name)])[name]


def test_a_standing_demand_is_left_as_it_is(store: SqlStore) -> None:
    prepare(store)
    pk = new_case(store)
    a, b = ensure(store, check("a"), check("b"))
    with store.begin() as tx:
        tx.demands.insert([])
        tx.demands.insert([demand(pk, a.pk, quote=1.0, rank=0.5, propensity=0.25)])
        tx.demands.insert([demand(pk, b.pk, quote=2.0), demand(pk, b.pk, path="fast/1")])
        tx.demands.insert([demand(pk, b.pk, path="fast/2"), demand(pk, a.pk, path="fast/2")])
    first, second, third = case_of(store, pk).demands
    assert first.check is not None
    assert second.check is not None
    assert (first.check.pk, first.quote, first.rank, first.propensity) == (a.pk, 1.0, 0.5, 0.25)
    assert (first.role, first.reason, first.state) == ("outcome", "because", DemandState.REQUESTED)
    assert (first.decided_at or 0.0) > 0.0
    assert (second.path, second.check.pk) == ("fast/1", b.pk)
    assert third.path == "fast/2"


def test_a_withdrawn_demand_makes_room_for_another(store: SqlStore) -> None:
    prepare(store)
    pk, [check_pk] = demanded(store, "t", "k")
    with store.begin() as tx:
        [(first, _, _)] = tx.demands.wanting(check_pk)
        assert tx.demands.withdraw([first], reason="enough") == [check_pk]
        assert tx.demands.withdraw([first], reason="again") == []
        tx.demands.insert([demand(pk, check_pk)])
    old, new = case_of(store, pk).demands
    assert (old.state, old.reason, new.state) == (DemandState.WITHDRAWN, "enough", DemandState.REQUESTED)
    assert case_of(store, pk).at("fast/0") == new


@pytest.mark.parametrize("end", [CheckState.SUCCEEDED, CheckState.FAILED])
def test_a_demand_on_an_ended_check_is_satisfied(store: SqlStore, end: CheckState) -> None:
    prepare(store)
    pk = new_case(store)
    [ref] = ensure(store, check("k"))
    [one] = claim(store)
    complete(store, success(one) if end is CheckState.SUCCEEDED else failure(one, end))
    with store.begin() as tx:
        tx.demands.insert([demand(pk, ref.pk), demand(pk, None, path="fast/1")])
        held = tx.trajectories.cases([pk])[0].demands[1]
        tx.demands.request(held.pk, ref.pk, reason="now", quote=0.0)
    states = [one.state for one in case_of(store, pk).demands]
    assert states == [DemandState.SATISFIED, DemandState.SATISFIED]


def test_held_becomes_requested_and_back(store: SqlStore) -> None:
    prepare(store)
    pk = new_case(store)
    [ref] = ensure(store, check("k"))
    with store.begin() as tx:
        tx.demands.insert([demand(pk, None, rank=0.1)])
        [view] = tx.trajectories.cases([pk])[0].demands
        assert (view.state, view.check) == (DemandState.HELD, None)
        tx.demands.hold(view.pk, reason="later", rank=0.7)
        tx.demands.request(view.pk, ref.pk, reason="now", quote=3.0)
        [requested] = tx.trajectories.cases([pk])[0].demands
        assert requested.check is not None
        assert (requested.state, requested.check.pk, requested.quote, requested.reason, requested.rank) == (
            DemandState.REQUESTED,
            ref.pk,
            3.0,
            "now",
            0.7,
        )
        with pytest.raises(IllegalTransition):
            tx.demands.request(view.pk, ref.pk, reason="twice", quote=3.0)
        tx.demands.hold(view.pk, reason="no money", rank=None)
        [held] = tx.trajectories.cases([pk])[0].demands
        assert (held.state, held.reason, held.rank) == (DemandState.HELD, "no money", None)
        assert tx.demands.wanting(ref.pk) == []


def test_ended_demands_do_not_move(store: SqlStore) -> None:
    prepare(store)
    pk, [check_pk] = demanded(store, "t", "k")
    complete(store, success(claim(store)[0]))
    with store.begin() as tx:
        assert tx.demands.satisfy([check_pk]) == [pk]
        [view] = tx.trajectories.cases([pk])[0].demands
        assert tx.demands.withdraw([view.pk], reason="late") == []
        with pytest.raises(IllegalTransition):
            tx.demands.hold(view.pk, reason="late", rank=None)
        with pytest.raises(IllegalTransition):
            tx.demands.request(view.pk, check_pk, reason="late", quote=0.0)
        with pytest.raises(NotFound):
            tx.demands.hold(view.pk + 1, reason="late", rank=None)
    assert case_of(store, pk).demands[0].state is DemandState.SATISFIED


def test_satisfy_moves_only_demands_of_ended_checks(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first, [shared, live] = demanded(store, "a", "shared", "live")
    second, _ = demanded(store, "b", "shared", run=OTHER_RUN)
    demanded(store, "c", "live")
    [one] = [one for one in claim(store) if one.pk == shared]
    complete(store, success(one))
    with store.begin() as tx:
        assert tx.demands.unadvanced(10) == [first, second]
        assert tx.demands.unadvanced(1) == [first]
        assert tx.demands.satisfy([live, shared]) == [first, second]
        assert tx.demands.satisfy([live, shared]) == []
        assert tx.demands.satisfy([]) == []
        assert tx.demands.unadvanced(10) == []


def test_wanting_lists_requested_demands(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first, [check_pk] = demanded(store, "a", "k")
    second, _ = demanded(store, "b", "k", run=OTHER_RUN)
    with store.begin() as tx:
        rows = tx.demands.wanting(check_pk)
        assert [(trajectory, run) for _, trajectory, run in rows] == [(first, RUN), (second, OTHER_RUN)]
        tx.demands.withdraw([rows[0][0]], reason="test")
        assert tx.demands.wanting(check_pk) == rows[1:]


def test_one_rung_stands_once_whoever_comes_together(store: SqlStore) -> None:
    prepare(store)
    pk = new_case(store)
    [ref] = ensure(store, check("k"))

    def work(_: int) -> None:
        with store.begin() as tx:
            tx.demands.insert([demand(pk, ref.pk)])

    together(12, work)
    assert len(case_of(store, pk).demands) == 1


def test_withdraw_names_each_check_once(store: SqlStore) -> None:
    prepare(store)
    first, [check_pk] = demanded(store, "a", "k")
    second, _ = demanded(store, "b", "k")
    with store.begin() as tx:
        tx.demands.insert([demand(first, None, path="lab/0")])
        demands = [one.pk for case in tx.trajectories.cases([first, second]) for one in case.demands]
        assert tx.demands.withdraw(demands, reason="closed") == [check_pk]
        assert tx.trajectories.held(PROJECT, RUN, 10) == []


def test_lock_names_the_trajectories_that_wait_for_checks(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first, [shared, other] = demanded(store, "a", "shared", "other")
    second, _ = demanded(store, "b", "shared", run=OTHER_RUN)
    with store.begin() as tx:
        assert tx.demands.lock([shared]) == [first, second]
        assert tx.demands.lock([other, shared]) == [first, second]
        assert tx.demands.lock([]) == []
    complete(store, *[success(one) for one in claim(store) if one.pk == shared])
    with store.begin() as tx:
        tx.demands.satisfy([shared])
        assert tx.demands.lock([shared]) == []
        assert tx.demands.lock([other]) == [first]


def test_workers_that_lock_first_do_not_wait_for_each_other(store: SqlStore) -> None:
    """Each completes one of two checks of the same trajectories, then advances all of them."""
    prepare(store)
    for round_ in range(6):
        keys = [f"k{round_}-0", f"k{round_}-1"]
        for name in "ab":
            demanded(store, f"{name}{round_}", *keys)
        claims = claim(store)

        def work(index: int, claims: list[Claim] = claims) -> None:
            with store.begin() as tx:
                tx.demands.lock([claims[index].pk])
                assert tx.checks.complete("w", [success(claims[index])])
                pks = tx.demands.satisfy([claims[index].pk])
                assert len(tx.trajectories.cases(pks, lock=True)) == 2

        together(2, work)
    with store.read() as tx:
        assert tx.demands.unadvanced(10) == []


def test_the_best_rank_may_be_infinite(store: SqlStore) -> None:
    prepare(store)
    pks = [new_case(store, name) for name in "abc"]
    ranks = [0.5, float("inf"), float("-inf")]
    with store.begin() as tx:
        tx.demands.insert([demand(pk, None, rank=rank) for pk, rank in zip(pks, ranks, strict=True)])
        assert tx.trajectories.held(PROJECT, RUN, 10) == [pks[1], pks[0], pks[2]]
        tx.checks.ensure(PROJECT, RUN, [check("low"), check("high", priority=float("inf"))])
    assert [one.key for one in claim(store)] == ["high", "low"]
