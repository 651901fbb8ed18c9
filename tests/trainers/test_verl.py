"""verl's reward loop and advantages, scored by a service in trouble: in this process, without ray."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import pickle
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_rloo_outcome_advantage
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import get_custom_reward_fn

from tests.support.server import fresh, patience
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, free_port
from tests.trainers.verl_trainer_process import lone_advantage
from tests.trainers.verl_world import FUNCTION, MANAGER, asking, configuration, rollouts, save_model
from verifier_service.client import NotAuthenticated
from verifier_service.trainers.scoring import Misconfigured
from verifier_service.trainers.verl import NotVerified
from verifier_service.trainers.verl_manager import TurnScore, VerifierRewardManager

OUTAGE_S = 20.0
CONCURRENT = 500
MASK = "+reward.reward_kwargs.unscored=mask"
ESTIMATOR = "algorithm.adv_estimator"
SPOILT_BY_ONE = ("grpo", "grpo_vectorized", "rloo", "opo", "gpg")
TURNS: dict[str, Any] = {
    "name": "spoken-turns",
    "candidate": {"kind": "act", "format": "text"},
    "outcome": {"use": "spoken"},
    "truth": "fast",
    "process": {"weight": 0.5, "checks": [{"use": "turns.errors"}]},
    "tiers": {"fast": [{"use": "spoken"}]},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_model(folder)
    return folder


def worker(model: Path, trouble: Trouble, *overrides: str, **options: Any) -> RewardLoopWorker:
    """verl's own reward loop worker with our manager, named by configuration only."""
    options = {"run": fresh(), **options}
    return RewardLoopWorker(configuration(model, *MANAGER, *asking(trouble, **options), *overrides))


def masking(model: Path, trouble: Trouble, **options: Any) -> RewardLoopWorker:
    """The same, masking what has no reward."""
    return worker(model, trouble, MASK, **options)


def scored(loop_worker: RewardLoopWorker, data: DataProto) -> list[dict[str, Any]]:
    """A batch through the reward loop."""
    return loop_worker.loop.run_until_complete(loop_worker.compute_score_batch(data))


def settled(loop_worker: RewardLoopWorker, data: DataProto) -> list[dict[str, Any] | BaseException]:
    """Each rollout by itself, as the agent loop asks for them."""

    async def all_of_them() -> list[Any]:
        singles = [loop_worker.compute_score(data[place : place + 1]) for place in range(len(data))]
        return await asyncio.gather(*singles, return_exceptions=True)

    return loop_worker.loop.run_until_complete(all_of_them())


def numbers(results: Sequence[dict[str, Any]]) -> list[float]:
    return [result["reward_score"] for result in results]


def codes(results: Sequence[dict[str, Any]]) -> list[str]:
    return [result["reward_extra_info"]["code"] for result in results]


def advantages(data: DataProto, results: Sequence[dict[str, Any]]) -> torch.Tensor:
    """(B,) what verl's trainer computes from the scores with ``algorithm.adv_estimator=verified_grpo``."""
    rewards = VerifierRewardManager.assemble_rm_scores(data, numbers(results))
    data.batch["token_level_rewards"] = rewards
    done = compute_advantage(data, adv_estimator="verified_grpo", config={"norm_adv_by_std_in_grpo": True})
    return done.batch["advantages"][:, 0]


def check_masked(data: DataProto, results: Sequence[dict[str, Any]], truth: Sequence[float | None]) -> None:
    """A number exactly where something was verified, and advantages as if the others had never been
    there."""
    for got, true in zip(numbers(results), truth, strict=True):
        assert math.isnan(got) if true is None else got == true
    assert [result["reward_extra_info"]["verified"] for result in results] == [
        0.0 if true is None else 1.0 for true in truth
    ]
    found = advantages(data, results)
    members = torch.tensor([true for true in truth if true is not None])
    expected = (members - members.mean()) / (members.std() + 1e-6)
    kept = [place for place, true in enumerate(truth) if true is not None]
    torch.testing.assert_close(found[kept], expected)
    assert all(found[place] == 0.0 for place in range(len(truth)) if place not in kept)


