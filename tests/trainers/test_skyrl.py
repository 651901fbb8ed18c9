"""SkyRL-gym's registry, SkyRL's own generator and SkyRL's own advantages, with a service in trouble."""

from __future__ import annotations

import asyncio
import sys
import time
import typing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import typing_extensions

# Pydantic refuses what skyrl 0.3.0 does on Python 3.11.
typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]

import skyrl_gym  # noqa: E402
from skyrl.train.config import SkyRLTrainConfig  # noqa: E402
from skyrl.train.generators.base import BatchMetadata, TrajectoryID  # noqa: E402
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator  # noqa: E402
from skyrl.train.trainer import RayPPOTrainer  # noqa: E402
from skyrl.train.utils.trainer_utils import validate_generator_output  # noqa: E402

from tests.support.server import fresh  # noqa: E402
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble  # noqa: E402
from tests.trainers.episodes import ACTIONS, PROCESS, TOOLS, TURNS, WEIGHT, furnish, said  # noqa: E402
from tests.trainers.tiny import tokenizer  # noqa: E402
from verifier_service.client import NotAuthenticated  # noqa: E402
from verifier_service.trainers.scoring import Misconfigured, Scoring  # noqa: E402
from verifier_service.trainers.skyrl import (  # noqa: E402
    LeavesOutUnscored,
    MasksUnscored,
    Unverified,
    VerifiedEnv,
)
from verifier_service.trainers.skyrl_masks import MARK, Mark  # noqa: E402

THREADS = 32
OUTAGE_S = 20.0
PROMPT = [{"role": "user", "content": "act please"}]


class Tooled(VerifiedEnv):
    """An environment with tools, as a user writes it."""

    tools = TOOLS


@pytest.fixture(autouse=True, scope="module")
def ladder(trouble: Trouble) -> None:
    furnish(trouble)


def registered(trouble: Trouble, ladder: str = "stepped", run: str | None = None, **kwargs: Any) -> str:
    """A new environment id, registered as the documentation says."""
    name = fresh("verified")
    fields: dict[str, Any] = {"url": trouble.url, "key": trouble.key, "seconds": 60.0}
    scoring = Scoring(run=run or fresh("skyrl"), ladder=ladder, **(fields | kwargs.pop("scoring", {})))
    skyrl_gym.register(
        id=name, entry_point="tests.trainers.test_skyrl:Tooled", kwargs={"scoring": scoring, **kwargs}
    )
    return name


def begun(name: str, turns: int = TURNS, **extras: Any) -> Any:
    env = skyrl_gym.make(name, env_config={}, extras={"max_turns": turns, **extras})
    assert env.init(PROMPT) == (PROMPT, {})
    return env


def played(env: Any, *actions: str) -> list[dict[str, Any]]:
    steps = [env.step(action) for action in actions]
    env.close()
    assert [step["done"] for step in steps] == [False] * (len(steps) - 1) + [True]
    return steps


