"""Hundreds of programs over HTTP: attacks, right ones in many styles, plausible wrong ones.

Half of the attacks were written by someone who had not seen the judge.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import server
from tests.support.server import fresh
from tiers.sandbox.namespaces import UID_BASE

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "code"
BATCH = 64
# A test that derives a class from the solution's own cannot run across two processes: the task is refused.
UNVERIFIABLE = {"sol-stateful-class-20": "bad_tests"}
TRACES = ("blind_probe", "blind_reduce_probe", "blind_state.json", "blind_learn.json", "blind_fill")


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client(timeout=600.0) as client:
        yield client


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]


def judged(client: httpx.Client, cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What became of every case by id; a lone surrogate is refused at the door as ``invalid``."""
    run, told = fresh("corpus"), {}
    for start in range(0, len(cases), BATCH):
        items = [_item(case) for case in cases[start : start + BATCH]]
        while True:
            results = _submitted(client, run, items)
            if all(_settled(result) for result in results):
                break
        told.update({result["id"]: result for result in results})
    return told


def _item(case: dict[str, Any]) -> dict[str, Any]:
    inputs = {"time_limit_s": 1.0, **case.get("inputs", {})}
    problem = {"inputs": inputs, "reference": case["reference"]}
    return {"id": case["id"], "ladder": "code", "answer": case["answer"], "problem": problem}


def _submitted(client: httpx.Client, run: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    body = {"trajectories": items, "wait": {"until": "final", "seconds": 100}}
    answer = client.post(f"/v1/runs/{run}/trajectories", content=json.dumps(body))
    assert answer.status_code in (200, 202), answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    for result, item in zip(results, items, strict=True):
        result["id"] = item["id"]
    return results


def _settled(result: dict[str, Any]) -> bool:
    if result["status"] == "invalid":
        return True
    reason = (result["reward"] or {}).get("reason") or {}
    return result["reward"] is not None and reason.get("code") != "pending"


def test_no_attack_is_ever_accepted_and_none_leaves_anything(client: httpx.Client) -> None:
    cases = read("attacks_blind.jsonl") + read("attacks.jsonl")
    assert len(cases) >= 600
    before = _left()
    told = judged(client, cases)
    # A machine that is too busy says so, and to come again: that is no verdict yet.
    again = [case for case in cases if _retryable(told[case["id"]])]
    told |= judged(client, again)
    wrong = {
        name: (result["reward"]["reward"], result["reward"]["reason"])
        for name, result in told.items()
        if result["status"] != "invalid" and result["reward"]["reward"] != 0.0
    }
    assert wrong == {}
    assert all(result["error"]["code"] for result in told.values() if result["status"] == "invalid")
    left = _left() - before
    # Boxes of other work on this machine come and go; what was left would stay.
    for _ in range(60):
        if not left:
            break
        time.sleep(1.0)
        left &= _left()
    assert left == set()


def _retryable(result: dict[str, Any]) -> bool:
    reward = result["reward"] or {}
    return "reward" in reward and reward["reward"] is None and bool(reward["reason"]["retryable"])


def _left() -> set[str]:
    """Processes of sandboxes, listening sockets of theirs, files with the attacks' names."""
    found = set()
    for process in psutil.process_iter(["uids", "cmdline"]):
        uids = process.info["uids"]
        if uids is not None and UID_BASE <= uids.real < UID_BASE + (1 << 24):
            found.add(f"process {process.pid}")
    for folder in (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd()):
        found |= {str(path) for path in folder.glob("*") if path.name.startswith(TRACES)}
    return found


def test_right_programs_are_never_refused(client: httpx.Client) -> None:
    cases = read("solutions.jsonl")
    assert len(cases) >= 200
    told = judged(client, cases)
    for name, detail in UNVERIFIABLE.items():
        record = told.pop(name)["reward"]
        assert (record["reward"], record["reason"]["detail"]) == (None, detail)
    refused = {name: result for name, result in told.items() if result["reward"]["reward"] != 1.0}
    assert refused == {}


def test_plausible_wrong_programs_are_refused(client: httpx.Client) -> None:
    told = judged(client, read("wrong.jsonl"))
    accepted = {name: result for name, result in told.items() if result["reward"]["reward"] != 0.0}
    assert accepted == {}


def test_the_corpus_is_what_it_says() -> None:
    for name in ("attacks_blind.jsonl", "attacks.jsonl", "solutions.jsonl", "wrong.jsonl"):
        cases = read(name)
        assert len({case["id"] for case in cases}) == len(cases)
        assert {case["expect"] for case in cases} == {"accept" if name == "solutions.jsonl" else "reject"}
