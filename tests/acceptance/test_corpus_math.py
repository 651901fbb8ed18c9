"""Two thousand final answers, written from the contract alone by someone who had not seen the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.corpus import judged, read
from tests.support.server import fresh
from tiers.fast.math_answer import MathAnswer

FILES = {"right.jsonl": 600, "wrong.jsonl": 600, "attacks.jsonl": 600}
NUMBER = (
    "a finite JSON number is a reference: data sets are full of them, and it can be read in one way only"
)
OVERRIDDEN = {
    "attack-0620": ("accept", NUMBER),
    "attack-0621": ("accept", NUMBER),
    "attack-0625": ("accept", NUMBER + "; so is one among texts"),
    "attack-0626": ("accept", NUMBER + "; so is one among texts"),
    "attack-0629": ("accept", NUMBER + "; so is a list of them"),
    "attack-0633": ("accept", NUMBER),
}
OVER_HTTP = 60


@pytest.fixture(scope="module")
def verifier() -> MathAnswer:
    verifier = MathAnswer()
    verifier.warm()
    return verifier


def cases(name: str) -> list[dict[str, Any]]:
    return read(f"math/{name}")


def expected(case: dict[str, Any]) -> str:
    return OVERRIDDEN[case["id"]][0] if case["id"] in OVERRIDDEN else str(case["expect"])


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_judged_as_it_says_and_at_once(name: str, verifier: MathAnswer) -> None:
    lines = cases(name)
    assert len(lines) >= FILES[name]
    found = {case["id"]: (expected(case), *judged(verifier, case)) for case in lines}
    assert {key: each[:3] for key, each in found.items() if each[0] != each[1]} == {}
    assert {key: each[3] for key, each in found.items() if each[3] >= 1.0} == {}


def test_an_override_is_needed(verifier: MathAnswer) -> None:
    """One that the corpus itself agrees with by now would hide a change."""
    lines = {case["id"]: case for name in FILES for case in cases(name)}
    for key, (outcome, reason) in OVERRIDDEN.items():
        assert lines[key]["expect"] != outcome
        assert reason


def test_only_the_reference_makes_a_task_error(verifier: MathAnswer) -> None:
    """A reference that is accepted as an answer to itself is good, whatever else is answered."""
    for case in cases("attacks.jsonl"):
        gold = case["reference"].get("answer")
        if case["hostile"] != "gold" and isinstance(gold, str):
            itself = judged(verifier, {**case, "answer": f"\\boxed{{{gold}}}"})
            assert itself[0] == "accept", case["id"]
            assert judged(verifier, case)[0] == "reject", case["id"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def spread() -> list[dict[str, Any]]:
    """A third from each file, evenly taken, of what a request can carry."""
    chosen: list[dict[str, Any]] = []
    for name in FILES:
        lines = [case for case in cases(name) if _carried(case)]
        chosen += lines[:: len(lines) // (OVER_HTTP // 3)][: OVER_HTTP // 3]
    return chosen


def _carried(case: dict[str, Any]) -> bool:
    """Whether the door lets it in: no NUL, no half of a surrogate pair, not a megabyte."""
    text = json.dumps(case)
    return "\\u0000" not in text and "\\ud8" not in text and "\\udc" not in text and len(text) < 20_000


def test_a_spread_of_them_over_http(client: httpx.Client) -> None:
    chosen = spread()
    assert len(chosen) == OVER_HTTP
    items = [
        {
            "id": case["id"],
            "ladder": "math",
            "answer": case["answer"],
            "problem": {"prompt": "?", "inputs": case["inputs"], "reference": case["reference"]},
        }
        for case in chosen
    ]
    results = server.submit(client, fresh("corpus"), *items, seconds=100)
    rewards = {"accept": 1.0, "reject": 0.0, "task_error": None}
    for case, result in zip(chosen, results, strict=True):
        assert result["status"] == "accepted", (case["id"], result)
        record = result["reward"]
        assert record["reward"] == rewards[expected(case)], (case["id"], record)
        assert record["status"] == ("unscored" if expected(case) == "task_error" else "final")
