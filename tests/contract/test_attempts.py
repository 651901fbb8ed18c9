"""The history of attempts: one row for each, however it ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.contract.samples import (
    BROKEN,
    alter,
    check,
    claim,
    complete,
    demanded,
    ensure,
    evidence,
    expire_leases,
    failure,
    prepare,
    success,
)
from verifier_service.domain.checks import Claim, Completion
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.history import Attempt, AttemptEnd, Queueing, Ran
from verifier_service.domain.resources import Offer
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Counts, WorkerCard
from verifier_service.persistence.store import SqlStore

RAN = Ran(host="vm-1", version="1", libraries={"rdkit": "7"}, ago_s=0.0, wall_s=0.25, peak_mb=123.5)


def history(store: SqlStore, pk: int) -> Queueing:
    with store.read() as tx:
        return tx.checks.histories([pk])[pk]


def attempts(store: SqlStore, pk: int) -> tuple[Attempt, ...]:
    return history(store, pk).attempts


def one_claim(store: SqlStore, owner: str = "w") -> Claim:
    [one] = claim(store, owner=owner)
    return one


def backdate(store: SqlStore, seconds: float) -> None:
    """As if what happened so far had happened earlier."""
    alter(
        store,
        "UPDATE checks SET created_at = created_at - :s, started_at = started_at - :s,"
        " queued_at = queued_at - :s, not_before = NULL",
        s=seconds,
    )


def test_a_success_says_where_when_and_how_much(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    one = one_claim(store)
    backdate(store, 10.0)
    complete(store, success(one, ran=RAN._replace(ago_s=2.0)))
    [shown] = attempts(store, ref.pk)
    assert (shown.number, shown.worker, shown.host, shown.version) == (1, "w", "vm-1", "1")
    assert (shown.end, shown.code, shown.libraries) == (AttemptEnd.SUCCEEDED, None, {"rdkit": "7"})
    assert (shown.wall_s, shown.cpu_s, shown.peak_memory_mb) == (0.25, 1.0, 123.5)
    queued, claimed, started, ended = times(shown)
    assert queued <= claimed <= started <= ended
    assert (ended - started).total_seconds() == pytest.approx(0.25, abs=1e-4)
    assert (ended - claimed).total_seconds() == pytest.approx(8.0, abs=1.0), "the result came 2 s ago"


def times(shown: Attempt) -> list[datetime]:
    found = [shown.queued_at, shown.claimed_at, shown.started_at, shown.ended_at]
    assert None not in found
    return found  # type: ignore[return-value]


def test_times_never_run_backwards(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    complete(store, success(one_claim(store), ran=RAN._replace(ago_s=9e3, wall_s=9e3)))
    [shown] = attempts(store, ref.pk)
    queued, claimed, started, ended = times(shown)
    assert queued <= claimed == started == ended


def test_every_try_has_its_row(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k", max_attempts=3))
    first = one_claim(store, "a")
    complete(store, failure(first, ran=RAN), owner="a")
    backdate(store, 5.0)
    one_claim(store, "b")
    expire_leases(store)
    with store.begin() as tx:
        tx.checks.reap(10)
    third = one_claim(store, "c")
    released = Completion(pk=third.pk, fence=third.fence, state=CheckState.QUEUED, spend_attempt=False)
    complete(store, released, owner="c")
    one_claim(store, "embedded/x/1")
    with store.begin() as tx:
        tx.checks.reclaim("embedded/x/")
    last = one_claim(store, "d")
    running = attempts(store, ref.pk)[-1]
    assert (running.number, running.worker, running.end, running.ended_at) == (5, "d", None, None)
    complete(store, failure(last, CheckState.FAILED), owner="d")
    shown = attempts(store, ref.pk)
    assert [(one.number, one.worker, one.end, one.code) for one in shown] == [
        (1, "a", AttemptEnd.REQUEUED, BROKEN.code),
        (2, "b", AttemptEnd.LOST, "worker_lost"),
        (3, "c", AttemptEnd.RELEASED, None),
        (4, "embedded/x/1", AttemptEnd.INTERRUPTED, None),
        (5, "d", AttemptEnd.FAILED, BROKEN.code),
    ]
    assert [one.started_at is None for one in shown] == [False, True, True, True, True]
    assert shown[1].queued_at is not None
    assert shown[0].ended_at is not None
    assert shown[0].claimed_at is not None
    assert shown[1].queued_at < shown[0].ended_at, "moved back in time, with the check"
    assert shown[2].queued_at == shown[1].ended_at


def test_the_last_attempt_of_several_failed(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k", max_attempts=1))
    complete(store, failure(one_claim(store)))
    [shown] = attempts(store, ref.pk)
    assert shown.end is AttemptEnd.FAILED, "there was none left to be requeued for"


def test_a_claim_that_was_given_back_at_once_is_no_attempt(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    one = one_claim(store)
    back = Completion(
        pk=one.pk, fence=one.fence, state=CheckState.QUEUED, spend_attempt=False, attempted=False
    )
    complete(store, back)
    assert attempts(store, ref.pk) == ()
    complete(store, success(one_claim(store), ran=RAN))
    assert [one.number for one in attempts(store, ref.pk)] == [2]


def test_a_stale_completion_leaves_no_trace(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    one = one_claim(store)
    complete(store, success(one, ran=RAN))
    assert complete(store, success(one, ran=RAN)) == set()
    assert complete(store, failure(replace(one, fence=9), ran=RAN)) == set()
    assert len(attempts(store, ref.pk)) == 1


def test_a_cancelled_attempt_is_measured_when_it_has_stopped(store: SqlStore) -> None:
    prepare(store)
    trajectory, [pk] = demanded(store, "t", "k")
    one = one_claim(store)
    with store.begin() as tx:
        [case] = tx.trajectories.cases([trajectory])
        tx.demands.withdraw([demand.pk for demand in case.demands], reason="cancelled")
        assert tx.checks.withdraw([pk]) == [pk]
    [shown] = attempts(store, pk)
    assert (shown.end, shown.worker, shown.cpu_s, shown.credits) == (AttemptEnd.CANCELLED, "w", None, 0.0)
    late = Completion(
        pk=pk,
        fence=one.fence,
        state=CheckState.QUEUED,
        spend_attempt=False,
        cost=Cost(cpu_s=3.0),
        credits=0.5,
        ran=RAN,
    )
    assert complete(store, late) == set()
    [shown] = attempts(store, pk)
    assert (shown.end, shown.cpu_s, shown.credits) == (AttemptEnd.CANCELLED, 3.0, 0.5)
    assert (shown.host, shown.wall_s, shown.peak_memory_mb) == ("vm-1", 0.25, 123.5)


def test_a_queued_check_that_is_cancelled_was_never_tried(store: SqlStore) -> None:
    prepare(store)
    trajectory, [pk] = demanded(store, "t", "k")
    with store.begin() as tx:
        [case] = tx.trajectories.cases([trajectory])
        tx.demands.withdraw([demand.pk for demand in case.demands], reason="cancelled")
        tx.checks.withdraw([pk])
    assert attempts(store, pk) == ()


def test_people_have_no_worker(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k", tier=Tier.LAB, external=True))
    [one] = claim(store, tier=Tier.LAB)
    with store.begin() as tx:
        assert tx.checks.wait_external("w", one.pk, one.fence)
    [waiting] = attempts(store, ref.pk)
    assert (waiting.end, waiting.worker) == (None, None)
    with store.begin() as tx:
        tx.checks.finish_external(
            ref.pk, CheckState.SUCCEEDED, evidence=evidence("k"), cost=Cost(human_s=60.0)
        )
    [shown] = attempts(store, ref.pk)
    assert (shown.number, shown.end, shown.worker, shown.host) == (1, AttemptEnd.SUCCEEDED, None, None)


def test_the_host_of_a_lost_worker_is_what_it_said_of_itself(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    card = WorkerCard(id="w", host="vm-9", pid=1, tier=Tier.FAST, resources=Offer(cpus=1.0, memory_mb=100))
    with store.begin() as tx:
        tx.workers.beat([(card, Counts())])
    one_claim(store)
    assert attempts(store, ref.pk)[0].host == "vm-9", "while it runs"
    expire_leases(store)
    with store.begin() as tx:
        tx.checks.reap(10)
    assert attempts(store, ref.pk)[0].host == "vm-9"


def test_what_was_judged_before_it_was_stored_has_its_attempt_and_no_row(store: SqlStore) -> None:
    prepare(store)
    end = Completion(
        pk=0,
        fence=1,
        state=CheckState.SUCCEEDED,
        evidence=evidence("k"),
        cost=Cost(cpu_s=2.0),
        credits=0.5,
    )
    [ref] = ensure(store, check("k", ended=end))
    [shown] = attempts(store, ref.pk)
    assert (shown.number, shown.end, shown.cpu_s, shown.credits) == (1, AttemptEnd.SUCCEEDED, 2.0, 0.5)
    assert shown.claimed_at is None
    assert shown.ended_at is not None
    assert rows(store) == 0


def rows(store: SqlStore) -> int:
    with store.read() as tx:
        return int(tx._database.connection.execute(text("SELECT count(*) FROM attempts")).scalar_one())


def test_no_attempt_is_accounted_twice_whoever_writes(store: SqlStore) -> None:
    prepare(store)
    [ref] = ensure(store, check("k"))
    complete(store, success(one_claim(store), ran=RAN))
    again = (
        "INSERT INTO attempts (check_pk, fence, queued_at, ended_at, ended_as, credits)"
        " SELECT check_pk, fence, queued_at, ended_at, ended_as, credits FROM attempts"
    )
    with pytest.raises(IntegrityError):
        alter(store, again)
    assert len(attempts(store, ref.pk)) == 1


def test_attempts_go_with_their_check(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    complete(store, success(one_claim(store), ran=RAN))
    assert rows(store) == 1
    alter(store, "DELETE FROM checks")
    assert rows(store) == 0


def test_where_a_queued_check_stands(store: SqlStore) -> None:
    prepare(store)
    refs = ensure(store, *(check(f"k{index}") for index in range(3)), check("best", priority=1.0))
    ensure(store, check("elsewhere", tier=Tier.SIMULATION, priority=9.0))
    ahead = {ref.key: history(store, ref.pk).ahead for ref in refs}
    place = {key: ahead[key] for key in ("best", "k0", "k1", "k2")}
    assert place == {"best": 0, "k0": 1, "k1": 2, "k2": 3}
    claim(store, 2)
    assert [history(store, ref.pk).ahead for ref in refs] == [None, 0, 1, None]


def test_histories_of_nothing(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    with store.read() as tx:
        assert tx.checks.histories([]) == {}
        assert tx.checks.histories([10**9]) == {}
