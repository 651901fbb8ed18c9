"""``schema.answer``: right and wrong answers, broken tasks, and texts and schemas made to hurt."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiers.fast import schema_document
from tiers.fast.json_answer import MAX_NODES
from tiers.fast.schema_answer import SchemaAnswer, SchemaParams
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.verifiers import CheckInput

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NODE = {
    "$id": "https://example.com/tree",
    "$ref": "#node",
    "$defs": {
        "node": {
            "$anchor": "node",
            "type": "object",
            "properties": {"v": {"$ref": "value"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["v"],
        },
        "value": {"$id": "value", "type": "integer"},
    },
}
MISSING = object()


def judge(answer: Any, schema: Any = MISSING, value: Any = MISSING, **params: Any) -> Finding:
    reference = {
        name: given for name, given in (("schema", schema), ("value", value)) if given is not MISSING
    }
    item = CheckInput.model_construct(candidate=answer, reference=reference)  # as deep as it comes
    return SchemaAnswer().verify(item, SchemaParams(**params))


def outcome(finding: Finding) -> str:
    if finding.verdict is Verdict.ACCEPT:
        assert finding.score == 1.0
        return "accept"
    assert finding.verdict is Verdict.REJECT
    assert finding.score == 0.0
    assert finding.reason is not None
    return finding.reason.code


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"name": "Ada", "age": 36}', "accept"),
        ({"name": "Ada", "age": 36}, "accept"),
        (' \r\n\t{"age":36.0,"name":"Ada"}\n', "accept"),
        ('{"name": "Ada", "age": 36.5}', "schema_violation"),
        ('{"name": "Ada", "age": "36"}', "schema_violation"),
        ('{"name": "Ada", "age": true}', "schema_violation"),
        ('{"name": "Ada"}', "schema_violation"),
        ('{"name": "Ada", "age": 36, "x": 1}', "schema_violation"),
        ("[]", "schema_violation"),
        ("null", "schema_violation"),
        ('{"name": "Ada", "age": 36', "not_json"),
        ("{'name': 'Ada', 'age': 36}", "not_json"),
        ('{"name": "Ada", "age": 36,}', "not_json"),
        ('{"name": "Ada", "age": 36} // done', "not_json"),
        ('```json\n{"name": "Ada", "age": 36}\n```', "not_json"),
        ('{"name": "Ada", "age": 36}{}', "not_json"),
        ('{"name": "Ada", "age": 036}', "not_json"),
        ('{"name": "A\nda", "age": 36}', "not_json"),
        ('{"name": "\\ud800", "age": 36}', "not_json"),
        ('{"name": "Ada", "age": 36, "age": 36}', "duplicate_key"),
        ('{"name": "Ada", "age": NaN}', "not_finite"),
        ('{"name": "Ada", "age": Infinity}', "not_finite"),
        ('{"name": "Ada", "age": -Infinity}', "not_finite"),
        ('{"name": "Ada", "age": 1e999}', "not_finite"),
        ('{"name": "Ada", "age": ' + "9" * 1_000 + "}", "accept"),
        ('{"name": "Ada", "age": ' + "9" * 1_001 + "}", "too_large"),
        ('{"name": "' + "9" * 5_000 + '", "age": 1}', "accept"),
        ("[" * 101 + "]" * 101, "too_deep"),
        ("[" * 200_000, "too_deep"),
        ('{"a":' * 100_000, "too_deep"),
        ("[" + "0," * MAX_NODES + "0]", "too_large"),
        (" " * 1_000_001 + "1", "too_large"),
        ("", "empty_answer"),
        (" \n", "empty_answer"),
        (None, "empty_answer"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_answers(answer: Any, expected: str) -> None:
    assert outcome(judge(answer, PERSON)) == expected


@pytest.mark.parametrize(
    ("answer", "schema", "expected"),
    [
        ("1.0", {"type": "integer"}, "accept"),
        ("1", {"const": 1.0}, "accept"),
        ("true", {"const": 1}, "schema_violation"),
        ("1e300", {"type": "integer"}, "accept"),
        ("19.99", {"multipleOf": 0.01}, "accept"),
        ("9007199254740993", {"const": 9007199254740992}, "schema_violation"),
        ('"2026-02-30"', {"format": "date"}, "schema_violation"),
        ('"2026-02-28"', {"format": "date"}, "accept"),
        ('"x"', {"format": "no-such-format"}, "accept"),
        ('{"v": 1, "next": {"v": 2}}', NODE, "accept"),
        ('{"v": 1, "next": {"v": "2"}}', NODE, "schema_violation"),
        ('"\\u0000"', {"type": "string"}, "accept"),
        ('"😀"', {"maxLength": 1}, "accept"),
        ('{"$ref": "http://x.test/"}', {"const": {"$ref": "http://x.test/"}}, "accept"),
        ("5", True, "accept"),
        ("5", False, "schema_violation"),
        ("{}", {"properties": {"$schema": {"const": "http://json-schema.org/draft-07/schema#"}}}, "accept"),
        ("{}", {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "accept"),
        ('["a", 1]', {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, "accept"),
        ('"password1"', {"pattern": "^(?=.*[0-9]).{8,}$"}, "accept"),
        ('"password"', {"pattern": "^(?=.*[0-9]).{8,}$"}, "schema_violation"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_schemas(answer: str, schema: Any, expected: str) -> None:
    assert outcome(judge(answer, schema)) == expected


def test_formats_may_be_annotations() -> None:
    assert outcome(judge('"2026-02-30"', {"format": "date"}, formats="annotate")) == "accept"


def test_the_schema_may_be_shown_to_the_model_and_the_reference_goes_first() -> None:
    shown = CheckInput(candidate="1", inputs={"schema": {"type": "string"}})
    assert outcome(SchemaAnswer().verify(shown, SchemaParams())) == "schema_violation"
    both = CheckInput(candidate="1", inputs={"schema": False}, reference={"schema": {"type": "integer"}})
    found = SchemaAnswer().verify(both, SchemaParams())
    assert outcome(found) == "accept"
    assert "schema from reference.schema" in found.assumptions


@pytest.mark.parametrize(
    ("answer", "value", "params", "expected"),
    [
        ('{"b": 2, "a": 1.0}', {"a": 1, "b": 2}, {}, "accept"),
        ("1", True, {}, "wrong_value"),
        ("true", 1, {}, "wrong_value"),
        ("true", True, {}, "accept"),
        ("null", None, {}, "accept"),
        ("0", None, {}, "wrong_value"),
        ("-0.0", 0, {}, "accept"),
        ('"1"', 1, {}, "wrong_value"),
        ('"e\\u0301"', "\u00e9", {}, "wrong_value"),
        ("0.1", 0.1, {}, "accept"),
        ("0.30000000000000004", 0.3, {}, "wrong_value"),
        ("0.30000000000000004", 0.3, {"relative_tolerance": 1e-9}, "accept"),
        ("1e-300", 0, {"relative_tolerance": 1.0}, "wrong_value"),
        ("9" * 400, int("9" * 399 + "8"), {"relative_tolerance": 1e-9}, "accept"),
        ("9" * 400, int("9" * 399 + "8"), {}, "wrong_value"),
        ("9007199254740993", 9007199254740992.0, {}, "wrong_value"),
        ("[1, 2]", [2, 1], {}, "wrong_value"),
        ("[1, 2]", [2, 1], {"unordered": True}, "accept"),
        ("[1, 1, 2]", [1, 2, 2], {"unordered": True}, "wrong_value"),
        ("[[2, 1], [true]]", [[True], [1, 2]], {"unordered": True}, "accept"),
        ("[1]", [True], {"unordered": True}, "wrong_value"),
        ('{"a": [1.0, {"b": []}]}', {"a": [{"b": []}, 1]}, {"unordered": True}, "accept"),
        ("[1, 2, 3]", [1, 2], {}, "wrong_value"),
        ("{}", [], {}, "wrong_value"),
        ("[]", {}, {}, "wrong_value"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_values(answer: str, value: Any, params: dict[str, Any], expected: str) -> None:
    assert outcome(judge(answer, True, value, **params)) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"pattern": "("},
        {"pattern": "(a{1000}){1000}"},
        {"minimum": "3"},
        [],
        None,
        "{}",
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$defs": {"old": {"$schema": "http://json-schema.org/draft-04/schema#"}}},
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json#/a"},
        {"$ref": "//127.0.0.1/x"},
        {"$ref": "http://[::1"},
        {"$id": "http://[::1"},
        {"$dynamicRef": "http://127.0.0.1:9/schema"},
        {"items": {"not": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"$defs": {"never": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"$ref": "#/$defs/none"},
        {"$ref": "#none"},
        {"const": float("nan")},
        {"description": "x" * 300_000},
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_bad_schema_is_the_tasks_fault(schema: Any) -> None:
    for answer in ("1", "", None, "not json"):
        with pytest.raises(TaskError) as raised:
            judge(answer, schema)
        assert raised.value.code == "bad_schema"
        assert "127.0.0.1" not in raised.value.message


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def doubling(word: str, levels: int) -> dict[str, Any]:
    steps = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "integer"}}}


def chain(levels: int) -> dict[str, Any]:
    steps: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {}}}


@pytest.mark.parametrize(
    "schema", [nested(150), nested(600), doubling("anyOf", 30), doubling("allOf", 60), chain(3_000)]
)
def test_a_schema_that_would_take_for_ever_is_refused_at_once(schema: dict[str, Any]) -> None:
    began = time.process_time()
    with pytest.raises(TaskError, match="cannot be used"):
        judge("1", schema)
    assert time.process_time() - began < 20.0


def test_no_schema_is_a_broken_task() -> None:
    with pytest.raises(TaskError) as raised:
        judge("1", value=1)
    assert raised.value.code == "bad_schema"


def test_a_value_that_breaks_its_own_schema_is_a_broken_task() -> None:
    for answer in ("1", '"a"'):
        with pytest.raises(TaskError) as raised:
            judge(answer, {"type": "string"}, 1)
        assert raised.value.code == "bad_reference"


class Listener:
    """A server that would hand out a valid schema, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/schema.json"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked += 1
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntrue")


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.socket.shutdown(socket.SHUT_RDWR)
    made.socket.close()


