"""Trainers that call a URL: what they send in their formats, and what they get for it."""

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
from tests.support.server import fresh
from tests.support.trouble import FAILS, HANGS, OK, SPOKEN, WRONG

PROMPT = "<|im_start|>user\nWhich? <|im_end|>\n<|im_start|>assistant\n"
LADDER = SPOKEN["name"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        client.put(f"/v1/ladders/{LADDER}", json=SPOKEN).raise_for_status()
        yield client


def post(
    client: httpx.Client, form: str, body: Any, run: str = "", ladder: str = LADDER, **options: Any
) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(
        f"/v1/score/{run or fresh()}/{ladder}",
        params={"format": form, **options},
        content=content,
        headers={"Content-Type": "application/json"},
    )


def openrlhf(*completions: str, label: Any = "") -> dict[str, Any]:
    return {
        "query": [PROMPT + completion + "<|im_end|>" for completion in completions],
        "prompts": [PROMPT] * len(completions),
        "labels": [label] * len(completions),
    }


def slime(response: str, label: Any = None) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": "Which?"}], "response": response, "label": label}


def gym(answer: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": answer, "annotations": []}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        "generation_token_ids": [1, 2, 3],
    }
    response = {"id": fresh("resp"), "object": "response", "output": [message], "model": "m"}
    return {"responses_create_params": {"input": "Which?"}, "response": response, **fields}


def trajectories(client: httpx.Client, run: str) -> int:
    count: int = client.get(f"/v1/runs/{run}").json()["trajectories"]
    return count


def case(client: httpx.Client, run: str) -> dict[str, Any]:
    """The only trajectory of a run."""
    [record] = client.get(f"/v1/runs/{run}/rewards").json()["records"]
    found: dict[str, Any] = client.get(f"/v1/runs/{run}/trajectories/{record['trajectory']}").json()
    return found


@pytest.mark.parametrize(("said", "reward"), [(OK, 1.0), (WRONG, 0.0)])
def test_a_verified_item_has_its_reward_in_every_format(
    client: httpx.Client, said: str, reward: float
) -> None:
    first = post(client, "openrlhf", openrlhf(said)).json()
    assert (first["rewards"], first["scores"], first["reasons"]) == ([reward], [reward], [None])
    assert first["extra_logs"]["verified"] == [1.0]
    assert first["extra_logs"]["verifier_credits"][0] >= 0.0
    assert post(client, "slime", slime(said)).json() == reward
    asked = gym(said, expected_answer="x", id=7)
    answered = post(client, "nemo_gym", asked).json()
    assert {**answered, **asked} == answered
    assert (answered["reward"], answered["mask_sample"], answered["failure_reason"]) == (
        reward,
        False,
        None,
    )


@pytest.mark.parametrize("said", [FAILS, HANGS])
def test_what_was_not_verified_is_no_number_in_any_format(client: httpx.Client, said: str) -> None:
    first = post(client, "openrlhf", openrlhf(said), seconds=30).json()
    assert first["rewards"] is None
    assert math.isnan(first["scores"][0])
    assert first["extra_logs"]["verified"] == [0.0]
    assert first["reasons"][0]["code"] == "unverifiable"
    assert post(client, "slime", slime(said), seconds=30).json() is None
    asked = gym(said)
    second = post(client, "nemo_gym", asked, seconds=30).json()
    assert (second["reward"], second["mask_sample"]) == (None, True)
    assert second["failure_kind"] == "verifier-service:unverifiable"
    assert second["failure_reason"]
    masked = post(client, "nemo_gym", asked, seconds=30, unscored="mask").json()
    assert (masked["reward"], masked["mask_sample"]) == (0.0, True)


def test_a_hanging_item_is_answered_in_time_and_holds_up_nobody(client: httpx.Client) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(post, client, "slime", slime(HANGS), seconds=1.0)
        other = pool.submit(post, client, "slime", slime(OK), seconds=30.0)
    assert stuck.result().json() is None
    assert other.result().json() == 1.0
    early = post(client, "openrlhf", openrlhf(HANGS), seconds=0.2).json()
    assert (early["rewards"], early["reasons"][0]["code"]) == (None, "pending")
    assert time.monotonic() - began < server.patience(15.0)


def test_a_budget_that_ran_out_is_no_number(client: httpx.Client) -> None:
    run = fresh()
    client.put(f"/v1/runs/{run}", json={"budgets": {"compute": 0.0}}).raise_for_status()
    unseen = json.dumps({"do": "ok", "n": fresh()})  # what was verified before costs nothing
    first = post(client, "openrlhf", openrlhf(unseen), run).json()
    assert (first["rewards"], first["reasons"][0]["code"]) == (None, "budget_exhausted")
    assert post(client, "slime", slime(unseen), run).json() is None
    assert post(client, "nemo_gym", gym(unseen), run).json()["failure_kind"].endswith("budget_exhausted")


def test_empty_lists_are_answered_with_empty_lists(client: httpx.Client) -> None:
    for body in ({"query": [], "prompts": [], "labels": []}, {"query": []}):
        answer = post(client, "openrlhf", body)
        assert answer.status_code == 200
        assert (answer.json()["rewards"], answer.json()["scores"]) == ([], [])


def test_one_bad_item_is_null_with_a_reason_and_others_go_on(client: httpx.Client) -> None:
    bad = ["a\x00b", "\ud800", 7]
    body = openrlhf(OK, "", "", "", WRONG, OK)
    for at, broken in enumerate(bad, start=1):
        body["query"][at] = PROMPT + broken if isinstance(broken, str) else broken
    body["prompts"][5] = "another prompt"
    body["labels"][4] = float("nan")
    answer = post(client, "openrlhf", body)
    assert answer.status_code == 200
    assert answer.json()["rewards"] == [1.0, None, None, None, None, None]
    messages = [reason and reason["message"].split(":")[0] for reason in answer.json()["reasons"]]
    assert messages == [
        None,
        "nul_character",
        "lone_surrogate",
        "wrong_type",
        "not_finite",
        "prompt_mismatch",
    ]


def test_bytes_that_are_no_text_are_refused_by_that_name(client: httpx.Client) -> None:
    for form in ("openrlhf", "slime", "nemo_gym"):
        answer = post(client, form, b'{"query": ["\xff"], "prompts": [""], "response": "\xff"}')
        assert (answer.status_code, answer.json()["code"]) == (422, "not_utf8")


def test_a_request_that_comes_again_is_the_same_trajectory(client: httpx.Client) -> None:
    for form, body in (("openrlhf", openrlhf(OK)), ("slime", slime(OK)), ("nemo_gym", gym(OK))):
        run = fresh()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _, b=body, f=form, r=run: post(client, f, b, r), range(8)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.text for answer in answers}) == 1
        assert (trajectories(client, run), case(client, run)["multiplicity"]) == (1, 1)


