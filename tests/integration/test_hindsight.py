"""The hindsight export of a real server: what it holds, in which order, and what it never holds."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, identity, submit
from verifier_service.client import AsyncClient, Client, NotAllowed, NotFound
from verifier_service.domain.hindsight import HindsightPage

WATCHED: dict[str, Any] = {
    "name": "watched-identity",
    "candidate": {"kind": "molecule", "format": "smiles"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
    "tiers": {"fast": [{"use": "molecule.validity", "gate": "hard"}, {"use": "molecule.identity"}]},
}


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        client.put(f"/v1/ladders/{WATCHED['name']}", json=WATCHED).raise_for_status()
        yield client


@pytest.fixture
def client(http: httpx.Client) -> Iterator[Client]:
    running = server.shared()
    with Client(running.url, running.key, retry_s=20.0) as client:
        yield client


def turn(n: int, *, error: bool = False, **call: Any) -> dict[str, Any]:
    made = {"id": f"c{n}", "name": "look", "arguments": json.dumps({"n": n}), **call}
    seen = {"call": f"c{n}", "text": f"result {n}", "is_error": error}
    return {"message": f"thinking {n}", "calls": [made], "observations": [seen]}


def watched(answer: str, *turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return identity(answer, turns=list(turns), **fields) | {"ladder": WATCHED["name"]}


def whole(client: Client, run: str, limit: int = 100) -> list[HindsightPage]:
    pages = [client.hindsight(run, limit=limit)]
    while pages[-1].more:
        pages.append(client.hindsight(run, after=pages[-1].cursor, limit=limit))
    return pages


def test_a_trajectory_ends_with_its_first_mistake(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    turns = [turn(0), turn(1, error=True), turn(2), turn(3, arguments="{")]
    item = watched("CCC", *turns, group="g", policy_version="7")
    item["problem"]["prompt"] = [{"role": "user", "content": "Which molecule?"}]
    submit(http, run, item)
    [record] = client.hindsight(run).records
    reward = client.query(run, [item["id"]]).records[0]
    assert (record.trajectory, record.group, record.policy_version) == (item["id"], "g", "7")
    assert (record.seq, record.revision, record.status) == (reward.seq, reward.revision, "final")
    assert record.reward == reward.reward
    assert record.prompt == item["problem"]["prompt"]
    assert record.mistake == 1
    assert [one.message for one in record.turns] == ["thinking 0", "thinking 1"]
    assert record.turns[1].observations[0].is_error
    assert record.answer is None
    assert {(hint.turn, hint.kind) for hint in record.hints} == {
        (1, "error"),
        (None, "composition"),
        (None, "different_molecule"),
    }
    assert all(hint.turn != 3 for hint in record.hints)


def test_a_wrong_answer_without_a_wrong_turn_is_the_mistake(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    submit(http, run, watched("CCC", turn(0)))
    [record] = client.hindsight(run).records
    assert record.mistake is None
    assert (record.answer, len(record.turns)) == ("CCC", 1)
    assert [hint.kind for hint in record.hints] == ["composition", "different_molecule"]


def test_right_answers_teach_nothing(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    submit(http, run, watched("CCO", turn(0)), identity("OCC"))
    page = client.hindsight(run)
    assert page.records == ()
    assert (page.cursor, page.more) == (2, False)


def test_pages_follow_the_feed_and_skip_nothing(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    wrong = [identity("CCC", id=f"w{n:02}") for n in range(12)]
    right = [identity("CCO", id=f"r{n:02}") for n in range(12)]
    submit(http, run, *(item for pair in zip(wrong, right, strict=True) for item in pair))
    pages = whole(client, run, limit=5)
    seqs = [record.seq for page in pages for record in page.records]
    assert seqs == sorted(set(seqs))
    assert sorted(record.trajectory for page in pages for record in page.records) == [
        item["id"] for item in wrong
    ]
    assert [len(page.records) for page in pages] == [5, 5, 2]
    assert client.hindsight(run, after=pages[-1].cursor).records == ()


def test_a_later_revision_comes_again_or_is_withdrawn(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    growing = watched("", turn(0, error=True)) | {"answer": None, "finished": False}
    submit_open(http, run, growing)
    first = wait_for(client, run, growing["id"])
    assert (first.mistake, first.status, first.reward) == (0, "unscored", None)
    client.grow(run, growing["id"], index=1, answer="CCC", finished=True)
    client.query(run, [growing["id"]], wait="final")
    later = client.hindsight(run, after=first.seq).records
    assert [(one.trajectory, one.revision > first.revision) for one in later] == [(growing["id"], True)]
    assert later[0].supersedes is not None
    assert later[0].supersedes >= first.seq
    everything = client.hindsight(run).records
    assert [one.seq for one in everything] == [later[0].seq], "the superseded record is passed over"


def test_what_a_person_took_back_is_withdrawn(http: httpx.Client, client: Client) -> None:
    """An unfinished trajectory's first record teaches nothing; its last one neither: both are named."""
    run = fresh("hindsight")
    item = watched("", turn(0)) | {"answer": None, "finished": False}
    submit_open(http, run, item)
    client.grow(run, item["id"], index=1, answer="CCO", finished=True)
    client.query(run, [item["id"]], wait="final")
    page = client.hindsight(run)
    assert page.records == ()
    assert page.withdrawn == (item["id"],)


