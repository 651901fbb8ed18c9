"""Systematic changes of an answer, by what kind of answer it is: wrong ones, and other ways of writing it.

A change returns ``None`` where it does not apply (a sign of zero, a swap of equal digits).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

Change = Callable[["Sample"], str | None]
Entry = Mapping[str, Any]

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
OPPOSITES = {"True": "False", "Yes": "No", "on": "off"}
OPPOSITES |= {no: yes for yes, no in OPPOSITES.items()}
MARKS = {"❌": "✅", "✅": "❌", "_": "Q", "Q": "_"}


@dataclass(frozen=True)
class Sample:
    """One answer with another item's answer and the data set's own entry."""

    text: str
    other: str
    entry: Entry


@dataclass(frozen=True)
class Shape:
    """``wrong`` changes make another answer, ``restyled`` ones (mostly) write the same one differently."""

    wrong: Mapping[str, Change] = field(default_factory=dict)
    restyled: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True)
class Codec:
    """How a data set writes a value as text: ``read`` raises ``ValueError`` for other text."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    schema: Mapping[str, Any]


EVERYWHERE: Mapping[str, Change] = {
    "empty": lambda sample: "" if sample.text else None,
    "other item's": lambda sample: sample.other,
}


# Numbers

_WIDE = Context(prec=60)


def stepped(text: str, step: int) -> str:
    """The number ``step`` units of its last place away."""
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return str(_WIDE.add(value, Decimal(step).scaleb(exponent, _WIDE)))


def _sign_flipped(sample: Sample) -> str | None:
    if Decimal(sample.text) == 0:
        return None
    return sample.text[1:] if sample.text.startswith("-") else f"-{sample.text}"


def _digits_swapped(sample: Sample) -> str | None:
    head = re.split("[eE]", sample.text)[0]
    places = [place for place, letter in enumerate(head) if letter.isdigit()]
    for one, two in pairwise(places):
        if head[one] != head[two]:
            letters = list(sample.text)
            letters[one], letters[two] = letters[two], letters[one]
            return "".join(letters)
    return None


def _digit_added(sample: Sample) -> str | None:
    head, *exponent = re.split("([eE].*)", sample.text)
    if Decimal(head) == 0:
        return None
    return head + ("7" if "." in head else "0") + "".join(exponent)


def _point_zero(sample: Sample) -> str | None:
    if re.search("[eE]", sample.text):
        return None
    return sample.text + ("0" if "." in sample.text else ".0")


def _thousands(sample: Sample) -> str | None:
    whole = re.match(r"-?\d{4,}(?!.*[eE])", sample.text)
    return None if whole is None else f"{int(whole.group()):,}{sample.text[whole.end() :]}"


NUMBERS = Shape(
    wrong={
        "one more": lambda sample: stepped(sample.text, 1),
        "one less": lambda sample: stepped(sample.text, -1),
        "sign flipped": _sign_flipped,
        "digits swapped": _digits_swapped,
        "digit added": _digit_added,
        "two answers": lambda sample: f"{sample.text} or {stepped(sample.text, 1)}",
    },
    restyled={
        "zero after the point": _point_zero,
        "plus sign": lambda sample: None if sample.text.startswith("-") else f"+{sample.text}",
        "thousands": _thousands,
    },
)


# Words


def _letter_changed(text: str) -> str:
    place = next(place for place, letter in enumerate(text) if letter.isalnum())
    letter = text[place]
    changed = {"z": "a", "Z": "A", "9": "0"}.get(letter, chr(ord(letter) + 1))
    return text[:place] + changed + text[place + 1 :]


def _letters_swapped(sample: Sample) -> str | None:
    text = sample.text
    for place in range(len(text) - 1):
        one, two = text[place : place + 2]
        if one.isalnum() and two.isalnum() and one.casefold() != two.casefold():
            return text[:place] + two + one + text[place + 2 :]
    return None


def _words_swapped(sample: Sample) -> str | None:
    words = sample.text.split()
    for place in range(len(words) - 1):
        if words[place] != words[place + 1]:
            words[place : place + 2] = words[place + 1], words[place]
            return " ".join(words)
    return None


def _other_case(case: Callable[[str], str]) -> Change:
    return lambda sample: None if case(sample.text) == sample.text else case(sample.text)


WORDS = Shape(
    wrong={
        "letter changed": lambda sample: _letter_changed(sample.text),
        "letters swapped": _letters_swapped,
        "words swapped": _words_swapped,
        "last letter dropped": lambda sample: sample.text[:-1] if len(sample.text) > 1 else None,
        "said twice": lambda sample: f"{sample.text} {sample.text}",
        "two answers": lambda sample: f"{sample.text} or {sample.other}",
        "opposite": lambda sample: OPPOSITES.get(sample.text),
    },
    restyled={
        "upper case": _other_case(str.upper),
        "lower case": _other_case(str.lower),
        "full stop": lambda sample: None if sample.text.endswith(".") else f"{sample.text}.",
    },
)


def number_or_words(text: str) -> Shape:
    """The kind of one answer of a data set that asks for both."""
    return NUMBERS if NUMBER.fullmatch(text) else WORDS


# Lists


