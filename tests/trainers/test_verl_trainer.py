"""verl's trainer of version 1, from the agent loop to the advantages: its own workers under ray, its
transfer queue, its replay buffer. Only the inference server is left out (``SpokenLoop`` says what it is
told)."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch
import transfer_queue
from verl.experimental.reward_loop import RewardLoopManager
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import tensordict_utils

from tests.support.server import ROOT, fresh, patience
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from tests.trainers.verl_world import MANAGER, asking, configuration, objects, rollouts, save_model

GROUP = 4
OUTAGE_S = 20.0
PARTITION = "train"


@dataclass(frozen=True)
class Sample:
    """What the trainer holds of one rollout of a step."""

    prompt: int
    session: int
    score: float
    advantage: float


class Pipeline:
    """verl between its data loader and its optimiser."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.rewards = RewardLoopManager(config)
        self.rollouts = AgentLoopManagerTQ.create(
            config=config,
            llm_client=None,
            teacher_client=None,
            reward_loop_worker_handles=self.rewards.reward_loop_worker_handles,
        )
        self.steps = 0

    def step(self, says: Sequence[Sequence[str]]) -> list[Sample]:
        """One step: prompt p's session s says ``says[p][s]``."""
        uids = self.roll_out(says)
        return self.train_on(self.buffer(ReplayBuffer, "sync"), uids, len(uids))

    def roll_out(self, says: Sequence[Sequence[str]]) -> list[str]:
        """Let the agent loop work on a new step's prompts; their uids."""
        self.steps += 1
        uids = [uuid.uuid4().hex for _ in says]
        batch = tensordict_utils.get_tensordict(prompts(uids, says))
        tensordict_utils.assign_non_tensor_data(batch, "global_steps", self.steps)
        pending = {"is_prompt": True, "status": "pending", "global_steps": self.steps}
        transfer_queue.kv_batch_put(keys=uids, partition_id=PARTITION, tags=[pending] * len(uids))
        self.rollouts.generate_sequences(batch)
        return uids

    def buffer(self, kind: type[ReplayBuffer], mode: str) -> ReplayBuffer:
        """verl's replay buffer for a trainer mode."""
        return kind(
            trainer_mode=mode,
            trainer_config=self.config.trainer.v1[mode],
            max_off_policy_threshold=8,
            max_off_policy_strategy="drop",
            sampler_kwargs={},
            poll_interval=0.1,
        )

    def train_on(self, buffer: ReplayBuffer, uids: Sequence[str], size: int) -> list[Sample]:
        """What comes out of the buffer for ``size`` prompts, with advantages."""
        sampled, _ = buffer.sample(global_steps=self.steps, partition_id=PARTITION, batch_size=size)
        PPOTrainer._compute_advantage(SimpleNamespace(config=self.config), sampled, {})
        return samples(uids, sampled.keys)


