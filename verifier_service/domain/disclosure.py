"""Which values of a reference a text repeats, and whether its reader has seen them.

Found loosely, excused strictly. A value is repeated where its words stand in the text one after the other,
whatever their case and spacing, and its numbers by value: 1,000 is 1000.0, and a sign does not hide one.
It was seen only where what the text says of it stands in what the reader has, as it is written there.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import TypeAlias

from verifier_service.domain.records import JsonObject, JsonValue

Key: TypeAlias = str | Decimal
Place: TypeAlias = tuple[int, int]

QUANTITY_CHARS = 40
LONGEST_NUMBER = 64
ENDS_A_SENTENCE = ".,;:!?"
APART = "\n\0\n"
SEPARATORS = str.maketrans("", "", ", '_")

_START = r"(?<![^\W_])(?:{whole}|\d+)(?:\.\d+)?(?:e[+-]?\d{{1,3}}(?![^\W_]))?|(?<![\w.])\.\d+|[^\W_]+|\S"
PLAIN = re.compile(_START.format(whole=r"\d+"), re.IGNORECASE)
SEPARATED = re.compile(r"\d[, '_]\d{3}")
GROUPED = re.compile(_START.format(whole=r"\d{1,3}(?:[, '_]\d{3})+(?!\d)"), re.IGNORECASE)


def leaves(root: JsonValue) -> Iterator[str]:
    """Every text and number in a value as text; not the names of members, nor true, false and null."""
    waiting: list[JsonValue] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield json.dumps(value)


def repeated(texts: Sequence[str], reference: JsonObject) -> list[set[str]]:
    """For each text, what it says of the reference's values, as it is written there.

    A value is a text or a number in it, as a whole; and the one number of a text of at most 40 characters,
    such as ``42 kJ``. Values of signs alone (``>=``) count where blanks stand around them.
    """
    told = _Told(texts)
    seen: set[tuple[Key, ...]] = set()
    for leaf in leaves(reference):
        value = _even(leaf).strip()
        if not any(map(str.isalnum, value)):
            told.look_for_signs(value)
            continue
        for part in _parts(value, told):
            if part not in seen:
                seen.add(part)
                told.look_for(part)
    return told.found


def shown(values: Iterable[JsonValue]) -> str:
    """What a reader has seen, as one text for ``stands_in``."""
    return APART.join(_even(leaf) for value in values for leaf in leaves(value))


def stands_in(said: str, seen: str) -> bool:
    """Whether what ``repeated`` found was shown: the same letters and digits, as words of their own."""
    ends = (r"(?![^\W_])" if said[-1].isalnum() else "") + (r"(?![.,]\d)" if said[-1].isdecimal() else "")
    words = r"\s+".join(re.escape(word) for word in said.split())
    return any(_begins(said, seen, match.start()) for match in re.finditer(words + ends, seen))


def _begins(said: str, seen: str, start: int) -> bool:
    """Whether a word, or a number with its sign, begins there and not earlier."""
    before = seen[max(0, start - 2) : start]
    if said[0].isalnum() and before[-1:].isalnum():
        return False
    if not said[0].isdecimal() or not before:
        return True
    return before[-1] not in "-+" and not (before[-1] in ".," and before[0].isdecimal())


class _Told:
    """Texts as words, and what was found in them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.found: list[set[str]] = [set() for _ in texts]
        self.longest = 0
        self.first: dict[Key, list[Place]] = defaultdict(list)
        self._texts = [_even(text) for text in texts]
        self._readings = [(at, pattern) for at in range(len(texts)) for pattern in (PLAIN, GROUPED)]
        self._keys: list[tuple[Key, ...]] = []
        self._spans: list[list[tuple[int, int]]] = []
        for reading, (at, pattern) in enumerate(self._readings):
            matches = list(pattern.finditer(self._texts[at]))
            self._keys.append(tuple(_key(match.group()) for match in matches))
            self._spans.append([match.span() for match in matches])
            self.longest = max(self.longest, len(matches))
            for place, key in enumerate(self._keys[-1]):
                self.first[key].append((reading, place))

    def look_for(self, part: tuple[Key, ...]) -> None:
        for reading, place in self.first.get(part[0], ()):
            end = place + len(part)
            if self._keys[reading][place:end] == part:
                spans = self._spans[reading]
                self._add(self._readings[reading][0], spans[place][0], spans[end - 1][1])

    def look_for_signs(self, value: str) -> None:
        for at, text in enumerate(self._texts):
            if any(value and value in (word, word.rstrip(ENDS_A_SENTENCE)) for word in text.split()):
                self.found[at].add(value)

    def _add(self, at: int, start: int, end: int) -> None:
        text = self._texts[at]
        signed = text[start].isdecimal() and text[max(0, start - 1) : start] in ("-", "+")
        self.found[at].add(text[start - signed : end])


def _parts(value: str, told: _Told) -> Iterator[tuple[Key, ...]]:
    """The value without its sign, and the number of a quantity, where the texts have the first word."""
    for pattern in (PLAIN, GROUPED) if SEPARATED.search(value) else (PLAIN,):
        words = (_key(match.group()) for match in pattern.finditer(value))
        head = list(islice(words, 2))
        signed = head[0] in ("-", "+") and isinstance(head[1], Decimal)
        if head[signed] in told.first:
            whole = (*head[signed:], *islice(words, told.longest))
            if len(whole) <= told.longest:
                yield whole
        if len(value) <= QUANTITY_CHARS:
            keys = [_key(match.group()) for match in pattern.finditer(value)]
            numbers = [key for key in keys if isinstance(key, Decimal)]
            if len(numbers) == 1 and numbers[0] in told.first:
                yield (numbers[0],)


def _even(text: str) -> str:
    """One form for what looks the same: full-width digits, indices, minus signs, kinds of blanks."""
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _key(word: str) -> Key:
    """A number by its value, a word without its case."""
    if word[-1].isdecimal() and (word[0] == "." or word[0].isdecimal()) and len(word) <= LONGEST_NUMBER:
        return Decimal(word.translate(SEPARATORS))
    return word.casefold()
