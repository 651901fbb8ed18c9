"""TRL's own trainers on CPU, scored by a service in trouble."""

from __future__ import annotations

import asyncio
import inspect
import math
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.async_grpo.async_rollout_worker import (
    RolloutGroup,
    TrainingSequence,
    _AsyncRolloutLoop,
)

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, free_port
from tests.trainers.tiny import NUMBERS, SILENT, policy, tokenizer
from verifier_service.client import NotAuthenticated
from verifier_service.trainers.trl import REASONS, reward_function, with_others

PER_STEP = 16
GROUP = 8
STEPS = 3
OUTAGE_S = 20.0
ARGUMENTS: dict[str, Any] = {
    "per_device_train_batch_size": PER_STEP,
    "num_generations": GROUP,
    "max_completion_length": 1,
    "max_steps": STEPS,
    "learning_rate": 1e-2,
    "beta": 0.0,
    "generation_kwargs": {"suppress_tokens": SILENT},
    "use_cpu": True,
    "bf16": False,
    "report_to": [],
    "logging_steps": 1,
    "save_strategy": "no",
    "disable_tqdm": True,
    "seed": 3,
}


@dataclass
class Batch:
    """What the trainer computed for one generation: completions, rewards (NaN: none), advantages."""

    completions: list[str]
    rewards: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)


class Recording:
    """Keeps what the trainer it is mixed into computes."""

    batches: list[Batch]

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, *rest: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, *rest)  # type: ignore[misc]
        self.batches.append(Batch([said(one) for one in completions], rewards[:, 0].tolist()))
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        self.batches[-1].advantages = output["advantages"].tolist()
        return output


class RecordingGRPO(Recording, GRPOTrainer):
    pass


class RecordingRLOO(Recording, RLOOTrainer):
    pass


KINDS = {"grpo": (RecordingGRPO, GRPOConfig), "rloo": (RecordingRLOO, RLOOConfig)}


class AfterStep(TrainerCallback):
    """Something happens after the first step."""

    def __init__(self, happens: Any) -> None:
        self.happens = happens

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 1:
            self.happens()


@dataclass
class Trained:
    """A training that ended."""

    batches: list[Batch]
    history: list[dict[str, float]]
    before: dict[str, torch.Tensor]
    after: dict[str, torch.Tensor]

    @property
    def moved(self) -> bool:
        """Whether any weight changed."""
        return any(not torch.equal(self.before[name], self.after[name]) for name in self.before)

    def logged(self, name: str) -> list[float]:
        """A metric, step by step."""
        return [entry[name] for entry in self.history if name in entry]


def said(completion: Any) -> str:
    """The text of a completion, plain or conversational."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def asking(trouble: Trouble, **changes: Any) -> Any:
    """The reward function as a user makes it, after the pickling that AsyncGRPO does."""
    options = {"run": fresh(), "ladder": "spoken", "url": trouble.url, "key": trouble.key, **changes}
    return pickle.loads(pickle.dumps(reward_function(**options)))


def train(
    reward: Any,
    folder: Path,
    *,
    acts: tuple[str, ...] = (OK, WRONG, FAILS),
    kind: str = "grpo",
    conversational: bool = False,
    then: Any = None,
) -> Trained:
    """Three optimiser steps of two groups of eight."""
    trainer_class, config_class = KINDS[kind]
    tokens = tokenizer(*acts)
    trainer = trainer_class(
        model=policy(tokens),
        reward_funcs=reward,
        args=config_class(output_dir=str(folder), **ARGUMENTS),
        train_dataset=dataset(conversational),
        processing_class=tokens,
        callbacks=[] if then is None else [AfterStep(then)],
    )
    trainer.batches = []
    before = weights(trainer)
    trainer.train()
    assert len(trainer.batches) == STEPS
    return Trained(trainer.batches, trainer.state.log_history, before, weights(trainer))


def dataset(conversational: bool) -> Dataset:
    """Different prompts, with columns named like the parameters of ``reward_function``."""
    prompts: list[Any] = [f"act {one} {other}" for one in NUMBERS for other in NUMBERS]
    if conversational:
        prompts = [[{"role": "user", "content": prompt}] for prompt in prompts]
    size = len(prompts)
    columns = {
        "prompt": prompts,
        "reference": [{"answer": "x"}] * size,
        "inputs": [{"kind": "text"}] * size,
    }
    return Dataset.from_dict(columns)


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def check_numbers(batch: Batch, truth: dict[str, float]) -> None:
    """A number exactly where something was verified, and that number."""
    for completion, got in zip(batch.completions, batch.rewards, strict=True):
        assert (got == truth[completion]) if completion in truth else math.isnan(got), completion


def check_group_relative(batch: Batch) -> None:
    """GRPO's advantages over the scored members of each group; 0 for the others."""
    for start in range(0, PER_STEP, GROUP):
        rewards = torch.tensor(batch.rewards[start : start + GROUP])
        advantages = torch.tensor(batch.advantages[start : start + GROUP])
        scored = ~rewards.isnan()
        assert (advantages[~scored] == 0).all()
        if scored.sum() > 1:
            members = rewards[scored]
            expected = (members - members.mean()) / (members.std() + 1e-4)
            torch.testing.assert_close(advantages[scored], expected, atol=1e-4, rtol=1e-4)


