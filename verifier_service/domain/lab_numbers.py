"""Numbers as people type them, with a decimal point or comma; nothing is ever evaluated or guessed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Literal

MAX_MAGNITUDE = 1e12
MAX_NUMBER_CHARS = 60
FORMULA_STARTS = ("=", "@", "+=", "-=")

Decimal = Literal["point", "comma"]

_PLAIN = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_GROUPED = {
    "point": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII),
    "comma": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?", re.ASCII),
}
_MARKS: dict[Decimal, str] = {"point": ".", "comma": ","}
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)


class NotANumber(ValueError):
    """``code`` says why text is no number that may be stored; ``limit`` what it exceeds."""

    def __init__(self, code: str, message: str, limit: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.limit = limit


def proves(text: str) -> Decimal | None:
    """Which decimal mark a cell can only have been written with; ``None`` where it may be either.

    ``1.234,5`` and ``12,5`` prove the comma, ``1,234.5`` and ``12.5`` the point. ``1,234`` and ``1.234``
    prove nothing: they may be grouped.
    """
    text = _tidy(text)
    marks = [mark for mark in text if mark in ",."]
    if not marks or not any(character.isdigit() for character in text):
        return None
    if len(set(marks)) == 2:
        name: Decimal = "comma" if marks[-1] == "," else "point"
        return name if _GROUPED[name].fullmatch(text) else None
    if len(marks) > 1 or not _PLAIN.fullmatch(text):
        return None
    whole, _, rest = text.lstrip("+-").replace(",", ".").partition(".")
    if len(rest) == 3 and rest.isdigit() and 1 <= len(whole) <= 3 and whole != "0":
        return None
    return "comma" if marks[0] == "," else "point"


def decimal_of(cells: Iterable[str]) -> Decimal | Literal["both"] | None:
    """The mark that all cells agree on, ``None`` where none proves any, ``both`` where they differ."""
    found = {mark for cell in cells if (mark := proves(cell)) is not None}
    if len(found) > 1:
        return "both"
    return next(iter(found), None)


def number(text: str, decimal: Decimal | None, *, declared: bool = False) -> float:
    """The value of a cell. Where the mark is ``declared``, numbers grouped by the other one are read, too.

    Raises ``NotANumber`` with ``formula``, ``not_finite``, ``ambiguous_number``, ``out_of_range`` or
    ``not_a_number``.
    """
    tidy = _tidy(text)
    if tidy.startswith(FORMULA_STARTS):
        raise NotANumber("formula", "a formula is never evaluated: send its value")
    if len(tidy) > MAX_NUMBER_CHARS:
        raise NotANumber("not_a_number", "too long for a number", MAX_NUMBER_CHARS)
    if _NOT_FINITE.fullmatch(tidy):
        raise NotANumber("not_finite", f"{tidy!r} is not a finite number")
    mark = _mark_of(tidy, decimal, declared=declared)
    other = "," if mark == "." else "."
    return checked(float(tidy.replace(other, "").replace(mark, ".")))


def checked(value: float) -> float:
    """The value, if it is finite and of a size that can be stored. Raises ``NotANumber``."""
    if not math.isfinite(value):
        raise NotANumber("not_finite", "the number is not finite")
    if abs(value) > MAX_MAGNITUDE:
        raise NotANumber("out_of_range", "the number is too large", MAX_MAGNITUDE)
    return value


def _mark_of(text: str, decimal: Decimal | None, *, declared: bool) -> str:
    """The decimal mark with which a cell is read."""
    used = {mark for mark in text if mark in ",."}
    grouped = decimal is not None and _GROUPED[decimal].fullmatch(text) is not None
    if decimal is not None and grouped and (declared or len(used) == 2):
        return _MARKS[decimal]
    if len(used) > 1 or not _PLAIN.fullmatch(text):
        raise NotANumber("not_a_number", f"{text!r} is not a number")
    if not used:
        return "."
    mark = used.pop()
    if decimal is None and mark == ",":
        raise NotANumber("ambiguous_number", f"{text!r} may be grouped: say which decimal mark is meant")
    if decimal is not None and mark != _MARKS[decimal]:
        raise NotANumber("ambiguous_number", f"{text!r} has another decimal mark than the file")
    return mark


def _tidy(text: str) -> str:
    return text.strip().replace("−", "-")