def test_gym_tells_equal_rollouts_apart_by_their_response(client: httpx.Client) -> None:
    run = fresh()
    for _ in range(2):
        post(client, "nemo_gym", gym(OK), run)
    assert trajectories(client, run) == 2


def test_the_same_request_has_another_id_in_another_run(client: httpx.Client) -> None:
    names = set()
    for run in (fresh(), fresh()):
        post(client, "slime", slime(OK), run)
        names.add(case(client, run)["id"])
    assert len(names) == 2


@pytest.mark.parametrize(
    ("label", "options", "expected"),
    [
        ("42", {}, {"answer": "42"}),
        ('{"smiles": "CCO"}', {}, {"smiles": "CCO"}),
        ("{1, 2}", {"reference": "gold"}, {"gold": "{1, 2}"}),
        ('{"a": NaN}', {}, {"answer": '{"a": NaN}'}),
        ({"smiles": "C"}, {}, {"smiles": "C"}),
        (7, {}, {"answer": 7}),
        ("", {}, {}),
        (None, {}, {}),
    ],
)
def test_a_label_becomes_the_reference(
    client: httpx.Client, label: Any, options: dict[str, str], expected: Any
) -> None:
    for form, body in (
        ("openrlhf", openrlhf(OK, label=label)),
        ("slime", slime(OK, label)),
        ("nemo_gym", gym(OK, expected_answer=label)),
    ):
        run = fresh()
        post(client, form, body, run, **options).raise_for_status()
        assert (case(client, run).get("reference") or {}) == expected


