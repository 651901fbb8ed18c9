"""A verifier was wrong: its evidence is taken back from everybody who had it. On both databases."""

from __future__ import annotations

import json

import pytest

from tests.support.retracting import (
    ADMIN,
    WRONG,
    charged,
    check_at,
    demands,
    retract,
    spent,
    spoil,
)
from tests.support.story import LADDER, PROJECT, Story
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.retractions import RETRACTED, REVERIFIED
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services import tenants

RUNS = ("r1", "r2", "r3")
EXACT = "high_fidelity/0"
# Nothing but the truth says anything about the outcome.
ALONE = LADDER | {
    "process": {"weight": 0.0, "checks": []},
    "tiers": {"fast": LADDER["tiers"]["fast"], "high_fidelity": LADDER["tiers"]["high_fidelity"]},
}


def everywhere(told: Story, answer: str = "CCCC") -> None:
    """The same molecule in three runs: the first pays, the others are given what it found."""
    for run in RUNS:
        told.submit(run, {"id": "t", "answer": answer}, {"id": "other", "answer": "CCCCCC"})
        told.rest()


def test_everybody_who_was_given_it_gets_one_record_without_it(told: Story) -> None:
    told.put_ladder(ALONE)
    everywhere(told)
    before = {run: told.latest(run, "t") for run in RUNS}
    key = check_at(told, "r1", "t", EXACT).key
    done = retract(told, checks=[key])
    assert (done.checks, done.trajectories, done.done, done.runs, done.records) == (1, 3, 3, 3, 3)
    for run in RUNS:
        record = told.latest(run, "t")
        assert (before[run].reward, before[run].status) == (0.4, RewardStatus.FINAL)
        assert (record.status, record.reward, record.outcome) == (RewardStatus.RETRACTED, None, None)
        assert (record.supersedes, record.revision) == (before[run].seq, before[run].revision + 1)
        assert record.evidence == tuple(one for one in before[run].evidence if one != key)
        assert record.measurements == ()
        assert record.reason is not None
        assert (record.reason.code, record.reason.detail) == (RewardCode.RETRACTED, None)
        assert WRONG in record.reason.message
        assert told.latest(run, "other").status is RewardStatus.FINAL
        assert [one.seq for one in told.feed(run)] == list(range(1, len(told.feed(run)) + 1))
        [demand] = demands(told, run, "t", EXACT)
        assert (demand.state, demand.reason) == (DemandState.WITHDRAWN, RETRACTED)
        assert demand.check is not None
        assert demand.check.evidence is not None
        assert demand.check.retracted is not None
        assert (demand.check.retracted.reason, demand.check.retracted.by.name) == (WRONG, ADMIN.name)


def test_it_is_never_served_again(told: Story) -> None:
    told.put_ladder(ALONE)
    everywhere(told)
    old = check_at(told, "r1", "t", EXACT)
    retract(told, checks=[old.key])
    told.submit("r4", {"id": "t", "answer": "CCCC"})
    told.rest()
    new = check_at(told, "r4", "t", EXACT)
    assert (new.key, new.state) == (old.key, CheckState.SUCCEEDED)
    assert new.pk != old.pk
    assert told.latest("r4", "t").reward == 0.4
    with told.service.store.read() as tx:
        served = tx.checks.found(PROJECT, [old.key])[old.key]
    assert served is not None
    assert served.pk == new.pk


def test_asked_again_once_for_all_and_paid_by_the_first(told: Story) -> None:
    told.put_ladder(ALONE)
    spoiled = "CCCC"
    told.submit("r1", {"id": "t", "answer": spoiled})
    told.rest()
    spoil(told, "test.exact", '"value":4.0', '"value":9.0')
    for run in RUNS[1:]:
        told.submit(run, {"id": "t", "answer": spoiled})
        told.rest()
        assert told.latest(run, "t").reward == 0.9
    before = {run: spent(told, run) for run in RUNS}
    done = retract(told, verifier="test.exact", reverify=True)
    assert (done.checks, done.trajectories, done.records) == (1, 3, 3)
    for run in RUNS:
        record = told.latest(run, "t")
        assert record.status is RewardStatus.RETRACTED
        assert record.reason is not None
        assert (record.reason.detail, record.reason.retryable) == ("reverifying", True)
        assert next(one.reason for one in demands(told, run, "t", EXACT)) == REVERIFIED
    told.rest()
    for run in RUNS:
        record = told.latest(run, "t")
        assert (record.reward, record.status, record.reason) == (0.4, RewardStatus.FINAL, None)
    news = {check_at(told, run, "t", EXACT).pk for run in RUNS}
    assert len(news) == 1
    assert check_at(told, "r1", "t", EXACT).payer == "r1"
    assert spent(told, "r1") > before["r1"]
    assert [spent(told, run) for run in RUNS[1:]] == [before[run] for run in RUNS[1:]]
    assert spent(told, *RUNS) == pytest.approx(charged(told))
    assert all(account.reserved == 0.0 for run in RUNS for account in told.run(run).accounts)


