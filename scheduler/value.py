"""Moments of a utility under a normal belief: E[u(y)] and Var[u(y)] for y ~ N(mean, variance).

Piecewise-linear utilities (window, threshold, linear) are integrated exactly with the partial moments
of the normal distribution (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions vol. 1,
section 13.10.1); the sigmoid by the trapezoidal rule on mean +- 8 sd, whose error for a smooth
integrand with decaying tails is below 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from verifier_service.domain.ladders import (
    LinearUtility,
    SigmoidUtility,
    ThresholdUtility,
    Utility,
    WindowUtility,
)

Segment = tuple[float, float, float, float]  # from, to, value at either end
NODES = 513
REACH_SD = 8.0
# A segment narrower than this part of an sd is summed at five Gauss-Legendre nodes: there the partial
# moments cancel.
NARROW = 0.01
_INNER, _OUTER = (math.sqrt(5 - 2 * math.sqrt(10 / 7)) / 3, math.sqrt(5 + 2 * math.sqrt(10 / 7)) / 3)
_LIGHT, _HEAVY = ((322 - 13 * math.sqrt(70)) / 1800, (322 + 13 * math.sqrt(70)) / 1800)
LEGENDRE = (
    (0.5, 64 / 225),
    *((0.5 + side * 0.5 * _INNER, _HEAVY) for side in (-1, 1)),
    *((0.5 + side * 0.5 * _OUTER, _LIGHT) for side in (-1, 1)),
)
Z90 = 1.6448536269514722


def utility_at(utility: Utility, value: float) -> float:
    """u(value), in [0, 1]."""
    if isinstance(utility, SigmoidUtility):
        return _sigmoid((value - utility.midpoint) / utility.scale)
    for start, end, first, last in _segments(utility):
        if start <= value <= end:
            share = 0.0 if first == last or start == end else (value - start) / (end - start)
            return min(1.0, max(0.0, first + (last - first) * share))
    return 0.0


def utility_moments(utility: Utility, mean: float, variance: float) -> tuple[float, float]:
    """(E[u], Var[u]) under N(mean, variance); variance 0 gives (u(mean), 0)."""
    if variance <= 0.0:
        return utility_at(utility, mean), 0.0
    sd = math.sqrt(variance)
    if isinstance(utility, SigmoidUtility):
        first, second = _trapezoid(utility, mean, sd)
    else:
        first, second = _exact(utility, mean, sd)
    if not (math.isfinite(first) and math.isfinite(second)):
        raise OverflowError("the utility's moments are not finite")
    first = min(1.0, max(0.0, first))
    return first, min(0.25, max(0.0, second - first * first))


def utility_interval(utility: Utility, mean: float, variance: float) -> tuple[float, float]:
    """Range of u over the central 90 % interval of y."""
    half = Z90 * math.sqrt(max(0.0, variance))
    points = [mean - half, mean + half, mean]
    points += [knot for knot in _knots(utility) if mean - half <= knot <= mean + half]
    values = [utility_at(utility, point) for point in points]
    return min(values), max(values)


def utility_centre(utility: Utility) -> tuple[float, float]:
    """A quantity in the middle of where the utility changes, and how far that reaches to either side."""
    if isinstance(utility, WindowUtility):
        half = (utility.high - utility.low) / 2
        return utility.low + half, half + utility.softness
    if isinstance(utility, ThresholdUtility):
        return utility.at, max(1.0, abs(utility.at))
    if isinstance(utility, SigmoidUtility):
        return utility.midpoint, 2 * abs(utility.scale)
    return (utility.zero + utility.one) / 2, abs(utility.one - utility.zero) / 2


def _segments(utility: Utility) -> Iterator[Segment]:
    """Pieces on which the utility is linear; it is 0 outside all of them."""
    inf = math.inf
    if isinstance(utility, WindowUtility):
        yield utility.low, utility.high, 1.0, 1.0
        yield utility.low - utility.softness, utility.low, 0.0, 1.0
        yield utility.high, utility.high + utility.softness, 1.0, 0.0
    elif isinstance(utility, ThresholdUtility):
        above = utility.direction == "above"
        yield (utility.at, inf, 1.0, 1.0) if above else (-inf, utility.at, 1.0, 1.0)
    elif isinstance(utility, LinearUtility):
        if utility.zero < utility.one:
            yield utility.zero, utility.one, 0.0, 1.0
            yield utility.one, inf, 1.0, 1.0
        else:
            yield utility.one, utility.zero, 1.0, 0.0
            yield -inf, utility.one, 1.0, 1.0


def _knots(utility: Utility) -> list[float]:
    if isinstance(utility, SigmoidUtility):
        return []
    ends = {end for start, stop, _, _ in _segments(utility) for end in (start, stop)}
    return sorted(end for end in ends if math.isfinite(end))


def _exact(utility: Utility, mean: float, sd: float) -> tuple[float, float]:
    first = second = 0.0
    for start, end, at_start, at_end in _segments(utility):
        low, high = (start - mean) / sd, (end - mean) / sd
        if high - low < NARROW:
            for node, weight in LEGENDRE:
                mass = weight * (high - low) * _density(low + node * (high - low))
                value = at_start + (at_end - at_start) * node
                first, second = first + mass * value, second + mass * value * value
            continue
        m0, m1, m2 = _partial_moments(low, high)
        slope = 0.0 if at_start == at_end else (at_end - at_start) / (end - start)
        if not m0 <= 0.0:
            a = at_start + (slope * (mean - start) if slope else 0.0)
            b = slope * sd
            first += a * m0 + b * m1
            second += a * a * m0 + 2 * a * b * m1 + b * b * m2
    return first, second


def _partial_moments(low: float, high: float) -> tuple[float, float, float]:
    """Integrals of 1, z and z^2 against the standard normal density over [low, high]."""
    p_low, p_high = _density(low), _density(high)
    m0 = _cumulative(high) - _cumulative(low)
    edge_low = 0.0 if math.isinf(low) else low * p_low
    edge_high = 0.0 if math.isinf(high) else high * p_high
    return m0, p_low - p_high, m0 + edge_low - edge_high


def _trapezoid(utility: SigmoidUtility, mean: float, sd: float) -> tuple[float, float]:
    step = 2 * REACH_SD / (NODES - 1)
    first = second = total = 0.0
    for node in range(NODES):
        z = -REACH_SD + node * step
        weight = _density(z)
        value = _sigmoid((mean + sd * z - utility.midpoint) / utility.scale)
        total += weight
        first += weight * value
        second += weight * value * value
    return first / total, second / total


def _density(z: float) -> float:
    return 0.0 if math.isinf(z) else math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _cumulative(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-min(x, 700.0)))
    e = math.exp(max(x, -700.0))
    return e / (1.0 + e)
