"""Configurations and batches of verl for tests, as its own trainer composes and builds them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import verl
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from verl import DataProto

from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from tests.trainers.tiny import policy, tokenizer

CONFIGS = Path(verl.__file__).parent / "trainer" / "config"
MANAGER = (
    "reward.reward_manager.source=importlib",
    "reward.reward_manager.module.path=pkg://verifier_service.trainers.verl_manager",
    "reward.reward_manager.name=VerifierRewardManager",
    "algorithm.adv_estimator=verified_grpo",
)
FUNCTION = (
    "reward.custom_reward_function.path=pkg://verifier_service.trainers.verl",
    "actor_rollout_ref.model.external_lib=verifier_service.trainers.verl_advantages",
    "algorithm.adv_estimator=verified_grpo",
)
ACTS = (OK, WRONG, FAILS, HANGS)


def save_model(folder: Path) -> None:
    """A tokenizer and a policy where verl finds them by path, and the agent loop's registration."""
    tokens = tokenizer(*ACTS)
    tokens.save_pretrained(folder)
    policy(tokens).save_pretrained(folder)
    (folder / "loops.yaml").write_text(
        "- name: spoken\n  _target_: tests.trainers.spoken_loop.SpokenLoop\n"
    )


def configuration(folder: Path, *overrides: str) -> Any:
    """verl's own ``ppo_trainer`` configuration with overrides as on its command line."""
    with initialize_config_dir(str(CONFIGS), version_base=None):
        return compose(
            "ppo_trainer",
            overrides=[
                f"actor_rollout_ref.model.path={folder}",
                "actor_rollout_ref.rollout.name=vllm",
                "actor_rollout_ref.rollout.agent.num_workers=1",
                "actor_rollout_ref.rollout.agent.default_agent_loop=spoken",
                f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/loops.yaml",
                "algorithm.adv_estimator=grpo",
                "reward.num_workers=1",
                "transfer_queue.enable=True",
                "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
                *overrides,
            ],
        )


def asking(trouble: Trouble, **options: Any) -> list[str]:
    """What names the service in the manager's options."""
    chosen = {"ladder": "spoken", "url": trouble.url, "key": trouble.key, **options}
    return [f"+reward.reward_kwargs.{name}={value}" for name, value in chosen.items()]


def rollouts(folder: Path, says: Sequence[str], **fields: Sequence[Any]) -> DataProto:
    """Single-turn rollouts that say these acts, as the agent loop hands them to the reward loop: prompts of
    two tokens, responses of an act and the end, padded by one."""
    tokens = tokenizer(*ACTS)
    size = len(says)
    end = tokens.eos_token_id
    responses = [[tokens.convert_tokens_to_ids(act), end, tokens.pad_token_id] for act in says]
    prompts = torch.tensor([tokens("act one").input_ids] * size)
    mask = torch.tensor([[1, 1, 1, 1, 0]] * size)
    batch = {
        "prompts": prompts,
        "responses": torch.tensor(responses),
        "attention_mask": mask,
        "response_mask": mask[:, 2:],
    }
    plain = {
        "raw_prompt": [[{"role": "user", "content": "act one"}]] * size,
        "data_source": ["acts"] * size,
        "reward_model": [{"style": "rule", "ground_truth": "x"}] * size,
        "extra_info": [{"index": place} for place in range(size)],
        "uid": [uuid.uuid4().hex] * size,
        **fields,
    }
    return DataProto(
        batch=TensorDict(batch, batch_size=size),
        non_tensor_batch={name: objects(values) for name, values in plain.items()},
    )


def objects(values: Sequence[Any]) -> np.ndarray:
    """A column of Python objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column