def check_leave_one_out(batch: Batch) -> None:
    """RLOO's advantages over the scored members of each group; 0 for the others."""
    for start in range(0, PER_STEP, GROUP):
        rewards = torch.tensor(batch.rewards[start : start + GROUP])
        advantages = torch.tensor(batch.advantages[start : start + GROUP])
        scored = ~rewards.isnan()
        assert (advantages[~scored] == 0).all()
        members = rewards[scored]
        if len(members) > 1:
            others = (members.sum() - members) / (len(members) - 1)
            torch.testing.assert_close(advantages[scored], members - others, atol=1e-4, rtol=1e-4)


def check_healthy(trained: Trained) -> None:
    """Finite losses, moved and finite weights, and a step in which both kinds occurred."""
    assert len(trained.logged("loss")) == STEPS
    assert all(math.isfinite(loss) for loss in trained.logged("loss"))
    assert trained.moved
    assert all(value.isfinite().all() for value in trained.after.values())
    assert any(len({math.isnan(reward) for reward in batch.rewards}) == 2 for batch in trained.batches)


def test_a_failing_verifier_leaves_groups_as_if_the_rollout_were_not_there(
    trouble: Trouble, tmp_path: Path
) -> None:
    trained = train(asking(trouble), tmp_path)
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_group_relative(batch)


def test_rloo_and_conversations(trouble: Trouble, tmp_path: Path) -> None:
    trained = train(asking(trouble), tmp_path, kind="rloo", conversational=True)
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_leave_one_out(batch)


def test_cost_tier_and_reasons_are_logged(trouble: Trouble, tmp_path: Path) -> None:
    trained = train(asking(trouble), tmp_path)
    unscored = [sum(map(math.isnan, batch.rewards)) / PER_STEP for batch in trained.batches]
    assert trained.logged("verifier/spoken/unscored") == pytest.approx(unscored)
    assert trained.logged("verifier/spoken/unscored/unverifiable") == pytest.approx(unscored)
    assert trained.logged("verifier/spoken/tier/fast") == pytest.approx([1 - share for share in unscored])
    assert all(credits > 0 for credits in trained.logged("verifier/spoken/credits"))
    for reason in REASONS:
        assert len(trained.logged(f"verifier/spoken/unscored/{reason}")) == STEPS


def brief(completions: list[Any], **_: Any) -> list[float]:
    """A reward for format, as trainings have beside the one for quality: every completion earns it."""
    return [1.0] * len(completions)


def test_other_rewards_beside_ours(trouble: Trouble, tmp_path: Path) -> None:
    trained = train(with_others(asking(trouble), (brief, 0.5)), tmp_path)
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.5, WRONG: 0.5})
        check_group_relative(batch)


def test_why_other_rewards_do_not_stand_beside_ours_in_the_list(trouble: Trouble, tmp_path: Path) -> None:
    trained = train([asking(trouble), brief], tmp_path)
    unscored = [
        advantage
        for batch in trained.batches
        for reward, advantage in zip(batch.rewards, batch.advantages, strict=True)
        if math.isnan(reward)
    ]
    assert any(advantage < 0 for advantage in unscored)


def test_service_away_for_twenty_seconds(trouble: Trouble, tmp_path: Path) -> None:
    began = time.monotonic()
    trained = train(asking(trouble), tmp_path, then=lambda: trouble.stop_for(OUTAGE_S))
    assert time.monotonic() - began > OUTAGE_S
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_group_relative(batch)


