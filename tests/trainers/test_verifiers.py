"""Environments of verifiers 0.3.1, rubrics and v1 tasks, scored by a service in trouble."""

from __future__ import annotations

import asyncio
import math
import time
from types import SimpleNamespace
from typing import Any

import pytest
import verifiers as vf
import verifiers.v1 as v1
from datasets import Dataset
from verifiers.legacy.types import Response, ResponseMessage
from verifiers.v1.rollout import Rollout, RolloutLimits, RolloutTimeouts
from verifiers.v1.utils.retries import trace_should_retry

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from verifier_service.client import NotAuthenticated, Wait
from verifier_service.trainers.scoring import Misconfigured, Scoring
from verifier_service.trainers.verifiers import VerifiedRubric, reward

OUTAGE_S = 20.0


class Scripted(vf.Client):
    """A model that says what it is told, in order."""

    def __init__(self, *said: str) -> None:
        super().__init__(None)
        self.said = list(said)

    def setup_client(self, config: Any) -> None:
        """There is nothing to connect to."""

    async def to_native_tool(self, tool: Any) -> Any:
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        return messages, {}

    async def get_native_response(self, prompt: Any, model: str, *rest: Any, **more: Any) -> str:
        return self.said.pop(0)

    async def raise_from_native_response(self, response: str) -> None:
        """It always answers."""

    async def from_native_response(self, response: str) -> Response:
        message = ResponseMessage(content=response, finish_reason="stop", is_truncated=False)
        return Response(id=fresh(), created=0, model="m", message=message)

    async def close(self) -> None:
        """There is nothing to close."""


def scoring(trouble: Trouble, **changes: Any) -> Scoring:
    fields: dict[str, Any] = {
        "run": fresh("vf"),
        "ladder": "spoken",
        "url": trouble.url,
        "key": trouble.key,
    }
    return Scoring(**(fields | changes))


def environment(asks: Scoring) -> Any:
    data = Dataset.from_list(
        [{"question": "act please", "answer": "4", "info": {"inputs": {"unit": "eV"}}}]
    )
    return vf.SingleTurnEnv(dataset=data, rubric=VerifiedRubric(asks))


def rolled_out(asks: Scoring, *said: str, retries: int = 0) -> list[dict[str, Any]]:
    """One rollout for each thing said, each scored by itself, as prime-rl does."""
    env = environment(asks)
    row = env.get_dataset()[0]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(
            *(
                env.run_rollout(dict(row), Scripted(*[one] * (retries + 1)), "m", {}, retries)
                for one in said
            )
        )

    return asyncio.run(all_of_them())


def in_group(asks: Scoring, *said: str) -> list[dict[str, Any]]:
    """The rollouts of one prompt, scored together."""
    env = environment(asks)
    row = env.get_dataset()[0]
    outputs: list[dict[str, Any]] = asyncio.run(
        env.run_group([dict(row) for _ in said], Scripted(*said), "m", {})
    )
    return outputs


def usable(outputs: list[dict[str, Any]]) -> list[bool]:
    """What prime-rl trains on: rollouts without an error."""
    return [output["error"] is None for output in outputs]


def test_a_rubric_scores_and_names_the_rollout(trouble: Trouble) -> None:
    asks = scoring(trouble)
    [right, wrong] = rolled_out(asks, OK, WRONG)
    assert [right["reward"], wrong["reward"]] == [1.0, 0.0]
    assert [right["metrics"]["verified"], wrong["metrics"]["verified"]] == [1.0, 0.0]
    assert usable([right, wrong]) == [True, True]
    with trouble.client() as client:
        [record, _] = client.rewards(asks.run).records
        case = client.trajectory(asks.run, record.trajectory)
    assert (case.reference, case.inputs) == ({"answer": "4"}, {"unit": "eV"})
    assert isinstance(case.prompt, list)
    assert case.prompt[-1]["content"] == "act please"
    assert case.turns[0]["message"] in (OK, WRONG)


