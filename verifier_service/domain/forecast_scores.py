"""What a forecast is worth once the actual is known, in [0, 1]: proper scoring rules, affine in the loss.

- Outcomes: 1 - (1/2) sum over outcomes of (p - o)^2, the score of Brier (Mon. Weather Rev. 1950, 78, 1)
  turned around; for a binary event that is 1 - (p - o)^2.
- Numbers: 1 - CRPS / (high - low), the continuous ranked probability score (Gneiting and Raftery, J. Am.
  Stat. Assoc. 2007, 102, 359) with its integral over [low, high] only (the threshold weighting of Gneiting
  and Ranjan, J. Bus. Econ. Stat. 2011, 29, 411). So it is bounded without being cut off, and stays proper.

A forecaster's expected score is highest for what it believes, since both are affine in a proper loss: a
utility that is cut off, or a root of the loss, would reward something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from verifier_service.domain.forecasts import EventSpec, Forecast, Point, Probabilities, Question

YES, NO = ("1", "yes", "true"), ("0", "no", "false")
_ROOT_2, _ROOT_PI = math.sqrt(2.0), math.sqrt(math.pi)


class Inapplicable(ValueError):
    """An actual that is no answer to the question that was asked."""


def answer_of(question: Question, text: str, number: float | None) -> float:
    """The actual as the question reads it: 1 or 0 of a binary event, the place among the outcomes,
    or the number. ``text`` is the actual as it was written, ``number`` its value if it is one.

    Raises ``Inapplicable``.
    """
    if question.kind == "numeric":
        if number is None or not math.isfinite(number):
            raise Inapplicable("the actual of a numeric event is a number")
        return number
    if question.kind == "categorical":
        if text not in question.outcomes:
            raise Inapplicable("the actual is none of the event's outcomes")
        return float(question.outcomes.index(text))
    if text.casefold() in YES or number == 1.0:
        return 1.0
    if text.casefold() in NO or number == 0.0:
        return 0.0
    raise Inapplicable("the actual of a binary event is yes or no, true or false, 1 or 0")


def score(event: EventSpec, forecast: Forecast, answer: float) -> float:
    """The worth of a forecast, given ``answer_of`` its question."""
    if isinstance(forecast, Probabilities):
        value = _brier(forecast, int(answer), binary=event.kind == "binary")
    else:
        low, high = event.bounds
        value = 1.0 - crps(forecast, answer, low, high) / (high - low)
    return min(1.0, max(0.0, value))


def _brier(forecast: Probabilities, answer: int, *, binary: bool) -> float:
    if binary:
        return 1.0 - (forecast.values[0] - answer) ** 2
    losses = ((p - (place == answer)) ** 2 for place, p in enumerate(forecast.values))
    return 1.0 - 0.5 * math.fsum(losses)


def crps(forecast: Forecast, actual: float, low: float, high: float) -> float:
    """Integral over [low, high] of (F(z) - [actual <= z])^2, in the unit of the event."""
    actual = min(high, max(low, actual))
    if isinstance(forecast, Probabilities):
        raise TypeError("probabilities of outcomes have no distribution of a number")
    if isinstance(forecast, Point):
        if forecast.sigma is None:
            return abs(forecast.value - actual)
        return _normal(forecast.value, forecast.sigma, actual, low, high)
    corners = [(low, 0.0), *zip(forecast.values, forecast.levels, strict=True), (high, 1.0)]
    return math.fsum(_pieces(corners, actual))


def _pieces(corners: list[tuple[float, float]], actual: float) -> Iterator[float]:
    """The integral over each straight piece of F, which the actual may cut in two."""
    for (left, below), (right, above) in pairwise(corners):
        if right <= left:
            continue
        cut = min(right, max(left, actual))
        at = below + (above - below) * (cut - left) / (right - left)
        yield (cut - left) * (below * below + below * at + at * at) / 3.0
        yield (right - cut) * ((1 - at) ** 2 + (1 - at) * (1 - above) + (1 - above) ** 2) / 3.0


def _normal(mean: float, sigma: float, actual: float, low: float, high: float) -> float:
    start, cut, end = ((at - mean) / sigma for at in (low, actual, high))
    return sigma * ((_squared(cut) - _squared(start)) + (_squared(-cut) - _squared(-end)))


def _squared(t: float) -> float:
    """Integral of Phi^2 up to t: t Phi(t)^2 + 2 Phi(t) phi(t) - Phi(sqrt(2) t) / sqrt(pi)."""
    below = _phi(t)
    density = math.exp(-0.5 * t * t) / (_ROOT_2 * _ROOT_PI)
    return t * below * below + 2.0 * below * density - _phi(_ROOT_2 * t) / _ROOT_PI


def _phi(t: float) -> float:
    return 0.5 * math.erfc(-t / _ROOT_2)
