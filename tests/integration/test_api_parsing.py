"""Bodies as strangers write them: every flaw is found, named and blamed on the item that has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier_service.api.batches import Batch, parse_batch
from verifier_service.api.parsing import parse_body
from verifier_service.api.strict_json import MAX_DEPTH
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.domain.runs import RunSpec
from verifier_service.domain.trajectories import MAX_TURNS, TrajectorySubmission

GOOD = '{"id": "good", "ladder": "any"}'


def batch(*items: str) -> Batch:
    """A batch of items given as JSON text."""
    return parse_batch(
        ('{"trajectories": [' + ",".join(items) + "]}").encode("utf-8", "surrogatepass"), 100
    )


def error_of(text: str) -> InvalidInput:
    """The error of one bad item between two good ones."""
    first, bad, last = batch(GOOD, text, GOOD).items
    assert isinstance(first.item, TrajectorySubmission)
    assert isinstance(last.item, TrajectorySubmission)
    assert isinstance(bad.item, InvalidInput), bad.item
    return bad.item


def holding(value: str) -> str:
    """An item whose metadata hold a value given as JSON text."""
    return '{"ladder":"a","metadata":{"x":' + value + "}}"


def nested(depth: int) -> str:
    """``depth`` arrays, one in the other."""
    return "[" * depth + "]" * depth


FLAWS = [
    ('{"ladder":"a","metadata":{"x": NaN}}', "not_finite", "metadata.x"),
    ('{"ladder":"a","metadata":{"x": [1, -Infinity]}}', "not_finite", "metadata.x.1"),
    ('{"ladder":"a","metadata":{"x": 1e999}}', "not_finite", "metadata.x"),
    ('{"ladder":"a","metadata":{"x": -1E400}}', "not_finite", "metadata.x"),
    (holding("1" + "0" * 5_000), "not_finite", "metadata.x"),
    ('{"ladder":"a","group_size": NaN}', "not_finite", "group_size"),
    ('{"ladder":"a","ladder":"a"}', "duplicate_key", None),
    ('{"ladder":"a","metadata":{"k":1,"k" : 2}}', "duplicate_key", "metadata"),
    ('{"ladder":"a","metadata":{"\\u006b":1,"k":2}}', "duplicate_key", "metadata"),
    ('{"ladder":"a","turns":[{"calls":[{"name":"f","name":"g"}]}]}', "duplicate_key", "turns.0.calls.0"),
    ('{"ladder":"a","answer":"\\ud800"}', "lone_surrogate", "answer"),
    ('{"ladder":"a","answer":"\\udc00\\ud800"}', "lone_surrogate", "answer"),
    ('{"ladder":"a","metadata":{"\\udfff":1}}', "lone_surrogate", "metadata"),
    ('{"ladder":"a","answer":"\ud800"}', "not_utf8", None),
    (holding(nested(MAX_DEPTH)), "too_deep", None),
    (holding(nested(500)), "too_deep", None),
    (holding(nested(100_000)), "too_deep", None),
    (holding("[" * 5_000 + '"]["' + "]" * 5_000), "too_deep", None),
    ('{"ladder":"a","turns":[' + "{}," * MAX_TURNS + "{}]}", "too_many_turns", "turns"),
    ('{"ladder":"a","color":1}', "unknown_field", "color"),
    ('{"ladder":"a","turns":[{"calls":[{"nme":"f"}]}]}', "unknown_field", "turns.0.calls.0.nme"),
    ('{"id":"x"}', "missing_field", "ladder"),
    ('{"ladder":7}', "wrong_type", "ladder"),
    ('{"ladder":"a","finished":"yes"}', "wrong_type", "finished"),
    ('{"ladder":"a","group_size":2.5}', "wrong_type", "group_size"),
    ('{"ladder":"a","answer":[1]}', "wrong_type", "answer"),
    ('{"ladder":"a","group_size":0}', "out_of_range", "group_size"),
    ('{"ladder":"a b"}', "bad_format", "ladder"),
    ('{"ladder":"a","id":"' + "x" * 201 + '"}', "bad_format", "id"),
    ("7", "wrong_type", None),
    ("null", "wrong_type", None),
    ('"text"', "wrong_type", None),
    ("[]", "wrong_type", None),
    ("NaN", "not_finite", None),
]


@pytest.mark.parametrize(("text", "code", "field"), FLAWS, ids=range(len(FLAWS)))
def test_a_flawed_item_is_named_and_its_neighbours_go_on(text: str, code: str, field: str | None) -> None:
    error = error_of(text)
    assert (error.code, error.field) == (code, field)


def test_a_flawed_item_keeps_its_id() -> None:
    items = batch('{"id":"n","ladder":"a","metadata":{"x":NaN}}', '{"id":"m"}', '{"id":"§"}').items
    assert [item.id for item in items] == ["n", "m", None]


def test_what_looks_flawed_and_is_not() -> None:
    texts = [
        '{"ladder":"a","answer":"NaN 1e999 \\"k\\":1,\\"k\\":2 [[[["}',
        '{"ladder":"a","answer":"\\ud83d\\ude00 \\\\ud800"}',
        '{"ladder":"a","answer":"😀"}',
        '{"ladder":"a","metadata":{"a":{"k":1},"b":{"k":1}}}',
        holding(nested(MAX_DEPTH - 2)),
        holding("[" + ",".join(["[]"] * 5_000) + "]"),
        holding("1" + "0" * 300),
        ' {\n"ladder"\t:\r"a" } ',
    ]
    for text in texts:
        [parsed] = batch(text).items
        assert isinstance(parsed.item, TrajectorySubmission), (text[:80], parsed.item)
    assert batch(texts[1]).items[0].item.answer == "😀 \\ud800"  # type: ignore[union-attr]


ENVELOPES = [
    (b"", "invalid_json"),
    (b"{", "invalid_json"),
    (b"nonsense", "invalid_json"),
    (b'{"trajectories": [{"ladder": "a"}', "invalid_json"),
    (b'{"trajectories": [{"ladder": nope}]}', "invalid_json"),
    (b'{"trajectories": [,]}', "invalid_json"),
    (b'{"trajectories": []} {}', "invalid_json"),
    (b'{"trajectories": [],}', "invalid_json"),
    (b'{,"trajectories": []}', "invalid_json"),
    (b'{"trajectories" []}', "invalid_json"),
    (b"\xef\xbb\xbf{}", "invalid_json"),
    (b"\xff\xfe", "invalid_json"),
    (b"[" * 100_000, "invalid_json"),
    (b"[]", "wrong_type"),
    (b"7", "wrong_type"),
    (b"{}", "missing_field"),
    (b'{"wait": null}', "missing_field"),
    (b'{"trajectories": {}}', "wrong_type"),
    (b'{"trajectories": null}', "wrong_type"),
    (b'{"trajectories": [], "trajectories": []}', "duplicate_key"),
    (b'{"trajectories": [], "waits": 1}', "unknown_field"),
    (b'{"trajectories": [], "wait": 3}', "wrong_type"),
    (b'{"trajectories": [], "wait": {"seconds": NaN}}', "not_finite"),
    (b'{"trajectories": [], "wait": {"seconds": -1}}', "out_of_range"),
    (b'{"trajectories": [], "wait": {"seconds": 1, "until": "soon"}}', "not_one_of"),
    (b'{"trajectories": [], "wait": {"\\ud800": 1}}', "lone_surrogate"),
    (b'{"trajectories": [' + b",".join([b"{}"] * 101) + b"]}", "batch_too_large"),
]


@pytest.mark.parametrize(("raw", "code"), ENVELOPES, ids=range(len(ENVELOPES)))
def test_a_wrong_envelope_is_refused_as_a_whole(raw: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_batch(raw, 100)
    assert caught.value.code == code


def test_the_wait_may_come_first_and_null() -> None:
    found = parse_batch(b' {"wait": {"until": "fast", "seconds": 3}, "trajectories": [ ] } ', 1)
    assert found.items == ()
    assert found.wait is not None
    assert (found.wait.until, found.wait.seconds) == ("fast", 3.0)
    assert parse_batch(b'{"trajectories": [], "wait": null}', 1).wait is None


BODIES = [
    (RunSpec, b'{"budgets": {"compute": NaN}}', "not_finite", "budgets.compute"),
    (RunSpec, b'{"budgets": {"compute": 1, "compute": 2}}', "duplicate_key", "budgets"),
    (RunSpec, b'{"budget": {}}', "unknown_field", "budget"),
    (RunSpec, b'{"objective": {"mix": 2}}', "out_of_range", "objective.mix"),
    (RunSpec, b'{"horizon": {"trajectories": true}}', "wrong_type", "horizon.trajectories"),
    (RunSpec, b"", "invalid_json", None),
    (RunSpec, b"{} {}", "invalid_json", None),
    (RunSpec, b"[" * 100_000, "too_deep", None),
    (RunSpec, b'{"on_close": "\\u0000"}', "nul_character", "on_close"),
    (RunSpec, b'{"on_close": "\xff"}', "not_utf8", None),
    (
        ReviewDecision,
        b'{"reviewer": "u", "verdict": "accept", "reason": "\\ud800"}',
        "lone_surrogate",
        "reason",
    ),
    (ReviewDecision, b'{"reviewer": "u", "verdict": "reject"}', "invalid_value", None),
]


@pytest.mark.parametrize(("model", "raw", "code", "field"), BODIES, ids=range(len(BODIES)))
def test_other_bodies_are_read_as_strictly(model: Any, raw: bytes, code: str, field: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_body(model, raw)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_other_bodies_are_read() -> None:
    spec = parse_body(RunSpec, b' {"budgets": {"compute": 3}, "horizon": {"until": "2030-01-01T00:00Z"}}\n')
    assert spec.budgets.compute == 3.0
    assert spec.horizon.until is not None


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_text, inner, max_size=3),
    max_leaves=10,
)


@given(metadata=st.dictionaries(plain_text, json_values, max_size=4), ascii_only=st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_json_is_read_as_it_was_written(metadata: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps({"ladder": "a", "metadata": metadata}, ensure_ascii=ascii_only)
    [parsed] = batch(text).items
    assert isinstance(parsed.item, TrajectorySubmission), parsed.item
    assert parsed.item.metadata == metadata


WHOLE = (
    b'{"trajectories": [{"id":"good","ladder":"any"}, {"ladder":"a","turns":[{"message":"\\ud83d\\ude00"}],'
    b'"metadata":{"x":[1.5,-2]}}],"wait":{"until":"fast","seconds":1}}'
)


@given(cut=st.integers(0, len(WHOLE)), noise=st.binary(max_size=6))
@settings(max_examples=300, deadline=None)
def test_broken_bodies_raise_nothing_else(cut: int, noise: bytes) -> None:
    try:
        found = parse_batch(WHOLE[:cut] + noise + WHOLE[cut + len(noise) :], 100)
    except InvalidInput:
        return
    assert len(found.items) <= 4
