"""slime's requests as its source sends them (slime/rollout/rm_hub/__init__.py), and our functions for it,
scored by a service in trouble. slime itself needs a GPU and is on no index."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import torch

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble
from verifier_service.trainers import slime

OUTAGE_S = 20.0
TIMEOUT_S = 120.0
TRIES = 10
WAYS = ("url", "function")


@dataclass
class Sample:
    """The fields of slime/utils/types.py that are read or written."""

    response: str
    prompt: str = "Which?"
    label: str | None = "gold"
    reward: Any = None
    group_index: int | None = 0
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def calm(trouble: Trouble) -> Iterator[None]:
    yield
    trouble.duplicate(False)


async def over_the_url(url: str, samples: Sequence[Sample]) -> list[Any]:
    """One request a sample: one session, 120 s a request, ten tries, pauses of 1, 2, 4 ... 30 s."""

    async def one(session: aiohttp.ClientSession, sample: Sample) -> Any:
        body = {"prompt": sample.prompt, "response": sample.response, "label": sample.label}
        for attempt in range(TRIES):
            try:
                async with session.post(url, json=body) as answer:
                    answer.raise_for_status()
                    return await answer.json()
            except (TimeoutError, aiohttp.ClientError):
                if attempt + 1 == TRIES:
                    raise
                await asyncio.sleep(min(2.0**attempt, 30.0))
        raise AssertionError

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64), timeout=timeout) as session:
        return list(await asyncio.gather(*(one(session, sample) for sample in samples)))


def scored(
    trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str, run: str, *says: str
) -> list[Sample]:
    """A group with its rewards."""
    samples = [Sample(text) for text in says]
    if way == "url":
        host = trouble.url.removeprefix("http://")
        url = f"http://:{trouble.key}@{host}/v1/score/{run}/spoken?format=slime"
        rewards = asyncio.run(over_the_url(url, samples))
    else:
        monkeypatch.setenv("VERIFIER_URL", trouble.url)
        monkeypatch.setenv("VERIFIER_API_KEY", trouble.key)
        rewards = asyncio.run(slime.reward(args(run), samples))
    for sample, reward in zip(samples, rewards, strict=True):
        sample.reward = reward
    return samples


def args(run: str = "", **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "verifier_run": run,
            "verifier_ladder": "spoken",
            "reward_key": None,
            "n_samples_per_prompt": 4,
            "advantage_estimator": "grpo",
            "rewards_normalization": True,
            "grpo_std_normalization": False,
            **changes,
        }
    )


def count(trouble: Trouble, run: str) -> int:
    with trouble.client() as client:
        return client.run(run).trajectories


def test_rewards(trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    samples = scored(trouble, monkeypatch, way, fresh(), OK, WRONG, WRONG, WRONG)
    assert [one.reward for one in samples] == [1.0, 0.0, 0.0, 0.0]
    assert slime.all_scored(args(), samples)
    assert slime.post_process(args(), samples)[1] == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("said", [FAILS, HANGS])
def test_what_was_not_verified_is_dropped_or_out_of_the_mean(
    trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str, said: str
) -> None:
    samples = scored(trouble, monkeypatch, way, fresh(), OK, said, WRONG, WRONG)
    assert [one.reward for one in samples] == [1.0, None, 0.0, 0.0]
    assert not slime.all_scored(args(), samples)
    assert slime.some_scored(args(), samples)
    with pytest.raises(TypeError):  # what slime does without either
        torch.tensor([one.reward for one in samples], dtype=torch.float)
    raw, normalised = slime.post_process(args(), samples)
    assert normalised == pytest.approx([2 / 3, 0.0, -1 / 3, -1 / 3])
    assert math.isnan(raw[1])
    assert [one.remove_sample for one in samples] == [False, True, False, False]
    assert torch.isfinite(torch.tensor(normalised)).all()


def test_a_budget_that_runs_out_drops_the_group(
    trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    unseen = [json.dumps({"do": "ok", "n": fresh()}) for _ in range(2)]
    samples = scored(trouble, monkeypatch, way, trouble.broke(fresh()), *unseen)
    assert [one.reward for one in samples] == [None, None]
    assert not slime.all_scored(args(), samples)
    assert not slime.some_scored(args(), samples)
    if way == "function":
        assert samples[0].metadata["verifier"]["code"] == "budget_exhausted"


def test_an_outage_is_waited_for(trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    run = fresh()
    outage = trouble.stop_for(OUTAGE_S)
    samples = scored(trouble, monkeypatch, way, run, OK, WRONG)
    outage.join()
    assert [one.reward for one in samples] == [1.0, 0.0]
    assert count(trouble, run) == 2


def test_requests_that_come_twice_count_once(
    trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run = fresh()
    trouble.duplicate()
    samples = scored(trouble, monkeypatch, way, run, OK, WRONG)
    assert [one.reward for one in samples] == [1.0, 0.0]
    assert count(trouble, run) == 2


def test_many_samples_at_once(trouble: Trouble, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    says = [json.dumps({"do": "ok", "n": at}) for at in range(128)]
    samples = scored(trouble, monkeypatch, way, fresh(), *says)
    assert [one.reward for one in samples] == [1.0] * 128
