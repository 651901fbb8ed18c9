"""OpenRLHF's own executors, sample generator and advantages, scored by a service in trouble."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.utils.agent import AgentExecutorBase, SingleTurnAgentExecutor

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from tests.trainers.openrlhf_engines import stand_in
from verifier_service.trainers import openrlhf as adapter
from verifier_service.trainers.scoring import Misconfigured, Scoring

stand_in()

from openrlhf.trainer.ppo_utils import samples_generator  # noqa: E402
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker  # noqa: E402
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor, _load_agent_executor  # noqa: E402

OUTAGE_S = 20.0
EOS = "<|im_end|>"
PROMPT = "<|im_start|>user\nWhich? <|im_end|>\n<|im_start|>assistant\n"
GENERATE = {"max_len": 4_096, "max_new_tokens": 512}
WAYS = ("url", "agent")


class Characters:
    """A tokenizer of single characters."""

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": torch.tensor([[ord(one) for one in text]])}

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        text = "".join(map(chr, tokens))
        return text.replace(EOS, "") if skip_special_tokens else text


class Engine:
    """Says what it is told to, one text a call, in the place of vLLM; runs samples as OpenRLHF's does."""

    def __init__(self, executor: AgentExecutorBase) -> None:
        self.executor = executor
        self.says: list[str] = []

    async def generate(self, tokens: Any, params: Any, multi_modal_data: Any = None) -> Any:
        text = self.says.pop(0) + EOS
        ids = [ord(one) for one in text]
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=ids, text=text, finish_reason="stop", logprobs=None)]
        )

    def group(self, says: Sequence[str], label: str = "gold", prompt: str = PROMPT) -> list[dict[str, Any]]:
        """One prompt's samples."""
        self.says = list(says)
        params = SimpleNamespace(max_tokens=512, logprobs=None)
        run = RolloutRayActor.__ray_metadata__.modified_class.generate_responses
        responses: list[dict[str, Any]] = asyncio.run(
            run(self, prompt, label, params, 4_096, Characters(), num_samples=len(says))
        )
        return responses


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def calm(trouble: Trouble) -> Iterator[None]:
    yield
    trouble.duplicate(False)


def engine(trouble: Trouble, way: str, run: str, **scoring: Any) -> Engine:
    if way == "url":
        host = trouble.url.removeprefix("http://")
        url = f"http://:{trouble.key}@{host}/v1/score/{run}/spoken?format=openrlhf"
        return Engine(SingleTurnAgentExecutor([url]))

    class Executor(adapter.AgentExecutor):
        scoring = Scoring(run=run, ladder="spoken", url=trouble.url, key=trouble.key)

    return Engine(Executor())


def experiences(responses: Sequence[dict[str, Any]]) -> list[Experience]:
    """As ``SamplesGenerator`` makes them."""
    generator = samples_generator.SamplesGenerator.__new__(samples_generator.SamplesGenerator)
    return [generator._process_response_into_experience(one, **GENERATE) for one in responses]


def advantages(made: Sequence[Experience], estimator: str = "group_norm") -> list[float]:
    """OpenRLHF's own advantage of each sample."""
    maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
    names = SimpleNamespace
    maker.strategy = names(
        args=names(
            rollout=names(n_samples_per_prompt=len(made)),
            algo=names(advantage=names(estimator=estimator, gamma=1.0, no_std_norm=False)),
            reward=names(
                clip_range=None,
                overlong_buffer_len=None,
                overlong_penalty_factor=1.0,
                stop_properly_penalty_coef=None,
            ),
        )
    )
    maker.advantage_estimator = estimator
    maker.kl_ctl = names(value=0.0)
    for at, one in enumerate(made):
        one.index = [at]
        one.kl = torch.zeros_like(one.action_mask, dtype=torch.float32)
    return [
        float(one.advantages[one.action_mask.bool()][0])
        for one in maker.compute_advantages_and_returns(list(made))
    ]


def generated(
    monkeypatch: pytest.MonkeyPatch, running: Engine, groups: Sequence[Sequence[str]], wanted: int
) -> list[Experience]:
    """What OpenRLHF's generator keeps of groups under dynamic filtering, when it wants so many."""
    waiting = iter(groups)

    class Generator(samples_generator.SamplesGenerator):  # type: ignore[misc]
        def _dispatch_prompts_to_vllm(self, prompts: Any, labels: Any, **_: Any) -> list[Any]:
            return [running.group(next(waiting)) for _ in prompts]

    monkeypatch.setattr(
        samples_generator,
        "ray",
        SimpleNamespace(wait=lambda refs, **_: (refs[:1], refs[1:]), get=lambda ref: ref),
    )
    generator = Generator.__new__(Generator)
    generator.args = SimpleNamespace(algo=SimpleNamespace(dynamic_filtering_range=(0.0, 1.0)))
    batches = iter([(None, [PROMPT], ["gold"], [None])] * len(groups))
    kept, _, _ = generator._generate_vllm(batches, wanted, True, **GENERATE)
    return list(kept)


