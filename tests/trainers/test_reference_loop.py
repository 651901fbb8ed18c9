"""The reference loop with torch: what its losses do with missing rewards; each algorithm on a service."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples.train import lessons, plot, service
from examples.train.lessons import BEGIN_ID, distilling, learning_from_mistakes
from examples.train.loop import Plan, Point, Rewarder, train
from examples.train.objectives import Learner, Tuning
from examples.train.policy import MAX_TOKENS, Batch, Policy, Vocabulary, molecules, padded, pretrained
from examples.train.quality import Judge
from examples.train.run import main
from examples.train.service import Service
from examples.train.teacher import MODEL, completion, serving
from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.domain.states import RewardStatus
from verifier_service.trainers.teachers import Continuation, Teacher, Teachers, TeacherScore

SERVER_PYTHON = os.environ.get("VERIFIER_SERVER_PYTHON", sys.executable)
LINES = molecules(Path(service.__file__).with_name("molecules.smi"))
SAMPLES = 12

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def start() -> Policy:
    return pretrained(LINES, seed=0, epochs=6)


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service.running(SERVER_PYTHON) as one:
        yield one


@pytest.fixture
def learner(start: Policy) -> Learner:
    return Learner(copy.deepcopy(start), start, Tuning())


@pytest.fixture
def batch(start: Policy) -> Batch:
    return start.sample(SAMPLES, torch.Generator().manual_seed(5))


def record(place: int, reward: float | None) -> RewardRecord:
    reason = RewardReason(code=RewardCode.UNVERIFIABLE) if reward is None else None
    return RewardRecord(
        seq=place + 1,
        run="r",
        trajectory=f"t{place}",
        ladder="l",
        ladder_version=1,
        revision=1,
        status=RewardStatus.UNSCORED if reward is None else RewardStatus.FINAL,
        reward=reward,
        outcome=reward,
        reason=reason,
        issued_at=datetime.now(UTC),
    )


def weights(policy: Policy) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])


def shortened(batch: Batch, count: int) -> Batch:
    return Batch.joined(batch.rows()[:count])


def test_a_policy_learns_to_write_molecules(start: Policy) -> None:
    batch = start.sample(200, torch.Generator().manual_seed(1))
    assert len(set(batch.texts) & set(LINES)) > 40
    assert len(set(batch.texts)) > 150
    assert torch.allclose(batch.logprobs[batch.mask], start.logprobs(batch.tokens)[batch.mask], atol=1e-4)
    assert batch.tokens.shape == (200, MAX_TOKENS)


def test_a_sequence_is_written_and_read_alike() -> None:
    vocabulary = Vocabulary.of(LINES)
    for line in LINES:
        assert vocabulary.decode(vocabulary.encode(line)) == line


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_batch_without_any_reward_teaches_nothing(learner: Learner, batch: Batch, algorithm: str) -> None:
    before = weights(learner.policy)
    for records in ([None] * SAMPLES, [record(place, None) for place in range(SAMPLES)]):
        assert getattr(learner, algorithm)(batch, records) == 0
    assert torch.equal(weights(learner.policy), before)


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_samples_without_a_reward_change_nothing(start: Policy, batch: Batch, algorithm: str) -> None:
    """Half of the batch is unscored: the policy ends where it would without that half."""
    half = SAMPLES // 2
    scored = [record(place, place / half) for place in range(half)]
    with_them, without = (Learner(copy.deepcopy(start), start, Tuning()) for _ in range(2))
    unscored = [record(place, None) if place % 2 else None for place in range(half, SAMPLES)]
    assert getattr(with_them, algorithm)(batch, [*scored, *unscored]) == half
    assert getattr(without, algorithm)(shortened(batch, half), scored) == half
    assert torch.allclose(weights(with_them.policy), weights(without.policy), atol=1e-5)
    assert not torch.equal(weights(without.policy), weights(start))


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_what_is_rewarded_becomes_likelier(learner: Learner, batch: Batch, algorithm: str) -> None:
    rewards = [1.0 if place < 3 else 0.0 for place in range(SAMPLES)]
    for _ in range(10):
        getattr(learner, algorithm)(batch, [record(place, reward) for place, reward in enumerate(rewards)])
    now = (learner.policy.logprobs(batch.tokens) * batch.mask).sum(dim=1)
    gained = (now - batch.logprobs.sum(dim=1)).detach()
    assert gained[:3].mean() > 0 > gained[3:].mean()


def test_equal_rewards_teach_nothing(learner: Learner, batch: Batch) -> None:
    assert learner.grpo(batch, [record(place, 0.5) for place in range(SAMPLES)]) == 0


def test_a_hint_changes_what_is_likely_only_after_it(learner: Learner) -> None:
    row = learner.policy.vocabulary.encode("C=CC=O")
    hint = learner.policy.vocabulary.hint("gap_too_high")
    tokens, mask = padded([row])
    before = learner.policy.logprobs(tokens, [[hint]]).sum()
    for _ in range(5):
        learner.imitated(tokens, mask, [[hint]])
    assert learner.policy.logprobs(tokens, [[hint]]).sum() > before
    assert learner.policy.vocabulary.hint("gap_too_high") == hint
    both = learner.policy.logprobs(tokens.repeat(2, 1), [[hint], []])
    assert torch.allclose(both[1], learner.policy.logprobs(tokens)[0], atol=1e-5)


def test_the_teacher_says_its_own_log_probabilities(start: Policy, batch: Batch) -> None:
    rows = [row[inside].tolist() for row, inside in zip(batch.tokens, batch.mask, strict=True)]

    async def asked(url: str) -> list[TeacherScore]:
        teacher = Teacher(url=url, model=MODEL, dialect="echo", extra={"return_tokens_as_token_ids": True})
        async with Teachers(teacher) as teachers:
            return await teachers.logprobs([Continuation([BEGIN_ID], row) for row in rows])

    with serving(start) as url:
        scores = asyncio.run(asked(url))
    for score, logprobs, inside in zip(scores, batch.logprobs, batch.mask, strict=True):
        assert score.logprobs is not None, score.failure
        np.testing.assert_allclose(score.logprobs, logprobs[inside].numpy(), atol=1e-4)


@pytest.mark.parametrize(
    "request_",
    [
        [],
        {},
        {"prompt": "CC"},
        {"prompt": [1]},
        {"prompt": [1] * 65},
        {"prompt": [2, 3]},
        {"prompt": [1, 999]},
    ],
)
def test_the_teacher_refuses_what_it_cannot_read(start: Policy, request_: Any) -> None:
    if isinstance(request_, dict):
        request_ = {"echo": True, "max_tokens": 0, **request_}
    with pytest.raises(ValueError, match="must"):
        completion(start, request_)


def test_distillation_moves_the_student_to_its_teacher(learner: Learner, start: Policy) -> None:
    teacher = copy.deepcopy(start)
    tokens, mask = padded([teacher.vocabulary.encode("C=CC=O")])
    taught = Learner(teacher, start, Tuning(learning_rate=3e-3))
    for _ in range(10):
        taught.imitated(tokens, mask, [[]])
    generator = torch.Generator().manual_seed(2)
    before = learner.policy.logprobs(tokens).sum().item()
    with serving(teacher) as url:
        step = distilling(learner, url, MODEL)
        for _ in range(15):
            batch = learner.policy.sample(24, generator)
            records = [record(place, 0.0) for place in range(24)]
            assert step(batch, records) == 24
        assert step(batch, [None] * 24) == 0
    assert learner.policy.logprobs(tokens).sum().item() > before + 0.5


def test_a_teacher_that_is_away_teaches_nothing(
    learner: Learner, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        lessons, "Teacher", lambda **given: Teacher(**{**given, "attempts": 1, "timeout_s": 2.0})
    )
    before = weights(learner.policy)
    step = distilling(learner, "http://127.0.0.1:9/v1", MODEL)
    assert step(batch, [record(place, 1.0) for place in range(SAMPLES)]) == 0
    assert torch.equal(weights(learner.policy), before)


def test_hindsight_learns_from_better_members(running: Service, start: Policy, learner: Learner) -> None:
    plan = Plan(condition="fast-only", algorithm="hindsight", seed=7)
    batch = start.sample(24, torch.Generator().manual_seed(3))
    with running.client() as client:
        client.put_run(plan.run, {})
        records = Rewarder(plan, running, client).records(0, batch)
        step = learning_from_mistakes(learner, client, plan.run, 7)
        taught = step(batch, records)
        hinted = [one for one in records if one is not None and one.hints and (one.reward or 0.0) < 0.5]
        assert taught >= 2 * len(hinted) > 0
        assert step(batch, records) == 0, "the export was read to its end"
    assert not torch.equal(weights(learner.policy), weights(start))
    assert {"gap_too_high"} <= set(learner.policy.vocabulary.hints)


def test_a_run_without_credits_is_masked_and_leaves_the_policy(
    running: Service, start: Policy, learner: Learner
) -> None:
    plan = Plan(condition="all-at-top", algorithm="grpo", seed=8, samples=SAMPLES)
    batch = start.sample(SAMPLES, torch.Generator().manual_seed(4))
    with running.client() as client:
        client.put_run(plan.run, RunSpec(budgets=Budgets(compute=0.0)))
        records = Rewarder(plan, running, client).records(0, batch)
    numbers = [one.reward for one in records if one is not None and one.reward is not None]
    assert not any(numbers), "only what is no molecule has a number, and it is 0"
    reasons = {one.reason.code for one in records if one is not None and one.reward is None and one.reason}
    assert RewardCode.BUDGET_EXHAUSTED in reasons
    before = weights(learner.policy)
    assert learner.grpo(batch, records) == 0
    assert torch.equal(weights(learner.policy), before)


@pytest.mark.parametrize("late", [False, True])
def test_the_ladder_trains(running: Service, start: Policy, late: bool) -> None:
    """Two updates of each kind: credits grow, quality is a mean utility, the policy moved."""
    plan = Plan(
        condition="ladder",
        algorithm="grpo",
        seed=20 + late,
        steps=2,
        every=1,
        samples=SAMPLES,
        judged=SAMPLES,
        late=late,
    )
    kept: list[Policy] = []
    points: list[Point] = list(train(plan, start, running, Judge(running), finished=kept.append))
    assert [point.step for point in points] == [0, 1, 2]
    assert all(0.0 <= point.quality <= 1.0 for point in points)
    assert points[0].credits == 0.0 < points[1].credits <= points[2].credits
    assert not torch.equal(weights(kept[0]), weights(start))


def test_late_rewards_are_learned_from_when_they_come(running: Service, start: Policy) -> None:
    plan = Plan(condition="ladder", algorithm="grpo", seed=30, late=True, samples=SAMPLES)
    first, second = (start.sample(SAMPLES, torch.Generator().manual_seed(seed)) for seed in (6, 7))
    with running.client() as client:
        client.put_run(plan.run, {})
        rewarder = Rewarder(plan, running, client)
        early = rewarder.records(0, first)
        assert any(one is not None and one.status is RewardStatus.PROVISIONAL for one in early)
        assert rewarder.revised(0, first, early) is not None
        waiting = Rewarder(replace(plan, late=False), running, client)
        records = waiting.records(1, second)
        found = rewarder.revised(1, second, records)
        assert found is not None
        joined, advantages = found
    assert len(joined) == len(advantages) > SAMPLES / 2
    assert set(joined.texts) & set(first.texts), "a late reward brings its older sample back"


@pytest.mark.parametrize("algorithm", ["ppo", "distill", "hindsight"])
def test_the_command(tmp_path: Path, algorithm: str, running: Service) -> None:
    given = ["--condition", "fast-only", "--steps", "3", "--samples", "8", "--teacher-steps", "3"]
    given += [
        "--epochs",
        "6",
        "--judged",
        "8",
        "--results",
        str(tmp_path),
        "--url",
        running.url,
        "--key",
        running.key,
        "--quiet",
    ]
    seed = random.Random(algorithm).randint(100, 10_000)
    assert main([*given, "--algorithm", algorithm, "--first-seed", str(seed)]) == 0
    written = json.loads((tmp_path / f"{algorithm}-fast-only-{seed}.json").read_text())
    assert [point["step"] for point in written["points"]] == [0, 3]
    assert written["plan"]["algorithm"] == algorithm


def test_late_rewards_are_for_grpo(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--late", "--algorithm", "ppo"])
    assert "--late works with" in capsys.readouterr().err


def test_credits_at_which_a_curve_passes() -> None:
    curve = [(0.0, 0.1, 0), (10.0, 0.3, 3), (20.0, 0.2, 6), (30.0, 0.6, 9)]
    assert plot.passes(curve, 0.2) == pytest.approx(5.0)
    assert plot.passes(curve, 0.4) == pytest.approx(25.0)
    assert plot.passes(curve, 0.6) is None
    assert plot.plateau([curve, [(0.0, 0.3, 0), (1.0, 0.5, 3), (2.0, 0.0, 6), (3.0, 0.0, 9)]]) == 0.4


def test_the_docs_show_the_results_that_are_kept(tmp_path: Path) -> None:
    docs = (service.ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    found = plot.curves(plot.HERE / "results", "grpo")
    for line in plot.table(found, plot.plateau(found["fast-only"]))[2:]:
        assert line in docs
    plot.main(["--picture", str(tmp_path / "again.png")])
    assert (tmp_path / "again.png").stat().st_size > 10_000
    for condition in ("all-at-top", "ladder"):
        assert len(found[condition]) == 5
        assert all(run[-1][1] > run[0][1] + 0.3 for run in found[condition]), "better in every seed"
