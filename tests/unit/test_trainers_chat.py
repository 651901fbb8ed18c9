"""Chat messages as trajectories."""

from __future__ import annotations

from typing import Any

import pytest

from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.trainers.chat import answer_of, reference_of, submission, text_of, turns_of

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1'}}
EPISODE: list[dict[str, Any]] = [
    {"role": "assistant", "content": "let me see", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "no JSON", "is_error": True},
    {"role": "user", "content": [{"type": "text", "text": "go "}, {"type": "text", "text": "on"}]},
    {"role": "assistant", "content": "42"},
]


def test_a_text_is_an_answer_without_turns() -> None:
    item = submission("math", prompt="1+1?", completion="2", reference={"answer": "2"})
    assert (item["turns"], item["answer"]) == ([], "2")
    assert TrajectorySubmission.model_validate(item).problem.reference == {"answer": "2"}


def test_messages_are_turns_with_their_calls_and_what_came_back() -> None:
    item = submission("math", prompt=[{"role": "user", "content": "?"}], completion=EPISODE, group="g")
    stored = TrajectorySubmission.model_validate(item)
    first, second = stored.turns
    assert first.message == "let me see"
    # What the model wrote stays as it wrote it, broken JSON too.
    assert (first.calls[0].id, first.calls[0].name, first.calls[0].arguments) == ("c1", "add", '{"a": 1')
    assert [(seen.call, seen.text, seen.is_error) for seen in first.observations] == [
        ("c1", "no JSON", True),
        (None, "go on", False),
    ]
    assert (second.message, second.calls, second.observations) == ("42", (), ())
    assert stored.answer == "42"
    assert stored.group == "g"


def test_what_comes_before_the_first_assistant_message_is_no_turn() -> None:
    assert turns_of([{"role": "user", "content": "?"}]) == []
    assert answer_of([{"role": "user", "content": "?"}]) is None


def test_calls_come_in_several_dialects() -> None:
    flat = {"name": "f", "arguments": {"x": 1}}
    odd = {"function": {"name": "f", "arguments": [1]}}
    [turn] = turns_of([{"role": "assistant", "content": None, "tool_calls": [flat, odd]}])
    assert [call["arguments"] for call in turn["calls"]] == [{"x": 1}, "[1]"]
    assert turn["message"] == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("a", "a"),
        ([{"type": "image_url"}, {"type": "text", "text": "b"}], "b"),
        ([], ""),
        (7, "7"),
    ],
)
def test_contents_are_read_as_text(content: object, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("truth", "reference"),
    [
        (None, {}),
        ("5/8", {"answer": "5/8"}),
        (7, {"answer": 7}),
        (["1", "2"], {"answer": ["1", "2"]}),
        ({"tests": []}, {"tests": []}),
    ],
)
def test_ground_truth_is_a_reference(truth: object, reference: dict[str, object]) -> None:
    assert reference_of(truth) == reference


def test_the_field_of_the_ground_truth_has_a_name() -> None:
    assert reference_of("CCO", "smiles") == {"smiles": "CCO"}
