"""OpenEnv's own HTTP and WebSocket server around our environment, with a service in trouble."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from openenv.core.generic_client import GenericEnvClient

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, free_port
from tests.trainers.episodes import ACTIONS, PROCESS, TOOLS, TURNS, WEIGHT, furnish
from verifier_service.trainers.chat import submission
from verifier_service.trainers.episodes import Task
from verifier_service.trainers.openenv import (
    NoTask,
    TextAction,
    VerifiedEnvironment,
    VerifiedRubric,
    app_of,
)
from verifier_service.trainers.scoring import Scoring

OUTAGE_S = 20.0
TASKS = {
    "four": Task(prompt="act please", reference={"answer": "4"}),
    "chat": Task(prompt=[{"role": "user", "content": "act again"}], inputs={"unit": "eV"}),
}


class Tooled(VerifiedEnvironment):
    """An environment with tools, as a user writes it."""

    tools = TOOLS


@pytest.fixture(autouse=True, scope="module")
def ladder(trouble: Trouble) -> None:
    furnish(trouble)


def scoring(trouble: Trouble, **changes: Any) -> Scoring:
    fields: dict[str, Any] = {"run": fresh("openenv"), "ladder": "stepped", "url": trouble.url}
    return Scoring(**(fields | {"key": trouble.key} | changes))


@contextmanager
def served(make: Callable[[], VerifiedEnvironment]) -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app_of(make), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def over_http(asks: Scoring) -> Iterator[httpx.Client]:
    with (
        served(lambda: Tooled(asks, TASKS, max_turns=TURNS)) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


def step(client: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/step", json={"action": {"text": text, "task": "four"}, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_step_over_http_is_an_episode(trouble: Trouble) -> None:
    asks = scoring(trouble)
    with over_http(asks) as client:
        reset = client.post("/reset", json={"task": "chat"}).json()
        right, wrong = step(client, OK), step(client, WRONG)
    assert reset["observation"]["prompt"] == [{"role": "user", "content": "act again"}]
    assert (reset["reward"], reset["done"]) == (None, False)
    assert (right["reward"], right["done"]) == (1.0, True)
    assert (wrong["reward"], wrong["done"]) == (0.0, True)
    assert right["observation"]["verifier"]["status"] == "final"
    with trouble.client() as service:
        case = service.trajectory(asks.run, right["observation"]["verifier"]["id"])
    assert (case.reference, case.answer) == ({"answer": "4"}, OK)


@pytest.mark.parametrize("text", [FAILS, HANGS])
def test_what_could_not_be_verified_is_null_on_the_wire(trouble: Trouble, text: str) -> None:
    with over_http(scoring(trouble)) as client:
        found = step(client, text)
    assert (found["reward"], found["done"]) == (None, True)
    assert found["observation"]["verifier"]["code"] == "unverifiable"


def test_a_session_of_five_turns(trouble: Trouble) -> None:
    with (
        served(lambda: Tooled(scoring(trouble), TASKS, max_turns=TURNS)) as url,
        GenericEnvClient(base_url=url).sync() as client,
    ):
        client.reset(seed=1)
        results = [client.step({"text": text}) for text in [*ACTIONS, OK]]
    assert [result.done for result in results] == [False] * 4 + [True]
    assert [result.reward for result in results[:4]] == pytest.approx(
        [WEIGHT * one / TURNS for one in PROCESS]
    )
    assert sum(result.reward for result in results) == pytest.approx(1 + WEIGHT * sum(PROCESS) / 4)
    assert "RuntimeError" in results[1].observation["text"]


def test_sessions_at_once_do_not_mix(trouble: Trouble) -> None:
    def play(url: str, answer: str) -> float:
        with GenericEnvClient(base_url=url).sync() as client:
            client.reset()
            return sum(client.step({"text": text}).reward for text in [ACTIONS[0], answer])

    with (
        served(lambda: Tooled(scoring(trouble), TASKS, max_turns=TURNS)) as url,
        ThreadPoolExecutor(8) as pool,
    ):
        sums = list(pool.map(play, [url] * 8, [OK, WRONG] * 4))
    assert sums == pytest.approx([1 + WEIGHT, WEIGHT] * 4)


def test_an_episode_that_is_left_is_cancelled_and_its_turns_judged_by_nobody_are_null(
    trouble: Trouble,
) -> None:
    asks = scoring(trouble, ladder="spoken")
    environment = Tooled(asks, TASKS, max_turns=TURNS)
    environment.reset(task="four")
    observed = environment.step(TextAction(text=ACTIONS[0]))
    assert (observed.reward, observed.done) == (None, False)
    assert (environment.state.step_count, environment.state.episode_id) == (1, observed.verifier["id"])
    environment.close()
    with trouble.client() as service:
        assert service.trajectory(asks.run, observed.verifier["id"]).cancelled


def test_mistakes_are_named(trouble: Trouble) -> None:
    environment = Tooled(scoring(trouble), TASKS)
    with pytest.raises(ValueError, match="task: name one"):
        environment.step(TextAction(text=OK))
    with pytest.raises(NoTask, match="there is none called 'nothing'"):
        environment.reset(task="nothing")
    environment.reset(task="four")
    environment.step(TextAction(text=OK))
    with pytest.raises(ValueError, match="takes no more turns"):
        environment.step(TextAction(text=OK))
    with pytest.raises(ValueError, match="tasks: at least one"):
        Tooled(scoring(trouble), {})


def test_a_task_that_there_is_not_is_the_clients_mistake(trouble: Trouble) -> None:
    with over_http(scoring(trouble)) as client:
        answers = [
            client.post("/step", json={"action": {"text": OK, "task": "nothing"}}),
            client.post("/step", json={"action": {"text": OK}}),
            client.post("/reset", json={"task": "nothing"}),
        ]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert "'nothing'" in answers[0].json()["detail"]


def test_the_clients_timeout_ends_the_wait(trouble: Trouble) -> None:
    with over_http(scoring(trouble)) as client:
        began = time.monotonic()
        found = step(client, HANGS, timeout_s=1.0)
    assert time.monotonic() - began < 20.0
    assert (found["reward"], found["observation"]["verifier"]["code"]) == (None, "pending")


def test_a_spent_budget(trouble: Trouble) -> None:
    run = trouble.broke(fresh("broke"))
    with over_http(scoring(trouble, run=run)) as client:
        found = step(client, f'{{"do": "ok", "n": "{fresh()}"}}')
    assert (found["reward"], found["observation"]["verifier"]["code"]) == (None, "budget_exhausted")


def test_an_outage_of_twenty_seconds_and_one_that_lasts(trouble: Trouble) -> None:
    with over_http(scoring(trouble)) as client, ThreadPoolExecutor(8) as pool:
        outage = trouble.stop_for(OUTAGE_S)
        time.sleep(0.3)
        found = list(pool.map(lambda text: step(client, text), [OK, WRONG] * 4))
        outage.join()
    assert [one["reward"] for one in found] == [1.0, 0.0] * 4
    with over_http(scoring(trouble, url="http://127.0.0.1:9", retry_s=0.1)) as client:
        away = step(client, OK)
    assert (away["reward"], away["observation"]["verifier"]["code"]) == (None, "unreachable")


def test_requests_that_are_delivered_twice(trouble: Trouble) -> None:
    trouble.duplicate()
    try:
        with over_http(scoring(trouble)) as client:
            found = [step(client, text) for text in (OK, WRONG)]
    finally:
        trouble.duplicate(False)
    assert [one["reward"] for one in found] == [1.0, 0.0]


def test_a_rubric_for_other_environments(trouble: Trouble) -> None:
    asks = scoring(trouble)
    rubric = VerifiedRubric(
        asks, lambda action, seen: submission(asks.ladder, prompt="act", completion=action.text)
    )
    rewards = [rubric(TextAction(text=text), None) for text in (OK, WRONG, FAILS)]
    assert rewards == [1.0, 0.0, None]
    assert rubric.last is not None
    assert rubric.last.code == "unverifiable"
