"""Masks for SkyRL: nothing is learnt from a trajectory without a reward, and no group mean has it in."""

from __future__ import annotations

import asyncio
import re
import types
from typing import Any

import pytest

from verifier_service.trainers.scoring import Misconfigured
from verifier_service.trainers.skyrl_evaluation import NONE, UNVERIFIED, Row, over_verified
from verifier_service.trainers.skyrl_masks import (
    MARK,
    LeavesOutUnscored,
    Mark,
    MasksUnscored,
    mask_unscored,
    set_apart,
)

GROUPS = ["p", "p", "p", "q", "q", "q"]


def marks(*codes: str | None) -> list[Mark]:
    """A mark per trajectory: a reason, or null where there is a reward."""
    return [Mark(begun=True, scored=code is None, code=code or "") for code in codes]


def output(rows: int = 6, **more: Any) -> dict[str, Any]:
    return {
        "response_ids": [[1, 2]] * rows,
        "loss_masks": [[1, 1] for _ in range(rows)],
        "rewards": [[0.0, 1.0] for _ in range(rows)],
        "stop_reasons": ["stop"] * rows,
        "rollout_metrics": {"generate/x": 1.0},
        **more,
    }


def trained(masked: dict[str, Any]) -> list[bool]:
    assert [any(row) for row in masked["loss_masks"]] == [any(row) for row in masked["rewards"]]
    return [any(row) for row in masked["loss_masks"]]


def test_a_group_with_an_unscored_member_is_masked_whole() -> None:
    masked = mask_unscored(output(), marks(None, "pending", None, None, None, None), GROUPS)
    assert trained(masked) == [False, False, False, True, True, True]
    assert masked["stop_reasons"] == ["stop", UNVERIFIED, "stop", "stop", "stop", "stop"]
    assert masked["rollout_metrics"] == {
        "generate/x": 1.0,
        "verifier/avg_unscored": 1 / 6,
        "verifier/avg_masked": 0.5,
        "verifier/unscored/pending": 1.0,
    }


def test_by_sample_only_the_unscored_go_and_groups_of_one() -> None:
    codes = marks(None, "pending", None, "unreachable", "unreachable", None)
    masked = mask_unscored(output(), codes, GROUPS, "sample")
    assert trained(masked) == [True, False, True, False, False, False]


def test_all_rows_of_a_trajectory_go_together_and_rewards_per_trajectory_are_numbers() -> None:
    last = [False, True, True, False, False, True]
    masked = mask_unscored(
        output(is_last_step=last, rewards=[0.5] * 6), marks(None, None, "cancelled"), ["p", "p", "q"]
    )
    assert masked["rewards"] == [0.5, 0.5, 0.5, 0.0, 0.0, 0.0]
    assert masked["stop_reasons"] == ["stop"] * 3 + [UNVERIFIED] * 3


@pytest.mark.parametrize("last", [None, [True] * 5 + [False], [True] * 6, []])
def test_rows_that_nobody_can_tell_apart_are_refused(last: list[bool] | None) -> None:
    rows = 6 if last is None else len(last)
    with pytest.raises(ValueError, match="is_last_step"):
        mask_unscored(output(rows, is_last_step=last), marks(None, None, None), ["p", "p", "q"])


def test_environments_of_other_kinds_and_scored_ones_stay() -> None:
    kept = mask_unscored(output(), [Mark() for _ in range(3)] + marks(None, None, None), GROUPS)
    assert trained(kept) == [True] * 6


def test_a_trajectory_that_began_and_never_ended_is_unscored() -> None:
    masked = mask_unscored(output(), [Mark(begun=True), *marks(*[None] * 5)], GROUPS)
    assert masked["rollout_metrics"]["verifier/unscored/unfinished"] == 1.0


class Generator:
    """Stands for SkyRL's: rolls out nothing, and lets one environment find no reward."""

    async def generate(self, input_batch: dict[str, Any], disable_tqdm: bool = False) -> dict[str, Any]:
        self.extras = input_batch["env_extras"]
        for place, extra in enumerate(self.extras):
            extra[MARK].begun, extra[MARK].scored = True, place != 1
        return output(4)


class Masking(MasksUnscored, Generator):
    """As a user writes it."""


def batch(**more: Any) -> dict[str, Any]:
    ids = [types.SimpleNamespace(instance_id=name) for name in ("7", "7", "8", "8")]
    shared = {"reference": {"answer": 4}}
    return {"env_extras": [shared] * 4, "trajectory_ids": ids, **more}


