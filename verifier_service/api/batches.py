"""A batch of trajectories, read item by item: a bad one is its own fault and its neighbours go on.

Only a body that is not JSON, or whose envelope is wrong, is refused as a whole. The envelope is walked
here; each item is decoded and checked by itself, so that NaN, a lone surrogate, two equal keys or a value
a thousand levels deep end at the item that holds them. Linear in the size of the body.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from verifier_service.api import parsing, strict_json
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.trajectories import ID_PATTERN, TrajectorySubmission
from verifier_service.domain.wire import WaitSpec

_ID = re.compile(ID_PATTERN)


@dataclass(frozen=True, slots=True)
class ParsedItem:
    """One item or its error; ``id`` is what the item calls itself, where that can be read."""

    item: TrajectorySubmission | InvalidInput
    id: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The items in input order, and how long the caller wants to wait for them."""

    items: tuple[ParsedItem, ...]
    wait: WaitSpec | None


class _Cursor:
    """A place in the text of the envelope."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip()

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.at += 1
        self._skip()
        return True

    def need(self, character: str) -> None:
        if not self.take(character):
            raise json.JSONDecodeError(f"Expecting '{character}'", self.text, self.at)

    def value(self) -> Any:
        value, end = strict_json.decode(self.text, self.at)
        self.jump(end)
        return value

    def jump(self, end: int) -> None:
        self.at = end
        self._skip()

    def _skip(self) -> None:
        while self.peek() in tuple(strict_json.WHITESPACE):
            self.at += 1


def parse_batch(raw: bytes, max_batch: int) -> Batch:
    """Read a batch. Raises ``InvalidInput`` for an unparsable body or a wrong envelope."""
    try:
        return _envelope(_Cursor(parsing.decode_body(raw)), max_batch)
    except json.JSONDecodeError as error:
        raise parsing.unparsable(error) from error
    except strict_json.Flaw as flaw:
        raise InvalidInput(flaw.code, flaw.message) from flaw
    except RecursionError as error:
        raise strict_json.too_deep() from error


def _envelope(cursor: _Cursor, max_batch: int) -> Batch:
    if cursor.peek() not in ("{", ""):
        cursor.jump(strict_json.end_of(cursor.text, cursor.at))
        raise InvalidInput("wrong_type", "the body must be an object with the field 'trajectories'")
    cursor.need("{")
    items: tuple[ParsedItem, ...] | None = None
    wait: WaitSpec | None = None
    seen: set[str] = set()
    while not (cursor.take("}") if not seen else _ended(cursor)):
        name = _name(cursor)
        if name in seen:
            raise InvalidInput("duplicate_key", f"the key {name!r} appears twice in the body", field=name)
        seen.add(name)
        if name == "trajectories":
            items = _items(cursor, max_batch)
        elif name == "wait":
            wait = _wait(cursor)
        else:
            raise InvalidInput(
                "unknown_field", "the body has only 'trajectories' and 'wait'", field=name[:100]
            )
    if cursor.peek():
        raise json.JSONDecodeError("Extra data", cursor.text, cursor.at)
    if items is None:
        raise InvalidInput("missing_field", "the body needs the field 'trajectories'", field="trajectories")
    return Batch(items=items, wait=wait)


def _ended(cursor: _Cursor) -> bool:
    if cursor.take("}"):
        return True
    cursor.need(",")
    return False


def _name(cursor: _Cursor) -> str:
    if cursor.peek() != '"':
        raise json.JSONDecodeError("Expecting a name in double quotes", cursor.text, cursor.at)
    name: str = cursor.value()
    cursor.need(":")
    return name


def _wait(cursor: _Cursor) -> WaitSpec | None:
    start = cursor.at
    value = cursor.value()
    if value is None:
        return None
    text = cursor.text[start : cursor.at]
    refused = strict_json.check_text(text)
    if refused is not None:
        raise InvalidInput(refused.code, refused.message, field="wait")
    try:
        return parsing.validated(WaitSpec, text, value)
    except InvalidInput as error:
        field = f"wait.{error.field}" if error.field else "wait"
        raise InvalidInput(error.code, error.message, field=field) from error


def _items(cursor: _Cursor, max_batch: int) -> tuple[ParsedItem, ...]:
    if cursor.peek() not in ("[", ""):
        raise InvalidInput("wrong_type", "'trajectories' must be an array", field="trajectories")
    cursor.need("[")
    items: list[ParsedItem] = []
    if cursor.take("]"):
        return ()
    while True:
        if len(items) == max_batch:
            message = f"a batch holds at most {max_batch} trajectories"
            raise InvalidInput("batch_too_large", message, field="trajectories")
        items.append(_item(cursor))
        if cursor.take("]"):
            return tuple(items)
        cursor.need(",")


def _item(cursor: _Cursor) -> ParsedItem:
    start = cursor.at
    try:
        value, end = strict_json.decode(cursor.text, start)
    except (strict_json.Flaw, RecursionError):
        cursor.jump(strict_json.end_of(cursor.text, start))
        return _flawed(cursor.text[start : cursor.at])
    text = cursor.text[start:end]
    cursor.jump(end)
    refused = strict_json.check_text(text)
    if refused is not None:
        return ParsedItem(item=refused, id=_id(value))
    try:
        return ParsedItem(item=parsing.validated(TrajectorySubmission, text, value), id=_id(value))
    except InvalidInput as error:
        return ParsedItem(item=error, id=_id(value))


def _flawed(text: str) -> ParsedItem:
    value = strict_json.decode_flawed(text)
    return ParsedItem(item=strict_json.find_flaw(text, value) or strict_json.too_deep(), id=_id(value))


def _id(value: Any) -> str | None:
    name = value.get("id") if isinstance(value, dict) else None
    return name if isinstance(name, str) and _ID.match(name) else None