def test_a_failing_verifier_is_masked(model: Path, trouble: Trouble) -> None:
    data = rollouts(model, [OK, WRONG, FAILS, OK])
    results = scored(masking(model, trouble), data)
    check_masked(data, results, [1.0, 0.0, None, 1.0])
    assert codes(results) == ["", "rejected", "unverifiable", ""]


def test_every_rollout_has_the_same_keys(model: Path, trouble: Trouble) -> None:
    results = scored(masking(model, trouble), rollouts(model, [FAILS, OK, WRONG]))
    keys = [list(result["reward_extra_info"]) for result in results]
    assert keys[0] == keys[1] == keys[2]
    assert "acc" not in keys[0]
    for key in keys[0]:
        column = np.array([result["reward_extra_info"][key] for result in results])
        assert column.dtype.kind in "fU", key


def test_a_failing_verifier_raises_by_default(model: Path, trouble: Trouble) -> None:
    results = settled(worker(model, trouble), rollouts(model, [OK, FAILS, WRONG]))
    assert results[0]["reward_score"] == 1.0
    assert results[2]["reward_score"] == 0.0
    assert isinstance(results[1], NotVerified)
    assert results[1].code == "unverifiable"
    again = pickle.loads(pickle.dumps(results[1]))
    assert (again.id, again.code, str(again)) == (results[1].id, "unverifiable", str(results[1]))


def test_service_away_for_twenty_seconds(model: Path, trouble: Trouble) -> None:
    data = rollouts(model, [OK, WRONG, FAILS, OK])
    trouble.stop_for(OUTAGE_S)
    time.sleep(0.5)
    began = time.monotonic()
    results = scored(masking(model, trouble), data)
    assert time.monotonic() - began > OUTAGE_S - 1.0
    check_masked(data, results, [1.0, 0.0, None, 1.0])


def test_service_away_for_longer_than_anybody_waits(model: Path, trouble: Trouble) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    results = settled(worker(model, trouble, url=gone, retry_s=1.0), rollouts(model, [OK, WRONG]))
    assert all(isinstance(result, NotVerified) and result.code == "unreachable" for result in results)
    masked = scored(masking(model, trouble, url=gone, retry_s=1.0), rollouts(model, [OK, WRONG]))
    assert codes(masked) == ["unreachable"] * 2
    assert all(map(math.isnan, numbers(masked)))


def test_hanging_verifier(model: Path, trouble: Trouble) -> None:
    data = rollouts(model, [OK, HANGS, WRONG, OK])
    check_masked(data, scored(masking(model, trouble), data), [1.0, None, 0.0, 1.0])


def test_a_quick_rollout_does_not_wait_for_one_that_hangs(model: Path, trouble: Trouble) -> None:
    loop_worker = worker(model, trouble)

    async def race() -> float:
        began = time.monotonic()
        slow = asyncio.create_task(loop_worker.compute_score(rollouts(model, [HANGS])))
        quick = await loop_worker.compute_score(rollouts(model, [OK]))
        took = time.monotonic() - began
        assert quick["reward_score"] == 1.0
        assert not slow.done()
        with pytest.raises(NotVerified):
            await slow
        return took

    assert loop_worker.loop.run_until_complete(race()) < patience(4.0)


def test_budget_that_is_spent(model: Path, trouble: Trouble) -> None:
    run = trouble.broke(fresh())
    saying = [[{"role": "assistant", "content": f'{{"do": "ok", "n": "{fresh()}"}}'}] for _ in range(3)]
    data = rollouts(model, [OK] * 3, tool_extra_fields=[{"messages": messages} for messages in saying])
    results = scored(masking(model, trouble, run=run), data)
    assert codes(results) == ["budget_exhausted"] * 3
    assert all(map(math.isnan, numbers(results)))
    assert advantages(data, results).tolist() == [0.0] * 3