def count(trouble: Trouble, run: str) -> int:
    with trouble.client() as client:
        return client.run(run).trajectories


def test_rewards_reach_advantages(trouble: Trouble, way: str) -> None:
    made = experiences(engine(trouble, way, fresh()).group([OK, WRONG, WRONG, OK]))
    assert [float(one.rewards.item()) for one in made] == [1.0, 0.0, 0.0, 1.0]
    assert all(float(one.info["verified"].item()) == 1.0 for one in made)
    found = advantages(made)
    assert found[0] == found[3] == pytest.approx(0.866, abs=0.01)
    assert found[1] == found[2] == pytest.approx(-0.866, abs=0.01)
    assert advantages(made, "rloo")[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("said", [FAILS, HANGS])
def test_a_group_with_an_unverified_sample_is_dropped_and_replaced(
    monkeypatch: pytest.MonkeyPatch, trouble: Trouble, way: str, said: str
) -> None:
    running = engine(trouble, way, fresh())
    kept = generated(monkeypatch, running, [[OK, said], [OK, WRONG], [OK, OK], [WRONG, OK]], wanted=2)
    assert [float(one.rewards.item()) for one in kept] == [1.0, 0.0, 0.0, 1.0]
    assert advantages(kept[:2], "dr_grpo") == [0.5, -0.5]


def test_without_filtering_an_unverified_sample_stops_the_run(trouble: Trouble, way: str) -> None:
    responses = engine(trouble, way, fresh()).group([OK, FAILS])
    assert responses[1]["reward"] is None
    made = experiences(responses)
    assert made[1].rewards is None
    assert math.isnan(made[1].scores.item())
    with pytest.raises(AttributeError, match="NoneType"):
        advantages(made)
    maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
    maker.strategy = SimpleNamespace(
        args=SimpleNamespace(ds=SimpleNamespace(ring_attn_size=1, tensor_parallel_size=1))
    )
    maker.reward_model_group = None
    monkey = pytest.MonkeyPatch()
    monkey.setattr("openrlhf.trainer.ppo_utils.experience_maker.ray", SimpleNamespace(put=list))
    with pytest.raises(ValueError, match="reward_model_group"):
        maker.make_experience([made[1], made[0]])
    monkey.undo()


def test_a_budget_that_runs_out_leaves_nothing_to_train_on(
    monkeypatch: pytest.MonkeyPatch, trouble: Trouble, way: str
) -> None:
    running = engine(trouble, way, trouble.broke(fresh()))
    groups = [[json.dumps({"do": "ok", "n": fresh()}) for _ in range(2)] for _ in range(2)]
    assert generated(monkeypatch, running, groups, wanted=1) == []


def test_an_outage_is_waited_for_by_the_agent_and_is_no_number_over_the_url(
    trouble: Trouble, way: str
) -> None:
    run = fresh()
    running = engine(trouble, way, run)
    assert [one["reward"] for one in running.group([OK])] in ([[1.0]], [1.0])
    outage = trouble.stop_for(OUTAGE_S)
    responses = running.group([OK, WRONG])
    outage.join()
    found = [one["reward"] for one in responses]
    # OpenRLHF's own client tries for five seconds and then gives up.
    assert found == ([1.0, 0.0] if way == "agent" else [None, None])
    made = experiences(responses)
    if way == "url":
        assert [one.rewards for one in made] == [None, None]
    later = running.group([OK])
    assert experiences(later)[0].rewards.item() == 1.0


def test_requests_that_come_twice_count_once(trouble: Trouble, way: str) -> None:
    run = fresh()
    trouble.duplicate()
    made = experiences(engine(trouble, way, run).group([OK, WRONG]))
    assert [float(one.rewards.item()) for one in made] == [1.0, 0.0]
    assert count(trouble, run) == 2


def test_the_agent_names_groups_and_hands_over_references(trouble: Trouble) -> None:
    run = fresh()
    running = engine(trouble, "agent", run)
    running.group([OK, OK], label='{"smiles": "CCO"}')
    running.group([WRONG], label="")
    with trouble.client() as client:
        cases = [client.trajectory(run, one.trajectory) for one in client.rewards(run, wait_s=5).records]
    assert len({one.id for one in cases}) == 3
    assert sorted((one.group_size, one.answer) for one in cases) == [(1, WRONG), (2, OK), (2, OK)]
    assert len({one.group for one in cases}) == 2
    assert {one.prompt for one in cases} == {PROMPT}
    assert [one.reference for one in cases if one.answer == OK] == [{"smiles": "CCO"}] * 2


@pytest.mark.parametrize(
    ("chosen", "single", "last"),
    [
        ((), "use", "use"),
        (("",), "use</s>", "use</s>" + EOS),
        ((EOS,), "use</s>", "use</s>"),
        ((EOS, "se</s>"), "u", "u"),
    ],
)
def test_what_is_cut_off_completions_may_be_chosen(
    trouble: Trouble, chosen: tuple[str, ...], single: str, last: str
) -> None:
    """An action has the model's own end token, a completion is decoded without."""
    scored = Scoring(run=fresh(), ladder="spoken", url=trouble.url, key=trouble.key)

    class Instance(adapter.AgentInstance):
        scoring = scored
        ends = chosen

    class Single(adapter.AgentExecutor):
        scoring = scored
        ends = chosen

    class Turns(adapter.TurnsExecutor):
        instance = Instance

    for executor in (Single(), Turns()):
        Engine(executor).group(["use</s>"])
    with trouble.client() as client:
        records = client.rewards(scored.run, wait_s=5).records
        cases = [client.trajectory(scored.run, name) for name in {one.trajectory for one in records}]
    assert sorted(one.answer for one in cases) == sorted([single, last])


def episodes(trouble: Trouble, run: str, turns: int) -> Engine:
    class Instance(adapter.AgentInstance):
        scoring = Scoring(run=run, ladder="spoken", url=trouble.url, key=trouble.key)
        max_turns = turns
        tools = {"look": lambda at: f"nothing at {at}"}
        frame = "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

    class Executor(adapter.TurnsExecutor):
        instance = Instance

    return Engine(Executor())


CALL = '<tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>'


def test_an_episode_is_verified_turn_by_turn(trouble: Trouble) -> None:
    run = fresh()
    [response] = _episode(trouble, run, [CALL, OK])
    assert response["reward"] == 1.0
    assert len(response["action_ranges"]) == 2
    said = Characters().decode(response["observation_tokens"])
    assert "nothing at 1" in said
    [made] = experiences([response])
    assert made.rewards.item() == 1.0
    with trouble.client() as client:
        [record] = [one for one in client.rewards(run, wait_s=5).records if one.reward is not None][-1:]
        case = client.trajectory(run, record.trajectory)
    assert [turn["message"] for turn in case.turns] == [CALL, OK]
    assert case.turns[0]["observations"][0]["text"] == "nothing at 1"


def _episode(trouble: Trouble, run: str, says: Sequence[str], turns: int = 3) -> list[dict[str, Any]]:
    running = episodes(trouble, run, turns)
    running.says = list(says)
    params = SimpleNamespace(max_tokens=512, logprobs=None)
    response = asyncio.run(
        running.executor.execute(
            prompt=PROMPT,
            label="gold",
            sampling_params=params,
            max_length=4_096,
            hf_tokenizer=Characters(),
            llm_engine=running,
        )
    )
    return [response]


@pytest.mark.parametrize("said", [FAILS, HANGS])
def test_an_episode_that_was_not_verified_has_no_reward(trouble: Trouble, said: str) -> None:
    [response] = _episode(trouble, fresh(), [CALL, said])
    assert response["reward"] is None
    assert math.isnan(response["scores"])
    assert response["extra_logs"]["verified"] == 0.0


def test_an_episode_outlasts_an_outage(trouble: Trouble) -> None:
    outage = trouble.stop_for(OUTAGE_S)
    [response] = _episode(trouble, fresh(), [CALL, OK])
    outage.join()
    assert response["reward"] == 1.0


def test_the_file_is_loaded_as_openrlhf_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(Path(adapter.__file__))
    with pytest.raises(Misconfigured, match="VERIFIER_RUN"):
        _load_agent_executor(path)
    monkeypatch.setenv("VERIFIER_RUN", "r")
    monkeypatch.setenv("VERIFIER_LADDER", "l")
    assert isinstance(_load_agent_executor(path), AgentExecutorBase)