def test_service_away_for_longer_than_anybody_waits(trouble: Trouble, tmp_path: Path) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    trained = train(asking(trouble, url=gone, retry_s=1.0), tmp_path)
    assert trained.logged("verifier/spoken/unscored/unreachable") == [1.0] * STEPS
    check_nothing_learnt(trained)


def test_hanging_verifier(trouble: Trouble, tmp_path: Path) -> None:
    trained = train(asking(trouble), tmp_path, acts=(OK, WRONG, HANGS))
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_group_relative(batch)


def test_hanging_verifier_for_which_nobody_waits(trouble: Trouble, tmp_path: Path) -> None:
    trained = train(asking(trouble, seconds=3.0), tmp_path, acts=(OK, WRONG, HANGS))
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_group_relative(batch)
    assert any(share > 0 for share in trained.logged("verifier/spoken/unscored/pending"))


def test_budget_that_is_spent(trouble: Trouble, tmp_path: Path) -> None:
    unseen = tuple(f'{{"do": "ok", "n": "{fresh()}"}}' for _ in range(3))  # known evidence costs nothing
    trained = train(asking(trouble, run=trouble.broke(fresh())), tmp_path, acts=unseen)
    assert trained.logged("verifier/spoken/unscored/budget_exhausted") == [1.0] * STEPS
    check_nothing_learnt(trained)


def check_nothing_learnt(trained: Trained) -> None:
    """No number, no advantage, and the weights stay as they were."""
    for batch in trained.batches:
        assert all(map(math.isnan, batch.rewards))
        assert batch.advantages == [0.0] * PER_STEP
    assert all(math.isfinite(loss) for loss in trained.logged("loss"))
    assert not trained.moved


def test_every_request_delivered_twice(trouble: Trouble, tmp_path: Path) -> None:
    run = fresh()
    trouble.duplicate()
    try:
        trained = train(asking(trouble, run=run), tmp_path)
    finally:
        trouble.duplicate(False)
    check_healthy(trained)
    for batch in trained.batches:
        check_numbers(batch, {OK: 1.0, WRONG: 0.0})
        check_group_relative(batch)
    with trouble.client() as client:
        assert client.run(run).trajectories == STEPS * PER_STEP
        records = client.rewards(run, limit=1000).records
    assert {record.multiplicity for record in records} == {1}
    assert len({record.group for record in records}) == STEPS * PER_STEP // GROUP
    assert {record.policy_version for record in records} == {"0", "1", "2"}


def test_wrong_key_ends_the_training(trouble: Trouble, tmp_path: Path) -> None:
    with pytest.raises(NotAuthenticated):
        train(asking(trouble, key="nobody"), tmp_path)


def test_async_grpo_scores_a_group(trouble: Trouble) -> None:
    reward = asking(trouble)
    assert inspect.iscoroutinefunction(reward)
    said = [OK, WRONG, FAILS, OK]
    worker = SimpleNamespace(
        reward_funcs=[reward],
        reward_func_names=["reward"],
        _env_reward_types=[],
        _provides_rollout_reward=False,
    )
    samples = asyncio.run(_AsyncRolloutLoop._score_group(worker, rollout_group(said)))
    advantages = [sample.advantage for sample in samples]
    spread = torch.tensor([1.0, 0.0, 1.0]).std(unbiased=False).item()
    assert advantages[2] == 0.0
    assert advantages[0] == advantages[3] == pytest.approx((1 - 2 / 3) / spread, rel=1e-4)
    assert advantages[1] == pytest.approx((0 - 2 / 3) / spread, rel=1e-4)


def rollout_group(completions: list[str]) -> RolloutGroup:
    """A group as the worker of AsyncGRPO holds it when all rollouts are in."""
    size = len(completions)
    sequence = TrainingSequence(
        input_ids=[0, 1], completion_mask=[0, 1], old_log_probs=[0.0, -1.0], rollout_id=0
    )
    return RolloutGroup(
        prompts=["act one"] * size,
        reward_kwargs={"answer": ["x"] * size},
        completions=completions,
        completions_ids=[[1]] * size,
        completions_sequences=[[sequence]] * size,
        tool_call_counts=[0] * size,
        tool_failure_counts=[0] * size,
        env_rewards=[],
        rollout_rewards=[],
        model_version=4,
        group_id=0,
    )