def test_a_generator_tells_environments_their_group_and_masks_what_they_found() -> None:
    metadata = types.SimpleNamespace(training_phase="train", global_step=3)
    generator = Masking()
    masked = asyncio.run(generator.generate(batch(batch_metadata=metadata), disable_tqdm=True))
    assert trained(masked) == [False, False, True, True]
    told = [
        {key: extra[key] for key in ("group", "group_size", "policy_version")} for extra in generator.extras
    ]
    assert told[0] == {"group": "7@train-3", "group_size": 2, "policy_version": "train-3"}
    assert len({id(extra[MARK]) for extra in generator.extras}) == 4
    assert generator.extras[0]["reference"] == {"answer": 4}


def test_a_batch_without_groups_is_refused_and_one_without_a_step_names_none() -> None:
    with pytest.raises(ValueError, match="trajectory_ids"):
        asyncio.run(Masking().generate(batch(trajectory_ids=None)))
    generator = Masking()
    asyncio.run(generator.generate(batch()))
    assert "group" not in generator.extras[0]


def test_unscored_rows_stand_alone_and_padding_stays() -> None:
    apart = set_apart(["p", "p", "q", "pad0"], [False, True, False])
    assert apart == ["p", f"p/{UNVERIFIED}/1", "q", "pad0"]


def settings(**algorithm: Any) -> Any:
    fields = {"advantage_estimator": "grpo", "advantage_batch_normalize": False, **algorithm}
    return types.SimpleNamespace(
        trainer=types.SimpleNamespace(algorithm=types.SimpleNamespace(**fields)),
    )


class Trainer:
    """Stands for SkyRL's: advantages are rewards minus the mean of the rows of one uid."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg

    def convert_to_training_input(self, generator_output: dict[str, Any], uids: list[str]) -> Any:
        return types.SimpleNamespace(metadata={"uids": uids}, rewards=generator_output["rewards"])

    def compute_advantages_and_returns(self, data: Any) -> Any:
        members: dict[str, list[float]] = {}
        for uid, reward in zip(data.metadata["uids"], data.rewards, strict=True):
            members.setdefault(uid, []).append(reward)
        data.advantages = [
            reward - sum(members[uid]) / len(members[uid])
            for uid, reward in zip(data.metadata["uids"], data.rewards, strict=True)
        ]
        return data


class LeavingOut(LeavesOutUnscored, Trainer):
    """As a user writes it."""


def test_a_trainer_takes_the_mean_over_the_scored() -> None:
    given = mask_unscored(
        output(4, rewards=[1.0, 0.0, 0.5, 0.0]), marks(None, None, None, "pending"), ["p"] * 4, "sample"
    )
    trainer = LeavingOut(settings())
    data = trainer.compute_advantages_and_returns(trainer.convert_to_training_input(given, ["p"] * 4))
    assert data.advantages == [0.5, -0.5, 0.0, 0.0]
    assert data.metadata == {"uids": ["p"] * 4}


@pytest.mark.parametrize("name", ["gae", "reinforce++"])
def test_estimators_that_whiten_over_masked_rows_are_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match=r"trainer\.algorithm\.advantage_estimator: " + re.escape(name)):
        LeavingOut(settings(advantage_estimator=name))
    with pytest.raises(Misconfigured, match=r"trainer\.algorithm\.advantage_batch_normalize"):
        LeavingOut(settings(advantage_batch_normalize=True))


@pytest.mark.parametrize("scope", ["group", "sample"])
def test_in_an_evaluation_only_the_unscored_row_is_nan(scope: Any) -> None:
    generator = Masking()
    generator.scope = scope
    metadata = types.SimpleNamespace(training_phase="eval", global_step=3)
    masked = asyncio.run(generator.generate(batch(batch_metadata=metadata)))
    assert [sum(row) for row in masked["rewards"]] == pytest.approx([1.0, NONE, 1.0, 1.0], nan_ok=True)
    assert masked["stop_reasons"] == ["stop", UNVERIFIED, "stop", "stop"]
    assert masked["loss_masks"] == [[1, 1], [0, 0], [1, 1], [1, 1]]
    assert masked["rollout_metrics"]["verifier/avg_masked"] == 0.25


def test_scores_of_an_evaluation_are_those_of_the_verified() -> None:
    rows = [Row("p", "math", [0.5, -0.5]), Row("p", "math", [0.0, 1.0]), Row("q", "math", [-1.0])]
    given = {
        "eval/math/avg_score": NONE,
        "eval/none/pass_at_2": 0.0,
        "eval/all/pass_at_2": 0.0,
        "other": 3.0,
    }
    found = over_verified({**given, "eval/all/mean_positive_reward": NONE}, rows)
    assert found == pytest.approx(
        {
            "eval/math/avg_score": 0.0,
            "eval/none/pass_at_2": NONE,
            "eval/all/pass_at_2": 0.5,
            "eval/all/mean_positive_reward": 0.5,
            "other": 3.0,
        },
        nan_ok=True,
    )
