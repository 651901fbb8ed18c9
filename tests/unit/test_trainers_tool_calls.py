"""Tool calls written as text: what is read, what is kept as it was, what tools answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from verifier_service.trainers.tool_calls import (
    MAX_CALLS,
    MAX_OBSERVATION_CHARS,
    calls_in,
    message_of,
    observe,
)


def call(inside: str) -> dict[str, Any]:
    [found] = calls_in(f"I look it up.\n<tool_call>\n{inside}\n</tool_call>")
    return found


def test_a_call_is_its_name_and_its_arguments_as_json() -> None:
    found = call('{"name": "add", "arguments": {"a": 1, "b": 2}}')
    assert found == {"id": "call-0", "name": "add", "arguments": '{"a": 1, "b": 2}'}


def test_several_calls_have_ids_of_their_own_and_text_without_calls_has_none() -> None:
    text = '<tool_call>{"name": "a"}</tool_call> and <tool_call>{"name": "b"}</tool_call>'
    assert [(one["id"], one["name"]) for one in calls_in(text, "t3")] == [("t3-0", "a"), ("t3-1", "b")]
    assert calls_in("the answer is 4") == []


@pytest.mark.parametrize(
    "inside",
    [
        '{"name": "add", "arguments": {"a": 1',
        '["add"]',
        '{"arguments": {}}',
        '{"name": "  "}',
        '{"name": "add", "arguments": {"a": 1, "a": 2}}',
        '{"name": "add", "arguments": {"a": NaN}}',
        '{"name": "add", "arguments": {"a": 1e999}}',
        '{"name": "add", "arguments": ' + "[" * 100_000,
        '{"name": "add", "arguments": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_no_call_is_kept_as_it_was_written_and_answered_with_an_error(inside: str) -> None:
    found = call(inside)
    assert (found["name"], found["arguments"]) == (None, inside)
    assert observe({"add": lambda **_: 1}, found)["is_error"]


def test_a_call_that_is_never_closed_is_a_call() -> None:
    assert calls_in('<tool_call>{"name": "a", "arguments": {}}')[0]["name"] == "a"


def test_what_is_sent_can_be_written_as_json() -> None:
    found = call('{"name": "f", "arguments": {"a": "\\ud800"}}')
    assert json.dumps(found).encode("ascii")
    found["arguments"].encode()


def test_the_number_of_calls_is_capped_and_reading_is_linear() -> None:
    assert len(calls_in('<tool_call>{"name": "a"}</tool_call>' * 1_000)) == MAX_CALLS
    began = time.perf_counter()
    calls_in("<tool_call>" * 100_000)
    assert time.perf_counter() - began < 20.0


def test_a_tool_answers_in_text() -> None:
    tools = {"add": lambda a, b: a + b, "say": lambda: "hm"}
    assert observe(tools, call('{"name": "add", "arguments": {"a": 1, "b": 2}}')) == {
        "call": "call-0",
        "text": "3",
        "is_error": False,
    }
    assert observe(tools, call('{"name": "say"}'))["text"] == "hm"


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ('{"name": "fail", "arguments": {}}', "ZeroDivisionError"),
        ('{"name": "fail", "arguments": {"unknown": 1}}', "TypeError"),
        ('{"name": "nothing", "arguments": {}}', "there is no tool 'nothing'"),
        ('{"name": "fail", "arguments": [1]}', "must be one JSON object"),
    ],
)
def test_what_goes_wrong_in_a_tool_is_an_observation(inside: str, says: str) -> None:
    seen = observe({"fail": lambda: 1 // 0}, call(inside))
    assert seen["is_error"]
    assert says in seen["text"]


def test_long_and_unsendable_answers_are_cut_and_cleaned() -> None:
    seen = observe({"f": lambda: "x" * (MAX_OBSERVATION_CHARS + 7)}, {"name": "f", "arguments": "{}"})
    assert seen["text"].endswith("[7 characters more]")
    assert observe({"f": lambda: "a\ud800"}, {"name": "f"})["text"] == "a?"
    assert message_of([seen]).startswith("<tool_response>\nxxx")
