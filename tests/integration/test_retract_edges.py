"""Retractions where runs have ended, work is under way, processes die and people have spoken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_retract_story import ALONE, EXACT
from tests.support.outbox import parcels, pk_of, register
from tests.support.retracting import (
    answered,
    asked,
    begin,
    case,
    charged,
    check_at,
    demands,
    found,
    retract,
    spent,
    spoil,
    work_off,
)
from tests.support.story import PROJECT, Story, claim
from tiers.harness import ProcessHarness
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.retractions import REVERIFIED, Retraction, RetractionState
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk
from verifier_service.services import retract as steps
from verifier_service.services.purge import begin_purge, purge_step

GOOD = "CCCCCCCCCC"


def close(told: Story, *runs: str) -> None:
    for run in runs:
        told.service.close_run(PROJECT, run)
    told.until(lambda: all(told.run(run).state is RunState.CLOSED for run in runs))


def climb(told: Story, *runs: str, answer: str = "CCCC", **item: Any) -> None:
    for run in runs:
        told.submit(run, {"id": "t", "answer": answer} | item)
        told.rest()


def test_a_closed_run_ends_at_its_best_remaining_tier_or_without_a_number(told: Story) -> None:
    climb(told, "measured")
    told.put_ladder(ALONE | {"name": "alone"})
    climb(told, "alone", ladder="alone")
    close(told, "measured", "alone")
    done = retract(told, verifier="test.exact", reverify=True)
    assert (done.trajectories, done.records, done.runs) == (2, 2, 2)
    told.rest()
    rough, nothing = told.latest("measured", "t"), told.latest("alone", "t")
    assert (rough.status, rough.tier) == (RewardStatus.FINAL, Tier.SIMULATION)
    assert (nothing.status, nothing.reward) == (RewardStatus.RETRACTED, None)
    assert nothing.reason is not None
    assert (nothing.reason.detail, nothing.reason.retryable) == (None, False)
    for run in ("measured", "alone"):
        assert len(demands(told, run, "t", EXACT)) == 1, "nothing is verified in it any more"
        assert told.standing(run, "t").met == MET_FINAL
        assert told.run(run).state is RunState.CLOSED
        assert told.feed(run)[-1] == told.latest(run, "t")


def test_endpoints_are_told_also_of_a_closed_run(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r")
    close(told, "r")
    store = told.service.store
    assert isinstance(store, SqlStore)
    hook = register(store, PROJECT, statuses=("retracted",))
    pk = pk_of(store, hook, PROJECT)
    assert parcels(store, pk) == []
    retract(told, verifier="test.exact")
    [parcel] = parcels(store, pk)
    assert parcel.body is not None
    event = json.loads(parcel.body)
    assert event["type"] == "reward.retracted"
    assert (event["data"]["trajectory"], event["data"]["reward"]) == ("t", None)


def test_a_purged_run_is_not_touched(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r1", "r2")
    close(told, "r1")
    with told.service.store.begin() as tx:
        begin_purge(tx, PROJECT, "r1")
        assert steps.extent(tx, told.service.catalog, PROJECT, asked(verifier="test.exact")).runs == 1
    done = begin(told, verifier="test.exact")
    with told.service.store.begin() as tx:
        while not purge_step(tx, PROJECT, "r1"):
            continue
    done = work_off(told, done)
    assert (done.trajectories, done.records) == (1, 1)
    assert told.latest("r2", "t").status is RewardStatus.RETRACTED


def test_what_runs_is_stopped_and_asked_anew(told: Story) -> None:
    told.put_ladder(ALONE)
    told.submit("r", {"id": "t", "answer": "CCCC"})
    for _ in range(4):
        told.fast()
        told.sweep.tick()
    taken = told.service.take(Tier.HIGH_FIDELITY, 1, "old worker")
    [running] = taken.claims.values()
    with told.service.store.read() as tx:
        dry = steps.extent(tx, told.service.catalog, PROJECT, asked(verifier="test.exact"))
    assert (dry.checks, dry.stopped) == (0, 1)
    done = retract(told, verifier="test.exact")
    assert (done.checks, done.stopped, done.trajectories) == (0, 1, 0)
    old, new = demands(told, "r", "t", EXACT)
    assert old.check is not None
    assert new.check is not None
    assert (old.state, old.reason, old.check.state) == (
        DemandState.WITHDRAWN,
        REVERIFIED,
        CheckState.CANCELLED,
    )
    assert (new.state, new.check.key) == (DemandState.REQUESTED, running.key)
    results = told.service.harness().run(list(taken.jobs), lambda: ())
    told.service.report("old worker", taken, list(results))
    assert case(told, "r", "t").rung_evidence()[-1].path != EXACT, "what it found is discarded"
    told.rest()
    assert told.latest("r", "t").reward == 0.4
    assert check_at(told, "r", "t", EXACT).pk == new.check.pk
    assert spent(told, "r") == pytest.approx(charged(told))


def test_killed_between_any_two_steps_it_goes_on(
    tmp_path: Path, told: Story, children: ProcessHarness, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "CASES_PER_STEP", 1)
    monkeypatch.setattr(steps, "CHECKS_PER_STEP", 2)
    told.put_ladder(ALONE)
    names = [f"t{n}" for n in range(4)]
    for run in ("r1", "r2"):
        told.submit(run, *({"id": name, "answer": "C" * (n + 2)} for n, name in enumerate(names)))
        told.rest()
    before = {run: len(told.feed(run)) for run in ("r1", "r2")}
    retraction = begin(told, verifier="test.exact")
    seen = []
    for n in range(100):
        other = Story(tmp_path / str(n), children, None, database_url=store_url)
        more = other.service.retract_step(PROJECT, retraction.id)
        seen.append(found(other, retraction.id))
        other.close()
        if not more:
            break
    done = found(told, retraction.id)
    assert (done.state, done.checks, done.trajectories, done.done, done.records) == (
        RetractionState.DONE,
        4,
        8,
        8,
        8,
    )
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    for run in ("r1", "r2"):
        new = told.feed(run)[before[run] :]
        assert sorted(record.trajectory for record in new) == names, "one record for each"
        assert {record.status for record in new} == {RewardStatus.RETRACTED}


def test_a_step_that_dies_has_not_happened(told: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    told.put_ladder(ALONE)
    climb(told, "r1", "r2")
    retraction = begin(told, verifier="test.exact")
    while found(told, retraction.id).state is RetractionState.MARKING:
        told.service.retract_step(PROJECT, retraction.id)
    before = told.feed("r1")

    def dies(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(steps, "note_records", dies)
        with pytest.raises(MemoryError):
            told.service.retract_step(PROJECT, retraction.id)
    assert told.feed("r1") == before
    assert demands(told, "r1", "t", EXACT)[0].state is DemandState.SATISFIED
    done = work_off(told, retraction)
    assert (done.done, done.records) == (2, 2)


def reverified(told: Story, one: Retraction) -> Retraction:
    return told.service.unit(lambda tx: steps.reverify(tx, PROJECT, one.id))


def counts(one: Retraction) -> tuple[int, int, int]:
    return one.checks, one.trajectories, one.runs


@pytest.mark.parametrize(
    "wanted",
    [
        {"verifier": "test.exact"},
        {"verifier": "test.exact", "version": "1"},
        {"verifier": "test.rough", "params": {"sigma": 2.0}},
        {"verifier": "test.rough", "params": {"sigma": 3.0}},
        {"verifier": "test.exact", "version": "9"},
        {"verifier": "test.exact", "until": "2020-01-01T00:00:00Z"},
        {"verifier": "test.exact", "since": "2020-01-01T00:00:00+01:00", "reverify": True},
        {"verifier": "molecule.validity"},
    ],
)
def test_a_dry_run_counts_what_is_done(told: Story, wanted: dict[str, Any]) -> None:
    climb(told, "r1", "r2")
    told.submit("r2", {"id": "u", "answer": "CCCCC"})
    told.rest()
    dry = answered(told, **wanted, dry_run=True)
    assert (dry.retraction, dry.created) == (None, False)
    assert dry.extent is not None
    with told.service.store.read() as tx:
        assert tx.retractions.listed(PROJECT, 10) == []
    done = retract(told, **wanted)
    assert counts(done) == (dry.extent.checks, dry.extent.trajectories, dry.extent.runs)
    assert done.done == done.trajectories
    empty = wanted.get("version") == "9" or "until" in wanted or wanted.get("params") == {"sigma": 3.0}
    assert (done.checks, done.trajectories, done.runs) == ((0, 0, 0) if empty else (2, 3, 2))


def test_the_same_again_does_nothing_more(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r")
    first = retract(told, verifier="test.exact", reverify=True)
    told.rest()
    records = told.feed("r")
    answer = answered(told, verifier="test.exact", reverify=True)
    assert (answer.created, answer.retraction) == (False, first)
    told.rest()
    assert told.feed("r") == records
    with pytest.raises(Conflict, match="something else"):
        begin(told, verifier="test.rough", id=first.id)
    more = retract(told, verifier="test.exact", id="what-came-since")
    assert (more.checks, more.records) == (1, 1)
    third = retract(told, verifier="test.exact", id="nothing-came-since")
    assert (third.checks, third.records) == (0, 0)


def test_keys_that_are_not_there_are_named(told: Story) -> None:
    climb(told, "r")
    with pytest.raises(NotFound, match="no check 'abc'"):
        begin(told, checks=[check_at(told, "r", "t", EXACT).key, "abc"])


def test_a_verdict_of_people_is_asked_for_again(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": GOOD})
    told.rest()
    review = claim(told)
    decision = ReviewDecision(reviewer="ann", verdict="reject", reason="explosive", human_s=60.0)
    with told.service.store.begin() as tx:
        desk.decide_review(tx, PROJECT, review, decision, 0.0)
    told.rest()
    assert (told.latest("r", "t").outcome, told.latest("r", "t").tier) == (0.0, Tier.LAB)
    paid = spent(told, "r", kind="human")
    done = retract(told, checks=[check_at(told, "r", "t", "lab/0").key], reverify=True)
    assert (done.checks, done.records) == (1, 1)
    record = told.latest("r", "t")
    assert (record.status, record.outcome, record.tier) == (
        RewardStatus.PROVISIONAL,
        1.0,
        Tier.HIGH_FIDELITY,
    )
    told.rest()
    again = claim(told, "bob")
    assert again != review
    with told.service.store.begin() as tx:
        assert tx.reviews.get(PROJECT, again).deadline is not None
        desk.decide_review(
            tx, PROJECT, again, ReviewDecision(reviewer="bob", verdict="accept", human_s=60.0), 0.0
        )
    told.rest()
    record = told.latest("r", "t")
    assert (record.status, record.outcome, record.tier) == (RewardStatus.FINAL, 1.0, Tier.LAB)
    assert spent(told, "r", kind="human") == pytest.approx(2 * paid)


def test_what_the_budget_cannot_verify_again_says_so(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r")
    told.put_run("r", compute=spent(told, "r"))
    retract(told, verifier="test.exact", reverify=True)
    told.rest()
    record = told.latest("r", "t")
    assert (record.status, record.reward) == (RewardStatus.RETRACTED, None)
    assert record.reason is not None
    assert record.reason.code is RewardCode.RETRACTED
    assert all(account.reserved == 0.0 for account in told.run("r").accounts)
    assert spent(told, "r") == pytest.approx(charged(told))
    told.put_run("r", compute=100.0)
    told.rest()
    assert told.latest("r", "t").reward == 0.4


@pytest.mark.parametrize("verifier", ["test.exact", "molecule.validity", "molecule.identify"])
def test_what_was_only_taken_back_is_asked_for_after_all(told: Story, verifier: str) -> None:
    told.put_ladder(ALONE)
    climb(told, "r", "closed")
    close(told, "closed")
    retraction = retract(told, verifier=verifier)
    for run in ("r", "closed"):
        assert told.latest(run, "t").status is RewardStatus.RETRACTED
    told.sweep._slow_due = 1e12
    again = reverified(told, retraction)
    assert (again.state, again.reverify, again.trajectories, again.done) == (
        RetractionState.SUPERSEDING,
        True,
        1,
        0,
    )
    done = work_off(told, again)
    assert (done.state, done.done, done.runs) == (RetractionState.DONE, 1, 1)
    assert reverified(told, retraction) == done
    reason = told.latest("r", "t").reason
    assert reason is not None
    assert reason.detail == "reverifying"
    told.rest()
    assert (told.latest("r", "t").outcome, told.latest("r", "t").status) == (0.4, RewardStatus.FINAL)
    assert told.latest("closed", "t").status is RewardStatus.RETRACTED
    assert spent(told, "r", "closed") == pytest.approx(charged(told))


def test_another_candidate_than_was_thought(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r1")
    spoil(told, "molecule.identify", "CCCC", "CCCCCCC")
    climb(told, "r2")
    assert told.latest("r2", "t").outcome == pytest.approx(0.7)
    done = retract(told, verifier="molecule.identify", reverify=True)
    assert done.trajectories == 2
    for run in ("r1", "r2"):
        assert told.latest(run, "t").status is RewardStatus.RETRACTED
    told.rest()
    for run in ("r1", "r2"):
        record = told.latest(run, "t")
        assert (record.outcome, record.status) == (0.4, RewardStatus.FINAL)
        assert told.standing(run, "t").canonical == "CCCC"


def test_a_run_that_closes_meanwhile_is_finished(told: Story) -> None:
    told.put_ladder(ALONE)
    climb(told, "r")
    retract(told, verifier="test.exact", reverify=True)
    assert demands(told, "r", "t", EXACT)[-1].state is DemandState.REQUESTED
    told.service.close_run(PROJECT, "r")
    told.sweep._slow_due = 0.0
    told.sweep.tick()
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    record = told.latest("r", "t")
    assert (record.status, told.standing("r", "t").met) == (RewardStatus.RETRACTED, MET_FINAL)
    assert check_at(told, "r", "t", EXACT).state is CheckState.CANCELLED
