"""When two JSON values are equal, as JSON Schema means it: numbers by value, and true is no number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Pointer = tuple[str | int, ...]


def difference(answer: Any, wanted: Any, tolerance: float) -> Pointer | None:
    """Where in ``answer`` the first value stands that is not the wanted one, ``None`` when all are.

    The place exists in ``answer``: of an object with other keys, or an array of another length, it is the
    object or the array, so that it tells nothing about what was wanted. ``tolerance`` is relative to the
    wanted number.
    """
    return next(_differences(answer, wanted, tolerance, ()), None)


def same_unordered(answer: Any, wanted: Any) -> bool:
    """Equal when the order of arrays, at any depth, does not matter. Values nest at most 100 deep."""
    return bool(_form(answer) == _form(wanted))


def _differences(answer: Any, wanted: Any, tolerance: float, at: Pointer) -> Iterator[Pointer]:
    if isinstance(answer, dict) and isinstance(wanted, dict):
        if answer.keys() != wanted.keys():
            yield at
        else:
            for key, value in answer.items():
                yield from _differences(value, wanted[key], tolerance, (*at, key))
    elif isinstance(answer, list) and isinstance(wanted, list):
        if len(answer) != len(wanted):
            yield at
        else:
            for index, (value, other) in enumerate(zip(answer, wanted, strict=True)):
                yield from _differences(value, other, tolerance, (*at, index))
    elif not _same(answer, wanted, tolerance):
        yield at


def _same(answer: Any, wanted: Any, tolerance: float) -> bool:
    if _is_number(answer) and _is_number(wanted):
        if answer == wanted:
            return True
        off = abs(Fraction(answer) - Fraction(wanted))
        return tolerance > 0 and off <= Fraction(tolerance) * abs(Fraction(wanted))
    return type(answer) is type(wanted) and bool(answer == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _form(value: Any) -> Any:
    """A hashable form that is equal exactly when values are, arrays read as bags."""
    if isinstance(value, dict):
        return "object", frozenset((key, _form(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", frozenset(Counter(map(_form, value)).items())
    return ("number" if _is_number(value) else type(value).__name__), value
