"""Taking trajectories in over HTTP: statuses, repeats, waits and limits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import act, fresh, identity, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def post(client: httpx.Client, run: str, *items: Any, **wait: Any) -> httpx.Response:
    body: dict[str, Any] = {"trajectories": list(items)}
    if wait:
        body["wait"] = wait
    return client.post(f"/v1/runs/{run}/trajectories", json=body)


def test_results_come_in_input_order_with_their_rewards(client: httpx.Client) -> None:
    items = [identity("OCC"), {"ladder": "nobody"}, identity("CCC"), {"id": "b"}, identity("C1CC")]
    results = submit(client, fresh(), *items)
    statuses = [result["status"] for result in results]
    assert statuses == ["accepted", "invalid", "accepted", "invalid", "accepted"]
    assert [result["id"] for result in results] == [
        items[0]["id"],
        None,
        items[2]["id"],
        "b",
        items[4]["id"],
    ]
    codes = [result["error"] and result["error"]["code"] for result in results]
    assert codes == [None, "unknown_ladder", None, "missing_field", None]
    rewards = [result["reward"] and result["reward"]["reward"] for result in results]
    assert rewards == [1.0, None, 0.0, None, 0.0]
    assert results[4]["reward"]["reason"]["code"] == "rejected"


@pytest.mark.parametrize("name", [".", ".."])
def test_an_id_that_is_another_place_in_a_path_is_taken_nowhere(client: httpx.Client, name: str) -> None:
    """Links to it would lead browsers elsewhere."""
    [by_id, by_group] = post(
        client, fresh(), {**identity("CCO"), "id": name}, identity("CCO", group=name)
    ).json()["results"]
    assert [(one["status"], one["error"]["field"]) for one in (by_id, by_group)] == [
        ("invalid", "id"),
        ("invalid", "group"),
    ]
    dots = name.replace(".", "%2e")
    ladder = {**server.JUDGED, "name": name}
    answers = [
        client.put(f"/v1/runs/{dots}", json={}),
        client.post(f"/v1/runs/{dots}/trajectories", json={"trajectories": []}),
        client.put(f"/v1/ladders/{dots}", json=ladder),
        client.put(f"/v1/review-queues/{dots}", json={"name": name}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 4
    assert {answer.json()["code"] for answer in answers} == {answers[0].json()["code"]}


def test_same_content_is_a_duplicate_and_other_content_a_conflict(client: httpx.Client) -> None:
    run, item = fresh(), identity("CCO")
    first = submit(client, run, item, item, {**item, "answer": "CCC"})
    assert [result["status"] for result in first] == ["accepted", "duplicate", "conflict"]
    assert first[2]["error"]["code"] == "id_conflict"
    again = submit(client, run, item)
    assert again[0]["status"] == "duplicate"
    assert again[0]["reward"]["reward"] == 1.0
    assert client.get(f"/v1/runs/{run}").json()["trajectories"] == 1


def test_without_an_id_repeats_count(client: httpx.Client) -> None:
    run, item = fresh(), identity("CCO")
    del item["id"]
    names = {result["id"] for _ in range(2) for result in submit(client, run, item, item)}
    [name] = names
    assert name.startswith("c-")
    assert client.get(f"/v1/runs/{run}/trajectories/{name}").json()["multiplicity"] == 4


def test_without_a_wait_the_answer_comes_at_once(client: httpx.Client) -> None:
    answer = post(client, fresh(), act("sleep", s=1.5))
    assert answer.status_code == 202
    assert answer.json()["complete"] is False
    assert answer.json()["results"][0]["reward"] is None


def test_a_wait_ends_when_it_is_met_or_its_time_is_up(client: httpx.Client) -> None:
    run, item = fresh(), act("sleep", s=1.5)
    started = time.monotonic()
    early = post(client, run, item, until="fast", seconds=0.3)
    assert early.status_code == 202
    assert time.monotonic() - started >= 0.3
    late = post(client, run, item, until="fast", seconds=20)
    assert late.status_code == 200
    assert late.json()["complete"] is True
    assert late.json()["results"][0]["reward"]["reward"] == 1.0
    assert time.monotonic() - started < 20


def test_invalid_and_conflicting_items_count_as_met(client: httpx.Client) -> None:
    answer = post(client, fresh(), {"ladder": 7}, {"x": 1})
    assert answer.status_code == 200
    assert answer.json()["complete"] is True
    empty = post(client, fresh())
    assert (empty.status_code, empty.json()["results"]) == (200, [])


def test_the_cursor_is_from_before_the_first_record(client: httpx.Client) -> None:
    run = fresh()
    first = post(client, run, identity("CCO"), until="final", seconds=20).json()
    assert first["cursor"] == 0
    head = client.get(f"/v1/runs/{run}/rewards").json()["cursor"]
    item = identity("CC")
    second = post(client, run, item, until="final", seconds=20).json()
    assert second["cursor"] == head
    page = client.get(f"/v1/runs/{run}/rewards", params={"after": second["cursor"]}).json()
    assert {record["trajectory"] for record in page["records"]} == {item["id"]}


def test_a_closed_run_takes_nothing_more(client: httpx.Client) -> None:
    run = fresh()
    submit(client, run, identity("CCO"))
    client.post(f"/v1/runs/{run}/close", params={"wait": 20}).raise_for_status()
    answer = post(client, run, identity("CCO"))
    assert (answer.status_code, answer.json()["code"]) == (409, "run_closed")


def test_a_wait_beyond_the_maximum_is_refused_with_the_limit(client: httpx.Client) -> None:
    answer = post(client, fresh(), identity("CCO"), until="fast", seconds=121)
    assert answer.status_code == 422
    assert answer.json()["field"] == "wait.seconds"
    assert "120" in answer.json()["detail"]


def test_concurrent_singles_are_all_taken_and_bad_ones_fail_alone(client: httpx.Client) -> None:
    run = fresh()
    items: list[Any] = [identity("C" * (1 + number % 7) + "O", "CCO") for number in range(60)]
    items[7], items[23], items[41] = {"ladder": "nobody"}, {"id": items[8]["id"], "ladder": 3}, items[40]
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda item: post(client, run, item, until="final", seconds=30), items))
    results = [answer.json()["results"][0] for answer in answers]
    assert {answer.status_code for answer in answers} == {200}
    for number, (item, result) in enumerate(zip(items, results, strict=True)):
        if number in (7, 23):
            assert result["status"] == "invalid"
        else:
            right = item["answer"] == "CCO"
            assert result["id"] == item["id"]
            assert result["reward"]["reward"] == (1.0 if right else 0.0)
    assert {results[40]["status"], results[41]["status"]} == {"accepted", "duplicate"}


def test_ids_with_slashes_travel_encoded(client: httpx.Client) -> None:
    run, item = f"team%2F{fresh()}", identity("CCO") | {"id": fresh("a/b:c@d+e"), "group": "g/1"}
    assert submit(client, run, item)[0]["id"] == item["id"]
    name = item["id"].replace("/", "%2f").replace("+", "%2B")
    case = client.get(f"/v1/runs/{run}/trajectories/{name}").json()
    assert (case["id"], case["run"]) == (item["id"], run.replace("%2F", "/"))
    group = client.get(f"/v1/runs/{run}/groups/g%2F1")
    assert group.json()["valid"] == 1
    assert client.get(f"/v1/runs/{run.replace('%2F', '/')}").status_code == 404


def test_a_body_beyond_the_limit_is_413_with_the_limit_named(tmp_path: Path) -> None:
    with (
        server.running(tmp_path, max_body_bytes="100000", max_batch="3") as small,
        small.client() as client,
    ):
        large = json.dumps({"trajectories": [identity("C" * 200_000)]}).encode()
        pieces = (large[start : start + 10_000] for start in range(0, len(large), 10_000))
        for answer in (
            client.post("/v1/runs/r/trajectories", content=large),
            client.post("/v1/runs/r/trajectories", content=pieces),
            client.put("/v1/runs/r", content=large),
        ):
            assert answer.status_code == 413
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["limit"] == 100_000
            assert "100000" in answer.json()["detail"]
        batch = post(client, "r", *[identity("C")] * 4)
        assert (batch.status_code, batch.json()["code"]) == (422, "batch_too_large")
        assert "3" in batch.json()["detail"]
        assert submit(client, "r", identity("CCO"))[0]["status"] == "accepted"
