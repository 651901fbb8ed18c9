"""Signals from a service in trouble: what was not verified is in no number, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, troubled
from verifier_service.client import Client, Wait
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.trainers.advantages import group_advantages
from verifier_service.trainers.hindsight import pages
from verifier_service.trainers.spans import Span
from verifier_service.trainers.tokens import token_rewards


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    with troubled(tmp_path_factory.mktemp("signals")) as service:
        yield service


@pytest.fixture
def client(trouble: Trouble) -> Iterator[Client]:
    with Client(trouble.url, trouble.key, retry_s=90.0) as client:
        yield client


def answers(client: Client, run: str, *texts: str) -> list[RewardRecord | None]:
    items: list[dict[str, Any]] = [{"ladder": "spoken", "group": "g", "answer": text} for text in texts]
    return [one.reward for one in client.submit(run, items, wait=Wait("final", 120.0)).results]


@pytest.mark.parametrize("duplicate", [False, True])
def test_failures_and_hangs_are_outside_the_group(
    trouble: Trouble, client: Client, duplicate: bool
) -> None:
    trouble.duplicate = duplicate
    try:
        records = answers(client, fresh("signals"), OK, WRONG, FAILS, HANGS, OK)
    finally:
        trouble.duplicate = False
    for estimator in ("grpo", "dr_grpo", "rloo"):
        found = group_advantages(records, estimator, groups=["g"] * 5)  # type: ignore[arg-type]
        assert found.mask.tolist() == [True, True, False, False, True]
        assert found.mean.tolist() == [pytest.approx(2 / 3)]
        assert found.valid.tolist() == [3.0]
        assert found.advantage[[2, 3]].tolist() == [0.0, 0.0]
        assert abs(found.advantage.sum()) < 1e-9
    placed = token_rewards(records, [[Span(0, 3)]] * 5, 4)
    assert placed.scored.tolist() == [True, True, False, False, True]
    assert placed.rewards.sum(axis=1) == pytest.approx([1, 0, 0, 0, 1])
    assert not placed.mask[[2, 3]].any()


def test_a_budget_that_runs_out(client: Client) -> None:
    run = fresh("signals")
    client.put_run(run, RunSpec(budgets=Budgets(compute=0)))
    records = answers(client, run, *(f'{{"do": "ok", "n": "{fresh()}-{n}"}}' for n in range(3)))
    found = group_advantages(records, groups=["g"] * 3)
    assert not found.mask.any()
    assert found.valid.tolist() == [0.0]
    assert not token_rewards(records, [[Span(0, 1)]] * 3, 1).scored.any()


def test_hindsight_of_a_service_that_is_stopped_for_a_while(trouble: Trouble, client: Client) -> None:
    run = fresh("signals")
    wrong = [f"{WRONG} {n}" for n in range(12)]
    answers(client, run, *wrong)
    stopping = threading.Thread(target=trouble.stop_for, args=(20.0,))
    seen: list[Any] = []
    for page in pages(client, run, limit=5):
        if not seen:
            stopping.start()
            stopping.join(1.0)
        seen.extend(page.records)
    stopping.join()
    assert sorted(record.answer for record in seen) == sorted(wrong)
    assert len({record.seq for record in seen}) == 12