@pytest.mark.parametrize("says", [FAILS, HANGS])
def test_no_reward_is_an_error_and_no_number(trouble: Trouble, says: str) -> None:
    [output] = rolled_out(scoring(trouble), says)
    assert math.isnan(output["reward"])
    assert output["error"]["error"] == "Unverified"
    assert "unverifiable" in output["error"]["message"]


def test_a_group_takes_the_mean_over_those_that_have_a_reward(trouble: Trouble) -> None:
    rubric = VerifiedRubric(scoring(trouble))
    states = [state_saying(text) for text in (OK, WRONG, FAILS, HANGS, OK)]
    asyncio.run(rubric.score_group(states))
    expected = [pytest.approx(1 / 3), pytest.approx(-2 / 3), None, None, pytest.approx(1 / 3)]
    assert [state["advantage"] for state in states] == expected
    assert [state["trajectory"][0]["advantage"] for state in states] == expected
    assert [state["trajectory"][0]["reward"] for state in states] == [1.0, 0.0, None, None, 1.0]


def state_saying(text: str) -> Any:
    step = {"advantage": None, "reward": None}
    answer = [{"role": "assistant", "content": text}]
    prompt = [{"role": "user", "content": "act please"}]
    return vf.State(
        {"prompt": prompt, "completion": answer, "trajectory": [step], "trajectory_id": fresh()}
    )


def test_groups_run_by_the_environment(trouble: Trouble) -> None:
    outputs = in_group(scoring(trouble), OK, WRONG, FAILS)
    assert usable(outputs) == [True, True, False]
    assert [output["reward"] for output in outputs[:2]] == [1.0, 0.0]
    assert math.isnan(outputs[2]["reward"])


def test_a_spent_budget(trouble: Trouble) -> None:
    run = trouble.broke(fresh("broke"))
    new = f'{{"do": "ok", "n": "{fresh()}"}}'
    [output] = rolled_out(scoring(trouble, run=run), new, retries=2)
    assert math.isnan(output["reward"])
    assert "budget_exhausted" in output["error"]["message"]


def test_an_outage_of_twenty_seconds(trouble: Trouble) -> None:
    began = time.monotonic()
    outage = trouble.stop_for(OUTAGE_S)
    time.sleep(0.3)
    outputs = rolled_out(scoring(trouble), *[OK, WRONG] * 8)
    outage.join()
    assert time.monotonic() - began > OUTAGE_S
    assert [output["reward"] for output in outputs] == [1.0, 0.0] * 8


def test_requests_that_are_delivered_twice(trouble: Trouble) -> None:
    trouble.duplicate()
    asks = scoring(trouble)
    try:
        outputs = rolled_out(asks, *[OK, WRONG] * 4)
    finally:
        trouble.duplicate(False)
    assert [output["reward"] for output in outputs] == [1.0, 0.0] * 4
    with trouble.client() as client:
        records = client.rewards(asks.run).records
    assert len({record.trajectory for record in records}) == 8
    assert {record.multiplicity for record in records} == {1}


def test_a_service_that_stays_away_is_tried_again_by_verifiers(trouble: Trouble) -> None:
    away = scoring(trouble, url="http://127.0.0.1:9", retry_s=0.1)
    [output] = rolled_out(away, OK, retries=1)
    assert math.isnan(output["reward"])
    assert output["error"]["error"] == "VerificationFailed"


def test_a_mistake_in_the_configuration_stops_the_run(trouble: Trouble) -> None:
    with pytest.raises(NotAuthenticated):
        rolled_out(scoring(trouble, key="vk_wrong"), OK)
    with pytest.raises(Misconfigured, match="no-such-ladder"):
        in_group(scoring(trouble, ladder="no-such-ladder"), OK, WRONG)


# With rubrics of one's own


async def says_ok(completion: Any) -> float:
    """A reward of one's own: 0 for the wrong answer, 1 for all others, also for unscored ones."""
    return float(completion[-1]["content"] != WRONG)


def lengths(completions: list[Any]) -> list[float]:
    """A group reward of one's own."""
    return [float(len(completions)) for _ in completions]


async def marks_its_steps(state: Any) -> float:
    """A reward that writes a step's reward itself."""
    state["trajectory"][0]["reward"] = 7.0
    return 0.0


