"""What reading a trainer's request costs: work in proportion to its size, whatever it holds."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from verifier_service.api import parsing, strict_json
from verifier_service.api.shims import nemo_gym, openrlhf, slime
from verifier_service.api.shims.asked import Asked, Manner
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.trajectories import TrajectorySubmission

MANNER = Manner(run="r", ladder="l", salt="s")
FEW, TIMES = 64, 8
FAR_TOO_LONG_S = 20.0  # of the processor; quadratic work on these sizes takes minutes


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of every text that a function of the JSON readers was given."""
    sizes: list[int] = []

    def counted(function: Callable[..., Any], at: int) -> Callable[..., Any]:
        def counting(*args: Any, **named: Any) -> Any:
            sizes.append(len(args[at] if len(args) > at else named["text"]))
            return function(*args, **named)

        return counting

    for module in (strict_json, parsing):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parameters = list(inspect.signature(function).parameters)
            if function.__module__ == module.__name__ and "text" in parameters and name[1:] != "skip":
                monkeypatch.setattr(module, name, counted(function, parameters.index("text")))
    return sizes


def openrlhf_body(items: int, completion: str, label: Any = "1") -> bytes:
    body = {"query": ["p" + completion] * items, "prompts": ["p"] * items, "labels": [label] * items}
    return json.dumps(body).encode()


@pytest.mark.parametrize("completion", ["x" * 1_000, "[\\" * 500, "\N{GRINNING FACE}" * 250])
def test_items_are_read_each_for_itself_and_not_the_body_for_every_item(
    scanned: list[int], completion: str
) -> None:
    works = []
    for items in (FEW, FEW * TIMES):
        scanned.clear()
        read = openrlhf.read(openrlhf_body(items, completion), MANNER)
        assert all(isinstance(one, TrajectorySubmission) for one in read.items)
        works.append(sum(scanned))
    assert works[0] > 0
    assert works[1] <= 1.5 * TIMES * works[0]


def test_a_text_that_never_ends_behind_deep_brackets_takes_linear_time() -> None:
    raw = b"[" * 2_000 + b'"' + b'\\"' * 150_000
    began = time.process_time()
    with pytest.raises(InvalidInput, match="not JSON"):
        slime.read(raw, MANNER)
    assert time.process_time() - began < FAR_TOO_LONG_S


def test_a_response_of_very_many_messages_takes_linear_time() -> None:
    """A message is put to its turn, and the turn is not written anew for each: that would copy 300 GB."""
    count = 20_000
    output = [{"type": "message", "content": "x" * 1_500}] * count
    raw = json.dumps({"response": {"output": output}}).encode()
    began = time.process_time()
    [item] = nemo_gym.read(raw, MANNER).items
    assert time.process_time() - began < FAR_TOO_LONG_S
    assert isinstance(item, TrajectorySubmission)
    assert item.answer == "\n".join(["x" * 1_500] * count)


@pytest.mark.parametrize("tail", ['"', '"\\', '"\\"', '"a\\\\', '"]]'])
def test_an_open_text_behind_deep_brackets_has_no_end(tail: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        strict_json.end_of("[" * 2_000 + tail, 0)


def test_the_end_of_what_nests_too_deep_is_found_past_texts_with_brackets() -> None:
    text = "[" * 2_000 + r'"]\"]", "\\", {"a": "}"}' + "]" * 2_000
    assert strict_json.end_of(text + "]]", 0) == len(text)


def hidden(label: str) -> str:
    """The label with escapes for what gives its depth away."""
    return json.dumps(label).replace("{", "\\u007b").replace("[", "\\u005b")


@pytest.mark.parametrize("form", ["openrlhf", "slime", "nemo_gym"])
def test_a_label_whose_depth_is_hidden_is_too_deep_and_no_failure(form: str) -> None:
    bodies: dict[str, tuple[Callable[[bytes, Manner], Asked], str]] = {
        "openrlhf": (openrlhf.read, '{"query": ["px"], "prompts": ["p"], "labels": [%s]}'),
        "slime": (slime.read, '{"response": "x", "label": %s}'),
        "nemo_gym": (nemo_gym.read, '{"response": {"output": []}, "expected_answer": %s}'),
    }
    read, body = bodies[form]
    for depth in (99, 200, *range(700, 1_000)):  # up to where no decoder follows
        label = hidden('{"a":' * depth + "1" + "}" * depth)
        [item] = read((body % label).encode(), MANNER).items
        if isinstance(item, InvalidInput):
            assert item.code == "too_deep"
        else:  # no decoder follows: a text as any other
            assert item.problem is not None
            assert item.problem.reference == {"answer": json.loads(label)}