def test_waiting_for_the_first_mistake(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    submit(http, run, identity("CCO"))
    cursor = client.hindsight(run).cursor
    began = time.monotonic()
    assert client.hindsight(run, after=cursor, wait_s=0.5).records == ()
    assert time.monotonic() - began >= 0.45
    sending = threading.Timer(0.4, submit, (http, run, identity("CCC")))
    sending.start()
    page = client.hindsight(run, after=cursor, wait_s=30.0)
    sending.join()
    assert len(page.records) == 1


def test_scopes_and_unknown_runs(client: Client, http: httpx.Client) -> None:
    with pytest.raises(NotFound):
        client.hindsight(fresh("never"))
    run = fresh("hindsight")
    submit(http, run, identity("CCC"))
    url = server.shared().url
    with Client(url, client.create_key("w", ["submit"]).token) as writer, pytest.raises(NotAllowed):
        writer.hindsight(run)
    with Client(url, client.create_key("r", ["read"]).token) as reader:
        assert len(reader.hindsight(run).records) == 1
    assert http.get(f"/v1/runs/{run}/hindsight", params={"limit": 0}).status_code == 422
    assert http.get(f"/v1/runs/{run}/hindsight", params={"after": -1}).status_code == 422


def test_the_asyncio_client_reads_it_too(http: httpx.Client) -> None:
    run = fresh("hindsight")
    submit(http, run, identity("CCC"))

    async def read() -> HindsightPage:
        running = server.shared()
        async with AsyncClient(running.url, running.key) as client:
            return await client.hindsight(run)

    assert len(asyncio.run(read()).records) == 1


MATHS = [
    ("\\boxed{\\frac{16}{9}}", "\\frac{9}{16}"),
    ("\\boxed{-98765}", "98765"),
    ("\\boxed{98765/100}", "98765"),
    ("\\boxed{[43210,98765)}", "(43210,98765]"),
    ("\\boxed{\\{11111\\}}", "\\{98765, 43210\\}"),
    ("no box at all", "98765"),
    ("\\boxed{98 + }", "98765"),
    ("\\boxed{12 \\text{kg}}", "98765 \\text{m}"),
]
PROGRAMS = [
    "def double(n):\n    return n",
    "def double(n):\n    raise ValueError(n)",
    "def double(n)\n    return n",
    "while True: pass",
    "import sys\nsys.exit(3)",
]
MOLECULES = ["CCC", "CCN", "C[CH2]", "C(", "CC(=O)Oc1ccccc1C(=O)O", "[13CH4]", "OCCCCCCCCO"]


def test_no_gold_of_a_maths_problem(http: httpx.Client) -> None:
    for answer, gold in MATHS:
        item = {
            "id": fresh("t"),
            "ladder": "math",
            "problem": {"prompt": "Solve it.", "reference": {"answer": gold}},
            "answer": answer,
        }
        exported = export_of(http, item)
        for part in {gold, *gold.strip("\\{}()[]").split(",")}:
            assert part.strip() not in exported


def test_no_gold_of_a_programming_problem(http: httpx.Client) -> None:
    secret = 77_012_345
    tests = [{"call": "double", "args": [n], "expected": 2 * n} for n in (secret, 4_711)]
    for program in PROGRAMS:
        item = {
            "id": fresh("t"),
            "ladder": "code",
            "problem": {
                "prompt": "Double it.",
                "inputs": {"entry_point": "double", "time_limit_s": 1},
                "reference": {"tests": tests, "solution": "def double(n):\n    return n + n  # goldgold"},
            },
            "answer": f"```python\n{program}\n```",
        }
        exported = export_of(http, item)
        for gold in (str(secret), str(2 * secret), "4711", "9422", "goldgold", "n + n"):
            assert gold not in exported


def test_no_gold_of_a_molecule(http: httpx.Client) -> None:
    gold = "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"
    same = ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", "C8H10N4O2", "RYYVLZVUVIJVGH", "caffeine")
    for answer in MOLECULES:
        exported = export_of(http, identity(answer, gold))
        for form in (gold, *same):
            assert form not in exported


def test_a_reviewer_who_writes_the_gold_is_not_passed_on(http: httpx.Client, client: Client) -> None:
    run = fresh("hindsight")
    item = identity("OCC", "CCO", inputs={"n": f"{run}-1"}) | {"ladder": "reviewed"}
    told = identity("C(C)O", "CCO", inputs={"n": f"{run}-2"}) | {"ladder": "reviewed"}
    for right, reason in ((item, "it should be CCO, of course"), (told, "too greasy")):
        http.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [right]}).raise_for_status()
        review = soon(lambda right=right: review_of(client, right["problem"]["inputs"]))
        client.claim(reviewer="ann", review=review)
        client.decide(review, reviewer="ann", verdict="reject", reason=reason)
        soon(lambda right=right: client.query(run, [right["id"]]).records[0].tier == "lab")
    page = client.hindsight(run)
    assert "CCO" not in page.model_dump_json()
    by_id = {record.trajectory: record for record in page.records}
    assert (by_id[item["id"]].withheld, by_id[item["id"]].hints) == (1, ())
    assert by_id[told["id"]].withheld == 0
    assert ("reviewer_rejected", "too greasy") in {(h.kind, h.text) for h in by_id[told["id"]].hints}


