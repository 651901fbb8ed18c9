"""What is taken from a model's text: forms it writes, forms it breaks, and texts made to be slow."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from verifier_service.domain.contents import new_trajectory
from verifier_service.domain.digests import canonical_json, digest, raw_digest
from verifier_service.domain.extraction import (
    boxes,
    candidate_of,
    code_block,
    fences,
    last_boxed,
    last_message,
    last_tag,
)
from verifier_service.domain.ladders import CandidateSpec, Ladder, LadderSpec
from verifier_service.domain.trajectories import Observation, ToolCall, TrajectorySubmission, Turn

MEGABYTE = 1_000_000


def source(**fields: Any) -> CandidateSpec:
    return CandidateSpec.model_validate_json(json.dumps({"kind": "text"} | fields))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{42}", "42"),
        (r"\boxed{ 42 }.", "42"),
        (r"\boxed {42}", "42"),
        (r"\fbox{42}", "42"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,3\}}", r"\{1,3\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{\boxed{3}}", r"\boxed{3}"),
        (r"\boxed{a \fbox{b} c} \boxed{d}", "d"),
        (r"\boxed{first \boxed{3}", "3"),
        (r"\boxed{3} and then \boxed{4", "3"),
        (r"{ an open brace \boxed{3}", "3"),
        (r"} } \boxed{3}", "3"),
        (r"\boxed{}", ""),
        ("\\boxed{\r\n  5\r\n}\r\n", "5"),
        (r"x \\\boxed{3}", "3"),
        (r"\\boxed{3}", None),
        (r"\boxedx{3}", None),
        (r"\boxed{3", None),
        (r"\boxed{{3}", None),
        (r"\boxed 3", None),
        ("boxed{3}", None),
        ("", None),
        ("\\", None),
    ],
)
def test_the_last_box(text: str, found: str | None) -> None:
    assert last_boxed(text) == found


def test_all_boxes_have_their_spans() -> None:
    text = r"\boxed{ 1 } then \fbox{\boxed{2}} \boxed{open \boxed{3}"
    spans = list(boxes(text))
    assert [span.text for span in spans] == [" 1 ", r"\boxed{2}", "3"]
    assert all(text[span.start : span.end] == span.text for span in spans)


FENCED = "Here:\n```python\nprint(1)\n```\nand better:\n```py\nprint(2)\n```\nDone."


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FENCED, "print(2)\n"),
        ("print(3)", "print(3)"),
        ("", ""),
        ("```\na\n```", "a\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("```\na\n~~~\nb\n```", "a\n~~~\nb\n"),
        ("````md\n```\na\n```\n````", "```\na\n```\n"),
        ("```python\na\n```python\nb\n```", "a\n```python\nb\n"),
        ("```\r\na\r\nb\r\n```\r\n", "a\r\nb\r\n"),
        ("1. do\n   ```python\n   if x:\n       y\n   ```", "if x:\n    y\n"),
        ("   ```\n  a\n   ```", "a\n"),
        ("```python\nnever closed\n", "never closed\n"),
        ("```python\nnever closed", "never closed"),
        ("```\n```", ""),
        ("use ```inline``` code", "use ```inline``` code"),
        ("```inline``` code", "```inline``` code"),
        ("a\n```\nx = 1\n```\n<answer>", "x = 1\n"),
    ],
)
def test_the_last_block_of_code(text: str, code: str) -> None:
    assert code_block(text) == code


def test_fences_have_their_places() -> None:
    found = list(fences(FENCED))
    assert [fence.text for fence in found] == ["print(1)\n", "print(2)\n"]
    assert FENCED[found[0].start : found[0].end] == "```python\nprint(1)\n```\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<answer>42</answer>", "42"),
        ("<ANSWER>\r\n 42\r\n</Answer >", "42"),
        ('<answer type="int" id=1>42</answer>', "42"),
        ("<answer>1</answer> or <answer>2</answer>", "2"),
        ("I write <answer> tags: <answer>1</answer>", "1"),
        ("<answer>1</answer></answer>", "1"),
        ("<answer>a <answer>b</answer> c</answer>", "b"),
        ("<answer></answer>", ""),
        ("<answer>1</answer> then <answer>2", "1"),
        ("<answer>1 < 2 > 0</answer>", "1 < 2 > 0"),
        ("<answer>5</answer>\n```\n<answer>6</answer>\n```", "5"),
        ("```xml\n<answer>5</answer>\n```", "5"),
        ("<answer>\n```python\ns = '</answer>'\n```\n</answer>", "```python\ns = '</answer>'\n```"),
        ("<answer>1</answer>\n<answer>```python\nprint(1)\n```</answer>", "```python\nprint(1)\n```"),
        ("<answer>\n```python\nprint(1)\n</answer>", "```python\nprint(1)"),
        ("<answer>42", None),
        ("42</answer>", None),
        ("<answer/>", None),
        ("<answers>42</answers>", None),
        ("< answer>42</answer>", None),
        ("42", None),
    ],
)
def test_the_last_tag(text: str, found: str | None) -> None:
    assert last_tag(text, "answer") == found


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * (MEGABYTE // 7),
        "\\boxed{" + "{" * MEGABYTE,
        "{" * (MEGABYTE // 2) + "}" * (MEGABYTE // 2),
        "\\boxed{}" * (MEGABYTE // 8),
        "\\boxed" + " " * MEGABYTE,
        "\\" * MEGABYTE,
        "<answer>" * (MEGABYTE // 8),
        "<answer " * (MEGABYTE // 8),
        "<answer " + " " * MEGABYTE,
        "</answer>" * (MEGABYTE // 9),
        "```\n" * (MEGABYTE // 4),
        "```\n<answer>\n" * (MEGABYTE // 13),
        "`" * MEGABYTE,
        " " * MEGABYTE + "```",
        "#### " * (MEGABYTE // 5),
        "####\n" * (MEGABYTE // 5),
        " " * MEGABYTE + "####",
        "\r\n" * (MEGABYTE // 2),
    ],
    ids=lambda text: f"{text[:12]!r}",
)
def test_time_is_linear(text: str) -> None:
    began = time.process_time()
    last_boxed(text)
    last_tag(text, "answer")
    code_block(text)
    assert time.process_time() - began < 20.0  # measured 0.1 to 0.9 s; a square would take hours


def test_candidates() -> None:
    turns = (
        Turn(message="one"),
        Turn(message=r"two \boxed{2}"),
        Turn(observations=(Observation(text="x"),)),
    )
    assert candidate_of(source(), "a", turns) == "a"
    assert candidate_of(source(), {"k": 1}, turns) == {"k": 1}
    assert candidate_of(source(), None, turns) is None
    assert candidate_of(source(extract="boxed"), {"k": r"\boxed{1}"}, turns) is None
    assert candidate_of(source(extract="boxed"), None, turns) is None
    assert candidate_of(source(extract="boxed", **{"from": "last_turn"}), "a", turns) == "2"
    assert candidate_of(source(**{"from": "last_turn"}), "a", ()) is None
    assert candidate_of(source(extract="code_block"), FENCED, ()) == "print(2)\n"
    assert candidate_of(source(extract={"tag": "final"}), "<final>7</final>", ()) == "7"


def test_the_last_turn_is_the_models() -> None:
    assert last_message((Turn(message="a"), Turn(calls=(ToolCall(name="f"),)))) is None
    assert last_message((Turn(message="a"), Turn())) == "a"
    assert last_message((Turn(message=""),)) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"from": "metadata"},
        {"extract": "xml"},
        {"extract": {"tag": "a b"}},
        {"extract": {"tag": ""}},
        {"x": 1},
    ],
)
def test_what_a_ladder_may_not_say(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"candidate|from|extract|x"):
        source(**fields)


def ladder(**candidate: Any) -> Ladder:
    document = {
        "name": "l",
        "candidate": {"kind": "text", "from": "answer"} | candidate,
        "outcome": {"use": "v"},
        "truth": "fast",
        "tiers": {"fast": [{"use": "v"}]},
    }
    spec = LadderSpec.model_validate_json(json.dumps(document))
    written = canonical_json(spec.model_dump(mode="json", by_alias=True))
    return Ladder(name="l", version=1, digest=digest("ladder", written), spec=spec)


def test_ladders_that_extract_nothing_keep_their_digests() -> None:
    """The values are those from before there was ``extract``: a changed one re-verifies everything."""
    item = TrajectorySubmission(ladder="l", answer="CCO")
    assert ladder().digest == "6c8d98de888e02835790f689aaa973632852be9d"
    assert new_trajectory(item, ladder(), "s").subject == "0c09fbf6e3ee957bf4132ac0999a67289d3adb2a"
    assert ladder(extract=None).digest == ladder().digest != ladder(extract="boxed").digest
    assert LadderSpec.model_validate_json(ladder(extract="boxed").spec.model_dump_json(by_alias=True))


def test_equal_candidates_share_their_checks_however_they_were_wrapped() -> None:
    boxed = ladder(extract="boxed")
    subjects = {
        new_trajectory(TrajectorySubmission(ladder="l", answer=answer), boxed, "s").subject
        for answer in (r"I think \boxed{4}", r"Clearly \boxed{ 4 }.")
    }
    assert subjects == {raw_digest("text", "4")}
