"""Runs: creation, pins, locks, states and reports."""

from __future__ import annotations

import pytest

from tests.contract.samples import (
    LADDER,
    OTHER_RUN,
    PROJECT,
    RUN,
    claim,
    complete,
    demand,
    demanded,
    failure,
    prepare,
    record,
    reservation,
    success,
    together,
    trajectory,
)
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.runs import RunMark, StandingUpdate
from verifier_service.domain.runs import Budgets, RunSpec, RunState
from verifier_service.domain.states import CheckState, RewardStatus
from verifier_service.persistence.store import SqlStore

SPEC = RunSpec(budgets=Budgets(compute=5.0), audit_share=0.1)


def test_ensure_creates_once_with_accounts(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        made = tx.runs.ensure(PROJECT, "new", SPEC, seed=7)
        assert tx.runs.ensure(PROJECT, "new", RunSpec(), seed=8) == made
    assert (made.spec, made.seed, made.state, made.feed) == (SPEC, 7, RunState.OPEN, 0)
    assert {one.kind: one.limit for one in made.accounts} == {"compute": 5.0, "human": None}


def test_marks_tell_state_and_feed_of_many_runs_at_once(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        for name in ("new", OTHER_RUN):
            tx.runs.ensure(PROJECT, name, SPEC, seed=7)
        tx.rewards.append(PROJECT, RUN, [record("a", revision=1), record("b", revision=1)])
        tx.runs.set_state(PROJECT, OTHER_RUN, RunState.CLOSED)
        marks = tx.runs.marks([(PROJECT, name) for name in (RUN, OTHER_RUN, "new", "none")] + [("no", RUN)])
    assert marks == {
        (PROJECT, RUN): RunMark(RunState.OPEN, 2),
        (PROJECT, OTHER_RUN): RunMark(RunState.CLOSED, 0),
        (PROJECT, "new"): RunMark(RunState.OPEN, 0),
    }


def test_concurrent_ensures_make_one_run(store: SqlStore) -> None:
    prepare(store)

    def work(index: int) -> int:
        with store.begin() as tx:
            return tx.runs.ensure(PROJECT, "new", SPEC, seed=index).seed

    assert len(set(together(20, work))) == 1


def test_put_replaces_spec_and_limits_and_keeps_the_rest(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        created = tx.runs.put(PROJECT, "new", SPEC, seed=7)
        tx.runs.pin(PROJECT, "new", LADDER, 1)
        changed = tx.runs.put(PROJECT, "new", RunSpec(budgets=Budgets(human=3.0)), seed=9)
    assert (created.seed, changed.seed, changed.created_at) == (7, 7, created.created_at)
    assert {one.kind: one.limit for one in changed.accounts} == {"compute": None, "human": 3.0}
    assert changed.ladder_versions == {LADDER: 1}


def test_a_limit_below_what_is_reserved_is_refused(store: SqlStore) -> None:
    prepare(store, compute=10.0)
    demanded(store, "t", "k")
    [one] = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(one.pk, 4.0)])
    with store.begin() as tx, pytest.raises(Conflict):
        tx.runs.put(PROJECT, RUN, RunSpec(budgets=Budgets(compute=3.0)), seed=1)
    with store.begin() as tx:
        tx.runs.put(PROJECT, RUN, RunSpec(budgets=Budgets(compute=4.0)), seed=1)


@pytest.mark.parametrize("call", ["get", "lock", "report"])
def test_an_unknown_run_is_not_found(store: SqlStore, call: str) -> None:
    prepare(store)
    with store.begin() as tx:
        for project, run in ((PROJECT, "unknown"), ("other", RUN)):
            with pytest.raises(NotFound):
                getattr(tx.runs, call)(project, run)


def test_the_first_pin_wins(store: SqlStore) -> None:
    prepare(store)

    def work(index: int) -> int:
        with store.begin() as tx:
            return tx.runs.pin(PROJECT, RUN, LADDER, index + 1)

    versions = set(together(8, work))
    assert len(versions) == 1
    with store.read() as tx:
        assert tx.runs.get(PROJECT, RUN).ladder_versions == {LADDER: versions.pop()}


def test_the_run_lock_serialises(store: SqlStore) -> None:
    prepare(store)

    def work(_: int) -> None:
        with store.begin() as tx:
            run = tx.runs.lock(PROJECT, RUN)
            budget = run.spec.budgets.compute or 0.0
            tx.runs.put(PROJECT, RUN, RunSpec(budgets=Budgets(compute=budget + 1)), seed=1)

    together(8, work)
    with store.read() as tx:
        assert tx.runs.get(PROJECT, RUN).spec.budgets.compute == 8.0


def test_states_and_listings(store: SqlStore) -> None:
    prepare(store, "a", "b", "c")
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, "b", RunState.CLOSING)
        tx.runs.set_state(PROJECT, "c", RunState.CLOSED)
        assert [one.id for one in tx.runs.of_project(PROJECT)] == ["c", "b", "a"]
        assert tx.runs.in_state(RunState.OPEN) == ((PROJECT, "a"),)
        assert tx.runs.in_state(RunState.CLOSING) == ((PROJECT, "b"),)
        assert tx.runs.get(PROJECT, "b").closed_at is None
        assert tx.runs.get(PROJECT, "c").closed_at is not None
        with pytest.raises(NotFound):
            tx.runs.set_state(PROJECT, "unknown", RunState.CLOSED)


