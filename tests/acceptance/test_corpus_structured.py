"""Hundreds of answers in JSON, written from the contract alone by someone who had not seen the judge."""

from __future__ import annotations

import pytest

from tests.support.corpus import judged, read
from tiers.fast.schema_answer import SchemaAnswer


@pytest.fixture(scope="module")
def verifier() -> SchemaAnswer:
    verifier = SchemaAnswer()
    verifier.warm()
    return verifier


def test_every_line_is_judged_as_it_says_and_at_once(verifier: SchemaAnswer) -> None:
    lines = read("structured/cases.jsonl")
    assert len(lines) >= 300
    found = {case["id"]: (case["expect"], *judged(verifier, case)) for case in lines}
    assert {key: each[:3] for key, each in found.items() if each[0] != each[1]} == {}
    assert {key: each[3] for key, each in found.items() if each[3] >= 1.0} == {}


@pytest.mark.parametrize("answer", ["\ud800", '"\ud800"', '"\\ud800"', '{"\\udc00": 1}', ["\ud800"]])
def test_half_a_surrogate_pair_is_a_rejection(verifier: SchemaAnswer, answer: object) -> None:
    case = {"answer": answer, "inputs": {}, "reference": {"schema": {}}}
    assert judged(verifier, case)[:2] == ("reject", "not_json")
