"""The Atropos API server and a service in trouble: only full groups of verified rollouts reach a batch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from atroposlib.api.server import app
from atroposlib.envs.base import BaseEnv, BaseEnvConfig, ScoredDataGroup, ServerBaseline

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, free_port
from tests.trainers.tiny import tokenizer
from verifier_service.trainers.atropos import OPTIONAL, AtroposApi, Rollout, scored_group
from verifier_service.trainers.chat import submission
from verifier_service.trainers.scoring import Scoring

OUTAGE_S = 20.0
GROUP = 4


@contextmanager
def atropos() -> Iterator[str]:
    """The API server, forgetful of what other tests sent."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    """A trainer that has registered, and before that forgotten everything."""
    with atropos() as url, httpx.Client(base_url=url) as trainer:
        if hasattr(app.state, "queue"):
            trainer.get("/reset_data").raise_for_status()
        trainer.post("/register", json=registration()).raise_for_status()
        yield trainer


def registration() -> dict[str, Any]:
    return {
        "wandb_group": "g",
        "wandb_project": "p",
        "batch_size": 2 * GROUP,
        "max_token_len": 64,
        "checkpoint_dir": "",
        "save_checkpoint_interval": 0,
        "starting_step": 0,
        "num_steps": 10,
    }


def scoring(trouble: Trouble, **changes: Any) -> Scoring:
    fields: dict[str, Any] = {"run": fresh("atropos"), "ladder": "spoken", "url": trouble.url}
    return Scoring(**(fields | {"key": trouble.key} | changes))


def rollout(text: str, **more: Any) -> Rollout:
    asked = submission("spoken", prompt="act please", completion=text, id=fresh())
    return Rollout(tokens=[1, 2, 3], masks=[-100, 2, 3], submission=asked, **more)


def group_of(asks: Scoring, *said: str, **more: Any) -> dict[str, Any] | None:
    return asyncio.run(scored_group(asks, [rollout(text, **more) for text in said], group_size=GROUP))


def test_full_groups_of_verified_rollouts_reach_a_batch(trouble: Trouble, api: httpx.Client) -> None:
    asks = scoring(trouble)

    async def environment() -> None:
        async with AtroposApi(str(api.base_url)) as atropos_api:
            registering = asyncio.create_task(
                atropos_api.register("verified", group_size=GROUP, max_token_length=64, wait_s=20)
            )
            await asyncio.sleep(0.2)
            assert not registering.done()
            assert api.get("/batch").json() == {"batch": None}
            assert await registering == 0
            for said in ([OK, FAILS, WRONG, OK, HANGS, WRONG, OK], [OK, WRONG, WRONG, FAILS, OK]):
                group = await scored_group(asks, [rollout(text) for text in said], group_size=GROUP)
                assert group is not None
                await atropos_api.post(group)

    asyncio.run(environment())
    batch = api.get("/batch").json()["batch"]
    assert [group["scores"] for group in batch] == [[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    assert [group["env_id"] for group in batch] == [0, 0]
    assert api.get("/status").json()["queue_size"] == 0


class Environment(BaseEnv):
    """An environment as a user writes it; its policy says what an item holds."""

    asks: Scoring

    async def setup(self) -> None:
        """Nothing to load."""

    async def get_next_item(self) -> Any:
        """The test hands items over."""

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to evaluate."""

    async def collect_trajectories(self, item: Any) -> tuple[Any, list[Any]]:
        rollouts = [rollout(text) for text in item]
        return await scored_group(self.asks, rollouts, group_size=self.config.group_size), []


def test_atropos_own_environment_sends_verified_groups_and_skips_the_others(
    trouble: Trouble, api: httpx.Client, tmp_path: Path
) -> None:
    tokenizer(OK).save_pretrained(tmp_path)
    config = BaseEnvConfig(
        group_size=GROUP,
        tokenizer_name=str(tmp_path),
        rollout_server_url=str(api.base_url).rstrip("/"),
        use_wandb=False,
        max_token_length=64,
        wandb_name="verified",
    )
    api.get("/batch")

    async def environment() -> list[int]:
        env = Environment(config, ServerBaseline())
        env.asks = scoring(trouble)
        await env.register_env()
        await env.get_server_info()
        for name, item in enumerate(
            [[OK, WRONG, FAILS, OK, WRONG], [OK, WRONG, FAILS, HANGS], [WRONG, OK] * 2]
        ):
            env.running_items[name] = {"item": item}
            await env.handle_env(name)
        return list(env.task_successful)

    assert asyncio.run(environment()) == [1, 0, 1]
    batch = api.get("/batch").json()["batch"]
    assert [group["scores"] for group in batch] == [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]