def mine(*functions: Any, weight: float = 0.2) -> Any:
    return vf.Rubric(funcs=list(functions), weights=[weight] * len(functions))


SAID = (OK, WRONG, FAILS, HANGS)
SUMS = [1.2, 0.0, None, None]
ADVANTAGES = [0.6, -0.6, None, None]


def near(values: list[float | None]) -> list[Any]:
    return [None if value is None else pytest.approx(value) for value in values]


@pytest.mark.parametrize("others", [[mine(says_ok)], [mine(says_ok), mine(lengths, weight=0.0)]])
def test_rubrics_of_ones_own_leave_unscored_rollouts_without_a_number(
    trouble: Trouble, others: list[Any]
) -> None:
    rubric = VerifiedRubric(scoring(trouble), others=others)
    states = [state_saying(text) for text in SAID]
    asyncio.run(rubric.score_group(states))
    assert [None if math.isnan(state["reward"]) else state["reward"] for state in states] == near(SUMS)
    assert [state["error"] is None for state in states if "error" in state] == [False, False]
    assert [state["advantage"] for state in states] == near(ADVANTAGES)
    steps = [state["trajectory"][0] for state in states]
    assert [step["advantage"] for step in steps] == near(ADVANTAGES)
    assert [step["reward"] for step in steps] == near(SUMS)
    assert [state["metrics"]["says_ok"] for state in states] == [1.0, 0.0, 1.0, 1.0]
    alone = [state_saying(text) for text in SAID]
    asyncio.run(asyncio.wait_for(each(VerifiedRubric(scoring(trouble), others=[mine(says_ok)]), alone), 30))
    assert [None if math.isnan(state["reward"]) else state["reward"] for state in alone] == near(SUMS)


async def each(rubric: Any, states: list[Any]) -> None:
    await asyncio.gather(*(rubric.score_rollout(state) for state in states))


def test_what_a_reward_function_writes_into_a_step_stays(trouble: Trouble) -> None:
    [state] = states = [state_saying(OK)]
    asyncio.run(VerifiedRubric(scoring(trouble), others=[mine(marks_its_steps)]).score_group(states))
    assert state["trajectory"] == [{"advantage": 0.0, "reward": 7.0}]


def group_states(rubric: Any) -> list[Any]:
    """The rollouts of one prompt as an environment leaves them, its own rubrics added."""
    data = Dataset.from_list([{"question": "act please", "answer": "4"}])
    env = vf.SingleTurnEnv(dataset=data, rubric=rubric)
    inputs = [dict(env.get_dataset()[0]) for _ in SAID]
    states: list[Any] = asyncio.run(env._run_group_states(inputs, Scripted(*SAID), "m", {}))
    return states


def test_the_rubrics_that_an_environment_adds_change_nothing(trouble: Trouble) -> None:
    states = group_states(VerifiedRubric(scoring(trouble), others=[mine(says_ok)]))
    assert [state["metrics"]["num_turns"] for state in states] == [1.0] * 4
    by_text = {state["completion"][-1]["content"]: state for state in states}
    found = [by_text[text] for text in SAID]
    assert [state["advantage"] for state in found] == near(ADVANTAGES)
    assert [state["trajectory"][0]["advantage"] for state in found] == near(ADVANTAGES)
    assert [state["trajectory"][0]["reward"] for state in found] == near(SUMS)


def test_a_plain_group_of_rubrics_is_refused(trouble: Trouble) -> None:
    with pytest.raises(Misconfigured, match="others"):
        group_states(vf.RubricGroup(rubrics=[VerifiedRubric(scoring(trouble)), mine(says_ok)]))


def test_an_environment_that_is_told_not_to_score_has_no_number(trouble: Trouble) -> None:
    env = environment(scoring(trouble))
    env.set_score_rollouts(False)
    row = dict(env.get_dataset()[0])
    output = asyncio.run(env.run_rollout(row, Scripted(OK), "m", {}))
    assert math.isnan(output["reward"])


# v1


