"""What verl's trainer does in a process into which nothing but its configuration brings our modules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from verl import DataProto
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from tests.trainers.verl_world import configuration


def lone_advantage(folder: Path, *overrides: str) -> float:
    """The advantage of the last rollout left of a group, which has the reward 0.9, after that part of the
    initialisation of verl's trainer of version 1 that reads the model's configuration."""
    trainer = SimpleNamespace(config=configuration(folder, *overrides))
    PPOTrainer._init_tokenizer(trainer)
    algorithm = trainer.config.algorithm
    data = DataProto.from_single_dict(
        {
            "token_level_rewards": torch.tensor([[0.0, 0.9]]),
            "response_mask": torch.ones(1, 2),
            "uid": np.array(["a"], dtype=object),
        }
    )
    done = compute_advantage_for_multi_trajectories(
        data, batch_keys=["a_0_0"], adv_estimator=algorithm.adv_estimator, config=algorithm
    )
    return float(done.batch["advantages"][0, 0])