def export_of(http: httpx.Client, item: dict[str, Any]) -> str:
    """The export of one rejected trajectory as text, without the answer that the model itself wrote."""
    run = fresh("hindsight")
    [result] = submit(http, run, item, seconds=60.0)
    assert result["reward"]["outcome"] == 0.0, result
    answer = http.get(f"/v1/runs/{run}/hindsight")
    [record] = answer.json()["records"]
    assert record["hints"]
    assert record["withheld"] == 0
    assert "reference" not in record
    assert record.pop("answer") == item["answer"]
    return json.dumps([answer.json() | {"records": []}, record], ensure_ascii=False).replace("\\\\", "\\")


def submit_open(http: httpx.Client, run: str, item: dict[str, Any]) -> None:
    body = {"trajectories": [item], "wait": {"until": "fast", "seconds": 20}}
    http.post(f"/v1/runs/{run}/trajectories", json=body).raise_for_status()


def wait_for(client: Client, run: str, id: str) -> Any:
    def found() -> Any:
        return next((one for one in client.hindsight(run, wait_s=5).records if one.trajectory == id), None)

    return soon(found)


def review_of(client: Client, inputs: dict[str, Any]) -> str | None:
    return next((one.id for one in client.reviews(state="open", limit=1_000) if one.inputs == inputs), None)


def soon(found: Any, seconds: float = 30.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value