def test_undecided_runs_are_open(store: SqlStore) -> None:
    prepare(store, "a", "b", "c", "d")
    with store.begin() as tx:
        for run in "abc":
            [pk] = tx.trajectories.insert(PROJECT, run, [trajectory("t")]).values()
            tx.trajectories.set_needs_decision([pk], True)
        tx.runs.set_state(PROJECT, "b", RunState.CLOSING)
        tx.runs.set_state(PROJECT, "c", RunState.CLOSED)
        tx.trajectories.insert(PROJECT, "d", [trajectory("t")])
        assert tx.runs.undecided(10) == ((PROJECT, "a"),)
        tx.runs.set_state(PROJECT, "b", RunState.OPEN)
        assert tx.runs.undecided(10) == ((PROJECT, "a"), (PROJECT, "b"))
        assert tx.runs.undecided(1) == ((PROJECT, "a"),)


def test_a_report_counts_cases_work_and_spend(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first, _ = demanded(store, "t1", "paid", "failed", "waiting")
    second, _ = demanded(store, "t2", "paid")
    demanded(store, "t1", "paid", run=OTHER_RUN)
    with store.begin() as tx:
        tx.demands.insert([demand(second, None, path="lab/0", tier=Tier.LAB)])
        claims = {one.key: one for one in tx.checks.claim(Tier.FAST, 10, "w", 60.0)}
        paid, failed = claims["paid"], claims["failed"]
        tx.ledger.reserve([reservation(paid.pk, 2.0), reservation(failed.pk, 2.0)])
    complete(store, success(paid, 1.5), failure(failed, CheckState.FAILED, credits=0.5))
    with store.begin() as tx:
        tx.demands.satisfy([paid.pk, failed.pk])
        [stored] = tx.rewards.append(
            PROJECT, RUN, [record("t1", status=RewardStatus.FINAL, reward=1.0, tier=Tier.FAST)]
        )
        update = StandingUpdate(
            pk=first,
            status=RewardStatus.FINAL,
            reward=1.0,
            revision=1,
            seq=stored.seq,
            fingerprint="f",
            met=4,
        )
        tx.trajectories.settle([update])
    with store.read() as tx:
        report = tx.runs.report(PROJECT, RUN)
        other = tx.runs.report(PROJECT, OTHER_RUN)
    assert report.trajectories == 2
    assert report.statuses == {"final": 1, "pending": 1}
    assert report.settled_per_tier == {"fast": 1}
    tiers = {one.tier: one for one in report.tiers}
    assert list(tiers) == list(Tier)
    fast = tiers[Tier.FAST]
    assert (fast.succeeded, fast.failed, fast.running, fast.credits) == (1, 1, 1, 2.0)
    assert tiers[Tier.LAB].held == 1
    assert sum(one.spent for one in report.run.accounts) == 2.0
    # The other run was served from the first one's purchase.
    assert {one.tier: (one.succeeded, one.credits) for one in other.tiers}[Tier.FAST] == (1, 0.0)
