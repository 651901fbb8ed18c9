"""Is what came out what was expected? Decided outside the sandbox, on plain data."""

from __future__ import annotations

import math
import re
import sys
from decimal import Decimal
from typing import Any

from tiers.sandbox.inside.values import read

DEFAULT_RELATIVE = 1e-9
MAX_DEPTH = 200
FRAMES = 10_000
PAIRED = 500
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,5})?\Z", re.ASCII)
_MEASURED = re.compile(r"[.eE]")


class NotData(Exception):
    """The value holds an object of the program's own class, or what no encoder writes."""


def decode(node: Any) -> Any:
    """Plain builtin data from parsed JSON. Raises ``NotData``."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, FRAMES))
    try:
        return read(node, _no_object)
    except NotData:
        raise
    except Exception as error:
        raise NotData(f"unreadable value ({type(error).__name__})") from error
    finally:
        sys.setrecursionlimit(before)


def _no_object(tag: str, content: Any) -> Any:
    raise NotData(f"an object of class {content}" if tag == "o" else "unreadable value")


def same_output(found: str, expected: str, tolerance: float | None) -> bool:
    """Line by line, apart from white space at the ends of lines and of the whole.

    With a tolerance, numbers may differ by it, absolutely or relatively, token by token: those that are
    expected with a point or an exponent. Integers are counted, not measured (but 2.0 is 2).
    """
    lines, wanted = _lines(found), _lines(expected)
    if lines == wanted:
        return True
    if tolerance is None or len(lines) != len(wanted):
        return False
    return all(_same_line(line, want, tolerance) for line, want in zip(lines, wanted, strict=True))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(found: str, expected: str, tolerance: float) -> bool:
    tokens, wanted = found.split(), expected.split()
    return len(tokens) == len(wanted) and all(
        token == want or _close_tokens(token, want, tolerance)
        for token, want in zip(tokens, wanted, strict=True)
    )


def _close_tokens(token: str, want: str, tolerance: float) -> bool:
    if not _NUMBER.match(token) or not _NUMBER.match(want):
        return False
    if not _MEASURED.search(want):
        return Decimal(token) == Decimal(want)
    return _close(float(token), float(want), tolerance)


def _close(found: float, expected: float, tolerance: float) -> bool:
    """Within the tolerance, absolutely or relative to what was expected; infinities only exactly."""
    if math.isinf(found) or math.isinf(expected):
        return found == expected
    return abs(found - expected) <= max(tolerance, tolerance * abs(expected))


def same_value(found: Any, expected: Any, tolerance: float | None) -> bool:
    """JSON semantics: numbers by value, booleans only as booleans, lists for tuples and sets too.

    Where a float is expected, numbers may differ by ``tolerance`` (absolute or relative), without one by
    1e-9 relatively. What cannot be compared (a signalling NaN, a range without a length) is not the
    same.
    """
    try:
        return _same_value(found, expected, tolerance, 0)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        return False


def _same_value(found: Any, expected: Any, tolerance: float | None, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(expected, bool) or isinstance(found, bool) or expected is None:
        return type(found) is type(expected) and found == expected
    if isinstance(expected, int | float):
        return _same_number(found, expected, tolerance)
    if isinstance(expected, str):
        return type(found) is str and found == expected
    if isinstance(expected, list):
        return _same_list(found, expected, tolerance, depth)
    return _same_object(found, expected, tolerance, depth)


def _same_number(found: Any, expected: float, tolerance: float | None) -> bool:
    if type(expected) is int:
        return type(found).__name__ in ("int", "float", "Fraction", "Decimal") and bool(found == expected)
    if type(found) not in (int, float):
        return type(found).__name__ in ("Fraction", "Decimal") and bool(found == expected)
    try:
        given, wanted = float(found), float(expected)
    except OverflowError:
        return bool(found == expected)
    if tolerance is not None:
        return _close(given, wanted, tolerance)
    return given == wanted or math.isclose(given, wanted, rel_tol=DEFAULT_RELATIVE, abs_tol=0.0)


def _same_list(found: Any, expected: list[Any], tolerance: float | None, depth: int) -> bool:
    if type(found) in (set, frozenset):
        return _same_set(list(found), expected, tolerance, depth)
    return (
        type(found) in (list, tuple, range)
        and len(found) == len(expected)
        and all(
            _same_value(each, want, tolerance, depth + 1)
            for each, want in zip(found, expected, strict=True)
        )
    )


def _same_set(found: list[Any], expected: list[Any], tolerance: float | None, depth: int) -> bool:
    """Each expected member is among those found. Large sets are compared exactly: pairs take too long."""
    if len(found) != len(expected):
        return False
    if len(found) > PAIRED:
        return all(type(each) in (str, int) for each in expected) and set(found) == set(expected)
    return all(
        any(_same_value(each, want, tolerance, depth + 1) for each in found) for want in expected
    ) and all(any(_same_value(each, want, tolerance, depth + 1) for want in expected) for each in found)


def _same_object(found: Any, expected: Any, tolerance: float | None, depth: int) -> bool:
    if type(found) is not dict or len(found) != len(expected):
        return False
    named = {key if type(key) is str else _key(key): value for key, value in found.items()}
    return named.keys() == expected.keys() and all(
        _same_value(named[key], want, tolerance, depth + 1) for key, want in expected.items()
    )


def _key(key: Any) -> str:
    """How JSON writes a key that is no text."""
    if key is None or type(key) is bool:
        return {None: "null", True: "true", False: "false"}[key]
    return str(key) if type(key) in (int, float) else "\0"


def same_python(found: Any, expected: Any) -> bool:
    """As ``==`` decides between plain builtin values."""
    try:
        return bool(found == expected)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        return False
