"""Forecasts of events: what a task asks, what an answer says of it, and why an answer says nothing.

A task names its event in ``inputs.event``. What an answer says is read with caps and linear work, by
whoever judges it: nothing here raises for an answer but ``NotAForecast``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from verifier_service.domain.errors import TaskError
from verifier_service.domain.records import JsonObject, JsonValue, Request

EVENT_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._:@+\-]{0,199}$"
MAX_CHARS = 65_536
MAX_OUTCOMES = 500
MAX_LEVELS = 200
MAX_LEVEL = 1e12
SUM_TOLERANCE = 1e-6
LEAST_SIGMA, MOST_SIGMA = 1e-9, 1e3  # of the range
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DIGITS = re.compile(r"[0-9]{400}", re.ASCII)

EventId = Annotated[str, Field(pattern=EVENT_PATTERN)]
EventKind = Literal["binary", "categorical", "numeric"]
ScoringRule = Literal["brier", "crps"]
OutcomeName = Annotated[str, Field(min_length=1, max_length=200)]
Bound = Annotated[float, Field(ge=-MAX_LEVEL, le=MAX_LEVEL)]


def _moment(value: object) -> datetime:
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("a time is RFC 3339 with its offset, such as 2026-11-03T00:00:00Z")
    found = datetime.fromisoformat(value.upper())
    found.timestamp()
    return found


Moment = Annotated[datetime, BeforeValidator(_moment)]


class Question(NamedTuple):
    """What decides which actuals answer an event: its kind, and the outcomes of a categorical one."""

    kind: str
    outcomes: tuple[str, ...] = ()


class EventSpec(Request):
    """The event of a task (``inputs.event``).

    ``close``: forecasts that this service accepts at that time or later do not count. ``settles_by``: the
    time by which the actual is expected; later nobody waits for it. ``outcomes`` of a categorical event;
    ``low`` and ``high`` of a numeric one are the scale on which errors are measured. ``rule`` is the
    kind's own where it is left out: ``brier`` for outcomes, ``crps`` for numbers.
    """

    id: EventId
    kind: EventKind
    close: Moment
    settles_by: Moment | None = None
    outcomes: Annotated[tuple[OutcomeName, ...], Field(strict=False, max_length=MAX_OUTCOMES)] = ()
    low: Bound | None = None
    high: Bound | None = None
    unit: Annotated[str, Field(max_length=50)] | None = None
    rule: ScoringRule | None = None
    title: Annotated[str, Field(max_length=4_000)] | None = None
    resolution: Annotated[str, Field(max_length=20_000)] | None = None

    @model_validator(mode="after")
    def _is_one_question(self) -> Self:
        if self.settles_by is not None and self.settles_by <= self.close:
            raise ValueError("settles_by is after close")
        if (self.kind == "categorical") != (len(self.outcomes) >= 2):
            raise ValueError("a categorical event has at least two outcomes, and no other has any")
        if len(set(self.outcomes)) < len(self.outcomes):
            raise ValueError("an outcome is there twice")
        if self.rule not in (None, self.scored_by):
            raise ValueError(f"{self.kind} events are scored by {self.scored_by}")
        if self.kind != "numeric":
            if self.low is not None or self.high is not None:
                raise ValueError("low and high are of numeric events")
            return self
        if self.low is None or self.high is None or not self.high - self.low > 0:
            raise ValueError("a numeric event declares low < high")
        return self

    @property
    def scored_by(self) -> ScoringRule:
        """The rule of its kind."""
        return "crps" if self.kind == "numeric" else "brier"

    @property
    def question(self) -> Question:
        """Its kind and outcomes."""
        return Question(self.kind, self.outcomes)

    @property
    def bounds(self) -> tuple[float, float]:
        """Low and high of a numeric event."""
        return (self.low or 0.0), (self.high if self.high is not None else 1.0)


def event_of(inputs: Mapping[str, JsonValue]) -> EventSpec:
    """The event of a task. Raises ``TaskError`` (``bad_event``), naming the field."""
    try:
        return EventSpec.model_validate_json(json.dumps(inputs.get("event")))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(("inputs.event", *(str(part) for part in first["loc"])))
        raise TaskError("bad_event", f"{field}: {first['msg']}"[:500]) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise TaskError("bad_event", "inputs.event is not JSON") from error


def horizon_of(inputs: Mapping[str, JsonValue]) -> float | None:
    """When nobody waits for the actual any more, in epoch seconds; ``None`` where the task does not say."""
    try:
        by = event_of(inputs).settles_by
    except TaskError:
        return None
    return None if by is None else by.timestamp()


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Of every outcome, in the order of the event; of a binary event that it happens."""

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A number, or with ``sigma`` the normal distribution around it, in the unit of the event."""

    value: float
    sigma: float | None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Levels in (0, 1), rising, and their values, which do not fall. The distribution is linear between
    them, and reaches 0 at the event's low and 1 at its high."""

    levels: tuple[float, ...]
    values: tuple[float, ...]


Forecast = Probabilities | Point | Quantiles