def record_of(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return steps[-1]["metadata"]["verifier"]["record"]


# The environment alone


def test_five_turns_earn_process_rewards_and_the_last_one_the_rest(trouble: Trouble) -> None:
    env = begun(registered(trouble))
    steps = played(env, *ACTIONS, OK)
    expected = [WEIGHT * one / TURNS for one in PROCESS]
    assert [step["reward"] for step in steps[:-1]] == pytest.approx(expected)
    assert record_of(steps)["process"] == [*PROCESS, None]
    assert record_of(steps)["reward"] == pytest.approx(1.0 + WEIGHT * sum(PROCESS) / len(PROCESS))
    assert sum(step["reward"] for step in steps) == pytest.approx(record_of(steps)["reward"])
    assert steps[0]["observations"] == [{"role": "user", "content": "<tool_response>\n2\n</tool_response>"}]
    assert "RuntimeError: 2 is out of order" in steps[1]["observations"][0]["content"]
    assert steps[-1]["observations"] == []
    assert env.get_metrics() == {
        "verifier/turns": 5,
        "verifier/unscored": 0.0,
        "verifier/reward": record_of(steps)["reward"],
        "verifier/credits": record_of(steps)["credits"],
    }


def test_everything_at_the_end_where_skyrl_reads_the_last_step_only(trouble: Trouble) -> None:
    steps = played(begun(registered(trouble, pay="end")), *ACTIONS, OK)
    assert [step["reward"] for step in steps[:-1]] == [0.0] * 4
    assert steps[-1]["reward"] == pytest.approx(record_of(steps)["reward"])


def test_the_turn_limit_ends_an_episode_and_a_wrong_answer_is_a_number(trouble: Trouble) -> None:
    steps = played(begun(registered(trouble), turns=2), said("double", 1), said("double", 2))
    assert record_of(steps)["outcome"] == 0.0
    assert sum(step["reward"] for step in steps) == pytest.approx(WEIGHT)


def test_the_data_sets_columns_reach_the_service(trouble: Trouble) -> None:
    run = fresh("skyrl")
    extras = {"reward_spec": {"ground_truth": "4"}, "inputs": {"unit": "eV"}, "group": "g", "group_size": 8}
    [last] = played(begun(registered(trouble, run=run), policy_version="7", **extras), OK)
    with trouble.client() as client:
        case = client.trajectory(run, last["metadata"]["verifier"]["id"])
    assert (case.reference, case.inputs) == ({"answer": "4"}, {"unit": "eV"})
    assert (case.group, case.group_size, case.policy_version) == ("g", 8, "7")
    assert case.prompt == PROMPT


def test_an_episode_that_is_left_is_cancelled(trouble: Trouble) -> None:
    run = fresh("skyrl")
    env = begun(registered(trouble, run=run))
    step = env.step(ACTIONS[0])
    with pytest.raises(Unverified, match="unfinished"):
        env.get_metrics()
    env.close()
    with trouble.client() as client:
        assert client.trajectory(run, step["metadata"]["verifier"]["id"]).cancelled


@pytest.mark.parametrize(("answer", "code"), [(FAILS, "unverifiable"), (HANGS, "unverifiable")])
def test_without_a_mask_a_missing_reward_stops_the_run_with_its_reason(
    trouble: Trouble, answer: str, code: str
) -> None:
    env = begun(registered(trouble))
    env.step(ACTIONS[0])
    with pytest.raises(Unverified, match=f"has no reward: {code}: .*MasksUnscored"):
        env.step(answer)


def test_a_mistake_in_the_configuration_stops_the_run(trouble: Trouble) -> None:
    with pytest.raises(NotAuthenticated):
        begun(registered(trouble, scoring={"key": "vk_wrong"})).step(OK)
    with pytest.raises(Misconfigured):
        begun(registered(trouble, ladder="no-such-ladder")).step(OK)
    with pytest.raises(Misconfigured):
        begun(registered(trouble, ladder="no-such-ladder")).step(ACTIONS[0])


def test_thirty_two_episodes_at_once(trouble: Trouble) -> None:
    name = registered(trouble)
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.monotonic()
        all_steps = list(pool.map(lambda _: played(begun(name), *ACTIONS, OK), range(THREADS)))
        seconds = time.monotonic() - began
    for steps in all_steps:
        assert record_of(steps)["process"] == [*PROCESS, None]
        assert sum(step["reward"] for step in steps) == pytest.approx(record_of(steps)["reward"])
    sys.stdout.write(f"\n{THREADS} episodes of {TURNS} turns in {seconds:.1f} s\n")


def test_requests_that_are_delivered_twice_change_nothing(trouble: Trouble) -> None:
    trouble.duplicate()
    try:
        steps = played(begun(registered(trouble)), *ACTIONS, OK)
    finally:
        trouble.duplicate(False)
    assert record_of(steps)["multiplicity"] == 1
    assert record_of(steps)["process"] == [*PROCESS, None]
    assert sum(step["reward"] for step in steps) == pytest.approx(1.0 + WEIGHT * sum(PROCESS) / 4)


def test_a_service_that_stops_for_twenty_seconds_in_the_middle(trouble: Trouble) -> None:
    name = registered(trouble)
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.monotonic()
        outage = trouble.stop_for(OUTAGE_S, after=1.5)
        all_steps = list(pool.map(lambda _: played(begun(name), *ACTIONS, OK), range(THREADS)))
        outage.join()
    assert time.monotonic() - began > OUTAGE_S
    for steps in all_steps:
        assert record_of(steps)["process"] == [*PROCESS, None]
        assert sum(step["reward"] for step in steps) == pytest.approx(1.0 + WEIGHT * sum(PROCESS) / 4)


def test_turns_that_could_not_be_sent_are_paid_later(trouble: Trouble) -> None:
    env = begun(registered(trouble, scoring={"retry_s": 0.5}))
    outage = trouble.stop_for(3.0)
    time.sleep(0.5)
    first, second = env.step(ACTIONS[0]), env.step(ACTIONS[1])
    outage.join()
    third = env.step(ACTIONS[2])
    assert (first["reward"], second["reward"]) == (0.0, 0.0)
    assert third["reward"] == pytest.approx(WEIGHT * sum(PROCESS[:3]) / TURNS)
    last = env.step(OK)
    assert last["reward"] == pytest.approx(1.0 + WEIGHT * 0.5 - third["reward"])


def test_a_service_that_stays_away_leaves_no_number(trouble: Trouble) -> None:
    dead = registered(trouble, scoring={"url": "http://127.0.0.1:9", "retry_s": 0.2})
    mark = Mark()
    env = begun(dead, **{MARK: mark})
    steps = played(env, *ACTIONS, OK)
    assert (mark.begun, mark.scored, mark.code) == (True, False, "unreachable")
    assert steps[-1]["metadata"]["verifier"]["code"] == "unreachable"
    assert env.get_metrics()["verifier/code"] == "unreachable"


# SkyRL's generator and advantages


class Scripted:
    """An inference engine that says what it is told, by session."""

    def __init__(self, plan: dict[str, list[str]]) -> None:
        self.plan = {session: list(actions) for session, actions in plan.items()}

    async def generate(self, engine_input: Any, model: Any = None) -> dict[str, Any]:
        text = self.plan[engine_input["session_ids"][0]].pop(0)
        return {
            "responses": [text],
            "response_ids": [[7, 8, 9]],
            "stop_reasons": ["stop"],
            "response_logprobs": [[-1.0, -1.0, -1.0]],
        }

    async def finish_session(self, session_id: str) -> None:
        """Nothing to forget."""


class Generator(MasksUnscored, SkyRLGymGenerator):
    """As a user writes it."""


class BySample(Generator):
    scope = "sample"


class Trainer(LeavesOutUnscored, RayPPOTrainer):
    """As a user writes it."""


class OneRank:
    """Data parallelism of one."""

    def get_lcm_dp_size(self) -> int:
        return 1


def config(**generator: Any) -> Any:
    made = SkyRLTrainConfig()
    made.generator.max_turns = TURNS
    made.generator.max_input_length = 100_000
    made.generator.n_samples_per_prompt = 4
    made.trainer.train_batch_size = made.trainer.policy_mini_batch_size = 2
    made.trainer.algorithm.max_seq_len = 100_000
    for name, value in generator.items():
        setattr(made.generator, name, value)
    return made


def generated(kind: type[Any], name: str, answers: list[str], **options: Any) -> tuple[dict[str, Any], Any]:
    """Roll out prompts p and q, half of the answers each; the output, and the configuration."""
    half = len(answers) // 2
    ids = [TrajectoryID("pq"[place >= half], place % half) for place in range(len(answers))]
    plan = {one.to_string(): [*ACTIONS[:2], answer] for one, answer in zip(ids, answers, strict=True)}
    made = config(**options)
    generator = kind(made.generator, made.environment.skyrl_gym, Scripted(plan), tokenizer("x"))
    batch = {
        "prompts": [PROMPT] * len(answers),
        "env_classes": [name] * len(answers),
        "env_extras": [{} for _ in answers],
        "sampling_params": None,
        "trajectory_ids": ids,
        "batch_metadata": BatchMetadata(global_step=3, training_phase="train"),
    }
    output = asyncio.run(generator.generate(batch, disable_tqdm=True))
    step_wise = made.generator.step_wise_trajectories
    validate_generator_output(len(answers), output, step_wise=step_wise)
    return output, made


def advantages(kind: type[Any], output: dict[str, Any], made: Any, uids: list[str]) -> list[float]:
    """One advantage a row, by SkyRL's own code from the generator's output on."""
    trainer = kind.__new__(kind)
    trainer.cfg, trainer.tokenizer, trainer.dispatch, trainer.all_metrics = (
        made,
        tokenizer("x"),
        OneRank(),
        {},
    )
    output, uids = trainer.postprocess_generator_output(output, uids)
    data = trainer.convert_to_training_input(output, uids)
    data["values"] = None
    data = trainer.compute_advantages_and_returns(data)
    assert data.metadata["uids"] == uids
    # Of masked rows, too: their advantage is 0 by itself, not only because nobody looks.
    return [
        float(row[mask.bool()][0])
        for row, mask in zip(data["advantages"], data["response_mask"], strict=True)
    ]


MIXED = [OK, WRONG, FAILS, HANGS, OK, OK, WRONG, WRONG]
UIDS = ["p"] * 4 + ["q"] * 4
EARNED = WEIGHT * (1.0 + 0.5) / 2


def sums(output: dict[str, Any]) -> list[float]:
    return [sum(row) for row in output["rewards"]]


def kept(output: dict[str, Any]) -> list[bool]:
    return [any(row) for row in output["loss_masks"]]


def test_the_generator_masks_the_group_of_an_unscored_sample(trouble: Trouble) -> None:
    output, made = generated(Generator, registered(trouble), MIXED)
    assert kept(output) == [False] * 4 + [True] * 4
    assert sums(output) == pytest.approx([0.0] * 4 + [1 + EARNED] * 2 + [EARNED] * 2)
    assert output["rollout_metrics"]["verifier/avg_unscored"] == 0.25
    assert output["rollout_metrics"]["verifier/unscored/unverifiable"] == 2.0
    found = advantages(RayPPOTrainer, output, made, UIDS)
    assert found[:4] == [0.0] * 4
    assert found[4:] == pytest.approx([0.866, 0.866, -0.866, -0.866], abs=1e-3)


@pytest.mark.parametrize("step_wise", [False, True])
def test_by_sample_the_group_mean_is_that_of_the_scored(trouble: Trouble, step_wise: bool) -> None:
    pay = "end" if step_wise else "turns"
    name = registered(trouble, pay=pay)
    output, made = generated(BySample, name, MIXED, step_wise_trajectories=step_wise)
    rows = 3 if step_wise else 1
    uids = [uid for uid in UIDS for _ in range(rows)]
    assert kept(output)[::rows] == [True, True, False, False, True, True, True, True]
    assert output["stop_reasons"][::rows] == ["stop"] * 2 + ["unverified"] * 2 + ["stop"] * 4
    made.trainer.algorithm.grpo_norm_by_std = False
    found = advantages(Trainer, output, made, uids)[::rows]
    assert found == pytest.approx([0.5, -0.5, 0, 0, 0.5, 0.5, -0.5, -0.5], abs=1e-6)
    spoilt = advantages(RayPPOTrainer, output, made, uids)[::rows]
    assert spoilt[0] > 0.7  # what the mixin is for: zeros that nobody verified in the mean


def test_a_spent_budget_masks_everything_and_nothing_crashes(trouble: Trouble) -> None:
    run = trouble.broke(fresh("broke"))
    # Another run of the project may have paid for these answers already: such evidence is free.
    new = [f'{{"do": "ok", "n": "{fresh()}"}}' for _ in range(8)]
    output, made = generated(Generator, registered(trouble, run=run), new)
    assert kept(output) == [False] * 8
    assert sums(output) == [0.0] * 8
    assert output["rollout_metrics"]["verifier/unscored/budget_exhausted"] == 8.0
    assert advantages(RayPPOTrainer, output, made, UIDS) == [0.0] * 8


def test_the_generator_rides_out_an_outage_of_twenty_seconds(trouble: Trouble) -> None:
    name = registered(trouble)
    outage = trouble.stop_for(OUTAGE_S, after=0.7)
    output, _ = generated(Generator, name, [OK, WRONG] * 4)
    outage.join()
    assert kept(output) == [True] * 8
    assert sums(output) == pytest.approx([1 + EARNED, EARNED] * 4)


def test_requests_that_are_delivered_twice_do_not_count_twice(trouble: Trouble) -> None:
    trouble.duplicate()
    try:
        output, _ = generated(Generator, registered(trouble), [OK, WRONG] * 4)
    finally:
        trouble.duplicate(False)
    assert sums(output) == pytest.approx([1 + EARNED, EARNED] * 4)
    assert output["rollout_metrics"]["environment/verifier/avg_turns"] == 3


def test_a_rollout_that_the_context_ends_is_masked(trouble: Trouble) -> None:
    output, _ = generated(Generator, registered(trouble), [OK] * 8, max_input_length=8)
    assert kept(output) == [False] * 8
    assert output["rollout_metrics"]["verifier/unscored/unfinished"] == 8.0


def test_without_a_mask_such_a_rollout_stops_the_run(trouble: Trouble) -> None:
    with pytest.raises(Unverified, match="unfinished"):
        generated(SkyRLGymGenerator, registered(trouble), [OK] * 8, max_input_length=8)


def test_groups_and_policy_versions_are_told(trouble: Trouble) -> None:
    run = fresh("skyrl")
    generated(Generator, registered(trouble, run=run), [OK, WRONG] * 4)
    with trouble.client() as client:
        group = client.group(run, "p@train-3", estimator="dr_grpo")
    assert (group.expected, group.valid, group.complete) == (4, 4, True)
    assert sorted(one.advantage or 0.0 for one in group.members) == pytest.approx([-0.5, -0.5, 0.5, 0.5])
