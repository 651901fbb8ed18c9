"""What a verifier is tried with: answers that are none, broken tasks, references that must not show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tiers.conformance_records import Sample
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.domain.verifiers import CheckInput

MEGABYTE = 1_000_000
WORD_CANARY = "canary7f3a9c"
NUMBER_CANARY = 7_391_153
CANARIES = (WORD_CANARY, str(NUMBER_CANARY))
MAX_LEAVES = 8
NAMES = frozenset({"id"})  # what a part of a reference is called, so that evidence can name it
MAX_CANARY_SAMPLES = 6


class Try(NamedTuple):
    """One item, by a name that a report can show."""

    name: str
    item: CheckInput


def hostile_candidates() -> Mapping[str, JsonValue]:
    """Answers that are right for no task: nothing, other types, too much, and texts that hurt readers."""
    deep: JsonValue = 0
    for _ in range(90):
        deep = [deep]
    return {
        "null": None,
        "true": True,
        "a list": ["~"],
        "an empty list": [],
        "an empty object": {},
        "an object": {"~": "~"},
        "an object of a million characters": {"~": "~" * MEGABYTE},
        "90 lists in each other": {"~": deep},
        "huge numbers in an object": {"~": 1e308, "^": -(10**300), "|": 5e-324},
        **hostile_texts(),
    }


def hostile_texts() -> Mapping[str, JsonValue]:
    """Texts that are right for no task."""
    return {
        "an empty text": "",
        "blanks": " \t\r\n ",
        "NUL characters": "\x00\x00",
        "control characters": "".join(map(chr, range(1, 32))) + "\x7f",
        "a text that turns right to left": "\u202e\u2067~\u0661\u0662",
        "combining marks": "~" + "\u0301" * 5_000,
        "invisible characters": "\u200b\ufeff\u2060",
        "characters beyond the first plane": "\U0001f9ea\U000e0041" * 50,
        "a million letters": "z" * MEGABYTE,
        "a million brackets": "[" * MEGABYTE,
        "a million parentheses": "(" * (MEGABYTE // 2) + ")" * (MEGABYTE // 2),
        "a million open boxes": "\\boxed{" * (MEGABYTE // 7),
        "a million backslashes": "\\" * MEGABYTE,
        "a million fences": "```\n" * (MEGABYTE // 4),
        "a million lines": "~\n" * (MEGABYTE // 2),
        "a tower of powers": "^".join(["9"] * 2_000) + "~",
        "a number of a hundred thousand digits": "~" + "9" * 100_000,
        "ten thousand lists in each other": "[" * 10_000 + "]" * 10_000,
        "not quite JSON": '{"~": NaN, "~": 1e999, "~": }',
        "escapes of half a surrogate pair": '{"~": "\\ud800"}',
        "a text of half a surrogate pair": '"\\udfff~"',
        "an escaped NUL": '"~\\u0000"',
        "a format string": "%s%n{0}{__class__}$HOME `id`",
        "an import": "__import__('os')._exit(0) ~",
        "a pickle": "cos\n_exit\n(I0\ntR.~",
        "a path": "/proc/self/fd/0 ~",
        "a URL": "file:///dev/zero ~",
    }


def hostile_values() -> Mapping[str, JsonValue]:
    """What may stand in a broken task instead of what should."""
    deep: JsonValue = {}
    for _ in range(90):
        deep = {"~": deep}
    return {
        "null": None,
        "a boolean": False,
        "an empty list": [],
        "an empty object": {},
        "a number": -1e308,
        "a text": "\x00~\u202e",
        "a list of everything": [None, True, "~", {}, []],
        "90 objects in each other": deep,
        "a million letters": "z" * MEGABYTE,
    }


def hostile_turns() -> tuple[Turn, ...]:
    """Turns as a broken agent might send them."""
    return (
        Turn(),
        Turn(message="\x00~" * 1_000),
        Turn(calls=(ToolCall(), ToolCall(id="", name="", arguments="{" * 10_000))),
        Turn(observations=(Observation(call="none", text="~" * 100_000, data={"~": [None]}),)),
        Turn(calls=tuple(ToolCall(id="same", name="f", arguments={"~": 1e308}) for _ in range(50))),
    )


def against_candidates(problem: CheckInput) -> Iterator[Try]:
    """Every hostile answer to one task."""
    for name, candidate in hostile_candidates().items():
        yield Try(f"candidate: {name}", problem.model_copy(update={"candidate": candidate}))


def against_problems(given: CheckInput) -> Iterator[Try]:
    """One answer to tasks that are broken in every part."""
    for part, document in (("inputs", given.inputs), ("reference", given.reference)):
        for key in document or {"~": None}:
            for name, value in hostile_values().items():
                yield Try(
                    f"{part}.{key}: {name}", given.model_copy(update={part: {**document, key: value}})
                )
    yield Try("prompt: a million letters", given.model_copy(update={"prompt": "z" * MEGABYTE}))
    yield Try("prompt: a list of everything", given.model_copy(update={"prompt": [{"~": None}]}))
    yield Try("turns: broken ones", given.model_copy(update={"turns": hostile_turns()}))


def with_canaries(samples: Sequence[Sample]) -> Iterator[Try]:
    """Tasks whose reference holds words and numbers that no evidence may repeat."""
    names = ("answer", "value", "smiles", "solution", "target", "gold", "energy")
    generic: JsonObject = dict.fromkeys(names, WORD_CANARY)
    generic |= {"tests": [WORD_CANARY], "schema": {"const": WORD_CANARY}}
    yield Try("reference: only canaries", CheckInput(candidate="~", reference=generic))
    for number, sample in enumerate(samples[:MAX_CANARY_SAMPLES], start=1):
        given = sample.item()
        for whose, candidate in (("its own", sample.candidate), ("another", "~")):
            asked = given.model_copy(update={"candidate": candidate})
            for index in range(min(_count(given.reference), MAX_LEAVES)):
                for canary in (WORD_CANARY, NUMBER_CANARY):
                    planted, _ = _planted(given.reference, canary, index)
                    name = f"sample {number}, {whose} answer: {canary} in leaf {index} of the reference"
                    yield Try(name, asked.model_copy(update={"reference": planted}))


def _count(value: JsonValue) -> int:
    if isinstance(value, dict):
        return sum(_count(inner) for key, inner in value.items() if key not in NAMES)
    if isinstance(value, list):
        return sum(map(_count, value))
    return int(isinstance(value, (str, int, float)) and not isinstance(value, bool))


def _planted(value: JsonValue, canary: str | int, at: int) -> tuple[JsonValue, int]:
    """``value`` with a canary in the text or number that is the ``at``-th; and what is left of ``at``."""
    if isinstance(value, dict):
        changed: JsonObject = {}
        for key, inner in value.items():
            changed[key], at = (inner, at) if key in NAMES else _planted(inner, canary, at)
        return changed, at
    if isinstance(value, list):
        listed: list[JsonValue] = []
        for inner in value:
            planted, at = _planted(inner, canary, at)
            listed.append(planted)
        return listed, at
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value, at
    if at == 0:
        return (str(canary) if isinstance(value, str) else NUMBER_CANARY), -1
    return value, at - 1


def secrets_of(item: CheckInput) -> set[str]:
    """Texts of a reference that nobody but the verifier can know: not in the answer, nor in the task."""
    known = json.dumps([item.candidate, item.inputs, item.prompt], ensure_ascii=False)
    known += " ".join(turn.model_dump_json() for turn in item.turns)
    return {text for text in texts_of(item.reference) if len(text) >= 5 and text not in known}


def texts_of(root: JsonValue) -> Iterator[str]:
    """Every text in a value, keys and names left out, numbers as written."""
    waiting: list[JsonValue] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value.strip()
        elif isinstance(value, dict):
            waiting.extend(inner for key, inner in value.items() if key not in NAMES)
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield json.dumps(value)