class Question(v1.TaskData):
    answer: str = "4"
    inputs: dict[str, Any] = {}


def task_of(asks: Scoring) -> v1.Task[Any]:
    class Verified(v1.Task[Question]):
        """A task as a user writes it."""

        verified = reward(asks, weight=2.0)

        @v1.metric
        async def length(self, trace: v1.Trace[Any]) -> float:
            return float(len(trace.messages))

    return Verified(Question(prompt="act please", inputs={"unit": "eV"}))


class NoHarness:
    """A harness with nothing of its own to score."""

    async def score(self, trace: Any, runtime: Any) -> None:
        """Nothing."""


async def trace_of(asks: Scoring, text: str) -> v1.Trace[Any]:
    """What verifiers' own rollout makes of a conversation that is over: it scores and records."""
    rollout = Rollout(
        task=task_of(asks),
        agent_config=v1.AgentConfig(),
        harness=NoHarness(),
        ctx=SimpleNamespace(),
        runtime_config=v1.SubprocessConfig(),
        timeouts=RolloutTimeouts(),
        limits=RolloutLimits(),
    )
    said = [v1.UserMessage(content="act please"), v1.AssistantMessage(content=text)]
    for place, message in enumerate(said):
        parent = place - 1 if place else None
        rollout.trace.nodes.append(v1.MessageNode(parent=parent, message=message, sampled=place == 1))
    rollout._opened = True
    return await rollout.close()


def traces(asks: Scoring, *said: str) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(trace_of(asks, text) for text in said))

    return asyncio.run(all_of_them())


def test_a_task_is_scored_and_says_what_it_cost(trouble: Trouble) -> None:
    asks = scoring(trouble)
    [right, wrong] = traces(asks, OK, WRONG)
    assert (right.ok, right.reward, wrong.ok, wrong.reward) == (True, 2.0, True, 0.0)
    assert right.metrics == {"length": 2.0}
    assert right.info["verifier"]["id"] == right.id
    assert right.info["verifier"]["tier"] == "fast"
    with trouble.client() as client:
        client.query(asks.run, [right.id], wait=Wait("final", 5))
        case = client.trajectory(asks.run, right.id)
    assert (case.reference, case.inputs) == ({"answer": "4"}, {"unit": "eV"})
    assert (case.prompt, case.answer) == ([{"role": "user", "content": "act please"}], OK)


def test_a_trace_without_a_reward_has_an_error_and_null(trouble: Trouble) -> None:
    for trace in traces(scoring(trouble), FAILS, HANGS):
        assert trace.rewards == {"verified": None}
        assert trace.has_error
        assert trace.errors[-1].type == "Unverified"
        assert trace.info["verifier"]["code"] == "unverifiable"


def test_what_may_pass_can_be_retried_by_its_name(trouble: Trouble) -> None:
    retry = v1.RetryConfig(max_retries=1, include=["VerificationFailed"])
    [away] = traces(scoring(trouble, url="http://127.0.0.1:9", retry_s=0.1), OK)
    [failed] = traces(scoring(trouble), FAILS)
    assert trace_should_retry(away, retry)
    assert not trace_should_retry(failed, retry)
    assert (away.rewards, failed.rewards) == ({"verified": None}, {"verified": None})


def test_v1_in_trouble(trouble: Trouble) -> None:
    run_name = trouble.broke(fresh("broke"))
    [spent] = traces(scoring(trouble, run=run_name), f'{{"do": "ok", "n": "{fresh()}"}}')
    assert (spent.rewards, spent.info["verifier"]["code"]) == ({"verified": None}, "budget_exhausted")
    trouble.duplicate()
    try:
        twice = traces(scoring(trouble), OK, WRONG)
    finally:
        trouble.duplicate(False)
    assert [trace.reward for trace in twice] == [2.0, 0.0]
    outage = trouble.stop_for(OUTAGE_S)
    time.sleep(0.3)
    after = traces(scoring(trouble), OK, WRONG, OK, WRONG)
    outage.join()
    assert [trace.reward for trace in after] == [2.0, 0.0, 2.0, 0.0]
