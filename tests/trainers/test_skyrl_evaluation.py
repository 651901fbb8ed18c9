"""SkyRL's own evaluation of rollouts that nobody could verify, and settings that its trainer refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

# First: it mends what skyrl 0.3.0 does on Python 3.11.
from tests.trainers.test_skyrl import (  # isort: skip
    EARNED,
    PROMPT,
    Generator,
    RayPPOTrainer,
    Scripted,
    Trainer,
    TrajectoryID,
    config,
    registered,
)
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from tests.trainers.episodes import ACTIONS, furnish
from tests.trainers.tiny import tokenizer
from verifier_service.trainers.scoring import Misconfigured


@pytest.fixture(autouse=True, scope="module")
def ladder(trouble: Trouble) -> None:
    furnish(trouble)


EVALUATED = [OK, WRONG, FAILS, HANGS, OK, FAILS, HANGS, FAILS]  # four samples of each of two prompts
SCORES = ("avg_score", "mean_positive_reward", "pass_at_4")


def evaluated(kind: type[Any], name: str, answers: list[str], step_wise: bool = False) -> dict[str, float]:
    """What SkyRL's own ``eval`` says: a batch with prompt p, of source a/b, and one with q, of c."""
    made = config(step_wise_trajectories=step_wise, eval_n_samples_per_prompt=4)
    made.trainer.print_example_interval = 0
    made.trainer.dump_eval_results = False
    ids = [TrajectoryID("pq"[place >= 4], place % 4) for place in range(8)]
    plan = {one.to_string(): [*ACTIONS[:2], answer] for one, answer in zip(ids, answers, strict=True)}
    trainer = kind.__new__(kind)
    trainer.cfg, trainer.tokenizer, trainer.global_step = made, tokenizer("x"), 3
    trainer.trajectory_logger = trainer.tracker = None
    trainer.generator = Generator(
        made.generator, made.environment.skyrl_gym, Scripted(plan), tokenizer("x")
    )
    trainer.eval_dataloader = [
        [{"prompt": PROMPT, "env_class": name, "env_extras": {"data_source": source}, "uid": uid}]
        for uid, source in (("p", "a/b"), ("q", "c"))
    ]
    metrics: dict[str, float] = asyncio.run(trainer.eval())
    assert type(trainer.generator) is Generator
    return metrics


def scores(metrics: dict[str, float], source: str) -> list[float]:
    return [metrics[f"eval/{source}/{name}"] for name in SCORES]


@pytest.mark.parametrize("step_wise", [False, True])
def test_an_evaluation_scores_the_verified_rows(trouble: Trouble, step_wise: bool) -> None:
    name = registered(trouble, pay="end")
    metrics = evaluated(Trainer, name, EVALUATED, step_wise)
    assert scores(metrics, "a_b") == pytest.approx([0.5 + EARNED, 0.5 + EARNED, 1.0])
    assert scores(metrics, "c") == pytest.approx([1 + EARNED, 1 + EARNED, 1.0])
    assert scores(metrics, "all") == pytest.approx([2 / 3 + EARNED, 2 / 3 + EARNED, 1.0])
    if not step_wise:  # SkyRL's step-wise evaluation drops the generator's metrics.
        # Shares: the mean of two batches. Counts: their sum.
        assert metrics["eval/all/verifier/avg_unscored"] == pytest.approx(5 / 8)
        assert metrics["eval/all/verifier/unscored/unverifiable"] == 5.0
        assert metrics["eval/all/environment/verifier/avg_reward"] == pytest.approx(0.75 + EARNED)


def test_an_evaluation_without_a_verified_row_has_no_number(trouble: Trouble) -> None:
    metrics = evaluated(Trainer, registered(trouble, pay="end"), [*[OK] * 4, *[FAILS] * 4])
    assert scores(metrics, "a_b") == pytest.approx([1 + EARNED, 1 + EARNED, 1.0])
    assert scores(metrics, "c") == pytest.approx([float("nan")] * 3, nan_ok=True)
    assert scores(metrics, "all") == scores(metrics, "a_b")


def test_without_the_trainers_mixin_an_incomplete_score_is_nan(trouble: Trouble) -> None:
    metrics = evaluated(RayPPOTrainer, registered(trouble, pay="end"), EVALUATED)
    assert scores(metrics, "all")[:2] == pytest.approx([float("nan")] * 2, nan_ok=True)


@pytest.mark.parametrize("pay", ["turns", "end"])
def test_a_complete_evaluation_is_skyrls(trouble: Trouble, pay: str) -> None:
    name = registered(trouble, pay=pay)
    ours, theirs = (evaluated(kind, name, [OK, WRONG] * 4) for kind in (Trainer, RayPPOTrainer))
    for source in ("a_b", "c", "all"):
        assert scores(ours, source) == pytest.approx(scores(theirs, source))


@pytest.mark.parametrize("estimator", ["gae", "reinforce++"])
def test_estimators_that_whiten_are_refused_when_the_trainer_is_made(estimator: str) -> None:
    made = config()
    made.trainer.algorithm.advantage_estimator = estimator
    made.generator.inference_engine.enable_ray_prometheus_stats = False

    class Bare(Trainer):
        """Without data to load."""

        def _build_train_dataloader_and_compute_training_steps(self) -> None:
            """There is none."""

    with pytest.raises(Misconfigured, match=r"trainer\.algorithm\.advantage_estimator"):
        Bare(made, None, tokenizer("x"), None, None, None)
    made.trainer.algorithm.advantage_estimator = "grpo"
    assert Bare(made, None, tokenizer("x"), None, None, None).cfg is made
