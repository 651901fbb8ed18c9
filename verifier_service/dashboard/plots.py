"""Plots as SVG made on the server: no script, no inline style, a title and a description each.

Every text is escaped. Colours come from classes of ``plots.css``, so that both themes are readable. Pages
show the same figures as a table beside each plot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 22, 40
TICKS = 5
_IDS = itertools.count(1)


class Series(NamedTuple):
    """A line: its name, the class that colours it, and points (x, y)."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


class Segment(NamedTuple):
    """A part of a bar: its name, the class that colours it, and its length."""

    name: str
    kind: str
    value: float


class Spot(NamedTuple):
    """A point with an interval."""

    name: str
    kind: str
    x: float
    y: float
    low: float
    high: float


class Scale(NamedTuple):
    """From figures to pixels; a range without extent is widened."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a figure, kept inside."""
        extent = self.high - self.low
        share = (value - self.low) / extent if extent > 0 else 0.5
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, least: float = 0.0) -> list[float]:
        """Round figures in the range, ``least`` or more apart."""
        extent = self.high - self.low
        if not extent > 0:
            return [self.low]
        raw = max(extent / TICKS, least)
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * round_ for round_ in (1, 2, 5, 10) if power * round_ >= raw)
        first = math.ceil(self.low / step - 1e-9)
        return [step * at for at in range(first, math.floor(self.high / step + 1e-9) + 1)]


def counted(count: int, one: str, many: str) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many}"


def number(value: float) -> str:
    """A figure as people read it."""
    if value == 0:
        return "0"
    if abs(value) >= 10_000 or abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def lines(title: str, about: str, series: Sequence[Series], x_label: str, y_label: str) -> Markup:
    """Lines over a common pair of axes; the y axis begins at 0."""
    points = [point for one in series for point in one.points]
    xs, ys = [x for x, _ in points] or [0.0, 1.0], [y for _, y in points] or [0.0, 1.0]
    across, up = _axes(min(xs), max(xs), min(0.0, *ys), max(ys) or 1.0)
    parts = [_grid(across, up, x_label, y_label)]
    for one in series:
        way = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in one.points)
        parts.append(Markup('<polyline class="plot-line {}" points="{}"/>').format(one.kind, way))
    return _svg(title, about, parts)


def histogram(
    title: str, about: str, bins: Sequence[tuple[float, float, Sequence[Segment]]], x_label: str
) -> Markup:
    """Stacked bars over parts of a range."""
    tallest = max((sum(part.value for part in parts) for _, _, parts in bins), default=0.0)
    across, up = _axes(bins[0][0] if bins else 0.0, bins[-1][1] if bins else 1.0, 0.0, tallest or 1.0)
    drawn = [_grid(across, up, x_label, "trajectories", least=1.0)]
    for low, high, parts in bins:
        base = 0.0
        for part in parts:
            top = up.at(base + part.value)
            drawn.append(
                _rect(
                    across.at(low) + 1, top, across.at(high) - across.at(low) - 2, up.at(base) - top, part
                )
            )
            base += part.value
    return _svg(title, about, drawn)


def bars(title: str, about: str, rows: Sequence[tuple[str, Sequence[Segment]]]) -> Markup:
    """One lying stacked bar per row, all on one scale."""
    height = TOP + 34 * len(rows) + 8
    longest = max((sum(part.value for part in parts) for _, parts in rows), default=0.0) or 1.0
    scale = Scale(0.0, longest, 130.0, WIDTH - RIGHT)
    drawn: list[Markup] = []
    for place, (name, parts) in enumerate(rows):
        top = TOP + 34 * place
        drawn.append(Markup('<text class="plot-text" x="0" y="{}">{}</text>').format(top + 17, name))
        drawn.append(
            Markup('<rect class="plot-track" x="130" y="{}" width="{}" height="24"/>').format(
                top, WIDTH - RIGHT - 130
            )
        )
        base = 0.0
        for part in parts:
            begin, end = scale.at(base), scale.at(base + part.value)
            drawn.append(_rect(begin, top, max(end - begin, 1.0), 24, part))
            base += part.value
    return _svg(title, about, drawn, height)