def test_another_project_is_left_alone(told: Story) -> None:
    spec = LadderSpec.model_validate_json(json.dumps(ALONE))
    with told.service.store.begin() as tx:
        for project in (PROJECT, "theirs"):
            tenants.create_project(tx, told.service.catalog, project)
            tenants.put_ladder(tx, told.service.catalog, project, spec)
    item = TrajectorySubmission(id="t", ladder="carbons", answer="CCCC")
    for project in (PROJECT, "theirs"):
        told.service.submit(project, "r", [item])
        told.rest()
    done = retract(told, verifier="test.exact")
    assert (done.checks, done.trajectories) == (1, 1)
    with told.service.store.read() as tx:
        theirs = tx.rewards.latest("theirs", "r", ["t"])["t"]
        assert theirs.status is RewardStatus.FINAL
        assert tx.retractions.listed("theirs", 10) == []
    assert told.latest("r", "t").status is RewardStatus.RETRACTED


def test_without_asking_again_the_best_remaining_evidence_speaks_and_the_policy_decides(
    told: Story,
) -> None:
    told.submit("r", {"id": "t", "answer": "CCCC"})
    told.rest()
    assert told.latest("r", "t").tier is Tier.HIGH_FIDELITY
    retract(told, verifier="test.exact")
    record = told.latest("r", "t")
    assert (record.status, record.tier) == (RewardStatus.PROVISIONAL, Tier.SIMULATION)
    assert record.variance is not None
    assert record.variance > 0.0
    assert told.standing("r", "t").needs_decision
    told.rest()
    assert told.latest("r", "t").tier is Tier.HIGH_FIDELITY
    assert len(demands(told, "r", "t", EXACT)) == 2


def test_a_gate_that_rejected_wrongly_lets_the_candidate_climb_again(told: Story) -> None:
    gate = {"fast": [{"use": "test.gate", "gate": "hard"}], "high_fidelity": [{"use": "test.exact"}]}
    told.put_ladder(ALONE | {"tiers": gate})
    told.submit("r1", {"id": "t", "answer": "CCCC"})
    told.rest()
    spoil(
        told,
        "test.gate",
        '"verdict":"accept","reason":null',
        '"verdict":"reject","reason":{"code":"n","message":"m"}',
    )
    told.submit("r2", {"id": "t", "answer": "CCCC"})
    told.rest()
    record = told.latest("r2", "t")
    assert (record.outcome, record.status) == (0.0, RewardStatus.FINAL)
    assert record.reason is not None
    assert record.reason.code is RewardCode.REJECTED
    retract(told, verifier="test.gate", reverify=True)
    assert told.latest("r2", "t").status is RewardStatus.RETRACTED
    told.rest()
    record = told.latest("r2", "t")
    assert (record.outcome, record.status, record.tier) == (0.4, RewardStatus.FINAL, Tier.HIGH_FIDELITY)
    assert told.latest("r1", "t").outcome == 0.4


def test_evidence_of_turns_is_judged_again(told: Story) -> None:
    turn = {
        "message": "look",
        "calls": [{"id": "c", "name": "f", "arguments": "{}"}],
        "observations": [{"call": "c", "text": "ok"}],
    }
    told.submit("r", {"id": "t", "answer": "CC", "turns": [turn]})
    told.rest()
    before = told.latest("r", "t")
    assert (before.reward, before.process) == (pytest.approx(0.4), (1.0,))
    retract(told, verifier="turns.errors", reverify=True)
    record = told.latest("r", "t")
    assert (record.status, record.reward) == (RewardStatus.RETRACTED, None)
    told.rest()
    record = told.latest("r", "t")
    assert (record.reward, record.process) == (pytest.approx(0.4), (1.0,))
    assert record.status is RewardStatus.FINAL
    retract(told, verifier="turns.errors", id="again")
    assert told.latest("r", "t").status is RewardStatus.RETRACTED
    told.rest()
    assert told.latest("r", "t").status is RewardStatus.RETRACTED, "nothing judges the turns"
