"""Plots as numbers for a template: it writes plain SVG, nothing runs in the browser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from verifier_service.domain.evidence import Evidence, Measurement

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640.0, 220.0, 64.0, 24.0, 10.0
BAR_WIDTH = 240.0
SPREAD = 2.0  # standard deviations to each side
MAX_TICKS = 5
_MARGIN = 6.0


@dataclass(frozen=True, slots=True)
class Line:
    """One series: the corners of its line, and its values for the table."""

    name: str
    points: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one axis; ``band`` is the outline between a lower and an upper series."""

    lines: Sequence[Line]
    band: str
    ticks: Sequence[tuple[float, str]]
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interval:
    """One measurement on the scale of all of its quantity: where it is, and two sigmas to each side."""

    at: float
    low: float
    high: float
    sure: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement of an earlier check with its interval."""

    evidence: Evidence
    measurement: Measurement
    interval: Interval


def plot(series: Mapping[str, Sequence[float]], band: tuple[str, str] | None = None) -> Plot:
    """Lines of several series on one scale."""
    values = [value for one in series.values() for value in one]
    low, high = _range(values)
    count = max(len(one) for one in series.values())
    across = (WIDTH - LEFT - _MARGIN) / max(1, count - 1)

    def place(at: int, value: float) -> str:
        return f"{LEFT + at * across:.1f},{_height(value, low, high):.1f}"

    lines = [
        Line(name, " ".join(place(at, value) for at, value in enumerate(one)), one)
        for name, one in series.items()
    ]
    outline = ""
    if band is not None:
        under, over = series[band[0]], series[band[1]]
        edge = [place(at, value) for at, value in enumerate(under)]
        outline = " ".join(edge + [place(at, over[at]) for at in reversed(range(len(over)))])
    ticks = [(_height(value, low, high), f"{value:.4g}") for value in _ticks(low, high)]
    return Plot(lines, outline, ticks, count, low, high)


def intervals(evidence: Iterable[Evidence]) -> list[Measured]:
    """Every measurement, those of one quantity and unit on one scale."""
    found = [(one, measurement) for one in evidence for measurement in one.measurements]
    scales: dict[tuple[str, str], list[float]] = {}
    for _, item in found:
        wide = SPREAD * (item.sigma or 0.0)
        scales.setdefault((item.quantity, item.unit), []).extend((item.value - wide, item.value + wide))
    return [
        Measured(one, item, _interval(item, *_range(scales[item.quantity, item.unit])))
        for one, item in found
    ]


def _interval(item: Measurement, low: float, high: float) -> Interval:
    def across(value: float) -> float:
        return round(_MARGIN + (value - low) / (high - low) * (BAR_WIDTH - 2 * _MARGIN), 1)

    wide = SPREAD * (item.sigma or 0.0)
    return Interval(
        across(item.value), across(item.value - wide), across(item.value + wide), item.sigma is not None
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the greatest, never empty, with all arithmetic finite."""
    low, high = min(values), max(values)
    if high - low < 1e-12 * max(1.0, abs(high)) or not math.isfinite(high - low):
        wide = max(1.0, abs(high) * 0.1)
        return max(low - wide, -1e300), min(high + wide, 1e300)
    return low, high


def _height(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers inside of a range."""
    step = 10.0 ** math.floor(math.log10((high - low) / MAX_TICKS))
    step *= next(
        (factor for factor in (1.0, 2.0, 5.0, 10.0) if (high - low) / (step * factor) <= MAX_TICKS), 10.0
    )
    first = math.ceil(low / step)
    return [at * step for at in range(first, first + MAX_TICKS + 1) if at * step <= high]