def prompts(uids: Sequence[str], says: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Rows of verl's data loader."""
    size = len(uids)
    return {
        "uid": objects(uids),
        "raw_prompt": objects([[{"role": "user", "content": "act one"}]] * size),
        "data_source": objects(["acts"] * size),
        "reward_model": objects([{"style": "rule", "ground_truth": "x"}] * size),
        "extra_info": objects([{"says": list(row)} for row in says]),
        "index": np.arange(size),
    }


def samples(uids: Sequence[str], keys: Sequence[str]) -> list[Sample]:
    """What is in the transfer queue after the advantages were written, in order."""
    data = transfer_queue.kv_batch_get(
        keys=keys, partition_id=PARTITION, select_fields=["rm_scores", "advantages"]
    )
    found = []
    for row, key in enumerate(keys):
        uid, session, _ = key.rsplit("_", 2)
        score, advantage = data["rm_scores"][row].sum().item(), data["advantages"][row][0].item()
        found.append(Sample(uids.index(uid), int(session), score, advantage))
    transfer_queue.kv_clear(partition_id=PARTITION, keys=list(keys))
    return sorted(found, key=lambda sample: (sample.prompt, sample.session))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_model(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(model: Path) -> Iterator[None]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ray.init(
        num_cpus=8,  # of ray's own counting: its actors wait far more than they compute
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 * 1024 * 1024,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    transfer_queue.init(configuration(model).transfer_queue)
    yield
    transfer_queue.close()
    ray.shutdown()


@pytest.fixture(scope="module")
def pipeline(cluster: None, model: Path, trouble: Trouble) -> Pipeline:
    options = asking(trouble, run=fresh())
    return Pipeline(configuration(model, *MANAGER, *options, f"actor_rollout_ref.rollout.n={GROUP}"))


def check(got: list[Sample], truth: Sequence[Sequence[float | None]]) -> None:
    """Exactly the verified rollouts are there, with their scores and verl's own advantages over them."""
    there = [
        (p, s, value) for p, row in enumerate(truth) for s, value in enumerate(row) if value is not None
    ]
    assert [(sample.prompt, sample.session, sample.score) for sample in got] == there
    rewards = torch.tensor([[value] for _, _, value in there])
    groups = np.array([prompt for prompt, _, _ in there])
    expected, _ = compute_grpo_outcome_advantage(rewards, torch.ones_like(rewards), groups)
    assert [sample.advantage for sample in got] == pytest.approx(expected[:, 0].tolist(), abs=1e-5)


def test_a_rollout_without_a_reward_is_not_in_its_group(pipeline: Pipeline) -> None:
    got = pipeline.step([[OK, WRONG, FAILS, OK], [WRONG, OK, HANGS, WRONG]])
    check(got, [[1.0, 0.0, None, 1.0], [0.0, 1.0, None, 0.0]])


def test_the_last_one_left_of_a_group_moves_nothing(pipeline: Pipeline) -> None:
    got = pipeline.step([[FAILS, FAILS, OK, FAILS], [WRONG, OK, OK, WRONG]])
    assert got[0] == Sample(prompt=0, session=2, score=1.0, advantage=0.0)
    check(got[1:], [[], [0.0, 1.0, 1.0, 0.0]])


def test_asynchronous_modes_train_on_whole_groups_only(pipeline: Pipeline) -> None:
    uids = pipeline.roll_out([[FAILS, FAILS, OK, FAILS], [WRONG, OK, OK, WRONG]])
    buffer = pipeline.buffer(ReplayBufferAsync, "colocate_async")
    deadline = time.monotonic() + patience(60.0)
    while buffer.failure_keys[PARTITION] != {uids[0]}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        count = buffer.get_sampleable_count(pipeline.steps, PARTITION)
        assert count <= 1
    check(pipeline.train_on(buffer, uids, 1), [[], [0.0, 1.0, 1.0, 0.0]])


def test_service_away_for_twenty_seconds(pipeline: Pipeline, trouble: Trouble) -> None:
    trouble.stop_for(OUTAGE_S)
    time.sleep(0.5)
    began = time.monotonic()
    got = pipeline.step([[OK, WRONG, FAILS, OK], [WRONG, OK, OK, WRONG]])
    assert time.monotonic() - began > OUTAGE_S - 1.0
    check(got, [[1.0, 0.0, None, 1.0], [0.0, 1.0, 1.0, 0.0]])


def test_every_request_delivered_twice(pipeline: Pipeline, trouble: Trouble) -> None:
    trouble.duplicate()
    try:
        got = pipeline.step([[OK, WRONG, FAILS, OK]])
    finally:
        trouble.duplicate(False)
    check(got, [[1.0, 0.0, None, 1.0]])


def test_a_prompt_without_any_reward_leaves_the_others(pipeline: Pipeline) -> None:
    got = pipeline.step([[FAILS] * GROUP, [WRONG, OK, OK, WRONG]])
    check(got, [[None] * GROUP, [0.0, 1.0, 1.0, 0.0]])


def test_a_step_without_any_reward_stops_with_a_reason(pipeline: Pipeline) -> None:
    with pytest.raises(RuntimeError, match="no materializable trajectories"):
        pipeline.step([[FAILS] * GROUP])


def test_reward_loop_manager_scores_a_batch(pipeline: Pipeline, model: Path) -> None:
    scored = pipeline.rewards.compute_rm_score(rollouts(model, [OK, WRONG, OK]))
    assert scored.batch["rm_scores"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert scored.non_tensor_batch["verified"].tolist() == [1.0] * 3
    assert scored.non_tensor_batch["code"].tolist() == ["", "rejected", ""]
    assert set(scored.meta_info["reward_extra_keys"]) == set(scored.non_tensor_batch)
