"""JSON as a model wrote it: a value, or the named reason why it is none. Linear, standard library only."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from verifier_service.domain.records import JsonValue

MAX_CHARS = 1_000_000
MAX_DEPTH = 100
MAX_NODES = 200_000
MAX_DIGITS = 1_000  # of one number
_WHITESPACE = " \t\n\r"
_DIGITS = re.compile(r"[0-9.]++")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)


class NotReadable(Exception):
    """The answer is not JSON that can be judged; ``code`` names why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Surveyed(NamedTuple):
    """A value with its size: how many values it holds, itself included, and how deep they nest."""

    value: Any
    nodes: int
    depth: int


def read_json(candidate: JsonValue) -> Surveyed:
    """The value of an answer: text is parsed, anything else is taken as it is.

    Nothing but whitespace may stand around the JSON. Numbers with a fraction or an exponent are read as
    IEEE 754 doubles, others exactly. Raises ``NotReadable``: ``empty_answer``, ``not_json``,
    ``duplicate_key``, ``not_finite``, ``too_deep``, ``too_large``.
    """
    if candidate is None or (isinstance(candidate, str) and not candidate.strip()):
        raise NotReadable("empty_answer", "there is no answer")
    return _surveyed(_parsed(candidate) if isinstance(candidate, str) else candidate)


def _parsed(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise NotReadable("too_large", f"longer than {MAX_CHARS:,} characters")
    if _has_long_number(text) and _has_long_number(_STRING.sub('""', text)):
        raise NotReadable("too_large", f"a number has more than {MAX_DIGITS:,} digits")
    try:
        return _DECODER.decode(text)
    except NotReadable:
        raise
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        hint = "; nothing but JSON may stand there" if _has_json_inside(text) else ""
        raise NotReadable("not_json", f"not JSON at {where}: {error.msg}{hint}") from None


def _has_long_number(text: str) -> bool:
    return len(text) > MAX_DIGITS and any(len(run.group()) > MAX_DIGITS for run in _DIGITS.finditer(text))


def _has_json_inside(text: str) -> bool:
    """Whether other text stands around what may be JSON: the commonest mistake, and worth saying."""
    stripped = text.strip(_WHITESPACE)
    return stripped[:1] not in ("{", "[") and ("{" in stripped or "[" in stripped)


def _surveyed(root: Any) -> Surveyed:
    nodes, depth, level = 1, 0, [root]
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                for key in value:
                    _check_text(key)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str):
                _check_text(value)
            elif isinstance(value, float) and not math.isfinite(value):
                raise NotReadable("not_finite", "a number is not finite")
        nodes += len(below)
        if nodes > MAX_NODES:
            raise NotReadable("too_large", f"more than {MAX_NODES:,} values")
        depth += any(isinstance(value, (dict, list)) for value in level)
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = below
    return Surveyed(root, nodes, depth)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotReadable("not_json", "a text holds half of a surrogate pair") from None


def _too_deep() -> NotReadable:
    return NotReadable("too_deep", f"values nest more than {MAX_DEPTH} levels deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NotReadable("duplicate_key", f"the key {name[:100]!a} appears twice in one object")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotReadable("not_finite", f"{text[:40]} is too large for a number")
    return value


def _constant(text: str) -> Any:
    raise NotReadable("not_finite", f"{text[:40]} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