def test_gym_labels_come_from_the_field_that_is_named(client: httpx.Client) -> None:
    run = fresh()
    post(client, "nemo_gym", gym(OK, verifier_metadata={"smiles": "CCO"}), run, label="verifier_metadata")
    assert case(client, run)["reference"] == {"smiles": "CCO"}


@pytest.mark.parametrize(
    ("prompt", "query", "options", "answer"),
    [
        ("p ", "p x", {}, "x"),
        ("p , q", "p, q x</s>", {}, " x"),
        ("p", "p a<|im_end|>\n<|endoftext|>", {}, " a"),
        ("p", "pa<｜end▁of▁sentence｜>", {}, "a"),
        ("p", "pa|>", {}, "a|>"),
        ("p", "pa STOP", {"end": "STOP"}, "a "),
        ("p", "pa</s>", {"end": "STOP"}, "a</s>"),
        ("p", "puse <|im_start|>", {"end": ""}, "use <|im_start|>"),
    ],
)
def test_the_completion_is_what_follows_the_prompt(
    client: httpx.Client, prompt: str, query: str, options: dict[str, str], answer: str
) -> None:
    run = fresh()
    post(client, "openrlhf", {"query": [query], "prompts": [prompt], "labels": [""]}, run, **options)
    assert case(client, run)["answer"] == answer


def test_a_gym_response_becomes_turns(client: httpx.Client) -> None:
    body = gym(OK)
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'}
    output = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    thought = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]}
    body["response"]["output"] = [thought, call, output, *body["response"]["output"]]
    run = fresh()
    assert post(client, "nemo_gym", body, run).json()["reward"] == 1.0
    turns = case(client, run)["turns"]
    assert [turn.get("message") for turn in turns] == [None, OK]
    assert turns[0]["calls"] == [{"id": "c1", "name": "look", "arguments": '{"at": 1}'}]
    assert turns[0]["observations"][0]["text"] == "seen"


HOSTILE: list[tuple[bytes, int, str]] = [
    (b"", 422, "invalid_json"),
    (b"{", 422, "invalid_json"),
    (b"[]", 422, "wrong_type"),
    (b"null", 422, "wrong_type"),
    (b"{} {}", 422, "invalid_json"),
    (b"[" * 200_000, 422, "invalid_json"),
    (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 422, "too_deep"),
    (b'{"query": "x", "response": {"output": 3}}', 422, "wrong_type"),
]


@pytest.mark.parametrize(("raw", "status", "code"), HOSTILE)
@pytest.mark.parametrize("form", ["openrlhf", "nemo_gym"])
def test_a_body_that_is_no_request_is_refused(
    client: httpx.Client, form: str, raw: bytes, status: int, code: str
) -> None:
    answer = post(client, form, raw)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("form", ["openrlhf", "slime", "nemo_gym"])
@pytest.mark.parametrize(
    "raw",
    [
        b'{"query": ["\xff"], "prompts": [""], "labels": [""], "response": "\xff"}',
        b'{"query": ["a"], "query": ["b"], "response": "a", "response": "b"}',
        b'{"query": [[[[]]]], "prompts": [{}], "response": [1e999]}',
        b'{"query": [null], "prompts": [null], "labels": [null], "response": true}',
        b'{"query": {"a": 1}, "prompts": 7, "response": {"output": [null, 1, {}, {"type": "message"}]}}',
        b'{"query": ["a"], "prompts": ["a", "b"], "response": {"output": [{"type": "message"}]}}',
    ],
)
def test_hostile_values_are_never_a_number_and_never_a_server_error(
    client: httpx.Client, form: str, raw: bytes
) -> None:
    answer = post(client, form, raw, ladder="hostile")
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        body = answer.json()
        reward = body if form == "slime" else body["reward"] if form == "nemo_gym" else body["rewards"]
        assert reward in (None, [None], 0.0)


