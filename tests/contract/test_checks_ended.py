"""Checks that had run before they were stored."""

from __future__ import annotations

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    check,
    claim,
    complete,
    ensure,
    evidence,
    failure,
    money,
    prepare,
    success,
    together,
)
from verifier_service.domain.checks import CheckView, Completion, NewCheck
from verifier_service.domain.evidence import Cost, Failure
from verifier_service.domain.states import CheckState
from verifier_service.persistence.store import SqlStore

NEVER = Failure(kind="permanent", code="never", message="it cannot be")


def ended(key: str, credits: float = 0.5, score: float = 1.0) -> NewCheck:
    end = Completion(
        pk=0,
        fence=1,
        state=CheckState.SUCCEEDED,
        evidence=evidence(key, score),
        cost=Cost(cpu_s=2.0),
        credits=credits,
    )
    return check(key, ended=end)


def found(store: SqlStore, *keys: str) -> dict[str, CheckView | None]:
    with store.read() as tx:
        return tx.checks.found(PROJECT, keys)


def test_it_is_stored_as_an_attempt_leaves_it(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("queued"))
    [one] = claim(store)
    complete(store, success(one, cost=Cost(cpu_s=2.0)))
    refs = ensure(store, ended("b"), check("a"), ended("b"))
    assert [ref.state for ref in refs] == [CheckState.SUCCEEDED, CheckState.QUEUED, CheckState.SUCCEEDED]
    with store.read() as tx:
        usual, ahead = tx.checks.view(one.pk), tx.checks.view(refs[0].pk)
    assert ahead.evidence == evidence("b")
    assert (ahead.state, ahead.attempt, ahead.cost) == (usual.state, usual.attempt, usual.cost)
    assert (ahead.payer, ahead.credits) == (usual.payer, 0.5)
    assert money(store) == (0.0, 0.5)
    assert [each.key for each in claim(store)] == ["a"]


def test_a_failure_is_stored_and_never_served(store: SqlStore) -> None:
    prepare(store)
    end = Completion(pk=0, fence=1, state=CheckState.FAILED, failure=NEVER, credits=0.25)
    [ref] = ensure(store, check("k", ended=end))
    assert ref.state is CheckState.FAILED
    assert money(store) == (0.0, 0.25)
    assert found(store, "k") == {"k": None}
    [again] = ensure(store, ended("k"))
    assert again.state is CheckState.QUEUED, "only the first replicate can have ended"
    assert again.pk != ref.pk


def test_what_is_stored_already_stands(store: SqlStore) -> None:
    prepare(store, "r", OTHER_RUN)
    [first] = ensure(store, ended("k", score=1.0))
    [second] = ensure(store, ended("k", score=0.0), run=OTHER_RUN)
    assert (second.pk, second.created) == (first.pk, False)
    [live] = ensure(store, check("live"))
    [same] = ensure(store, ended("live"), run=OTHER_RUN)
    assert (same.pk, same.state) == (live.pk, CheckState.QUEUED)
    assert money(store, OTHER_RUN) == (0.0, 0.0)
    views = found(store, "k", "live", "unknown")
    assert views.keys() == {"k", "live"}
    assert views["live"] is None
    stored = views["k"]
    assert stored is not None
    assert (stored.pk, stored.evidence) == (first.pk, evidence("k"))


def test_twenty_threads_store_one_end_and_charge_it_once(store: SqlStore) -> None:
    prepare(store)
    refs = together(20, lambda n: ensure(store, ended("k", credits=1.0 + n))[0])
    assert len({ref.pk for ref in refs}) == 1
    assert {ref.state for ref in refs} == {CheckState.SUCCEEDED}
    with store.read() as tx:
        charged = tx.checks.view(refs[0].pk).credits
    assert money(store) == (0.0, charged)


@pytest.mark.parametrize("limit", [0.0, 100.0])
def test_a_limited_budget_reserves_first(store: SqlStore, limit: float) -> None:
    prepare(store, compute=limit)
    [ref] = ensure(store, ended("k"))
    assert ref.state is CheckState.QUEUED
    assert money(store) == (0.0, 0.0)
    [one] = claim(store)
    assert complete(store, failure(one, CheckState.FAILED)) == {ref.pk}