@pytest.mark.parametrize("looking", [True, False], ids=["refused by us", "refused by the engine alone"])
def test_nothing_is_fetched(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looking: bool
) -> None:
    if not looking:
        monkeypatch.setattr(schema_document._Places, "require_local", lambda _: None)
    (tmp_path / "schema.json").write_text("true")
    for place in (listener.url, (tmp_path / "schema.json").as_uri()):
        for schema in ({"$ref": place}, {"$dynamicRef": place}, {"$defs": {"d": {"$ref": place}}}):
            with pytest.raises(TaskError):
                judge("1", {**schema, "title": str(looking)})
    assert listener.asked == 0
    with socket.create_connection(listener.socket.getsockname()):
        until = time.monotonic() + 5
        while not listener.asked and time.monotonic() < until:
            time.sleep(0.01)
    assert listener.asked == 1, "the listener does count"


EVIL = "^(?=a)(?:(a+)\\1)+$"


@pytest.mark.parametrize("schema", [{"pattern": EVIL}, {"not": {"pattern": EVIL}}])
def test_a_pattern_that_gives_up_is_never_a_pass(schema: dict[str, Any]) -> None:
    began = time.process_time()
    assert outcome(judge(json.dumps("a" * 20_000 + "b"), schema)) == "time_limit"
    keys = {"propertyNames": schema}
    assert outcome(judge(json.dumps({"a" * 20_000 + "b": 1}), keys)) == "time_limit"
    assert time.process_time() - began < 20.0


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(x+x+)+y", "(.*a){20}", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_nested_repeats_take_linear_time(pattern: str) -> None:
    began = time.process_time()
    assert outcome(judge(json.dumps("a" * 19 + "x" * 100_000), {"pattern": pattern})) == "schema_violation"
    assert time.process_time() - began < 20.0


