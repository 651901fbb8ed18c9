"""How an answer is written, for tasks that ask for a form and not only for a value."""

from __future__ import annotations

import re
from math import gcd

from tiers.mathematics.words import plain

FORMS = ("fraction", "mixed", "decimal", "integer")

_FRACTION = re.compile(
    r"(?:[A-Za-z]\s*=\s*)?-?\s*(?:\\[dtc]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}|\\[dtc]?frac(\d)(\d)|(\d+)\s*/\s*(\d+))"
)
_MIXED = re.compile(
    r"(?:[A-Za-z]\s*=\s*)?-?\s*\d+\s*(?:\\[dtc]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|\\[dtc]?frac(\d)(\d)|\s(\d+)\s*/\s*(\d+))"
)
_DECIMAL = re.compile(r"(?:[A-Za-z]\s*=\s*)?-?\s*\d*\.\d+")
_INTEGER = re.compile(r"(?:[A-Za-z]\s*=\s*)?-?\s*\d+")


def has_form(text: str, form: str) -> bool:
    """Whether an answer is written as asked: ``fraction`` and ``mixed`` in lowest terms.

    ``fraction`` and ``mixed`` allow an integer, which is what a fraction over 1 reduces to; the value
    is not looked at here.
    """
    words = plain(text)
    if form == "decimal":
        return bool(_DECIMAL.fullmatch(words))
    if _INTEGER.fullmatch(words):
        return True
    if form == "integer":
        return False
    found = (_FRACTION if form == "fraction" else _MIXED).fullmatch(words)
    if found is None:
        return False
    top, bottom = (int(group) for group in found.groups() if group is not None)
    proper = form == "fraction" or top < bottom
    return proper and bottom > 1 and gcd(top, bottom) == 1
