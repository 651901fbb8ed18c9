"""Trajectories as they really come: broken calls, NaN, null rewards, enormous ones, bad company."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import act, fresh, identity, patience, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def post_text(client: httpx.Client, run: str, text: str) -> httpx.Response:
    return client.post(f"/v1/runs/{run}/trajectories", content=text.encode())


def strictly(answer: httpx.Response) -> Any:
    """The body as a parser reads it that knows no NaN."""
    return json.loads(answer.text, parse_constant=pytest.fail)


def calls(*turns: dict[str, Any]) -> list[dict[str, Any]]:
    """Turns of one call each, answered unless the call says otherwise."""
    made = []
    for turn in turns:
        call = {key: value for key, value in turn.items() if key != "answered"}
        seen = [{"call": call["id"], "text": f"result of {call['id']}"}]
        made.append({"calls": [call], "observations": seen if turn.get("answered", True) else []})
    return made


def test_malformed_calls_are_findings_about_their_turns(client: httpx.Client) -> None:
    turns = calls(
        {"id": "c1", "name": "search", "arguments": '{"q": "benzene", "n": 5'},
        {"id": "c2", "name": "search", "arguments": "[1,2]"},
        {"id": "c3", "arguments": "{}"},
        {"id": "c4", "name": "search", "arguments": '{"q":1}\n{"q":2}'},
        {"id": "c5", "name": "noop", "arguments": "", "answered": False},
        {"id": "c6", "name": "search", "arguments": '{"q": NaN}'},
        {"id": "c7", "name": "search", "arguments": '{"q": 1, "q": 2}'},
        {"id": "c8", "name": "search", "arguments": {"q": "an object"}},
        {"id": "c9", "name": "search", "arguments": '{"q": "good"}'},
        {"id": "c10", "name": "search", "arguments": "not json at all"},
        {"id": "c11", "name": "search", "arguments": "7"},
        {"id": "c12", "name": "list", "arguments": None},
    )
    item = {"id": "t", "ladder": "organic-gap", "answer": "not a molecule", "turns": turns}
    [result] = submit(client, fresh(), item, until="fast")
    record = result["reward"]
    found = {hint["turn"]: hint["kind"] for hint in record["hints"] if hint["turn"] is not None}
    assert found == {
        0: "invalid_json",
        1: "not_an_object",
        2: "missing_name",
        3: "extra_data",
        4: "missing_observation",
        5: "non_finite",
        6: "duplicate_key",
        9: "invalid_json",
        10: "not_an_object",
    }
    assert record["process"][7] == record["process"][8] == record["process"][11] == 1.0
    assert all(record["process"][turn] < 1.0 for turn in found)
    assert record["reward"] == pytest.approx(
        record["outcome"] + record["process_weight"] * sum(record["process"]) / len(turns)
    )


NUMBERS = ["NaN", "1e999", '"NaN"', "-Infinity", "Infinity", "-1e999", "[1, NaN]", '{"a": Infinity}']


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none_are_refused_in_valid_json(client: httpx.Client, number: str) -> None:
    run = fresh()
    score = post_text(client, run, f'{{"trajectories": [{{"ladder": "hostile", "score": {number}}}]}}')
    size = post_text(client, run, f'{{"trajectories": [{{"ladder": "hostile", "group_size": {number}}}]}}')
    for answer in (score, size):
        assert answer.status_code == 200
        assert strictly(answer)["results"][0]["status"] == "invalid"
    for path, body in (
        (f"/v1/runs/{run}", f'{{"audit_share": {number}}}'),
        (f"/v1/runs/{run}", f'{{"score": {number}}}'),
        ("/v1/ladders/l", f'{{"score": {number}}}'),
        ("/v1/ladders/l", number),
    ):
        answer = client.put(path, content=body.encode())
        assert answer.status_code == 422
        assert strictly(answer)["status"] == 422
    whole = client.post(f"/v1/runs/{run}/rewards/query", content=f'{{"ids": {number}}}'.encode())
    assert whole.status_code == 422
    strictly(whole)


def test_text_that_is_none_is_refused_in_valid_json(client: httpx.Client) -> None:
    run = fresh()
    for text, code in (
        ('"\\ud800"', "lone_surrogate"),
        ('"\\u0000"', "nul_character"),
        ('"a\\u0000b"', "nul_character"),
    ):
        body = f'{{"trajectories": [{{"id": "t", "ladder": "hostile", "answer": {text}}}]}}'
        answer = post_text(client, run, body)
        [result] = strictly(answer)["results"]
        assert (result["status"], result["error"]["code"], result["id"]) == ("invalid", code, "t")
    refused = client.put(f"/v1/runs/{run}", content=b'{"\\ud800": "\\udfff"}')
    assert refused.status_code == 422
    assert "\ud800" not in str(strictly(refused))
    refused.text.encode()


def members(client: httpx.Client, rewards: list[float | None], **query: Any) -> dict[str, Any]:
    """The statistics of a group with these rewards; ``None`` is a verification that failed."""
    run = fresh()
    of = {1.0: "CCO", 0.0: "CCC"}
    items = [
        identity(of[reward], "CCO", group="g", group_size=len(rewards))
        if reward is not None
        else identity("CCO", None, group="g", group_size=len(rewards))
        for reward in rewards
    ]
    results = submit(client, run, *items)
    assert [result["reward"]["reward"] for result in results] == rewards
    answer = client.get(f"/v1/runs/{run}/groups/g", params=query)
    found: dict[str, Any] = strictly(answer)
    by_id = {member["trajectory"]: member for member in found["members"]}
    found["members"] = [by_id[item["id"]] for item in items]
    return found


def test_a_null_reward_is_outside_the_statistics(client: httpx.Client) -> None:
    found = members(client, [1.0, 0.0, None, 1.0])
    assert (found["valid"], found["expected"], found["complete"]) == (3, 4, True)
    assert found["mean"] == pytest.approx(2 / 3)
    assert found["std"] == pytest.approx(math.sqrt(2) / 3)
    missing = found["members"][2]
    assert (missing["reward"], missing["advantage"], missing["valid"]) == (None, None, False)
    assert sum(member["advantage"] or 0.0 for member in found["members"]) == pytest.approx(0, abs=1e-9)


def test_a_lone_reward_has_no_spread(client: httpx.Client) -> None:
    found = members(client, [1.0, None, None, None])
    assert (found["mean"], found["std"], found["valid"]) == (1.0, 0.0, 1)
    assert found["flags"] == ["one_valid_member"]
    assert found["members"][0]["advantage"] == 0.0
    rloo = members(client, [1.0, None], estimator="rloo")
    assert (rloo["members"][0]["advantage"], rloo["members"][0]["valid"]) == (None, False)
    sample = members(client, [1.0, None], ddof=1)
    assert sample["std"] == 0.0


def test_a_group_without_rewards_is_unscorable(client: httpx.Client) -> None:
    found = members(client, [None, None, None, None])
    assert (found["mean"], found["std"], found["valid"], found["scorable"]) == (None, None, 0, False)
    assert found["flags"] == ["unscorable"]


def test_equal_rewards_give_zero_advantages(client: httpx.Client) -> None:
    for estimator in ("grpo", "dr_grpo", "rloo", "posterior"):
        found = members(client, [1.0, 1.0, 1.0], estimator=estimator)
        assert [member["advantage"] for member in found["members"]] == [0.0, 0.0, 0.0]


def long_one(turns: int) -> dict[str, Any]:
    """A trajectory of many small turns, with an answer that a gate refuses at once."""
    made = [
        {
            "message": f"a{n}",
            "calls": [{"id": f"c{n}", "name": "step", "arguments": f'{{"n": {n}}}'}],
            "observations": [{"call": f"c{n}", "text": f"o{n}"}],
        }
        for n in range(turns)
    ]
    return {"id": fresh("long"), "ladder": "organic-gap", "answer": "not a molecule", "turns": made}


def test_ten_thousand_turns_are_judged_in_linear_time(client: httpx.Client) -> None:
    submit(client, fresh(), long_one(10))
    seconds = []
    for turns in (2_500, 10_000):
        started = time.monotonic()
        [result] = submit(client, fresh(), long_one(turns), until="fast")
        seconds.append(time.monotonic() - started)
        assert result["status"] == "accepted"
        assert len(result["reward"]["process"]) == turns
        assert set(result["reward"]["process"]) == {1.0}
    assert seconds[1] < patience(20)
    assert seconds[1] < 12 * max(seconds[0], 1.0)


def test_too_many_turns_are_refused_by_name(client: httpx.Client) -> None:
    item = {"id": "t", "ladder": "organic-gap", "turns": [{}] * 20_001}
    body = {"trajectories": [item, identity("CCO")]}
    bad, good = client.post(f"/v1/runs/{fresh()}/trajectories", json=body).json()["results"]
    assert (bad["status"], bad["error"]["code"], bad["error"]["field"]) == (
        "invalid",
        "too_many_turns",
        "turns",
    )
    assert good["status"] == "accepted"


def test_an_enormous_observation_is_413_or_judged_whole(tmp_path: Path) -> None:
    def of(size: int) -> bytes:
        seen = {"call": "c", "text": "x" * size}
        turn = {"calls": [{"id": "c", "name": "cat", "arguments": "{}"}], "observations": [seen]}
        item = {"id": "t", "ladder": "organic-gap", "answer": "not a molecule", "turns": [turn]}
        return json.dumps({"trajectories": [item], "wait": {"until": "fast", "seconds": 60}}).encode()

    with server.running(tmp_path, max_body_bytes="10000000") as small, small.client() as client:
        refused = client.post("/v1/runs/r/trajectories", content=of(50_000_000))
        assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
        assert refused.json()["limit"] == 10_000_000
        taken = client.post("/v1/runs/r/trajectories", content=of(9_000_000))
        assert taken.status_code == 200
        [result] = taken.json()["results"]
        assert result["reward"]["process"] == [1.0]


def test_bad_company_does_not_hold_up_a_batch(client: httpx.Client) -> None:
    run = fresh()
    submit(client, run, identity("CCO"), long_one(2))
    good = [
        identity("C" * (1 + n % 20) + "O" + "C" * (n // 20), "CCO") | {"id": f"good-{n}"}
        for n in range(250)
    ]
    texts = [json.dumps(item) for item in good]
    texts[7:7] = [json.dumps(identity("C" * 100_000) | {"id": "chain"})]
    texts[50:50] = [json.dumps(identity("C1CC1" * 3_000) | {"id": "rings"})]
    texts[90:90] = [json.dumps(identity("C1CC1" * 399) | {"id": "fewer-rings"})]
    texts[120:120] = [json.dumps(long_one(10_000) | {"id": "turns"})]
    texts[180:180] = ['{"id": "nan", "ladder": "molecule-identity", "metadata": {"x": NaN}}']
    texts.append('{"id": "half", "ladder": "molecule-identity", "answer": "\\ud800"}')
    started = time.monotonic()
    answer = post_text(client, run, '{"trajectories": [' + ",".join(texts) + "]}")
    by_id = {result["id"]: result for result in strictly(answer)["results"]}
    assert len(by_id) == 256
    assert by_id["nan"]["error"]["code"] == "not_finite"
    assert by_id["half"]["error"]["code"] == "lone_surrogate"
    ids = [item["id"] for item in good]
    wait = {"until": "fast", "seconds": 60}
    done = client.post(f"/v1/runs/{run}/rewards/query", json={"ids": ids, "wait": wait}).json()
    assert time.monotonic() - started < patience(20)
    assert done["complete"] is True
    assert len(done["records"]) == 250
    assert {record["reward"] for record in done["records"]} == {0.0, 1.0}
    rest = {"ids": ["chain", "rings", "fewer-rings", "turns"], "wait": wait}
    others = client.post(f"/v1/runs/{run}/rewards/query", json=rest).json()["records"]
    assert [record["reward"] is None or record["reward"] <= 0.2 for record in others] == [True] * 4


def test_one_verifier_that_dies_takes_nobody_with_it(client: httpx.Client) -> None:
    items = [act("ok", n=n) for n in range(20)]
    items[3], items[11] = act("segfault"), act("exit")
    results = submit(client, fresh(), *items, seconds=60)
    rewards = [result["reward"]["reward"] for result in results]
    assert rewards == [None if n in (3, 11) else 1.0 for n in range(20)]
    assert results[3]["reward"]["reason"]["code"] == "infrastructure"


def test_one_batch_sent_twice_at_once_is_one_batch(client: httpx.Client) -> None:
    run = fresh()
    items = [identity("C" * (1 + n % 9) + "O", "CCO", group=f"g{n // 8}", group_size=8) for n in range(64)]
    with ThreadPoolExecutor(4) as pool:
        both = list(pool.map(lambda _: submit(client, run, *items), range(4)))
    for position, item in enumerate(items):
        statuses = sorted(results[position]["status"] for results in both)
        assert statuses == ["accepted", "duplicate", "duplicate", "duplicate"]
        assert {results[position]["id"] for results in both} == {item["id"]}
        assert len({results[position]["reward"]["reward"] for results in both}) == 1
    report = client.get(f"/v1/runs/{run}").json()
    assert report["trajectories"] == 64
    found = client.get(f"/v1/runs/{run}/groups/g0").json()
    assert (found["valid"], found["expected"]) == (8, 8)
