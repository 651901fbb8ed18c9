"""From submission to reward through real children and a real database, one step at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdkit import Chem

from tests.support.story import LADDER, PROJECT, Story, story
from tiers.harness import ProcessHarness
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.execution import Released
from verifier_service.domain.reviews import ClaimRequest, ReviewDecision, ReviewMeasurement
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import MET_FINAL, MET_NOTHING
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Turn
from verifier_service.services import desk

TURN = {
    "message": "look it up",
    "calls": [{"id": "c1", "name": "f", "arguments": "{}"}],
    "observations": [{"call": "c1", "text": "ok"}],
}


def test_it_climbs_to_the_truth_and_waits_for_people(told: Story) -> None:
    told.submit(
        "r", {"id": "good", "answer": "CCCCCCCCCC", "turns": [TURN]}, {"id": "poor", "answer": "CC"}
    )
    told.rest()
    good, poor = told.latest("r", "good"), told.latest("r", "poor")
    assert (good.outcome, good.reward, good.process, good.tier) == (1.0, 1.2, (1.0,), Tier.HIGH_FIDELITY)
    assert good.status is RewardStatus.PROVISIONAL, "a person is still asked"
    assert (poor.outcome, poor.status, poor.tier) == (0.2, RewardStatus.FINAL, Tier.HIGH_FIDELITY)
    assert [record.revision for record in told.feed("r") if record.trajectory == "good"] == [1, 2, 3]
    assert told.standing("r", "good").met == Tier.HIGH_FIDELITY.rank
    assert told.standing("r", "poor").met == MET_FINAL


def test_one_molecule_in_many_spellings_is_verified_and_charged_once(told: Story) -> None:
    molecule = Chem.MolFromSmiles("CC(O)c1ccncc1")
    spellings = {Chem.MolToSmiles(molecule, doRandom=True) for _ in range(200)}
    ten = sorted(spellings)[:10]
    for run in ("r1", "r2"):
        told.submit(run, *({"id": f"t{index}", "answer": ten[index % 10]} for index in range(20)))
    told.rest()
    succeeded: dict[Tier, int] = {}
    with told.service.store.read() as tx:
        pks = [
            row.pk
            for run in ("r1", "r2")
            for row in tx.trajectories.find(PROJECT, run, [f"t{index}" for index in range(20)]).values()
        ]
        cases = tx.trajectories.cases(pks)
    checks = {d.check.pk: d.check for case in cases for d in case.demands if d.check is not None}
    for check in checks.values():
        succeeded[check.tier] = succeeded.get(check.tier, 0) + 1
    assert len({check.key for check in checks.values()}) == len(checks), "one check per key"
    assert succeeded[Tier.SIMULATION] == succeeded[Tier.HIGH_FIDELITY] == 1
    assert succeeded[Tier.FAST] == 10 + 1, "identify once per spelling, validity once"
    spent = sum(account.spent for run in ("r1", "r2") for account in told.run(run).accounts)
    assert spent == pytest.approx(sum(check.credits for check in checks.values()))
    rewards = {told.latest(run, f"t{index}").reward for run in ("r1", "r2") for index in range(20)}
    assert len(rewards) == 1


def test_repeats_conflicts_and_counted_content(told: Story) -> None:
    batch = [{"id": "a", "answer": "CCO"}, {"id": "b", "answer": "CCN"}]
    assert [r.status for r in told.submit("r", *batch).results] == ["accepted", "accepted"]
    told.rest()
    records = len(told.feed("r"))
    assert [r.status for r in told.submit("r", *batch).results] == ["duplicate", "duplicate"]
    assert [r.status for r in told.submit("r", {"id": "a", "answer": "CCC"}).results] == ["conflict"]
    told.rest()
    assert len(told.feed("r")) == records
    same = {"answer": "CCCC"}
    first, second = told.submit("r", same, same).results
    assert first.id == second.id
    assert told.standing("r", str(first.id)).multiplicity == 2
    told.submit("r", same)
    assert told.standing("r", str(first.id)).multiplicity == 3


def test_a_failed_verification_is_null_and_the_next_tier_is_tried(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCO", "problem": {"inputs": {"fail": "permanent"}}})
    told.rest()
    record = told.latest("r", "t")
    assert (record.status, record.reward) == (RewardStatus.UNSCORED, None)
    assert record.reason is not None
    assert (record.reason.code, record.reason.detail) == (RewardCode.UNVERIFIABLE, "test_failure")
    assert told.standing("r", "t").met == MET_FINAL


def test_a_retryable_failure_is_tried_again_and_then_given_up(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCO", "problem": {"inputs": {"fail": "transient"}}})
    told.until(lambda: told.standing("r", "t").met == MET_FINAL)
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t").pk])
    attempts = {d.tier: d.check.attempt for d in case.demands if d.check is not None and d.check.failure}
    assert attempts == {Tier.SIMULATION: 2, Tier.HIGH_FIDELITY: 2}
    reason = told.latest("r", "t").reason
    assert reason is not None
    assert reason.code is RewardCode.INFRASTRUCTURE


def test_the_budget_is_never_overspent_and_everyone_gets_a_turn(told: Story) -> None:
    # One measurement reserves 20 s = 2.8e-4 credits and costs far less: three fit at a time.
    told.put_run("r", compute=1e-3)
    names = [f"t{index}" for index in range(8)]
    told.submit("r", *({"id": name, "answer": "C" * (at + 2)} for at, name in enumerate(names)))
    told.until(lambda: all(told.standing("r", name).met >= Tier.HIGH_FIDELITY.rank for name in names), 60)
    [compute, _] = told.run("r").accounts
    assert compute.reserved == 0.0
    assert 0.0 < compute.spent <= 1e-3
    assert all(told.latest("r", name).reward is not None for name in names)


def test_a_reservation_in_flight_does_not_exhaust_the_budget_of_others(told: Story) -> None:
    # Less than the time limit of one dear check reserves (2.8e-4), far more than all of this costs.
    told.put_run("r", compute=2.7e-4)
    told.submit("r", {"id": "first", "answer": "CCCC"})
    told.fast()
    told.sweep.tick()
    told.workers[1].drain_once()
    told.sweep.tick()
    taken = told.service.take(Tier.HIGH_FIDELITY, 1, "embedded/other")
    assert taken.jobs, "the first one holds its reservation"
    told.submit("r", {"id": "second", "answer": "CCCCC"})
    told.fast()
    assert told.standing("r", "second").status is None, "it waits"
    told.service.report("embedded/other", taken, [Released(id=taken.jobs[0].id, note="closing")])
    told.until(lambda: told.standing("r", "second").met == MET_FINAL)
    assert told.latest("r", "second").reward is not None


def test_growing_reopens_a_wait_that_was_met(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": None, "turns": [TURN], "finished": False})
    told.rest()
    assert told.standing("r", "t").met == MET_FINAL
    turn = Turn.model_validate_json('{"message": "and then"}')
    told.service.grow(PROJECT, "r", "t", index=1, turns=[turn], answer=None, finished=False)
    assert told.standing("r", "t").met == MET_NOTHING
    told.rest()
    assert told.standing("r", "t").met == MET_FINAL


def test_no_budget_at_all_is_unscored_budget_exhausted(told: Story) -> None:
    told.put_run("r", compute=0.0)
    told.submit("r", {"id": "t", "answer": "CCO"})
    told.rest()
    record = told.latest("r", "t")
    assert record.reason is not None
    assert (record.reward, record.reason.code) == (None, RewardCode.BUDGET_EXHAUSTED)


def claimed(told: Story, reviewer: str = "ann") -> str:
    with told.service.store.begin() as tx:
        review = desk.claim_review(tx, PROJECT, ClaimRequest(reviewer=reviewer, queue="chemists"))
    assert review is not None
    return review.id


def voted(told: Story, review: str, decision: ReviewDecision) -> None:
    with told.service.store.begin() as tx:
        desk.decide_review(tx, PROJECT, review, decision, grace_s=0.0)
    told.rest()


def test_a_reviewer_who_rejects_sets_the_floor_with_the_reason(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCCCCCCCC"})
    told.rest()
    voted(told, claimed(told), ReviewDecision(reviewer="ann", verdict="reject", reason="cannot be made"))
    record = told.latest("r", "t")
    assert (record.reward, record.status, record.tier) == (0.0, RewardStatus.FINAL, Tier.LAB)
    assert record.reason is not None
    assert record.reason.message == "cannot be made"
    human = next(account for account in told.run("r").accounts if account.kind == "human")
    assert human.spent > 0
    assert human.reserved == 0


def test_a_reviewer_who_measures_replaces_the_value(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCCCCCCCC"})
    told.rest()
    measured = ReviewMeasurement(quantity="carbons@test", value=4.0, unit="1")
    voted(told, claimed(told), ReviewDecision(reviewer="ann", verdict="accept", measurements=(measured,)))
    record = told.latest("r", "t")
    assert (record.outcome, record.status, record.tier) == (0.4, RewardStatus.FINAL, Tier.LAB)


def test_nobody_answers_until_the_deadline_and_the_lower_tier_stands(
    tmp_path: Path, children: ProcessHarness, store_url: str
) -> None:
    with story(tmp_path, children, database_url=store_url) as told:
        told.put_ladder(LADDER | {"deadline_s": 0.5})
        told.submit("r", {"id": "t", "answer": "CCCCCCCCCC"})
        told.until(lambda: told.standing("r", "t").met == MET_FINAL)
        record = told.latest("r", "t")
        assert (record.outcome, record.status, record.tier) == (1.0, RewardStatus.FINAL, Tier.HIGH_FIDELITY)
        human = next(account for account in told.run("r").accounts if account.kind == "human")
        assert (human.spent, human.reserved) == (0.0, 0.0)


def test_close_finalises_at_the_best_tier_or_leaves_unscored(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCCCCCCCC"})
    told.submit("r", {"id": "bad", "answer": "CCO", "problem": {"inputs": {"fail": "permanent"}}})
    told.rest()
    assert told.latest("r", "t").status is RewardStatus.PROVISIONAL
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    assert (told.latest("r", "t").outcome, told.latest("r", "t").status) == (1.0, RewardStatus.FINAL)
    assert told.latest("r", "bad").reward is None
    with told.service.store.read() as tx:
        assert not desk.listed(tx, PROJECT, queue=None, state="open", limit=10)


def test_cancel_is_unscored_and_frees_what_it_held(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCCCCCCCC"})
    told.rest()
    told.service.cancel(PROJECT, "r", "t")
    record = told.latest("r", "t")
    assert record.reason is not None
    assert (record.reward, record.reason.code) == (None, RewardCode.CANCELLED)
    assert all(account.reserved == 0.0 for account in told.run("r").accounts)


def test_turns_arrive_one_by_one_and_earn_process_rewards(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": None, "turns": [TURN], "finished": False})
    told.rest()
    record = told.latest("r", "t")
    assert (record.status, record.process) == (RewardStatus.UNSCORED, (1.0,))
    broken = Turn.model_validate_json(
        '{"calls":[{"id":"c2","name":"f","arguments":"{"}],"observations":[{"call":"c2","text":"x"}]}'
    )
    for _ in range(2):
        told.service.grow(PROJECT, "r", "t", index=1, turns=[broken], answer="CCCC", finished=True)
    told.rest()
    record = told.latest("r", "t")
    assert record.outcome == 0.4
    assert record.process[0] == 1.0
    assert record.process[1] is not None
    assert record.process[1] < 1.0
    assert {hint.kind for hint in record.hints} >= {"invalid_json"}


def test_a_judging_ladder_ends_at_the_fast_tier_and_a_bad_task_is_null(told: Story) -> None:
    told.put_ladder(
        {
            "name": "judged",
            "candidate": {"kind": "text", "format": "text", "from": "answer"},
            "outcome": {"use": "test.judge"},
            "truth": "fast",
            "tiers": {"fast": [{"use": "test.judge"}]},
        }
    )
    told.submit(
        "r",
        {"id": "right", "ladder": "judged", "answer": "42", "problem": {"reference": {"value": "42"}}},
        {"id": "wrong", "ladder": "judged", "answer": "41", "problem": {"reference": {"value": "42"}}},
        {"id": "task", "ladder": "judged", "answer": "41"},
    )
    told.rest()
    assert (told.latest("r", "right").reward, told.latest("r", "right").status) == (1.0, RewardStatus.FINAL)
    assert (told.latest("r", "wrong").reward, told.latest("r", "wrong").status) == (0.0, RewardStatus.FINAL)
    reason = told.latest("r", "task").reason
    assert told.latest("r", "task").reward is None
    assert reason is not None
    assert (reason.code, reason.detail) == (RewardCode.TASK_ERROR, "bad_reference")
