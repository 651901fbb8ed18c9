"""Reading the tests of a task: every form that data sets use, and what is nobody's failure."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tiers.coding.cases import Call, Source, Stdio, read_cases
from verifier_service.domain.errors import TaskError


def read(tests: Any, entry_point: str | None = None) -> tuple[Any, ...]:
    return read_cases({"tests": tests}, entry_point)


def refused(reference: dict[str, Any], entry_point: str | None = None) -> str:
    with pytest.raises(TaskError) as raised:
        read_cases(reference, entry_point)
    return raised.value.code


def test_input_and_output_under_the_names_of_several_data_sets() -> None:
    wanted = (Stdio("0", "1 2\n", "3\n"),)
    assert read([{"stdin": "1 2\n", "stdout": "3\n"}]) == wanted
    assert read([{"input": "1 2\n", "output": "3\n"}]) == wanted
    assert read([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]) == wanted
    assert read({"inputs": ["1 2\n"], "outputs": ["3\n"]}) == wanted
    assert read([{"stdout": "3"}]) == (Stdio("0", "", "3"),)
    assert read({"inputs": [["1", "2"]], "outputs": [["3", "4"]]}) == (Stdio("0", "1\n2", "3\n4"),)


def test_calls_under_the_names_of_several_data_sets() -> None:
    assert read([{"call": "add", "args": [1, 2], "expected": 3}]) == (Call("0", "add", [1, 2], {}, 3),)
    assert read([{"call": "Solution().add", "kwargs": {"a": 1}, "expected": None}]) == (
        Call("0", "Solution().add", [], {"a": 1}, None),
    )
    assert read({"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "add"}) == (
        Call("0", "add", [1, 2], {}, [3], wrapped=True),
    )
    functional = {"input": "[1, 2]\n3", "output": "6", "testtype": "functional"}
    assert read([functional], "add") == (Call("0", "add", [[1, 2], 3], {}, 6),)


def test_plain_assertions_become_calls_that_need_no_tester() -> None:
    tests = ["assert add(1, 2) == 3", "assert (1, -2) == pair(x=[1])"]
    assert read(tests) == (
        Call("0", "add", [1, 2], {}, 3, python=True),
        Call("1", "pair", [], {"x": [1]}, (1, -2), python=True),
    )
    assert read("assert f(1) == 1\nassert f(2) == {2}") == (
        Call("0.0", "f", [1], {}, 1, python=True),
        Call("0.1", "f", [2], {}, {2}, python=True),
    )


@pytest.mark.parametrize(
    "test",
    [
        "assert sum(f(1)) == 3",
        "assert abs(f(1) - 3) < 1e-6",
        "assert sorted([1]) == [1]",
        "assert Stack() == 1",
        "assert f(g(1)) == 1",
        "assert f(*[1]) == 1",
        "assert f(**{'a': 1}) == 1",
        "assert f(1) == g(1)",
        "x = 1\nassert f(x) == 1",
        "assert f(1) is True",
        "assert 1 == f(1) == 1",
    ],
)
def test_any_other_assertion_is_a_program_of_its_own(test: str) -> None:
    [case] = read([test])
    assert isinstance(case, Source)
    assert case.functions == ()


def test_tests_in_functions_and_classes_are_found() -> None:
    source = """
import unittest
from solution import helper
def test_one(): assert f(1) == 1
async def test_two(): assert helper(1) == 1
def aside(): pass
class TestMore(unittest.TestCase):
    def test_three(self): self.assertEqual(f(1), 1)
    def setUp(self): pass
"""
    [case] = read(source)
    assert case.functions == ("test_one", "test_two", "TestMore.test_three")
    assert {"f", "helper"} <= set(case.names)
    assert "sorted" not in case.names


def test_check_of_a_candidate_wants_an_entry_point() -> None:
    source = "def check(candidate):\n    assert candidate(1) == 1\n"
    [case] = read(source, "f")
    assert (case.functions, "f" in case.names) == (("check",), True)
    assert refused({"tests": source}) == "bad_tests"
    [called] = read(source + "check(f)\n")
    assert called.functions == ()


@pytest.mark.parametrize(
    "reference",
    [
        {},
        {"tests": None},
        {"tests": []},
        {"tests": ""},
        {"tests": {}},
        {"tests": {"inputs": [], "outputs": []}},
        {"tests": ["x = 1  # no assert"]},
        {"tests": "def test_nothing(): pass"},
        {"tests": [{"call": "f", "args": []}]},
        {"tests_b64": "!!!notbase64"},
        {"tests_b64": base64.b64encode(b"\xff\xfe").decode()},
        {"tests_b64": base64.b64encode(b"[").decode()},
        {"tests_b64": 7},
        {"tests_b64": base64.b64encode(b"[]").decode()},
    ],
)
def test_a_task_that_nobody_can_fail_is_a_task_error(reference: dict[str, Any]) -> None:
    assert refused(reference) == "no_tests"


@pytest.mark.parametrize(
    "tests",
    [
        7,
        [7],
        [None],
        [{}],
        [{"stdin": 1, "stdout": "2"}],
        [{"stdin": "1", "stdout": 2}],
        [{"call": "os.system('x')", "expected": 1}],
        [{"call": "f; import os", "expected": 1}],
        [{"call": 7, "expected": 1}],
        [{"call": "f", "args": {}, "expected": 1}],
        [{"call": "f", "kwargs": [], "expected": 1}],
        [{"id": "", "stdout": "1"}],
        [{"id": 5, "stdout": "1"}],
        {"inputs": [1], "outputs": []},
        {"inputs": "1", "outputs": "1"},
        {"inputs": [1], "outputs": [1]},
        [{"input": "nonsense", "output": "1", "testtype": "functional"}],
        ["assert f(1) =="],
        ["def test_x(fixture): assert f(1) == 1"],
        [{"stdout": "1"}] * 2_001,
        ["assert " + "(" * 300 + "f(1)" + ")" * 300 + " == 1"],
    ],
)
def test_tests_that_cannot_be_read_are_a_task_error(tests: Any) -> None:
    assert refused({"tests": tests}) == "bad_tests"


def test_ids_are_kept_and_made_unique() -> None:
    cases = read([{"id": "a", "stdout": "1"}, {"id": "a", "stdout": "2"}, {"stdout": "3"}])
    assert [case.id for case in cases] == ["a", "a#1", "2"]


def test_encoded_tests_read_like_others() -> None:
    text = base64.b64encode(json.dumps([{"stdin": "ä", "stdout": "1"}]).encode()).decode()
    assert read_cases({"tests_b64": text}, None) == (Stdio("0", "ä", "1"),)
