"""Sources that say what became of events: how an operator declares them, and how their answers are read.

Answers come from outside and are never trusted: JSON with caps, one value by a pointer, words for the
states. Nothing is raised for what a source does wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, model_validator

from verifier_service.domain.ports.settlements import Polled
from verifier_service.domain.records import Request
from verifier_service.domain.settlements import MAX_ACTUAL_CHARS, Actual, SettlementState

EVENT = "{event}"
MAX_BODY_BYTES = 32_768
MAX_NUMBER = 1e12
_NUMBER = re.compile(r"[-+]?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?", re.ASCII)
_HEADER = r"^[A-Za-z][A-Za-z0-9\-]{0,63}$"

Pointer = Annotated[str, Field(pattern=r"^(/[^/]{0,200})*$", max_length=1_000)]
Words = Annotated[tuple[str, ...], Field(strict=False, max_length=50)]


class MarketSource(Request):
    """A source of an operator. ``url`` holds ``{event}`` once, in its path or query.

    ``value`` and ``state`` are JSON pointers (RFC 6901) into its answer. The word at ``state`` means what
    ``open``, ``settled`` and ``void`` list; without ``state`` an event is settled as soon as there is a
    value. ``values`` translates the source's words for outcomes. ``header`` is sent with the value of the
    environment variable ``header_from``. ``interval_s`` are the seconds between two questions about one
    event, ``timeout_s`` those that an answer may take.
    """

    url: Annotated[str, Field(max_length=2_000)]
    value: Pointer
    state: Pointer | None = None
    open: Words = ()
    settled: Words = ()
    void: Words = ()
    values: Annotated[dict[str, str], Field(max_length=500)] = {}
    header: Annotated[str, Field(pattern=_HEADER)] | None = None
    header_from: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None = None
    interval_s: Annotated[float, Field(ge=1.0, le=86_400.0)] = 300.0
    timeout_s: Annotated[float, Field(gt=0.0, le=60.0)] = 10.0

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        parts = urlsplit(self.url)
        if self.url.count(EVENT) != 1 or EVENT not in f"{parts.path}?{parts.query}":
            raise ValueError("url holds {event} once, in its path or query")
        if (self.header is None) != (self.header_from is None):
            raise ValueError("header and header_from go together")
        if (self.state is None) != (not self.settled):
            raise ValueError("state and the words for settled go together")
        words = (*self.open, *self.settled, *self.void)
        if len(set(words)) < len(words):
            raise ValueError("a word of the state means one thing")
        return self

    def url_of(self, event: str) -> str:
        """The URL to ask about an event."""
        return self.url.replace(EVENT, quote(event, safe=""))


def read_answer(source: MarketSource, event: str, body: bytes) -> Polled:
    """What a body says of an event; ``failed`` with a code where it says nothing that can be used."""
    try:
        document = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return failed("not_json")
    state = _state(source, document)
    if state is None:
        return failed("unknown_state")
    if state == "open":
        return Polled(state="open")
    if state == "void":
        return Polled(state="void", actual=Actual(event, SettlementState.VOID))
    actual = _actual(source, event, pointed(document, source.value))
    return failed("bad_value") if actual is None else Polled(state="settled", actual=actual)


def failed(code: str, *, retry_after_s: float | None = None, busy: bool = False) -> Polled:
    """A source that did not answer the question."""
    return Polled(state="failed", error=code, retry_after_s=retry_after_s, busy=busy)


def pointed(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); ``None`` where there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list):
            document = _element(document, name)
        else:
            return None
    return document


def _element(values: Sequence[Any], name: str) -> Any:
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", name, re.ASCII) or int(name) >= len(values):
        return None
    return values[int(name)]


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


def _state(source: MarketSource, document: Any) -> str | None:
    if source.state is None:
        return "open" if pointed(document, source.value) is None else "settled"
    word = _text(pointed(document, source.state))
    for state, words in (("open", source.open), ("settled", source.settled), ("void", source.void)):
        if word in words:
            return state
    return None


def _actual(source: MarketSource, event: str, value: Any) -> Actual | None:
    text = _text(value)
    if text is None:
        return None
    text = source.values.get(text, text).strip()
    if not text or len(text) > MAX_ACTUAL_CHARS or not text.isprintable():
        return None
    number = float(text) if _NUMBER.fullmatch(text) else None
    if number is not None and not abs(number) <= MAX_NUMBER:
        return None
    return Actual(event, SettlementState.SETTLED, text, number)


def _text(value: Any) -> str | None:
    """A scalar as text; booleans as JSON writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        return None
    return str(value) if isinstance(value, str | int | float) else None
