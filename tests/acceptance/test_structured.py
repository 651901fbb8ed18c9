"""JSON answers and extracted answers over HTTP: the shipped examples, ladders of one's own, growth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, submit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def ended(result: dict[str, Any]) -> dict[str, Any]:
    record = result["reward"]
    reason = record["reason"] or {}
    return {"reward": record["reward"], "code": reason.get("code"), "detail": reason.get("detail")}


@pytest.mark.parametrize("name", ["structured", "math", "code"])
def test_the_examples_end_as_they_say(client: httpx.Client, name: str) -> None:
    items = [json.loads(line) for line in (EXAMPLES / name / "trajectories.jsonl").read_text().splitlines()]
    results = submit(client, fresh(), *items, seconds=110)
    for item, result in zip(items, results, strict=True):
        wanted = item["metadata"]["expected"]
        assert {key: ended(result)[key] for key in wanted} == wanted, (item["id"], result)
        assert result["reward"]["status"] == ("unscored" if wanted["reward"] is None else "final")


def structured(**candidate: Any) -> dict[str, Any]:
    return {
        "name": fresh("l"),
        "candidate": {"kind": "json", **candidate},
        "outcome": {"use": "schema.answer"},
        "truth": "fast",
        "tiers": {"fast": [{"use": "schema.answer"}]},
    }


SEVEN = {"reference": {"schema": {"const": 7}}}


@pytest.mark.parametrize(
    ("extract", "right", "wrong"),
    [
        ("boxed", r"so \boxed{ 7 }.", r"\boxed{7} no, \boxed{8}"),
        ("code_block", "```json\n7\n```", "```json\n7\n```\nor\n```json\n8\n```"),
        ({"tag": "final"}, "<final>7</final>", "<final>7"),
    ],
)
def test_a_ladder_of_ones_own_says_where_the_answer_is(
    client: httpx.Client, extract: Any, right: str, wrong: str
) -> None:
    ladder = structured(extract=extract, **{"from": "last_turn"})
    stored = client.put(f"/v1/ladders/{ladder['name']}", json=ladder)
    assert stored.status_code in (200, 201)
    again = client.put(f"/v1/ladders/{ladder['name']}", json=ladder).json()
    assert again["ladder"]["spec"]["candidate"]["extract"] == extract
    assert again["ladder"]["version"] == 1, "same content, same version"
    items = [
        {"id": fresh("t"), "ladder": ladder["name"], "problem": SEVEN, "turns": turns, "answer": "7"}
        for turns in (
            [{"message": "hm"}, {"message": right}],
            [{"message": right}, {"message": wrong}],
            [{"message": right}, {"calls": [{"name": "f"}]}],
            [],
        )
    ]
    results = submit(client, fresh(), *items)
    assert [result["reward"]["reward"] for result in results] == [1.0, 0.0, 0.0, 0.0]
    assert [ended(result)["detail"] for result in results[2:]] == ["empty_answer", "empty_answer"]


def test_a_trajectory_that_grows_is_judged_by_its_last_turn(client: httpx.Client) -> None:
    ladder = structured(extract={"tag": "final"}, **{"from": "last_turn"})
    client.put(f"/v1/ladders/{ladder['name']}", json=ladder)
    run, name = fresh(), fresh("t")
    open_ = {"id": name, "ladder": ladder["name"], "problem": SEVEN, "finished": False}
    submit(client, run, open_ | {"turns": [{"message": "<final>1</final>"}]}, seconds=1)
    grown = client.post(
        f"/v1/runs/{run}/trajectories/{name}/turns",
        json={"index": 1, "turns": [{"message": "<final>7</final>"}], "finished": True},
    )
    assert grown.status_code < 300, grown.text
    asked = {"ids": [name], "wait": {"until": "final", "seconds": 30}}
    [record] = client.post(f"/v1/runs/{run}/rewards/query", json=asked).json()["records"]
    assert record["reward"] == 1.0


@pytest.mark.parametrize(
    ("candidate", "field"),
    [
        ({"extract": "xml"}, "candidate.extract"),
        ({"extract": {"tag": "a b"}}, "candidate.extract.tag"),
        ({"extract": {"tag": "a", "x": 1}}, "candidate.extract.x"),
        ({"from": "metadata"}, "candidate.from"),
    ],
)
def test_a_ladder_that_names_no_place_is_refused(
    client: httpx.Client, candidate: dict[str, Any], field: str
) -> None:
    ladder = structured(**candidate)
    refused = client.put(f"/v1/ladders/{ladder['name']}", json=ladder)
    assert refused.status_code == 422
    assert field in refused.text