def test_a_group_that_is_not_full_does_not_go(
    trouble: Trouble, api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert group_of(scoring(trouble), OK, WRONG, OK, FAILS) is None
    assert "3 of 4 have a reward: {'unverifiable': 1}" in caplog.text
    api.get("/batch")

    async def environment() -> None:
        async with AtroposApi(str(api.base_url)) as atropos_api:
            with pytest.raises(RuntimeError, match="before register"):
                await atropos_api.post({"tokens": [[1]]})
            await atropos_api.register("verified", group_size=GROUP, max_token_length=64)
            with pytest.raises(ValueError, match="3 members in a group of 4"):
                await atropos_api.post({"tokens": [[1]] * 3, "masks": [[1]] * 3, "scores": [0.0] * 3})

    asyncio.run(environment())
    assert api.get("/status").json()["queue_size"] == 0
    assert app.state.buffer == {}


def test_the_trainer_that_never_comes(api: httpx.Client) -> None:
    async def environment() -> None:
        async with AtroposApi(str(api.base_url)) as atropos_api:
            with pytest.raises(TimeoutError):
                await atropos_api.register("verified", group_size=4, max_token_length=64, wait_s=0.5)

    asyncio.run(environment())


def test_optional_fields_travel_in_the_servers_form(trouble: Trouble, api: httpx.Client) -> None:
    more: dict[str, Any] = {
        "advantages": [0.0, 1.0, 1.0],
        "ref_logprobs": [-1.0] * 3,
        "inference_logprobs": [-1.5] * 3,
        "messages": [{"role": "assistant", "content": "x"}],
        "overrides": {"set_advantage_to_zero": True},
        "distill_token_ids": [[5, 6]] * 3,
        "distill_logprobs": [[-0.1, -2.3]] * 3,
    }
    group = group_of(scoring(trouble), OK, WRONG, OK, WRONG, **more)
    assert group is not None
    assert set(OPTIONAL) == set(more)
    assert set(group) <= set(ScoredDataGroup.__annotations__)
    api.post("/scored_data", json=group).raise_for_status()
    latest = api.get("/latest_example").json()
    assert {name: latest[name] for name in more} == {name: [value] * GROUP for name, value in more.items()}


def test_a_spent_budget_sends_nothing(trouble: Trouble, caplog: pytest.LogCaptureFixture) -> None:
    run = trouble.broke(fresh("broke"))
    new = [f'{{"do": "ok", "n": "{fresh()}"}}' for _ in range(GROUP)]
    assert group_of(scoring(trouble, run=run), *new) is None
    assert "{'budget_exhausted': 4}" in caplog.text


def test_an_outage_of_twenty_seconds(trouble: Trouble) -> None:
    began = time.monotonic()
    outage = trouble.stop_for(OUTAGE_S)
    time.sleep(0.3)
    group = group_of(scoring(trouble), OK, WRONG, OK, WRONG)
    outage.join()
    assert time.monotonic() - began > OUTAGE_S
    assert group is not None
    assert group["scores"] == [1.0, 0.0, 1.0, 0.0]


def test_a_service_that_stays_away_sends_nothing(
    trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    away = scoring(trouble, url="http://127.0.0.1:9", retry_s=0.1)
    assert group_of(away, OK, WRONG, OK, WRONG) is None
    assert "{'unreachable': 4}" in caplog.text


def test_requests_that_are_delivered_twice(trouble: Trouble) -> None:
    asks = scoring(trouble)
    trouble.duplicate()
    try:
        group = group_of(asks, OK, WRONG, OK, WRONG)
    finally:
        trouble.duplicate(False)
    assert group is not None
    assert group["scores"] == [1.0, 0.0, 1.0, 0.0]
    with trouble.client() as client:
        assert {record.multiplicity for record in client.rewards(asks.run).records} == {1}
