"""Answers as models write them, each different from every other: what no cache can shorten."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple


class Problem(NamedTuple):
    """A reference and a response whose final answer is right (three of four) or nearly so."""

    gold: str
    response: str


STEPS = "We set up the equation, simplify both sides and read off the result.\n"


def problems(count: int, seed: int, *, kinds: tuple[str, ...] = ()) -> list[Problem]:
    """``count`` problems over all kinds in turn, or over those named."""
    draw = random.Random(seed)
    makers = [maker for name, maker in _MAKERS.items() if not kinds or name in kinds]
    found = []
    for index in range(count):
        right, wrong = makers[index % len(makers)](draw)
        gold, written = right
        found.append(Problem(gold, f"{STEPS}\\boxed{{{written if draw.random() < 0.75 else wrong}}}"))
    return found


def kinds() -> Iterator[str]:
    """The names of all kinds."""
    yield from _MAKERS


def _integer(draw: random.Random) -> tuple[tuple[str, str], str]:
    n = draw.randint(-(10**9), 10**9)
    return (f"{n}", f"{n}"), f"{n + 1}"


def _decimal(draw: random.Random) -> tuple[tuple[str, str], str]:
    n = draw.randint(1, 10**8)
    return (f"{n / 1000:.3f}", f"{n / 1000:.3f}"), f"{(n + 1) / 1000:.3f}"


def _fraction(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, b = draw.randint(1, 10**5), draw.randint(2, 10**5)
    return (f"\\frac{{{a}}}{{{b}}}", f"\\frac{{{3 * a}}}{{{3 * b}}}"), f"\\frac{{{b}}}{{{a}}}"


def _surd(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, c = draw.randint(2, 10**4), draw.choice((2, 3, 5, 6, 7, 10))
    return (f"{a}\\sqrt{{{c}}}", f"\\sqrt{{{a * a * c}}}"), f"\\sqrt{{{a * a * c + 1}}}"


def _pi(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, b = draw.randint(1, 10**4), draw.randint(2, 10**3)
    return (f"\\frac{{{a}\\pi}}{{{b}}}", f"\\frac{{{a}}}{{{b}}}\\pi"), f"\\frac{{{a + 1}\\pi}}{{{b}}}"


def _tuple(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, b = draw.randint(-(10**5), 10**5), draw.randint(-(10**5), 10**5)
    return (f"({a},{b})", f"\\left({a}, {b}\\right)"), f"({b}, {a + 1})"


def _set(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, b, c = draw.sample(range(10**6), 3)
    return (f"\\{{{a},{b},{c}\\}}", f"\\{{{c}, {a}, {b}\\}}"), f"\\{{{a}, {b}\\}}"


def _polynomial(draw: random.Random) -> tuple[tuple[str, str], str]:
    a, b = draw.randint(1, 10**4), draw.randint(1, 10**4)
    return (f"x^2+{a + b}x+{a * b}", f"(x+{a})(x+{b})"), f"(x+{a})(x-{b})"


_MAKERS = {
    "integer": _integer,
    "decimal": _decimal,
    "fraction": _fraction,
    "surd": _surd,
    "pi": _pi,
    "tuple": _tuple,
    "set": _set,
    "polynomial": _polynomial,
}
