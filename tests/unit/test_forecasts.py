"""What a task asks and what an answer says of it; whatever comes, it is a forecast or a named reason."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.fast.forecast_validity import ForecastValidity
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Verdict
from verifier_service.domain.forecasts import (
    MAX_CHARS,
    MAX_LEVELS,
    EventSpec,
    NotAForecast,
    Point,
    Probabilities,
    Quantiles,
    event_of,
    horizon_of,
    read_forecast,
)
from verifier_service.domain.verifiers import CheckInput, Params

CLOSE = "2030-01-01T00:00:00Z"
BINARY = {"id": "e", "kind": "binary", "close": CLOSE}
CUP = BINARY | {"kind": "categorical", "outcomes": ["A", "B"]}
NUMBER = BINARY | {"kind": "numeric", "low": 0, "high": 10}
KINDS = (BINARY, CUP, NUMBER)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["event", "probability", "probabilities", "value", "sigma", "quantiles", "A", "0.5"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def spec(asked: dict[str, Any]) -> EventSpec:
    return event_of({"event": asked})


def code(answer: Any, asked: dict[str, Any]) -> str:
    with pytest.raises(NotAForecast) as refused:
        read_forecast(answer, spec(asked))
    return refused.value.code


@pytest.mark.parametrize(
    ("answer", "asked", "found"),
    [
        ({"event": "e", "probability": 1}, BINARY, Probabilities((1.0,))),
        ('{"event": "e", "probability": 0.25}', BINARY, Probabilities((0.25,))),
        ({"event": "e", "probabilities": {"B": 0.1, "A": 0.9}}, CUP, Probabilities((0.9, 0.1))),
        ({"event": "e", "value": 3}, NUMBER, Point(3.0, None)),
        ({"event": "e", "value": 3, "sigma": 0.5}, NUMBER, Point(3.0, 0.5)),
        ({"event": "e", "quantiles": {"0.9": 7, "0.1": 2}}, NUMBER, Quantiles((0.1, 0.9), (2.0, 7.0))),
    ],
)
def test_forecasts_are_read(answer: Any, asked: dict[str, Any], found: Any) -> None:
    assert read_forecast(answer, spec(asked)) == found


@pytest.mark.parametrize(
    ("answer", "asked", "why"),
    [
        (None, BINARY, "empty_answer"),
        ("  ", BINARY, "empty_answer"),
        ([0.5], BINARY, "wrong_shape"),
        ("0.5", BINARY, "wrong_shape"),
        ("[" * 50_000, BINARY, "too_large"),
        (" " * MAX_CHARS + "{}", BINARY, "too_large"),
        ('{"event": "e", "probability": ' + "1" * 500 + "}", BINARY, "too_large"),
        ('{"event": "e", "event": "f", "probability": 1}', BINARY, "duplicate_key"),
        ('{"event": "e", "probability": NaN}', BINARY, "not_finite"),
        ('{"event": "e", "probability": 1e999}', BINARY, "not_finite"),
        ({"event": "e", "probability": math.nan}, BINARY, "not_finite"),
        ({"event": "e", "value": 10**400}, NUMBER, "not_finite"),
        ({"event": "e", "probability": True}, BINARY, "not_a_number"),
        ({"event": "e", "probability": "0.5"}, BINARY, "not_a_number"),
        ({"event": "e", "probability": -0.1}, BINARY, "not_a_probability"),
        ({"event": "f", "probability": 0.1}, BINARY, "unknown_event"),
        ({"event": "e"}, BINARY, "wrong_shape"),
        ({"event": "e", "probability": 1, "sigma": 1}, BINARY, "wrong_shape"),
        ({"event": "e", "probabilities": {"A": 0.5, "B": 0.500002}}, CUP, "not_normalised"),
        ({"event": "e", "probabilities": {"A": 1.0}}, CUP, "missing_outcome"),
        ({"event": "e", "probabilities": {"A": 0.5, "C": 0.5}}, CUP, "unknown_outcome"),
        ({"event": "e", "probabilities": [1, 0]}, CUP, "wrong_shape"),
        ({"event": "e", "value": 11}, NUMBER, "out_of_bounds"),
        ({"event": "e", "value": 1, "sigma": 0}, NUMBER, "bad_sigma"),
        ({"event": "e", "value": 1, "sigma": 1e9}, NUMBER, "bad_sigma"),
        ({"event": "e", "quantiles": {"0.5": 3, ".5": 3}}, NUMBER, "bad_quantiles"),
        ({"event": "e", "quantiles": {"0.5": 3, "0.6": 2}}, NUMBER, "bad_quantiles"),
        ({"event": "e", "quantiles": {"1.0": 3}}, NUMBER, "bad_quantiles"),
        ({"event": "e", "quantiles": {"½": 3}}, NUMBER, "bad_quantiles"),
        ({"event": "e", "quantiles": {"0.5": 30}}, NUMBER, "out_of_bounds"),
        ({"event": "e", "quantiles": {}}, NUMBER, "wrong_shape"),
        (
            {"event": "e", "quantiles": {f"0.{at:04}": 1 for at in range(1, MAX_LEVELS + 2)}},
            NUMBER,
            "too_large",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_forecast_has_a_name(answer: Any, asked: dict[str, Any], why: str) -> None:
    assert code(answer, asked) == why


@given(JSON | JSON.map(json.dumps) | st.text(max_size=40), st.sampled_from(KINDS))
def test_whatever_comes_is_judged(answer: Any, asked: dict[str, Any]) -> None:
    item = CheckInput.model_construct(candidate=answer, inputs={"event": asked})
    found = ForecastValidity().verify(item, Params())
    assert (found.verdict, found.score) in ((Verdict.ACCEPT, 1.0), (Verdict.REJECT, 0.0))
    assert found.features == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"close": "tomorrow"}, "close"),
        ({"close": "2030-01-01T00:00:00"}, "close"),
        ({"close": 1_900_000_000}, "close"),
        ({"close": "2030-13-01T00:00:00Z"}, "close"),
        ({"close": "0000-01-01T00:00:00Z"}, "close"),
        ({"settles_by": CLOSE}, "inputs.event"),
        ({"id": "../x"}, "id"),
        ({"id": "a/b"}, "id"),
        ({"kind": "bet"}, "kind"),
        ({"kind": "categorical"}, "inputs.event"),
        ({"outcomes": ["A", "B"]}, "inputs.event"),
        ({"kind": "categorical", "outcomes": ["A", "A"]}, "inputs.event"),
        ({"kind": "numeric"}, "inputs.event"),
        ({"kind": "numeric", "low": 1, "high": 1}, "inputs.event"),
        ({"rule": "crps"}, "inputs.event"),
        ({"setles_by": CLOSE}, "setles_by"),
    ],
)
def test_a_broken_event_is_the_tasks_fault(change: dict[str, Any], field: str) -> None:
    with pytest.raises(TaskError, match=field) as broken:
        event_of({"event": BINARY | change})
    assert broken.value.code == "bad_event"
    assert horizon_of({"event": BINARY | change}) is None


def test_no_event_at_all_is_the_tasks_fault() -> None:
    for inputs in ({}, {"event": None}, {"event": []}, {"event": {"id": "e", "x": math.nan}}):
        with pytest.raises(TaskError):
            event_of(inputs)


def test_the_horizon_is_a_moment() -> None:
    later = BINARY | {"settles_by": "2030-01-01T01:00:00+01:00"}
    with pytest.raises(TaskError):
        event_of({"event": later})
    assert (
        horizon_of(
            {"event": BINARY | {"settles_by": "1970-01-01T00:01:00Z", "close": "1969-01-01T00:00:00Z"}}
        )
        == 60.0
    )
    assert horizon_of({"event": BINARY}) is None
