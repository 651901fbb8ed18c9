"""Scoring rules: known values, independent arithmetic, and that believing what one says pays best."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier_service.domain.forecast_scores import Inapplicable, answer_of, crps, score
from verifier_service.domain.forecasts import EventSpec, Point, Probabilities, Quantiles, Question, event_of

CHANCE = st.floats(0.0, 1.0)


def event(kind: str = "binary", **fields: Any) -> EventSpec:
    return event_of({"event": {"id": "e", "kind": kind, "close": "2030-01-01T00:00:00Z"} | fields})


BINARY = event()
CUP = event("categorical", outcomes=["A", "B", "C"])
NUMBER = event("numeric", low=0.0, high=10.0)


@pytest.mark.parametrize(
    ("chance", "answer", "worth"),
    [(1.0, 1, 1.0), (0.0, 1, 0.0), (0.5, 0, 0.75), (0.8, 1, 0.96), (0.8, 0, 0.36)],
)
def test_brier_of_a_binary_event(chance: float, answer: int, worth: float) -> None:
    assert score(BINARY, Probabilities((chance,)), answer) == pytest.approx(worth)


def test_brier_of_outcomes() -> None:
    """Brier 1950: half of the sum of squares, turned around."""
    assert score(CUP, Probabilities((1.0, 0.0, 0.0)), 0) == 1.0
    assert score(CUP, Probabilities((1.0, 0.0, 0.0)), 2) == 0.0
    thirds = Probabilities((1 / 3, 1 / 3, 1 / 3))
    assert score(CUP, thirds, 1) == pytest.approx(1 - 0.5 * (4 / 9 + 2 / 9))


@given(CHANCE, st.integers(0, 1))
def test_two_outcomes_are_scored_like_a_binary_event(chance: float, answer: int) -> None:
    two = event("categorical", outcomes=["no", "yes"])
    worth = score(two, Probabilities((1 - chance, chance)), answer)
    assert worth == pytest.approx(score(BINARY, Probabilities((chance,)), answer), abs=1e-12)


@given(CHANCE, CHANCE)
def test_the_true_probability_pays_best(truth: float, said: float) -> None:
    def expected(chance: float) -> float:
        forecast = Probabilities((chance,))
        return truth * score(BINARY, forecast, 1) + (1 - truth) * score(BINARY, forecast, 0)

    assert expected(truth) >= expected(said) - 1e-12
    if abs(truth - said) > 1e-3:
        assert expected(truth) > expected(said)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
)
def test_the_true_probabilities_pay_best(one: list[float], other: list[float]) -> None:
    truth, said = ([each / sum(values) for each in values] for values in (one, other))

    def expected(chances: list[float]) -> float:
        forecast = Probabilities(tuple(chances))
        return math.fsum(p * score(CUP, forecast, at) for at, p in enumerate(truth))

    assert expected(truth) >= expected(said) - 1e-12


def test_crps_of_the_normal_has_its_closed_form() -> None:
    """Gneiting and Raftery 2007, eq. 21: at the mean sigma (2 phi(0) - 1 / sqrt(pi))."""
    at_mean = 2 / math.sqrt(2 * math.pi) - 1 / math.sqrt(math.pi)
    assert crps(Point(0.0, 1.0), 0.0, -50.0, 50.0) == pytest.approx(at_mean, abs=1e-12)
    assert crps(Point(3.0, 2.0), 5.0, -90.0, 90.0) == pytest.approx(2 * 0.6024413576, abs=1e-9)


@given(st.floats(0.0, 10.0), st.floats(0.05, 20.0), st.floats(-2.0, 12.0))
def test_crps_of_the_normal_is_its_integral(mean: float, sigma: float, actual: float) -> None:
    def squared(z: float) -> float:
        below = 0.5 * math.erfc((mean - z) / (sigma * math.sqrt(2)))
        return (below - (actual <= z)) ** 2

    steps = 4_000
    width = 10.0 / steps
    summed = math.fsum(squared((at + 0.5) * width) for at in range(steps)) * width
    assert crps(Point(mean, sigma), actual, 0.0, 10.0) == pytest.approx(summed, abs=3 * width)


@given(
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6),
    st.floats(-2.0, 12.0),
)
def test_crps_of_quantiles_is_its_integral(values: list[float], actual: float) -> None:
    values.sort()
    levels = [(at + 1) / (len(values) + 1) for at in range(len(values))]
    corners = [(0.0, 0.0), *zip(values, levels, strict=True), (10.0, 1.0)]

    def squared(z: float) -> float:
        below = 1.0
        for (left, low), (right, high) in zip(corners, corners[1:], strict=False):  # noqa: RUF007
            if left <= z < right:
                below = low + (high - low) * (z - left) / (right - left)
        return (below - (actual <= z)) ** 2

    steps = 4_000
    width = 10.0 / steps
    summed = math.fsum(squared((at + 0.5) * width) for at in range(steps)) * width
    found = crps(Quantiles(tuple(levels), tuple(values)), actual, 0.0, 10.0)
    assert found == pytest.approx(summed, abs=(len(values) + 3) * width)


@given(st.floats(0.5, 9.5), st.floats(0.2, 3.0), st.floats(0.0, 10.0), st.floats(0.2, 3.0))
def test_the_true_distribution_of_a_number_pays_best(
    mean: float, sigma: float, other_mean: float, other_sigma: float
) -> None:
    """Expected over the truth by midpoints of 400 equal shares; beyond the ends counts as the ends."""
    from statistics import NormalDist

    actuals = [NormalDist(mean, sigma).inv_cdf((at + 0.5) / 400) for at in range(400)]

    def expected(forecast: Point) -> float:
        return math.fsum(score(NUMBER, forecast, one) for one in actuals) / len(actuals)

    assert expected(Point(mean, sigma)) >= expected(Point(other_mean, other_sigma)) - 1e-5


@given(st.floats(0.0, 10.0), st.one_of(st.none(), st.floats(1e-8, 1e4)), st.floats(-1e12, 1e12))
def test_every_worth_is_within_bounds(value: float, sigma: float | None, actual: float) -> None:
    assert 0.0 <= score(NUMBER, Point(value, sigma), actual) <= 1.0


def test_a_number_alone_is_worth_its_distance() -> None:
    assert score(NUMBER, Point(3.0, None), 4.5) == pytest.approx(0.85)
    assert score(NUMBER, Point(10.0, None), 400.0) == 1.0


@pytest.mark.parametrize(
    ("question", "text", "number", "answer"),
    [
        (Question("binary"), "YES", None, 1.0),
        (Question("binary"), "0", 0.0, 0.0),
        (Question("binary"), "1.0", 1.0, 1.0),
        (Question("categorical", ("A", "2")), "2", 2.0, 1.0),
        (Question("numeric"), "4,5", 4.5, 4.5),
    ],
)
def test_actuals_are_read_by_the_question(
    question: Question, text: str, number: float | None, answer: float
) -> None:
    assert answer_of(question, text, number) == answer


@pytest.mark.parametrize(
    ("question", "text", "number"),
    [
        (Question("binary"), "maybe", None),
        (Question("binary"), "0.7", 0.7),
        (Question("categorical", ("A", "B")), "a", None),
        (Question("numeric"), "yes", None),
        (Question("numeric"), "inf", math.inf),
    ],
)
def test_actuals_that_answer_another_question(question: Question, text: str, number: float | None) -> None:
    with pytest.raises(Inapplicable):
        answer_of(question, text, number)