def test_explaining_is_bounded() -> None:
    alternatives = {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
            {"type": "array", "items": {"$ref": "#"}, "maxItems": 5},
            {"type": "integer"},
        ]
    }
    began = time.process_time()
    assert outcome(judge("[" * 18 + '"x"' + "]" * 18, alternatives)) == "schema_violation"
    assert outcome(judge(json.dumps(["x"] * 150_000), {"items": {"type": "integer"}})) == "schema_violation"
    assert outcome(judge('"x"', doubling("anyOf", 10))) == "schema_violation"
    assert time.process_time() - began < 20.0


def test_hints_name_places_and_keywords() -> None:
    found = judge('{"name": "", "age": -1, "a/b": 1}', PERSON)
    assert {hint.text for hint in found.hints} == {
        "At /name: minLength is not met.",
        "At /age: minimum is not met.",
        "At the root: additionalProperties is not met.",
    }
    many = judge(json.dumps(["x"] * 50), {"items": {"type": "integer"}})
    assert len(many.hints) == 5
    wrong = judge('{"a": {"b~": [1, 2]}}', True, {"a": {"b~": [1, 3]}})
    assert wrong.reason is not None
    assert "/a/b~0/1" in wrong.reason.message


def test_hints_never_tell_the_reference() -> None:
    secret = {
        "type": "object",
        "properties": {"canary1": {"enum": ["canary2"]}, "n": {"const": 73911}},
        "required": ["canary1"],
        "patternProperties": {"^canary3": {"pattern": "canary4"}},
        "dependentRequired": {"n": ["canary5"]},
        "description": "canary6",
    }
    value = {"canary1": "canary2", "n": 73911, "canary5": ["canary7"]}
    answers = ("", "x", "{}", '{"n": 1}', '{"n": 73911}', "[]", '{"canary1": 1}', '{"canary1": "canary2"}')
    for answer in answers:
        told = judge(answer, secret, value).model_dump_json()
        for token in ("canary", "73911"):
            assert token in answer or token not in told, (answer, told)


def test_params_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude"):
        SchemaParams(unordered=True, relative_tolerance=0.1)
