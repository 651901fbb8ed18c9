"""A verifier has a new build: what its older ones found is verified anew, and counts until then."""

from __future__ import annotations

import pytest

from tests.integration.test_retract_story import ALONE, EXACT
from tests.support.retracting import (
    answered,
    begin,
    case,
    charged,
    check_at,
    demands,
    renew,
    retract,
    spent,
    spoil,
    work_off,
)
from tests.support.story import PROJECT, Story
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.retractions import KEPT, REVERIFIED, RetractionState
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import CheckState, DemandState, RewardStatus

REPLACE = {"verifier": "test.exact", "reverify": True, "keep": True}


def climbed(told: Story, *runs: str) -> None:
    """A final record in each run on a value that is wrong."""
    told.submit("first", {"id": "x", "answer": "CCCC"})
    told.rest()
    spoil(told, "test.exact", '"value":4.0', '"value":9.0')
    for run in runs:
        told.submit(run, {"id": "t", "answer": "CCCC"})
        told.rest()
        assert (told.latest(run, "t").reward, told.latest(run, "t").status) == (0.9, RewardStatus.FINAL)


def test_the_old_record_stands_until_the_new_evidence_is_there(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r1", "r2")
    renew(told, "test.exact")
    before = {run: told.feed(run) for run in ("r1", "r2")}
    dry = answered(told, **REPLACE, dry_run=True)
    done = retract(told, **REPLACE)
    assert dry.extent is not None
    assert (dry.extent.trajectories, dry.extent.runs) == (done.trajectories, done.runs) == (3, 3)
    for run in ("r1", "r2"):
        assert told.feed(run) == before[run]
        old, new = demands(told, run, "t", EXACT)
        assert (old.state, old.reason) == (DemandState.WITHDRAWN, KEPT)
        assert old.check is not None
        assert new.check is not None
        assert old.check.retracted is None
        assert new.state is DemandState.REQUESTED
        assert new.check.key != old.check.key
        assert new.quote > 0.0
    told.rest()
    for run in ("r1", "r2"):
        [record] = told.feed(run)[len(before[run]) :]
        assert (record.reward, record.status, record.supersedes) == (
            0.4,
            RewardStatus.FINAL,
            before[run][-1].seq,
        )
        assert record.evidence != before[run][-1].evidence
        assert len(record.measurements) == 1, "the old one counts no more"
    assert spent(told, "first", "r1", "r2") == pytest.approx(charged(told))
    assert retract(told, **REPLACE, id="again").trajectories == 0


def test_what_the_new_build_cannot_verify_stands(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r")
    before = told.feed("r")
    renew(told, "test.exact")
    told.put_run("first", compute=spent(told, "first"))
    told.put_run("r", compute=spent(told, "r"))
    retract(told, **REPLACE)
    told.rest()
    assert told.feed("r") == before
    assert demands(told, "r", "t", EXACT)[-1].reason == "budget_exhausted"
    assert [one.path for one in case(told, "r", "t").rung_evidence()][-1] == EXACT


def test_gates_let_pass_meanwhile(told: Story) -> None:
    gate = {"fast": [{"use": "test.gate", "gate": "hard"}], "high_fidelity": [{"use": "test.exact"}]}
    told.put_ladder(ALONE | {"tiers": gate})
    told.submit("r", {"id": "t", "answer": "CCCC"})
    told.rest()
    renew(told, "test.gate")
    before = told.latest("r", "t")
    retract(told, verifier="test.gate", reverify=True, keep=True)
    found = case(told, "r", "t")
    assert found.passed(up_to=Tier.FAST)
    assert not found.gate_broken()
    told.rest()
    after = told.latest("r", "t")
    assert (after.reward, after.status, after.supersedes) == (0.4, RewardStatus.FINAL, before.seq)
    assert check_at(told, "r", "t", "fast/0").state is CheckState.SUCCEEDED
    assert [one.state for one in demands(told, "r", "t", EXACT)] == [DemandState.SATISFIED]


def test_closed_runs_stay_as_they_are(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r")
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    before = told.feed("r")
    renew(told, "test.exact")
    assert retract(told, **REPLACE).runs == 1
    told.rest()
    assert told.feed("r") == before
    assert [one.state for one in demands(told, "r", "t", EXACT)] == [DemandState.SATISFIED]


def test_what_is_kept_can_be_retracted_after_all(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r")
    renew(told, "test.exact")
    retract(told, **REPLACE)
    done = retract(told, verifier="test.exact", version="1", reverify=True)
    assert (done.checks, done.trajectories, done.done) == (1, 2, 2)
    record = told.latest("r", "t")
    assert record.status is RewardStatus.RETRACTED
    assert record.reason is not None
    assert record.reason.detail == "reverifying"
    assert demands(told, "r", "t", EXACT)[0].reason == REVERIFIED
    told.rest()
    assert told.latest("r", "t").reward == 0.4
    assert len(demands(told, "r", "t", EXACT)) == 2


def test_evidence_of_an_older_build_is_retracted_and_that_of_the_present_is_not(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r")
    renew(told, "test.exact")
    told.submit("new", {"id": "t", "answer": "CCCC"})
    told.rest()
    assert told.latest("new", "t").reward == 0.4
    old = demands(told, "r", "t", EXACT)[0]
    assert old.check is not None
    done = retract(told, verifier="test.exact", version="1", reverify=True, since="2020-01-01T00:00:00Z")
    assert (done.checks, done.trajectories) == (2, 3), "a version is all builds of it"
    told.rest()
    assert told.latest("r", "t").reward == told.latest("new", "t").reward == 0.4


def test_a_queued_check_of_an_older_build_is_asked_for_under_the_present_one(told: Story) -> None:
    told.put_ladder(ALONE)
    told.submit("r", {"id": "t", "answer": "CCCC"})
    for _ in range(4):
        told.fast()
        told.sweep.tick()
    old = check_at(told, "r", "t", EXACT)
    assert old.state is CheckState.QUEUED
    renew(told, "test.exact")
    done = retract(told, verifier="test.exact", version="1")
    assert (done.stopped, done.checks) == (1, 0)
    new = check_at(told, "r", "t", EXACT)
    assert (new.state, new.key == old.key) == (CheckState.QUEUED, False)
    told.rest()
    assert told.latest("r", "t").reward == 0.4


def test_an_installation_that_goes_back_to_the_old_build_comes_to_an_end(told: Story) -> None:
    told.put_ladder(ALONE)
    climbed(told, "r")
    present = told.service
    renew(told, "test.exact")
    retraction = begin(told, **REPLACE)
    told.service = present
    before = told.feed("r")
    done = work_off(told, retraction)
    assert (done.state, done.done, done.trajectories) == (RetractionState.DONE, 2, 2)
    assert [one.reason for one in demands(told, "r", "t", EXACT)][:-1] == [KEPT]
    told.sweep.tick()
    assert told.feed("r") == before


def test_nothing_is_replaced_by_what_is_not_here(told: Story) -> None:
    with pytest.raises(InvalidInput, match="not installed"):
        answered(told, verifier="test.nowhere", reverify=True, keep=True)