def altered(item: Any) -> Any:
    """An element that is not ``item``."""
    if isinstance(item, int):
        return item + 1
    if isinstance(item, list):
        return [altered(item[0]), *item[1:]]
    if item in MARKS:
        return MARKS[item]
    return stepped(item, 1) if NUMBER.fullmatch(item) else _letter_changed(item)


def _swapped(items: list[Any]) -> list[Any] | None:
    for place in range(len(items) - 1):
        if items[place] != items[place + 1]:
            return [*items[:place], items[place + 1], items[place], *items[place + 2 :]]
    return None


def on_value(codec: Codec, change: Callable[[Any], Any]) -> Change:
    """A change of the value, for a text; the same value is no change."""

    def changed(sample: Sample) -> str | None:
        value = codec.read(sample.text)
        result = change(value) if value else None
        return None if result is None or result == value else codec.write(result)

    return changed


def _spaced(sample: Sample) -> str | None:
    text = re.sub(r" *\b +\b *", "  ", sample.text)
    text = text.replace(", ", ",")
    return None if text == sample.text else text


def lists(codec: Codec, *, ordered: bool = True) -> Shape:
    """Lists of elements; where they are ``ordered``, another order is another answer."""
    changes: dict[str, Callable[[Any], Any]] = {
        "element dropped": lambda items: items[:-1] if len(items) > 1 else None,
        "element repeated": lambda items: [*items, items[-1]],
        "element altered": lambda items: [altered(items[0]), *items[1:]],
        "last element altered": lambda items: [*items[:-1], altered(items[-1])],
        "two of the first": lambda items: [items[0], *items],
    }
    orders: dict[str, Callable[[Any], Any]] = {
        "elements swapped": _swapped,
        "reversed": lambda items: items[::-1],
    }
    wrong = {name: on_value(codec, change) for name, change in changes.items()}
    reordered = {name: on_value(codec, change) for name, change in orders.items()}
    spaced: dict[str, Change] = {"other spaces": _spaced}
    return Shape({**wrong, **reordered}, spaced) if ordered else Shape(wrong, {**reordered, **spaced})


def groups(codec: Codec) -> Shape:
    """Lists of lists whose own order does not count."""
    wrong: dict[str, Callable[[Any], Any]] = {
        "group dropped": lambda items: items[1:] if len(items) > 1 else None,
        "group repeated": lambda items: [*items, items[0]],
        "element dropped": lambda items: [items[0][1:], *items[1:]],
        "element altered": lambda items: [altered(items[0]), *items[1:]],
        "groups joined": lambda items: [[*items[0], *items[1]], *items[2:]] if len(items) > 1 else None,
    }
    restyled: dict[str, Callable[[Any], Any]] = {
        "groups reordered": lambda items: items[::-1],
        "members reordered": lambda items: [group[::-1] for group in items],
    }
    return Shape(
        {name: on_value(codec, change) for name, change in wrong.items()},
        {name: on_value(codec, change) for name, change in restyled.items()},
    )


def grids(codec: Codec) -> Shape:
    """Rows of cells."""
    changes: dict[str, Callable[[Any], Any]] = {
        "cell altered": lambda rows: [[altered(rows[0][0]), *rows[0][1:]], *rows[1:]],
        "last cell altered": lambda rows: [*rows[:-1], [*rows[-1][:-1], altered(rows[-1][-1])]],
        "cells swapped": lambda rows: _first_row(rows, _swapped),
        "row dropped": lambda rows: rows[:-1] if len(rows) > 1 else None,
        "row repeated": lambda rows: [*rows, rows[-1]],
        "rows reversed": lambda rows: rows[::-1],
        "transposed": lambda rows: [list(column) for column in zip(*rows, strict=True)],
        "one row": lambda rows: [[cell for row in rows for cell in row]],
    }
    wrong = {name: on_value(codec, change) for name, change in changes.items()}
    return Shape(wrong, {"spaces at the ends": lambda sample: "  \n".join(sample.text.split("\n")) + "  "})


def _first_row(
    rows: list[list[Any]], change: Callable[[list[Any]], list[Any] | None]
) -> list[list[Any]] | None:
    for place, row in enumerate(rows):
        if (changed := change(row)) is not None:
            return [*rows[:place], changed, *rows[place + 1 :]]
    return None


# JSON of any form


def _leaf(value: Any) -> Any:
    if isinstance(value, dict) and value:
        name = next(iter(value))
        return {**value, name: _leaf(value[name])}
    if isinstance(value, list) and value:
        return [_leaf(value[0]), *value[1:]]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else {"x": 1}


_JSON = Codec(json.loads, json.dumps, {})
DOCUMENTS = Shape(
    wrong={
        "value altered": on_value(_JSON, _leaf),
        "member added": on_value(
            _JSON, lambda value: {**value, "z": 0} if isinstance(value, dict) else None
        ),
        "member dropped": on_value(
            _JSON,
            lambda value: dict(list(value.items())[1:]) if isinstance(value, dict) and value else None,
        ),
        "in an array": on_value(_JSON, lambda value: [value]),
        "two answers": lambda sample: f"{sample.text} {sample.text}",
    },
    restyled={"indented": lambda sample: json.dumps(json.loads(sample.text), indent=1)},
)
