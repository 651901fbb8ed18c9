"""Edges of the story that would lose work, invent a number, or blame the wrong cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.story import LADDER, PROJECT, Story, claim, story
from tiers.harness import ProcessHarness
from verifier_service.domain.errors import Conflict
from verifier_service.domain.evidence import Failure, Finding, Measurement, Tier, Verdict
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.ports.execution import Done, Released
from verifier_service.domain.pricing import QUICK_MOST_S
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.domain.rewards import RewardCode, RewardReason
from verifier_service.domain.runs import Budgets, RunSpec, RunState
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.trajectories import Turn
from verifier_service.services import advantages, desk

TURN = {"message": "look", "calls": [], "observations": []}
GOOD = "CCCCCCCCCC"
GOLD = {"reference": {"smiles": "CCO"}}


def reason(told: Story, trajectory: str, run: str = "r") -> RewardReason:
    found = told.latest(run, trajectory).reason
    assert found is not None
    return found


def sql(told: Story, statement: str, **values: Any) -> None:
    with told.service.store.begin() as tx:
        tx._database.connection.execute(text(statement), values)  # type: ignore[attr-defined]


def test_a_ladder_whose_verifier_is_gone_fails_its_own_cases_only(
    tmp_path: Path, children: ProcessHarness, store_url: str
) -> None:
    with story(tmp_path, children, database_url=store_url) as before:
        before.put_ladder(
            {
                "name": "judged",
                "candidate": {"kind": "text", "format": "text", "from": "answer"},
                "outcome": {"use": "test.judge"},
                "truth": "fast",
                "tiers": {"fast": [{"use": "test.judge"}]},
            }
        )
        before.submit("r", {"id": "climbing", "answer": "CCO"})
        before.submit("r", {"id": "judged", "ladder": "judged", "answer": "x"})
    with story(tmp_path, children, ladder=None, database_url=store_url, plugins=()) as after:
        after.put_ladder(
            {
                "name": "identity",
                "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
                "outcome": {"use": "molecule.identity"},
                "truth": "fast",
                "tiers": {"fast": [{"use": "molecule.identity"}]},
            }
        )
        problem = {"reference": {"smiles": "CCO"}}
        after.submit("r", {"id": "fine", "ladder": "identity", "answer": "OCC", "problem": problem})
        refused = after.submit("r", {"id": "late", "ladder": "judged", "answer": "x"}).results[0]
        after.until(
            lambda: all(after.standing("r", n).met == MET_FINAL for n in ("climbing", "judged", "fine"))
        )
        assert after.latest("r", "fine").reward == 1.0
        assert after.latest("r", "climbing").reward is None
        assert after.latest("r", "judged").reward is None
        assert reason(after, "judged").code is RewardCode.INFRASTRUCTURE
        assert refused.status == "invalid"
        after.service.close_run(PROJECT, "r")
        after.until(lambda: after.run("r").state is RunState.CLOSED)


def test_an_operators_ladder_survives_a_restart(
    tmp_path: Path, children: ProcessHarness, store_url: str
) -> None:
    with story(tmp_path, children, database_url=store_url) as before, before.service.store.read() as tx:
        shipped = tx.ladders.latest(PROJECT, "organic-gap")
    assert shipped is not None
    changed = shipped.spec.model_copy(update={"deadline_s": 99.0})
    with story(tmp_path, children, database_url=store_url) as before:
        before.put_ladder(changed.model_dump(mode="json", by_alias=True))
    with story(tmp_path, children, database_url=store_url) as after, after.service.store.read() as tx:
        latest = tx.ladders.latest(PROJECT, "organic-gap")
    assert latest is not None
    assert (latest.version, latest.spec.deadline_s) == (2, 99.0)
    assert isinstance(latest.spec, LadderSpec)


def test_a_closed_run_takes_nothing(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": None, "turns": [TURN], "finished": False})
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    with pytest.raises(Conflict, match="closed"):
        told.service.grow(PROJECT, "r", "t", index=1, turns=[], answer="CCO", finished=True)
    with pytest.raises(Conflict, match="closed"):
        told.submit("r", {"id": "u", "answer": "CCO"})
    assert (reason(told, "t").code, reason(told, "t").detail) == (RewardCode.CANCELLED, "run_closed")


def test_a_retry_after_the_close_is_a_duplicate(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CC"})
    told.rest()
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    results = told.submit("r", {"id": "t", "answer": "CC"}, {"id": "new", "answer": "CC"}).results
    assert [result.status for result in results] == ["duplicate", "conflict"]
    assert isinstance(results[1].error, Conflict)
    assert results[1].error.code == "run_closed"


def test_a_close_says_what_it_cut_short(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCO"})
    told.fast()
    told.sweep.tick()
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state is RunState.CLOSED)
    assert (reason(told, "t").code, reason(told, "t").detail) == (RewardCode.CANCELLED, "run_closed")


def test_an_answer_without_turns_is_kept_and_a_retry_changes_nothing(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": None, "turns": [TURN], "finished": False})
    grown = [
        told.service.grow(PROJECT, "r", "t", index=1, turns=[], answer=answer, finished=finished).changed
        for answer, finished in (("CCCC", False), (None, True), (None, True), ("CCCC", True))
    ]
    assert grown == [True, True, False, False]
    told.rest()
    assert told.latest("r", "t").outcome == 0.4
    with pytest.raises(Conflict, match="finished"):
        told.service.grow(PROJECT, "r", "t", index=1, turns=[], answer="N", finished=True)


def test_a_cancelled_trajectory_says_so_when_it_should_grow(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": None, "turns": [TURN], "finished": False})
    told.service.cancel(PROJECT, "r", "t")
    turn = Turn.model_validate_json('{"message": "more"}')
    with pytest.raises(Conflict, match="cancelled"):
        told.service.grow(PROJECT, "r", "t", index=1, turns=[turn], answer=None, finished=False)


def test_a_sleep_does_not_burn_attempts(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCO"})
    taken = told.service.take(Tier.FAST, 10, "embedded/asleep")
    assert taken.jobs
    told.sweep.tick()
    hour = 3600.0
    sql(told, "UPDATE checks SET lease_until = lease_until - :s WHERE state = 'running'", s=hour)
    assert told.sweep._seen_at is not None
    told.sweep._seen_at -= hour  # the database clock went on while this process did not
    told.sweep._slow_due = 0.0
    told.sweep.tick()
    told.service.beat("embedded/asleep", taken)
    told.sweep._slow_due = 0.0
    told.sweep.tick()
    assert told.service.unwanted(taken) == set(), "the lease is still ours"


def test_a_group_with_an_unfinished_member_is_not_complete(told: Story) -> None:
    group = {"group": "g", "group_size": 2}
    told.submit("r", {"id": "a", "answer": "CC", **group})
    told.submit("r", {"id": "b", "answer": None, "turns": [TURN], "finished": False, **group})
    told.rest()
    with told.service.store.read() as tx:
        found = advantages.group_advantages(tx, PROJECT, "r", "g", estimator="grpo", ddof=0)
    assert (found.complete, found.valid, found.expected) == (False, 1, 2)


def test_the_policy_counts_what_it_has_asked_for(told: Story) -> None:
    # The quote of one simulation is 1.4e-5 credits: two and a half of them.
    told.put_run("r", compute=3.5e-5)
    names = [f"t{index}" for index in range(6)]
    told.submit("r", *({"id": name, "answer": "C" * (at + 2)} for at, name in enumerate(names)))
    told.until(lambda: all(told.standing("r", name).status is not None for name in names), 60)
    for _ in range(4):
        told.sweep._slow_due = 0.0
        told.sweep.tick()
    assert _asked(told) <= 2


def _asked(told: Story) -> int:
    with told.service.store.read() as tx:
        return sum(n for (tier, _), n in tx.checks.live().items() if tier is Tier.SIMULATION)


def test_keys_cannot_be_used_to_guess_a_reference(tmp_path: Path, children: ProcessHarness) -> None:
    keys = []
    for name in ("one", "two"):
        with story(tmp_path / name, children) as made:
            made.submit("r", {"id": "t", "ladder": "molecule-identity", "answer": "CCO", "problem": GOLD})
            made.rest()
            keys.append(set(made.latest("r", "t").evidence))
    assert keys[0]
    assert keys[0].isdisjoint(keys[1]), "the same question has another key in another installation"


def test_cancelled_work_is_paid_for(told: Story) -> None:
    told.put_run("r", compute=1.0)
    told.submit("r", {"id": "t", "answer": "CCCC"})
    told.fast()
    told.sweep.tick()
    taken = told.service.take(Tier.SIMULATION, 1, "embedded/test")
    before = told.run("r").accounts[0].spent
    told.service.cancel(PROJECT, "r", "t")
    assert told.service.unwanted(taken) == {taken.jobs[0].id}
    stopped = Released(id=taken.jobs[0].id, note="cancelled", cost=_cpu(3600.0))
    told.service.report("embedded/test", taken, [stopped])
    [compute, _] = told.run("r").accounts
    assert (compute.spent - before, compute.reserved) == (pytest.approx(0.05), 0.0)
    told.service.report("embedded/test", taken, [])
    assert told.latest("r", "t").reward is None


def test_a_budget_that_is_raised_brings_back_what_it_could_not_pay(told: Story) -> None:
    told.put_run("r", compute=0.0)
    told.submit("r", {"id": "t", "answer": "CCCC"})
    told.rest()
    assert reason(told, "t").code is RewardCode.BUDGET_EXHAUSTED
    told.service.put_run(PROJECT, "r", RunSpec(budgets=Budgets(compute=100.0)))
    told.until(lambda: told.standing("r", "t").met == MET_FINAL)
    assert told.latest("r", "t").outcome == 0.4


def test_two_checks_on_a_budget_for_one_take_turns(told: Story) -> None:
    # What a quick check reserves and a bit: the second must not be cut to that bit.
    one = told.service.tariff.credits(_cpu(QUICK_MOST_S))
    told.put_run("r", compute=1.05 * one)
    told.submit("r", {"id": "a", "answer": "CCO"}, {"id": "b", "answer": "CCN"})
    taken = told.service.take(Tier.FAST, 10, "embedded/test")
    assert len(taken.jobs) == 1
    assert not taken.cut
    told.service.report("embedded/test", taken, [Released(id=taken.jobs[0].id, note="closing")])


def test_a_small_budget_keeps_no_check_waiting_for_another(told: Story) -> None:
    """A budget of one time limit pays for a batch: who runs reserves what it may take, not its limit."""
    info = told.service.catalog.verifier("molecule.identify")
    told.put_run("r", compute=told.service.tariff.credits(_cpu(info.limits.time_s)))
    assert info.limits.time_s >= 8 * QUICK_MOST_S
    told.submit("r", *({"id": f"t{at}", "answer": "C" * (at + 1)} for at in range(8)))
    assert len(told.service.take(Tier.FAST, 64, "embedded/test").jobs) >= 8


def _cpu(seconds: float) -> Any:
    from verifier_service.domain.evidence import Cost

    return Cost(cpu_s=seconds)


def test_a_verdict_belongs_to_its_task(told: Story) -> None:
    told.put_ladder(LADDER | {"name": "other"})
    told.submit("r", {"id": "a", "answer": GOOD, "problem": {"prompt": "long chains, please"}})
    told.rest()
    review = claim(told)
    with told.service.store.begin() as tx:
        vote = ReviewDecision(reviewer="ann", verdict="reject", reason="too long for this task")
        desk.decide_review(tx, PROJECT, review, vote, 0.0)
    told.rest()
    assert told.latest("r", "a").reward == 0.0
    told.submit("r", {"id": "b", "answer": GOOD, "problem": {"prompt": "something else"}})
    told.submit("r", {"id": "c", "answer": GOOD, "ladder": "other"})
    told.rest()
    assert [told.latest("r", name).outcome for name in "bc"] == [1.0, 1.0]
    with told.service.store.read() as tx:
        assert len(desk.listed(tx, PROJECT, queue=None, state="open", limit=10)) == 2


def test_arithmetic_that_overflows_is_no_number_and_stops_nobody(told: Story) -> None:
    told.put_ladder(LADDER | {"name": "wild"})
    told.submit("r", {"id": "t", "answer": GOOD, "ladder": "wild"}, {"id": "u", "answer": "CCCC"})
    told.fast()
    taken = told.service.take(Tier.SIMULATION, 10, "embedded/test")
    assert not taken.jobs
    told.sweep.tick()
    taken = told.service.take(Tier.SIMULATION, 10, "embedded/test")
    wild = Measurement(quantity="carbons@test", value=1e300, unit="1", sigma=1e300)
    results = [
        Done(
            id=job.id,
            outcome=Finding(verdict=Verdict.INCONCLUSIVE, measurements=(wild,)),
            cost=_cpu(0.1),
            wall_s=0.1,
            libraries={},
            version="1",
        )
        for job in taken.jobs
    ]
    told.service.report("embedded/test", taken, results)
    assert told.latest("r", "t").reward is None
    told.rest()
    assert told.latest("r", "u").outcome == 0.4


def test_a_check_queued_before_an_upgrade_is_asked_again_under_the_new_key(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCC"})
    sql(told, "UPDATE checks SET method = 'of yesterday' WHERE state = 'queued'")
    sql(told, "UPDATE checks SET key = key || '-old' WHERE state = 'queued'")
    told.until(lambda: told.standing("r", "t").met == MET_FINAL)
    assert told.latest("r", "t").outcome == 0.4
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t").pk])
    assert "method_changed" in {demand.reason for demand in case.demands}


def test_a_broken_gate_above_the_fast_tier_buys_nothing_dearer(told: Story) -> None:
    gated = {**LADDER["tiers"], "simulation": [{"use": "test.rough", "gate": "hard"}]}
    told.put_ladder(LADDER | {"tiers": gated})
    told.submit("r", {"id": "t", "answer": "CCCC", "problem": {"inputs": {"fail": "permanent"}}})
    told.rest()
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t").pk])
    assert Tier.HIGH_FIDELITY not in {demand.tier for demand in case.demands}
    assert told.latest("r", "t").reward is None


def test_a_process_check_that_cannot_run_stops_the_buying(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": "CCCC", "turns": [TURN]})
    taken = told.service.take(Tier.FAST, 10, "embedded/test")
    broken = Failure(kind="permanent", code="verifier_error", message="broken")
    results = [
        Done(id=job.id, outcome=broken, cost=_cpu(0.0), wall_s=0.0, libraries={}, version="1")
        if job.verifier.startswith("turns.")
        else Released(id=job.id, note="closing")
        for job in taken.jobs
    ]
    told.service.report("embedded/test", taken, results)
    told.rest()
    assert (told.latest("r", "t").reward, reason(told, "t").detail) == (None, "verifier_error")
    assert told.standing("r", "t").met == MET_FINAL
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t").pk])
    assert {demand.tier for demand in case.demands} == {Tier.FAST}


def test_runs_with_held_work_take_turns(told: Story) -> None:
    places = [("p", f"r{index}") for index in range(150)]
    seen = {place for _ in range(3) for place in told.sweep._in_turn(places)}
    assert seen == set(places)


def test_two_services_on_one_database_leave_each_others_work(told: Story) -> None:
    from verifier_service.worker.supervisor import installation

    elsewhere = replace(
        told.service, settings=told.service.settings.model_copy(update={"data": Path("/elsewhere")})
    )
    assert installation(told.service) != installation(elsewhere)