def spots(
    title: str,
    about: str,
    found: Sequence[Spot],
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    labels: tuple[str, str],
    diagonal: bool = False,
    joined: bool = False,
) -> Markup:
    """Points with intervals; with ``diagonal`` the line on which both axes agree, ``joined`` by a line."""
    across, up = _axes(*x, *y)
    drawn = [_grid(across, up, *labels)]
    if diagonal:
        drawn.append(_line(across.at(x[0]), up.at(x[0]), across.at(x[1]), up.at(x[1]), "plot-guide"))
    if joined:
        way = " ".join(f"{across.at(one.x):.1f},{up.at(one.y):.1f}" for one in found)
        drawn.append(Markup('<polyline class="plot-line kind-final" points="{}"/>').format(way))
    for one in found:
        at = across.at(one.x)
        drawn.append(_line(at, up.at(one.low), at, up.at(one.high), f"plot-bar {one.kind}"))
        drawn.append(
            Markup(
                '<circle class="plot-spot {}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}</title></circle>'
            ).format(one.kind, at, up.at(one.y), one.name)
        )
    return _svg(title, about, drawn)


def whiskers(
    title: str,
    about: str,
    rows: Sequence[tuple[str, float, float, float]],
    label: str,
    *,
    guide: float = 0.0,
) -> Markup:
    """One lying interval per row: name, value, low, high; and a line at ``guide``."""
    height = TOP + 30 * len(rows) + BOTTOM
    ends = [end for _, _, low, high in rows for end in (low, high)]
    scale = Scale(min([guide, *ends]), max([guide, *ends]) or 1.0, 230.0, WIDTH - RIGHT)
    bottom = height - BOTTOM
    drawn = [_line(scale.at(guide), TOP, scale.at(guide), bottom, "plot-guide")]
    for tick in scale.ticks():
        drawn.append(_text(scale.at(tick), height - 22, number(tick), "middle"))
    drawn.append(_text(WIDTH - RIGHT, height - 5, label, "end"))
    for place, (name, value, low, high) in enumerate(rows):
        middle = TOP + 30 * place + 15
        drawn.append(_text(0, middle + 4, name[:32], "start"))
        drawn.append(_line(scale.at(low), middle, scale.at(high), middle, "plot-bar kind-final"))
        drawn.append(
            Markup('<circle class="plot-spot kind-final" cx="{:.1f}" cy="{}" r="5"/>').format(
                scale.at(value), middle
            )
        )
    return _svg(title, about, drawn, height)


def _axes(left: float, right: float, low: float, high: float) -> tuple[Scale, Scale]:
    return (
        Scale(left, right, LEFT, WIDTH - RIGHT),
        Scale(low, high, HEIGHT - BOTTOM, TOP),
    )


def _grid(across: Scale, up: Scale, x_label: str, y_label: str, least: float = 0.0) -> Markup:
    """``least``: between lines of the y axis; 1 for what is counted."""
    drawn: list[Markup] = []
    for tick in up.ticks(least):
        drawn.append(_line(LEFT, up.at(tick), WIDTH - RIGHT, up.at(tick), "plot-grid"))
        drawn.append(_text(LEFT - 6, up.at(tick) + 5, number(tick), "end"))
    for tick in across.ticks():
        drawn.append(_text(across.at(tick), HEIGHT - BOTTOM + 17, number(tick), "middle"))
    drawn.append(_text(WIDTH - RIGHT, HEIGHT - 5, x_label, "end"))
    drawn.append(_text(0, 12, y_label, "start"))
    return Markup("").join(drawn)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, x1, y1, x2, y2
    )


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="plot-text" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def _rect(x: float, y: float, width: float, height: float, part: Segment) -> Markup:
    if part.value <= 0:
        return Markup("")
    return Markup(
        '<rect class="plot-area {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}: {}</title></rect>"
    ).format(part.kind, x, y, max(width, 0.5), max(height, 0.5), part.name, number(part.value))


def _svg(title: str, about: str, parts: Iterable[Markup], height: float = HEIGHT) -> Markup:
    """The description is read by screen readers; its id is unique in the process."""
    name = f"plot-{next(_IDS)}"
    body = Markup("").join(parts)
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-labelledby="{n}-t {n}-d">'
        '<title id="{n}-t">{title}</title><desc id="{n}-d">{about}</desc>{body}</svg>'
    ).format(w=WIDTH, h=height, n=name, title=escape(title), about=escape(about), body=body)