def test_an_unknown_ladder_stops_the_trainer(client: httpx.Client) -> None:
    answer = post(client, "slime", slime(OK), ladder="nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_ladder")


def test_a_closed_run_takes_nothing_more(client: httpx.Client) -> None:
    run = fresh()
    post(client, "slime", slime(OK), run)
    client.post(f"/v1/runs/{run}/close", params={"wait": 20}).raise_for_status()
    assert post(client, "slime", slime(WRONG), run).status_code == 409
    assert post(client, "slime", slime(OK), run).json() == 1.0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"seconds": -1}, "seconds"),
        ({"seconds": "nan"}, "seconds"),
        ({"until": "soon"}, "until"),
        ({"reference": ""}, "reference"),
        ({"unscored": "zero"}, "unscored"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    client: httpx.Client, options: dict[str, Any], field: str
) -> None:
    answer = post(client, "slime", slime(OK), **options)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_an_unknown_format_is_refused(client: httpx.Client) -> None:
    assert post(client, "trl", slime(OK)).status_code == 422


def test_the_key_may_come_in_the_url_of_this_route_only(client: httpx.Client) -> None:
    shared = server.shared()
    host = shared.url.removeprefix("http://")
    made = client.post("/v1/keys", json={"name": "trainer", "scopes": ["submit"]}).json()["token"]
    path = f"/v1/score/{fresh()}/{LADDER}?format=slime"
    for user in ("", "anybody"):
        assert httpx.post(f"http://{user}:{made}@{host}{path}", json=slime(OK)).json() == 1.0
    for bad in (f"http://:wrong@{host}", f"http://{made}@{host}", shared.url):
        assert httpx.post(f"{bad}{path}", json=slime(OK)).status_code == 401
    nonsense = httpx.post(
        f"{shared.url}{path}",
        json=slime(OK),
        headers={"Authorization": "Basic !"},
    )
    assert nonsense.status_code == 401
    query = httpx.post(f"{shared.url}{path}&key={made}", json=slime(OK))
    assert query.status_code == 401
    assert httpx.get(f"http://:{shared.key}@{host}/v1/runs").status_code == 401
    reader = client.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()["token"]
    assert httpx.post(f"http://:{reader}@{host}{path}", json=slime(OK)).status_code == 403


def test_limits_of_the_server_hold(tmp_path: Path) -> None:
    with (
        server.running(tmp_path, max_body_bytes="100000", max_batch="3", max_wait_s="1") as small,
        small.client() as client,
    ):
        client.put(f"/v1/ladders/{LADDER}", json=SPOKEN).raise_for_status()
        large = post(client, "slime", slime("x" * 200_000))
        assert (large.status_code, large.json()["limit"]) == (413, 100_000)
        many = post(client, "openrlhf", openrlhf(*[OK] * 4))
        assert (many.status_code, many.json()["code"]) == (422, "batch_too_large")
        began = time.monotonic()
        assert post(client, "slime", slime(HANGS), seconds=100).json() is None
        assert time.monotonic() - began < server.patience(20.0)


def test_a_server_that_stops_sends_trainers_away_to_come_again(tmp_path: Path) -> None:
    with server.running(tmp_path) as stopping, stopping.client() as client:
        client.put(f"/v1/ladders/{LADDER}", json=SPOKEN).raise_for_status()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(post, client, "openrlhf", openrlhf(HANGS), seconds=60)
            time.sleep(1.5)
            stopping.stop()
        answer = waiting.result()
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert answer.headers["retry-after"]
