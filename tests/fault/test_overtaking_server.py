"""Hanging items in a real server: whoever does not hang has an answer while they do."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import JUDGED, Server, act, fresh, patience, running, submit


def ladder(verifier: str) -> dict[str, Any]:
    made = copy.deepcopy(JUDGED) | {"name": verifier, "outcome": {"use": verifier}}
    made["tiers"]["fast"][0]["use"] = verifier
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("overtaking") / "data", fast_children="8") as started:
        with started.client() as client:
            for verifier in ("hostile", "lasting", "parallel"):
                client.put(f"/v1/ladders/{verifier}", json=ladder(verifier)).raise_for_status()
        yield started


def post(client: Any, run: str, items: list[dict[str, Any]]) -> None:
    client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": items}).raise_for_status()


def rewards(client: Any, run: str, items: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    body = {"ids": [item["id"] for item in items], "wait": {"until": "final", "seconds": seconds}}
    answer = client.post(f"/v1/runs/{run}/rewards/query", json=body)
    return {record["trajectory"]: record for record in answer.json()["records"]}


def test_others_are_answered_while_items_hang(server: Server) -> None:
    """The items that hang would do so for ten minutes; cancelling ends them."""
    run = fresh()
    slow = [
        act("sleep", s=600 + n) | {"ladder": name} for n in range(3) for name in ("lasting", "parallel")
    ]
    quick = [act("ok", n=n) for n in range(200)]
    with server.client(timeout=patience(120.0)) as client:
        post(client, run, slow)
        post(client, run, quick[:100])
        assert len(submit(client, run, *quick[100:], seconds=100.0)) == 100
        told = rewards(client, run, quick[:100], 100.0)
        assert {record["reward"] for record in told.values()} == {1.0}
        one = submit(client, run, act("ok", n="alone"), seconds=100.0)
        assert one[0]["reward"]["reward"] == 1.0
        for item in slow:
            client.post(f"/v1/runs/{run}/trajectories/{item['id']}/cancel").raise_for_status()
        again = submit(client, run, *[act("sleep", s=0.01, n=n) | {"ladder": "parallel"} for n in range(4)])
        assert {each["reward"]["reward"] for each in again} == {1.0}


def test_five_percent_hang_and_each_is_told_apart(server: Server) -> None:
    run = fresh()
    items = [act("sleep_in_c", n=n) if n % 20 == 3 else act("ok", n=n) for n in range(200)]
    with server.client(timeout=patience(120.0)) as client:
        post(client, run, items)
        told = rewards(client, run, items, 110.0)
    assert len(told) == 200
    for item in items:
        record = told[item["id"]]
        if item["answer"]["do"] == "ok":
            assert (record["status"], record["reward"]) == ("final", 1.0)
        else:
            assert (record["status"], record["reward"]) == ("unscored", None)
            assert record["reason"]["detail"] == "time_limit"
