"""One trajectory over HTTP: seen whole, grown turn by turn, cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import act, fresh, identity, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def case_of(client: httpx.Client, run: str, name: str) -> dict[str, Any]:
    answer = client.get(f"/v1/runs/{run}/trajectories/{name}")
    assert answer.status_code == 200, answer.text
    case: dict[str, Any] = answer.json()
    return case


def soon(found: Callable[[], Any], seconds: float = 10.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value


def test_a_judged_case_is_shown_whole(client: httpx.Client) -> None:
    run = fresh()
    item = identity("OCC", group="g", group_size=4, policy_version="v7", metadata={"step": 3})
    item["turns"] = [{"message": "hm", "calls": [{"id": "c", "name": "f", "arguments": "{}"}]}]
    submit(client, run, item)
    case = case_of(client, run, item["id"])
    assert (case["group"], case["group_size"], case["policy_version"]) == ("g", 4, "v7")
    assert (case["answer"], case["canonical"], case["metadata"]) == ("OCC", "CCO", {"step": 3})
    assert case["turns"][0]["calls"][0]["name"] == "f"
    assert (case["status"], case["reward"], case["waiting"]) == ("final", 1.0, [])
    by_path = {demand["path"]: demand for demand in case["demands"]}
    assert set(by_path) == {"identify", "fast/0"}
    check = by_path["fast/0"]["check"]
    assert (check["verifier"], check["state"]) == ("molecule.identity", "succeeded")
    assert check["evidence"]["score"] == 1.0
    assert check["started_at"] is not None
    assert "item" not in check
    assert [record["revision"] for record in case["rewards"]] == list(range(1, case["revision"] + 1))


def test_unknown_names_are_404(client: httpx.Client) -> None:
    run = fresh()
    assert client.get(f"/v1/runs/{run}").status_code == 404
    assert client.get(f"/v1/runs/{run}/rewards").status_code == 404
    assert client.get(f"/v1/runs/{run}/trajectories/t").status_code == 404
    assert client.post(f"/v1/runs/{run}/rewards/query", json={"ids": ["t"]}).status_code == 404
    submit(client, run, identity("CCO"))
    assert client.get(f"/v1/runs/{run}/trajectories/t").json()["code"] == "unknown_trajectory"
    assert client.get(f"/v1/runs/{run}/groups/g").json()["code"] == "unknown_group"
    assert client.post(f"/v1/runs/{run}/trajectories/t/cancel").status_code == 404
    grown = client.post(f"/v1/runs/{run}/trajectories/t/turns", json={"index": 0})
    assert grown.status_code == 404


def test_a_failure_is_a_null_reward_with_its_reason(client: httpx.Client) -> None:
    run, item = fresh(), act("raise_permanent")
    [result] = submit(client, run, item)
    reward = result["reward"]
    assert (reward["reward"], reward["status"]) == (None, "unscored")
    assert (reward["reason"]["code"], reward["reason"]["detail"]) == ("unverifiable", "not_converged")
    [demand] = case_of(client, run, item["id"])["demands"]
    assert demand["check"]["state"] == "failed"
    assert demand["check"]["failure"]["code"] == "not_converged"


def test_what_a_case_waits_for_is_said_in_words(client: httpx.Client) -> None:
    run, item = fresh(), act("sleep", s=2)
    client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]}).raise_for_status()
    words = soon(lambda: [w for w in case_of(client, run, item["id"])["waiting"] if "runs" in w])
    assert words[0].startswith("fast/0 (hostile) runs")
    soon(lambda: case_of(client, run, item["id"])["waiting"] == [])


def test_a_case_that_waits_for_people_or_money_says_so(client: httpx.Client) -> None:
    rich, poor = fresh(), fresh()
    client.put(f"/v1/runs/{poor}", json={"budgets": {"human": 0.001}}).raise_for_status()
    item = identity("CCO") | {"ladder": "reviewed"}
    for run in (rich, poor):
        submit(client, run, item, until="fast")
    words = soon(lambda: case_of(client, rich, item["id"])["waiting"])
    soon(lambda: any("waits for people" in w for w in case_of(client, rich, item["id"])["waiting"]))
    assert words[0].startswith("lab/0 (review)")
    held = soon(lambda: case_of(client, poor, item["id"])["waiting"])
    assert held[0].startswith("lab/0: held back, budget")
    assert "human budget" in held[0]
    [demand] = [each for each in case_of(client, poor, item["id"])["demands"] if each["path"] == "lab/0"]
    assert (demand["state"], demand["check"]) == ("held", None)
    client.post(f"/v1/runs/{rich}/close", params={"wait": 10}).raise_for_status()


def turn(name: str, arguments: str = "{}") -> dict[str, Any]:
    """One call and its observation."""
    call = {"id": name, "name": name, "arguments": arguments}
    return {"calls": [call], "observations": [{"call": name, "text": f"result of {name}"}]}


CALL, BAD_CALL, LAST_CALL = turn("f"), turn("g", "{"), turn("h")


def test_a_trajectory_grows_and_its_new_turns_are_judged(client: httpx.Client) -> None:
    run = fresh()
    item = {"id": "t", "ladder": "organic-gap", "turns": [CALL], "finished": False}
    [result] = submit(client, run, item, until="fast")
    assert result["reward"]["status"] == "unscored"
    assert result["reward"]["process"] == [1.0]
    path = f"/v1/runs/{run}/trajectories/t/turns"
    grown = client.post(
        path, json={"index": 1, "turns": [BAD_CALL, LAST_CALL], "wait": {"seconds": 20}}
    ).json()
    assert (grown["changed"], grown["complete"], grown["finished"]) == (True, True, False)
    assert grown["n_turns"] == 3
    assert grown["process"][0] < 1.0
    assert grown["process"][1] == 1.0
    assert grown["reward"]["process"] == [1.0, *grown["process"]]
    again = client.post(path, json={"index": 1, "turns": [BAD_CALL, LAST_CALL]}).json()
    assert (again["changed"], again["n_turns"], again["process"]) == (False, 3, grown["process"])
    gap = client.post(path, json={"index": 7, "turns": [CALL]})
    assert (gap.status_code, gap.json()["code"]) == (409, "turn_gap")
    other = client.post(path, json={"index": 2, "turns": [BAD_CALL]})
    assert (other.status_code, other.json()["code"]) == (409, "turn_conflict")


def test_a_finished_trajectory_grows_no_more(client: httpx.Client) -> None:
    run = fresh()
    item = identity(None, "CCO") | {"id": "t", "finished": False, "turns": [CALL]}
    client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]}).raise_for_status()
    path = f"/v1/runs/{run}/trajectories/t/turns"
    last = {"index": 1, "turns": [LAST_CALL], "answer": "OCC", "finished": True, "wait": {"seconds": 20}}
    ended = client.post(path, json=last)
    assert ended.json()["finished"] is True
    assert (ended.json()["reward"]["status"], ended.json()["reward"]["reward"]) == ("final", 1.0)
    assert client.post(path, json=last).json()["changed"] is False
    more = client.post(path, json={"index": 2, "turns": [CALL]})
    assert (more.status_code, more.json()["code"]) == (409, "finished")
    whole = item | {"turns": [CALL, LAST_CALL], "answer": "OCC", "finished": True}
    assert submit(client, run, whole)[0]["status"] == "duplicate"


def test_cancelling_stops_the_work_and_frees_the_worker(client: httpx.Client) -> None:
    run, item = fresh(), act("sleep", s=30)
    client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]}).raise_for_status()
    soon(lambda: any("runs" in w for w in case_of(client, run, item["id"])["waiting"]))
    answer = client.post(f"/v1/runs/{run}/trajectories/{item['id']}/cancel")
    assert answer.json()["reward"]["reason"]["code"] == "cancelled"
    case = case_of(client, run, item["id"])
    assert (case["cancelled"], case["status"], case["reward"]) == (True, "unscored", None)
    assert client.post(f"/v1/runs/{run}/trajectories/{item['id']}/cancel").status_code == 200
    started = time.monotonic()
    submit(client, run, act("ok"))
    assert time.monotonic() - started < 20