def test_every_request_delivered_twice(model: Path, trouble: Trouble) -> None:
    run = fresh()
    data = rollouts(model, [OK, WRONG, FAILS, OK], global_steps=[7] * 4)
    trouble.duplicate()
    try:
        results = scored(masking(model, trouble, run=run), data)
    finally:
        trouble.duplicate(False)
    check_masked(data, results, [1.0, 0.0, None, 1.0])
    with trouble.client() as client:
        records = client.rewards(run, limit=100).records
        assert client.run(run).trajectories == len(data)
    assert {record.multiplicity for record in records} == {1}
    assert {record.group for record in records} == {data.non_tensor_batch["uid"][0]}
    assert {record.policy_version for record in records} == {"7"}


def test_five_hundred_at_once_travel_in_few_requests(model: Path, trouble: Trouble) -> None:
    loop_worker = worker(model, trouble)
    data = rollouts(model, [OK, WRONG] * (CONCURRENT // 2))
    before = trouble.requests
    results = settled(loop_worker, data)
    assert numbers(results) == [1.0, 0.0] * (CONCURRENT // 2)
    assert trouble.requests - before < CONCURRENT / 10


def test_turns_stand_at_their_last_tokens(model: Path, trouble: Trouble) -> None:
    with trouble.client() as client:
        client.put_ladder("spoken-turns", TURNS)
    data = rollouts(model, [OK, OK], tool_extra_fields=[{"messages": conversation()}, {}])
    data.batch["response_mask"] = torch.tensor([[1, 0, 1], [1, 1, 0]])
    data.batch["attention_mask"] = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    results = scored(worker(model, trouble, ladder="spoken-turns"), data)
    shipped = pickle.loads(pickle.dumps(numbers(results)))  # between processes, as ray does
    assert all(isinstance(value, TurnScore) for value in shipped)
    placed = VerifierRewardManager.assemble_rm_scores(data, shipped)
    assert numbers(results) == [1.5, 1.0]
    assert placed.tolist() == [[0.5, 0.0, 1.0], [0.0, 1.0, 0.0]]


def conversation() -> list[dict[str, Any]]:
    """Two turns, the first with a call that went well: its process reward is 1."""
    call = {"id": "c1", "type": "function", "function": {"name": "tool", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": "let me see", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": OK},
    ]


def test_function_by_configuration(model: Path, trouble: Trouble) -> None:
    options = {"run": fresh(), "ladder.acts": "spoken", "url": trouble.url, "key": trouble.key}
    config = configuration(
        model,
        *FUNCTION,
        *[
            f"+reward.custom_reward_function.reward_kwargs.{name}={value}"
            for name, value in options.items()
        ],
    )
    assert get_custom_reward_fn(config) is not None
    results = settled(RewardLoopWorker(config), rollouts(model, [OK, FAILS, WRONG]))
    assert (results[0]["reward_score"], results[2]["reward_score"]) == (1.0, 0.0)
    assert isinstance(results[1], NotVerified)
    assert results[0]["reward_extra_info"]["tier"] == "fast"
    assert list(results[0]["reward_extra_info"]) == list(results[2]["reward_extra_info"])


def test_registered_by_name() -> None:
    assert get_reward_manager_cls("verifier") is VerifierRewardManager


def test_masking_is_refused_where_a_group_would_be_spoilt(model: Path, trouble: Trouble) -> None:
    with pytest.raises(Misconfigured, match="verified_grpo"):
        worker(model, trouble, MASK, f"{ESTIMATOR}=grpo")


@pytest.mark.parametrize("name", [*SPOILT_BY_ONE, "reinforce_plus_plus_baseline", "gdpo", "of_my_own"])
def test_an_estimator_that_rewards_the_last_one_left_is_refused(
    model: Path, trouble: Trouble, name: str
) -> None:
    with pytest.raises(Misconfigured, match=f"{ESTIMATOR}={name} .* set {ESTIMATOR}=verified_grpo"):
        worker(model, trouble, f"{ESTIMATOR}={name}")


@pytest.mark.parametrize("name", VerifierRewardManager.lone_safe)
def test_the_others_are_taken(model: Path, trouble: Trouble, name: str) -> None:
    assert worker(model, trouble, f"{ESTIMATOR}={name}").reward_manager is not None


@pytest.mark.parametrize(
    "trainer", ["trainer.v1.trainer_mode=colocate_async", "trainer.v1.trainer_mode=separate_async"]
)
def test_any_estimator_is_taken_where_a_group_is_whole_or_not_there(
    model: Path, trouble: Trouble, trainer: str
) -> None:
    assert worker(model, trouble, f"{ESTIMATOR}=grpo", trainer).reward_manager is not None
    with pytest.raises(Misconfigured, match="verified_grpo"):
        worker(model, trouble, f"{ESTIMATOR}=grpo", trainer, MASK)


def test_any_estimator_is_taken_by_the_legacy_trainer_which_stops(model: Path, trouble: Trouble) -> None:
    assert worker(model, trouble, f"{ESTIMATOR}=grpo", "trainer.use_v1=False").reward_manager is not None


def last_one_left(name: str) -> float:
    """The advantage that an estimator gives the only rollout of a group, with 0.9, beside a whole group."""
    data = DataProto.from_single_dict(
        {
            "token_level_rewards": torch.tensor([[0.0, 0.9], [0.0, 1.0], [0.0, 0.0]]),
            "response_mask": torch.ones(3, 2),
            "uid": np.array(["a", "b", "b"], dtype=object),
        }
    )
    return float(compute_advantage(data, adv_estimator=name, config={}).batch["advantages"][0, 0])


def test_what_verl_gives_the_last_one_left() -> None:
    assert all(last_one_left(name) > 0.5 for name in SPOILT_BY_ONE)
    for name in ("verified_grpo", "verified_rloo", "rloo_vectorized"):
        assert last_one_left(name) == 0.0


@pytest.fixture
def process() -> Iterator[ProcessPoolExecutor]:
    """A fresh process, in which nothing of ours was imported."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_the_function_s_recipe_brings_the_estimator_into_the_trainer(
    model: Path, process: ProcessPoolExecutor
) -> None:
    path, external, estimator = FUNCTION
    with pytest.raises(ValueError, match="Unknown advantage estimator simply: verified_grpo"):
        process.submit(lone_advantage, model, path, estimator).result()
    assert process.submit(lone_advantage, model, path).result() == pytest.approx(0.9)
    assert process.submit(lone_advantage, model, path, external, estimator).result() == 0.0


def test_misconfiguration_is_an_error_at_once(model: Path, trouble: Trouble) -> None:
    with pytest.raises(Misconfigured, match="ladder"):
        RewardLoopWorker(configuration(model, *MANAGER))
    with pytest.raises(TypeError, match="second"):
        worker(model, trouble, second=3)
    [wrong_key] = settled(worker(model, trouble, key="nobody"), rollouts(model, [OK]))
    assert isinstance(wrong_key, NotAuthenticated)
    [no_ladder] = settled(worker(model, trouble, ladder="nowhere"), rollouts(model, [OK]))
    assert isinstance(no_ladder, Misconfigured)


@pytest.mark.parametrize(
    ("name", "plain"),
    [("verified_grpo", compute_grpo_outcome_advantage), ("verified_rloo", compute_rloo_outcome_advantage)],
)
def test_estimators_are_verls_own_over_the_rest(name: str, plain: Any) -> None:
    """Two groups; one loses a member, of the other only one member is left."""
    rewards = torch.tensor(
        [[0.0, 1.0], [0.0, math.nan], [0.0, 0.25], [0.0, 0.5], [0.0, 1.0], [math.nan, 0.0]]
    )
    mask = torch.ones_like(rewards)
    groups = np.array(["a", "a", "a", "a", "b", "b"], dtype=object)
    data = DataProto.from_single_dict(
        {"token_level_rewards": rewards, "response_mask": mask, "uid": groups}
    )
    done = compute_advantage(data, adv_estimator=name, config={})
    kept = [0, 2, 3]
    expected, _ = plain(rewards[kept], mask[kept], groups[kept])
    torch.testing.assert_close(done.batch["advantages"][kept], expected)
    assert (done.batch["advantages"][[1, 4, 5]] == 0).all()
    assert (done.batch["returns"][[1, 4, 5]] == 0).all()
    spoilt, _ = plain(rewards, mask, groups)
    assert spoilt[:4].isnan().all()  # why the plain estimator is refused
