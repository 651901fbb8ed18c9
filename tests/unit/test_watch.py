"""The watch over audits: quiet while nothing changes, loud when beliefs become too high."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.watch import MOST_KEPT, REFERENCE, THRESHOLD, Stratum, Watch

AUDITS = 200


def highest(errors: np.ndarray, ties: np.ndarray) -> float:
    state = Stratum()
    return max(state.saw(float(error), float(tie)) for error, tie in zip(errors, ties, strict=True))


@pytest.mark.parametrize("shape", ["normal", "heavy", "ties"])
def test_a_threshold_holds_whatever_the_errors_look_like(shape: str) -> None:
    """5 % of 200 audits: ranks know nothing of the distribution. 600 streams, three standard errors."""
    rng, streams = np.random.default_rng(1), 600
    draw = {
        "normal": lambda: rng.standard_normal(AUDITS),
        "heavy": lambda: rng.standard_cauchy(AUDITS),
        "ties": lambda: rng.integers(0, 3, AUDITS).astype(float),
    }[shape]
    alarms = sum(highest(draw(), rng.random(AUDITS)) > THRESHOLD for _ in range(streams))
    assert 0.05 - 3 * math.sqrt(0.05 * 0.95 / streams) <= alarms / streams
    assert alarms / streams <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)


def test_a_shift_by_one_standard_deviation_is_found_and_a_fall_is_not() -> None:
    rng, found, fallen = np.random.default_rng(2), 0, 0
    for _ in range(100):
        errors = rng.standard_normal(160)
        up, down = errors.copy(), errors.copy()
        up[60:] += 1.0
        down[60:] -= 1.0
        found += highest(up, rng.random(160)) > THRESHOLD
        fallen += highest(down, rng.random(160)) > THRESHOLD
    assert found >= 80
    assert fallen <= 8


def test_no_alarm_before_there_is_a_reference() -> None:
    watch = Watch()
    assert [watch.saw("s", 10.0 * at, f"t{at}") for at in range(REFERENCE)] == [None] * REFERENCE


def test_after_an_alarm_the_stratum_begins_anew_and_others_go_on() -> None:
    watch = Watch()
    for at in range(60):
        watch.saw("other", math.sin(at), f"o{at}")
        watch.saw("s", math.sin(at), f"t{at}")
    alarms = [found for at in range(60) if (found := watch.saw("s", 5.0 + at, f"u{at}")) is not None]
    assert alarms
    assert alarms[0]["statistic"] > alarms[0]["threshold"] == THRESHOLD
    assert 60 < alarms[0]["audits"] < 120
    assert watch.strata["other"].audits == 60
    assert watch.strata["s"].audits < 60


@settings(max_examples=30, deadline=None)
@given(errors=st.lists(st.floats(-9, 9), min_size=2, max_size=80), cut=st.integers(0, 80))
def test_going_on_from_the_middle_is_going_through(errors: list[float], cut: int) -> None:
    whole, first = Watch(), Watch()
    seen = [whole.saw("s", error, f"t{at}") for at, error in enumerate(errors)]
    for at, error in enumerate(errors[:cut]):
        first.saw("s", error, f"t{at}")
    rest = Watch.from_json(json.loads(json.dumps(first.as_json())))
    later = [rest.saw("s", error, f"t{at}") for at, error in enumerate(errors[cut:], cut)]
    assert later == seen[cut:]
    assert rest.as_json() == whole.as_json()


def test_what_is_kept_is_bounded_and_nonsense_is_left_out() -> None:
    watch = Watch()
    for at in range(MOST_KEPT + 50):
        watch.saw("s", math.sin(at * 1.7), f"t{at}")
    assert len(watch.strata["s"].errors) <= MOST_KEPT
    before = watch.as_json()
    assert watch.saw("s", math.nan, "n") is None
    assert watch.as_json() == before
    assert Watch.from_json({"format": "watch/0"}).strata == {}