class NotAForecast(Exception):
    """The answer cannot be judged as a forecast of the event; ``code`` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_forecast(candidate: JsonValue, event: EventSpec) -> Forecast:
    """What an answer, an object or JSON text, says of the event. Raises ``NotAForecast``."""
    found = _object(candidate)
    _require_event(found, event)
    if event.kind == "binary":
        _require_members(found, {"event", "probability"}, {"probability"})
        return Probabilities((_probability(found["probability"], "probability"),))
    if event.kind == "categorical":
        _require_members(found, {"event", "probabilities"}, {"probabilities"})
        return _categorical(found["probabilities"], event)
    if "quantiles" in found:
        _require_members(found, {"event", "quantiles"}, {"quantiles"})
        return _quantiles(found["quantiles"], event)
    _require_members(found, {"event", "value", "sigma"}, {"value"})
    return _point(found, event)


def _object(candidate: JsonValue) -> JsonObject:
    if candidate is None or (isinstance(candidate, str) and not candidate.strip()):
        raise NotAForecast("empty_answer", "there is no answer")
    value: Any = _parsed(candidate) if isinstance(candidate, str) else candidate
    if not isinstance(value, dict):
        raise NotAForecast("wrong_shape", "a forecast is a JSON object")
    return value


def _parsed(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise NotAForecast("too_large", f"longer than {MAX_CHARS:,} characters")
    if _DIGITS.search(text):
        raise NotAForecast("too_large", "a number has 400 digits or more")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise NotAForecast("too_large", "values nest too deep") from None
    except ValueError:
        raise NotAForecast(
            "not_json", "the answer is not JSON, and nothing but JSON may stand there"
        ) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotAForecast("duplicate_key", "a key appears twice in one object")
    return found


def _constant(text: str) -> Any:
    raise NotAForecast("not_finite", f"{text} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)


def _require_event(found: JsonObject, event: EventSpec) -> None:
    if found.get("event") != event.id:
        raise NotAForecast("unknown_event", f"the forecast is not of the event {event.id}")


def _require_members(found: JsonObject, known: set[str], needed: set[str]) -> None:
    missing, other = needed - found.keys(), found.keys() - known
    if missing:
        raise NotAForecast("wrong_shape", f"the forecast has no {', '.join(sorted(missing))}")
    if other:
        raise NotAForecast("wrong_shape", f"unknown members beside {', '.join(sorted(known))}")


def _number(value: JsonValue, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAForecast("not_a_number", f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise NotAForecast("not_finite", f"{name} is too large") from None
    if not math.isfinite(number):
        raise NotAForecast("not_finite", f"{name} is not finite")
    return number


def _probability(value: JsonValue, name: str) -> float:
    number = _number(value, name)
    if not 0.0 <= number <= 1.0:
        raise NotAForecast("not_a_probability", f"{name} lies outside of [0, 1]")
    return number


def _categorical(value: JsonValue, event: EventSpec) -> Probabilities:
    if not isinstance(value, dict):
        raise NotAForecast("wrong_shape", "probabilities are an object by outcome")
    if value.keys() - set(event.outcomes):
        raise NotAForecast("unknown_outcome", "a probability is of no outcome of the event")
    if len(value) < len(event.outcomes):
        raise NotAForecast("missing_outcome", "every outcome of the event has a probability")
    found = tuple(_probability(value[name], "a probability") for name in event.outcomes)
    if abs(math.fsum(found) - 1.0) > SUM_TOLERANCE:
        raise NotAForecast("not_normalised", f"probabilities sum to 1 within {SUM_TOLERANCE:g}")
    return Probabilities(found)


def _point(found: JsonObject, event: EventSpec) -> Point:
    low, high = event.bounds
    value = _within(_number(found["value"], "value"), "value", event)
    sigma = found.get("sigma")
    if sigma is None:
        return Point(value, None)
    spread = _number(sigma, "sigma")
    if not LEAST_SIGMA * (high - low) <= spread <= MOST_SIGMA * (high - low):
        message = f"sigma lies within {LEAST_SIGMA:g} and {MOST_SIGMA:g} times the event's range"
        raise NotAForecast("bad_sigma", message)
    return Point(value, spread)


def _within(value: float, name: str, event: EventSpec) -> float:
    low, high = event.bounds
    if not low <= value <= high:
        raise NotAForecast("out_of_bounds", f"{name} lies outside of [{low:g}, {high:g}]")
    return value


def _quantiles(value: JsonValue, event: EventSpec) -> Quantiles:
    if not isinstance(value, dict) or not value:
        raise NotAForecast("wrong_shape", "quantiles are an object by level")
    if len(value) > MAX_LEVELS:
        raise NotAForecast("too_large", f"more than {MAX_LEVELS} quantiles")
    pairs = sorted((_level(name), _number(one, "a quantile")) for name, one in value.items())
    levels, values = tuple(level for level, _ in pairs), tuple(one for _, one in pairs)
    if len(set(levels)) < len(levels):
        raise NotAForecast("bad_quantiles", "a level is there twice")
    if any(later < earlier for earlier, later in pairwise(values)):
        raise NotAForecast("bad_quantiles", "quantiles do not fall as their level rises")
    for one in values:
        _within(one, "a quantile", event)
    return Quantiles(levels, values)


def _level(name: str) -> float:
    if not re.fullmatch(r"0?\.[0-9]{1,12}", name, re.ASCII) or not 0.0 < float(name) < 1.0:
        raise NotAForecast("bad_quantiles", "a level is written as a decimal between 0 and 1")
    return float(name)
