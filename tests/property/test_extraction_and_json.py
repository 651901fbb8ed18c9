"""Properties of extraction and of JSON equality, the second against another implementation's ``const``."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiers.fast.json_answer import NotReadable, read_json
from tiers.fast.json_equality import difference, same_unordered
from verifier_service.domain.extraction import boxes, code_block, fences, last_boxed, last_tag

WORDS = st.sampled_from(
    [
        *("\\boxed{", "\\fbox {", "\\boxed", "{", "}", "\\{", "\\}", "\\\\", "\n", "\r\n", " ", "x", "7"),
        *("```", "```python\n", "~~~~\n", "`", "<answer>", "</answer>", "<ANSWER a='1'>", "<answer/>", "<"),
        *("#### ", "\n#### 5", "\t", "é", "\u2028"),
    ]
)
TEXTS = st.lists(WORDS, max_size=40).map("".join)
PLAIN = st.text(st.characters(exclude_characters="\\{}<>`~#\r\n", exclude_categories=["Cs"]), max_size=30)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | FLOATS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
SMALL = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, "", "1", 2]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(TEXTS)
def test_spans_are_where_they_say(text: str) -> None:
    found = list(boxes(text))
    for span in found:
        assert text[span.start : span.end] == span.text
    ends = [0, *(span.end for span in found)]
    assert all(span.start >= end for span, end in zip(found, ends, strict=False)), "in order, apart"
    for block in fences(text):
        assert 0 <= block.start < block.end <= len(text)
    last_tag(text, "answer")


@given(TEXTS, PLAIN)
def test_what_is_put_into_a_box_at_the_end_comes_out(text: str, inside: str) -> None:
    head = text.replace("\\", "").replace("{", "").replace("}", "")
    assert last_boxed(f"{head}\\boxed{{{inside}}}") == inside.strip()


@given(TEXTS, PLAIN)
def test_what_is_put_into_a_tag_or_a_block_at_the_end_comes_out(text: str, inside: str) -> None:
    head = text.replace("`", "").replace("~", "")
    assert last_tag(f"{head}<answer>{inside}</answer>", "answer") == inside.strip()
    assert code_block(f"{head}\n```\n{inside}\n```") == inside + "\n"


@given(VALUES)
def test_written_json_is_read_back(value: Any) -> None:
    text = json.dumps(value)
    assert json.dumps(read_json(text).value) == text
    assert difference(read_json(text).value, value, 0.0) is None


@given(TEXTS)
@example('{"a": 1}{')
def test_whatever_is_no_json_is_refused_with_a_name(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(NotReadable) as refused:
            read_json(text)
        assert refused.value.code in ("not_json", "empty_answer")


@given(VALUES | SMALL, VALUES | SMALL)
def test_equality_is_that_of_json_schema(one: Any, other: Any) -> None:
    engine = jsonschema_rs.Draft202012Validator({"const": other}, offline=True)
    assert (difference(one, other, 0.0) is None) == engine.is_valid(one)


@given(SMALL, SMALL)
def test_order_is_all_that_unordered_forgives(one: Any, other: Any) -> None:
    def sorted_(value: Any) -> Any:
        if isinstance(value, list):
            return sorted((sorted_(each) for each in value), key=_key)
        if isinstance(value, dict):
            return {key: sorted_(each) for key, each in sorted(value.items())}
        return value

    assert same_unordered(one, other) == (difference(sorted_(one), sorted_(other), 0.0) is None)


def _key(value: Any) -> str:
    def plain(each: Any) -> Any:
        if isinstance(each, float):
            return int(each)
        if isinstance(each, list):
            return [plain(one) for one in each]
        return {key: plain(one) for key, one in each.items()} if isinstance(each, dict) else each

    return json.dumps(plain(value), sort_keys=True)
