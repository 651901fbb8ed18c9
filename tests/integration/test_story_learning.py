"""The service learns from what it buys: models, audits, the log, and what they tell."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduler.escalation import ROUND
from tests.support import noisy
from tests.support.noisy_story import PLUGINS
from tests.support.noisy_story import children as noisy_children
from tests.support.retracting import retract
from tests.support.story import PROJECT, Story
from tiers.harness import ProcessHarness
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import LadderKey
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Horizon
from verifier_service.domain.states import RewardStatus
from verifier_service.services import insight

KEY = LadderKey(PROJECT, "noisy", 1)
TRUTH_CREDITS = 0.03 * 0.05 / 3600  # of one exact value: 30 ms of CPU time
HORIZON = 960
BUDGET = 0.3 * HORIZON * TRUTH_CREDITS


@pytest.fixture(scope="module")
def children() -> Iterator[ProcessHarness]:
    with noisy_children() as harness:
        yield harness


@pytest.fixture
def told(tmp_path: Path, children: ProcessHarness) -> Iterator[Story]:
    made = Story(tmp_path, children, noisy.LADDER, plugins=PLUGINS)
    yield made
    made.close()


def items(n: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "id": f"t{at}",
            "group": f"g{at // 8}",
            "ladder": "noisy",
            "answer": f"{rng.random():.4f} {rng.random():.4f}",
        }
        for at in range(n)
    ]


def play(told: Story, run: str, batch: list[dict[str, Any]], each: int = 24) -> dict[str, RewardRecord]:
    for start in range(0, len(batch), each):
        told.submit(run, *batch[start : start + each])
        told.rest(400)
        told.sweep._learner._rests.clear()
        told.sweep._learner._fitted_at.clear()
    # What cannot be reserved beside what is running waits a moment.
    told.until(lambda: {record.trajectory for record in told.feed(run)} == {item["id"] for item in batch})
    return {record.trajectory: record for record in told.feed(run)}


def truths(batch: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    return np.array([noisy.exact(item["answer"]) / 10 for item in batch])


def log(told: Story, run: str) -> list[tuple[Any, ...]]:
    with told.service.store.read() as tx:
        lines, _ = tx.decisions.page(PROJECT, run, 0, 100_000)
    measured = {"at", "cost", "reason"}  # what depends on the clock
    return [tuple(value for name, value in line if name not in measured) for line in lines]


def test_it_learns_from_one_run_and_knows_in_the_next(told: Story) -> None:
    play(told, "first", items(48))
    with told.service.store.read() as tx:
        model = tx.models.current(KEY)
    assert model is not None
    assert model.labels >= 20
    new = items(24, seed=2)
    told.submit("second", *new)
    told.fast()
    records = {record.trajectory: record for record in told.feed("second")}
    assert {str(record.status) for record in records.values()} == {"provisional"}
    assert {record.tier for record in records.values()} == {Tier.FAST}
    believed = np.array([records[item["id"]].reward for item in new])
    assert np.corrcoef(believed, truths(new))[0, 1] > 0.9


def test_a_budget_buys_less_than_everything_and_more_than_the_cheap_tier_knows(told: Story) -> None:
    batch = items(96)
    told.put_run("r", compute=BUDGET, horizon=Horizon(trajectories=HORIZON))
    records = play(told, "r", batch)
    [compute, _] = told.run("r").accounts
    assert 0 < compute.spent <= BUDGET * (96 + ROUND) / HORIZON * 1.5
    tiers = Counter(record.tier for record in records.values())
    assert 0 < tiers[Tier.HIGH_FIDELITY] < 70
    rewards = np.array([records[item["id"]].reward for item in batch], dtype=np.float64)
    rough = np.array([noisy.rough(item["answer"]) for item in batch])

    def centred(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        groups = values.reshape(-1, 8)
        return (groups - groups.mean(axis=1, keepdims=True)).ravel()

    ours = np.corrcoef(centred(rewards), centred(truths(batch)))[0, 1]
    theirs = np.corrcoef(centred(rough), centred(truths(batch)))[0, 1]
    assert ours > theirs + 0.05


def test_the_same_story_is_decided_the_same(tmp_path: Path, children: ProcessHarness) -> None:
    logs = []
    for name in ("one", "two"):
        made = Story(tmp_path / name, children, noisy.LADDER, plugins=PLUGINS)
        made.put_run("r", compute=1.0, horizon=Horizon(trajectories=1_000), audit_share=0.2)
        play(made, "r", items(48))
        logs.append(log(made, "r"))
        made.close()
    assert logs[0] == logs[1]
    assert len(logs[0]) > 48


def test_audits_give_every_record_its_propensity_and_an_unbiased_reward(told: Story) -> None:
    batch = items(96)
    told.put_run("r", compute=1.0, horizon=Horizon(trajectories=10**9), audit_share=0.3)
    records = play(told, "r", batch)
    assert all(
        record.propensity is not None and 0.02 <= record.propensity <= 1 for record in records.values()
    )
    audited = [record for record in records.values() if record.audited]
    assert 10 <= len(audited) <= 48
    assert all(record.tier is Tier.HIGH_FIDELITY for record in audited)
    robust = [record.reward_dr for record in records.values() if record.reward_dr is not None]
    assert len(robust) > 40
    assert np.mean(robust) == pytest.approx(truths(batch).mean(), abs=0.1)
    for record in audited:
        if record.reward_dr is not None:
            assert record.reward is not None
            assert record.reward_dr != record.reward


def test_without_an_audit_nothing_is_invented(told: Story) -> None:
    records = play(told, "r", items(8))
    assert {(one.propensity, one.audited, one.reward_dr) for one in records.values()} == {
        (None, False, None)
    }


def test_every_decision_is_in_the_log_and_adds_up(told: Story) -> None:
    batch = items(48)
    told.put_run("r", compute=1.0, audit_share=0.2)
    play(told, "r", batch)
    with told.service.store.read() as tx:
        lines, last = tx.decisions.page(PROJECT, "r", 0, 20)
        rest, _ = tx.decisions.page(PROJECT, "r", last or 0, 100_000)
        shown = insight.run_economics(tx, PROJECT, "r")
        figures = insight.run_calibration(tx, told.service.beliefs, PROJECT, "r")
        rested = tx.decisions.rested(PROJECT, "r", 100)
        asked = tx.trajectories.find(PROJECT, "r", ["t0"])["t0"]
        mine = tx.decisions.of_trajectory(asked.pk)
    every = [*lines, *rest]
    requests = [line for line in every if line.action == "request"]
    assert {line.trajectory for line in every} == {item["id"] for item in batch}
    assert sum(tier.requests for tier in shown.tiers) == len(requests)
    assert shown.candidates == 48
    assert shown.prices[-1].quoted == pytest.approx(sum(line.cost for line in requests))
    assert {one.tier for one in shown.alternatives} >= {Tier.HIGH_FIDELITY}
    assert [line.code for line in mine]
    assert all(line.draw is not None for line in every if line.audited)
    drawn = {line.trajectory: line for line in every if line.propensity is not None}
    assert len(rested) == len(drawn) > 40
    sent = [line for line in drawn.values() if line.audited or line.propensity == 1.0]
    assert sum(one.reached for one in rested) == len(sent) > 0
    assert all((one.found is not None) == one.reached for one in rested)
    assert figures.pay_and_merit is not None
    assert (figures.pay_and_merit.candidates, figures.pay_and_merit.truths) == (len(rested), len(sent))
    pairs = {(pair.level, pair.truth): pair for pair in figures.pairs}
    assert pairs
    for pair in pairs.values():
        assert pair.truth is Tier.HIGH_FIDELITY
        assert sum(part.n for part in pair.reliability) == pair.n
    simulated = pairs.get((Tier.SIMULATION, Tier.HIGH_FIDELITY))
    assert simulated is None or simulated.verifier == "noisy.rough"


def test_a_better_model_tells_what_it_moved_and_nothing_else(told: Story) -> None:
    """A provisional reward of the rough value alone is revised when truths show its bias."""
    told.put_run("waits", compute=4.5e-7)
    batch = items(8, seed=4)
    told.submit("waits", *batch)
    told.rest(100)
    before = {record.trajectory: record for record in told.feed("waits") if record.reward is not None}
    play(told, "teaches", items(48))
    told.sweep._learner._moved_at.clear()
    told.rest(100)
    after = {record.trajectory: record for record in told.feed("waits") if record.reward is not None}
    moved = [name for name, record in before.items() if after[name].seq != record.seq]
    assert moved
    for name in moved:
        old, new = before[name], after[name]
        assert old.reward is not None
        assert new.reward is not None
        if new.status is RewardStatus.PROVISIONAL and new.evidence == old.evidence:
            assert abs(new.reward - old.reward) > 0.02


def test_a_policy_that_games_the_features_is_noticed_and_believed_less(told: Story) -> None:
    play(told, "teaches", items(64))
    told.put_run("r", audit_share=1.0)
    honest = [{**item, "id": f"h{at}"} for at, item in enumerate(items(100, seed=3))]
    play(told, "r", honest, each=50)
    with told.service.store.begin() as tx:  # a chance alarm is no part of this
        for alarm in tx.alarms.of_project(PROJECT, 10):
            insight.clear_alarm(tx, PROJECT, alarm.id)
    gamed = [
        {**item, "id": f"g{at}", "answer": item["answer"] + " gamed"}
        for at, item in enumerate(items(80, seed=4))
    ]
    before = len(log(told, "r"))
    told.submit("r", *gamed)
    told.rest(400)
    with told.service.store.read() as tx:
        alarms = [one for one in tx.alarms.of_project(PROJECT, 10) if one.cleared_at is None]
        model = tx.models.current(KEY)
    assert len(log(told, "r")) > before
    assert alarms
    assert {alarm.stratum.partition("|")[0] for alarm in alarms} <= {"fast", "simulation"}
    assert all(alarm.statistic > alarm.threshold for alarm in alarms)
    assert model is not None
    assert '"widen":{"' in model.body, "what rests on that level is believed less"
    with told.service.store.begin() as tx:
        for alarm in alarms:
            cleared = insight.clear_alarm(tx, PROJECT, alarm.id)
            assert cleared is not None
            assert cleared.cleared_at is not None
            assert insight.clear_alarm(tx, PROJECT, alarm.id) is None
    assert told.service.learn(KEY)
    with told.service.store.read() as tx:
        assert '"widen":{}' in (tx.models.current(KEY) or model).body


def test_what_was_learned_from_a_verifier_that_was_wrong_is_forgotten(told: Story) -> None:
    play(told, "first", items(48))
    with told.service.store.read() as tx:
        before = tx.models.current(KEY)
    assert before is not None
    told.service.close_run(PROJECT, "first")
    told.rest(40)
    retract(told, verifier="noisy.exact")
    told.sweep._learner._rests.clear()
    told.sweep._learner._fitted_at.clear()
    told.rest(40)
    with told.service.store.read() as tx:
        after = tx.models.current(KEY)
    assert after is not None
    assert (after.number, after.labels) == (before.number + 1, 0)
    told.submit("second", *items(8, seed=2))
    told.fast()
    assert all(record.reward is None for record in told.feed("second")), "features alone say nothing now"


def test_what_is_known_of_a_candidate_costs_nothing_more(told: Story) -> None:
    """Another trajectory, in another run, with the same candidate: its truth is quoted at nothing."""
    first, other = ({**item, "group": None} for item in items(2))
    told.submit("before", first)
    told.rest(60)
    assert told.latest("before", first["id"]).tier is Tier.HIGH_FIDELITY
    told.put_run("r", compute=30 * TRUTH_CREDITS)
    again = first | {"id": "again", "problem": {"prompt": "the same in other words"}}
    told.submit("r", again, other)
    told.rest(60)
    for name, free in (("again", True), (other["id"], False)):
        assert told.latest("r", name).tier is Tier.HIGH_FIDELITY
        assert (told.latest("r", name).credits < 0.1 * TRUTH_CREDITS) is free
        with told.service.store.read() as tx:
            lines = tx.decisions.of_trajectory(told.standing("r", name).pk)
        assert {line.cost == 0.0 for line in lines if line.action == "request"} == {free}
    assert told.latest("r", "again").reward == told.latest("before", first["id"]).reward


def test_a_prediction_is_no_score_for_what_could_not_be_measured(told: Story) -> None:
    """Features alone say something of the candidate until a measurement was tried and failed."""
    play(told, "first", items(48))
    [item] = items(1, seed=7)
    told.put_run("second", audit_share=1.0)
    told.submit("second", item | {"problem": {"prompt": "x", "inputs": {"fail": "permanent"}}})
    told.fast()
    assert told.latest("second", item["id"]).reward is not None
    told.rest(60)
    record = told.latest("second", item["id"])
    assert (record.reward, record.outcome, str(record.status)) == (None, None, "unscored")
    assert record.reason is not None
    assert record.reason.detail == "test_failure"
