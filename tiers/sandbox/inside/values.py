"""Values as JSON text that keeps Python's types apart, written from exact builtin types only.

An object of a class of its own becomes ``{"o": name}``, or what ``foreign`` writes for it: its
``__eq__``, ``__class__`` and the like never decide anything. Members of builtin types' subclasses are read
with the builtin's own methods, so that they say what they hold and not what they claim.
"""

from __future__ import annotations

import _json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Foreign = Callable[[Any], str]
    Find = Callable[[str, Any], Any]

DEPTH = 1_000
_FRAMES = 10_000
NODES = 2_000_000
SMALL_DIGITS_BITS = 12_000
ALIKE = 50
LONGEST = 20_000


_quote = _json.encode_basestring_ascii


class TooBig(Exception):
    """The value has too many members or levels, or is too long to be sent."""


class Writer:
    """Writes one value. ``foreign`` returns the JSON text that stands for an object of a foreign class."""

    def __init__(self, foreign: Foreign | None = None, room: int = 1 << 24) -> None:
        self._foreign = foreign
        self._room = room
        self._nodes = NODES
        self._parts: list[str] = []

    def write(self, value: Any) -> str:
        """Return the text. Raises ``TooBig``."""
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _FRAMES))
        try:
            self._value(value, 0)
        finally:
            sys.setrecursionlimit(before)
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            raise TooBig("too long")
        self._parts.append(text)

    def _value(self, value: Any, depth: int) -> None:
        self._nodes -= 1
        if self._nodes < 0 or depth > DEPTH:
            raise TooBig("too many members" if self._nodes < 0 else "too deep")
        kind = type(value)
        if value is None or kind is bool:
            self._put("null" if value is None else "true" if value else "false")
        elif kind is str:
            self._put(_quote(value))
        elif kind is int:
            self._integer(value)
        elif kind is float:
            self._float(value)
        elif kind is list:
            self._list("[", value, "]", depth)
        elif kind is tuple:
            self._list('{"t":[', value, "]}", depth)
        elif kind is dict:
            self._dict(dict.items(value), depth)
        else:
            self._rarer(kind, value, depth)

    def _integer(self, value: int) -> None:
        if value.bit_length() > SMALL_DIGITS_BITS:
            self._put(f'{{"i":"{value:x}"}}')
        else:
            self._put(int.__repr__(value))

    def _float(self, value: float) -> None:
        if value - value == 0.0:
            self._put(float.__repr__(value))
        else:
            self._put(f'{{"f":"{float.__repr__(value)}"}}')

    def _list(self, start: str, values: Any, end: str, depth: int) -> None:
        self._put(start)
        first = True
        for value in values:
            if not first:
                self._put(",")
            first = False
            self._value(value, depth + 1)
        self._put(end)

    def _dict(self, items: Any, depth: int) -> None:
        self._put('{"d":[')
        first = True
        for key, value in items:
            self._put("[" if first else ",[")
            first = False
            self._value(key, depth + 1)
            self._put(",")
            self._value(value, depth + 1)
            self._put("]")
        self._put("]}")

    def _rarer(self, kind: type, value: Any, depth: int) -> None:
        if kind is set or kind is frozenset:
            self._list('{"s":[' if kind is set else '{"S":[', kind.__iter__(value), "]}", depth)
        elif kind is bytes or kind is bytearray:
            self._put('{"%s":"%s"}' % ("b" if kind is bytes else "B", value.hex()))
        elif kind is complex:
            self._put('{"c":[')
            self._float(value.real)
            self._put(",")
            self._float(value.imag)
            self._put("]}")
        elif kind is range:
            self._list('{"r":[', (value.start, value.stop, value.step), "]}", depth)
        elif not self._subclass(kind, value, depth) and not self._known(kind, value, depth):
            opaque = '{"o":%s}' % _quote(name_of(kind))
            self._put(opaque if self._foreign is None else self._foreign(value))

    def _subclass(self, kind: type, value: Any, depth: int) -> bool:
        """Members of subclasses, read as the builtin they are made of."""
        line = type.mro(kind)
        if self._foreign is not None and tuple in line and hasattr(kind, "_fields"):
            self._put('{"n":[%s,' % _quote(name_of(kind)))
            self._list("[", tuple.__iter__(kind._fields), "],", depth)
            self._list("[", tuple.__iter__(value), "]]}", depth)
        elif str in line:
            self._put(_quote(str.__str__(value)))
        elif int in line:
            self._integer(int.__add__(value, 0))
        elif float in line:
            self._float(float.__add__(value, 0.0))
        elif list in line:
            self._list("[", list.__iter__(value), "]", depth)
        elif tuple in line:
            self._list('{"t":[', tuple.__iter__(value), "]}", depth)
        elif dict in line:
            self._dict(dict.items(value), depth)
        elif set in line:
            self._list('{"s":[', set.__iter__(value), "]}", depth)
        else:
            return False
        return True

    def _known(self, kind: type, value: Any, depth: int) -> bool:
        """Values of the standard library (and NumPy's) that are data."""
        module, name = kind.__module__, kind.__qualname__
        if (module, name) == ("fractions", "Fraction"):
            self._list('{"q":["Fraction",', (), "", depth)
            self._integer(int(value.numerator))
            self._put(",")
            self._integer(int(value.denominator))
            self._put("]}")
        elif (module, name) == ("decimal", "Decimal"):
            self._put('{"q":["Decimal",%s]}' % _quote(str(value)))
        elif (module, name) == ("collections", "deque"):
            if self._foreign is None:
                self._list("[", value, "]", depth)
            else:
                self._list('{"q":["deque",[', value, "],%s]}" % (value.maxlen or "null"), depth)
        elif (module, name) == ("datetime", "timedelta"):
            parts = (value.days, value.seconds, value.microseconds)
            self._list('{"q":["timedelta",', (), ",".join(map(int.__repr__, parts)) + "]}", depth)
        elif module == "datetime" and name in ("date", "time", "datetime"):
            self._put('{"q":[%s,%s]}' % (_quote(name), _quote(str(value.isoformat()))))
        elif module.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
            self._value(value.tolist(), depth + 1)
        else:
            return False
        return True


def name_of(kind: type) -> str:
    """A class's own name, whatever its metaclass says."""
    name = type.__getattribute__(kind, "__name__")
    return name[:100] if type(name) is str else "?"


def read(node: Any, find: Find) -> Any:
    """The value of parsed JSON text; ``find(tag, content)`` makes what is not plain data.

    Raises ``ValueError`` for what ``Writer`` never writes.
    """
    if isinstance(node, list):
        return [read(each, find) for each in node]
    if not isinstance(node, dict):
        return node
    [(tag, content)] = node.items()
    plain = _PLAIN.get(tag)
    if plain is not None:
        return plain(content, find)
    return find(tag, content)


def _library(content: Any, find: Find) -> Any:
    """A value of the standard library from its parts."""
    name, *parts = content
    if name == "Decimal":
        from decimal import Decimal

        if len(parts[0]) > LONGEST:
            raise ValueError("too long a number")
        return Decimal(parts[0])
    if name == "Fraction":
        from fractions import Fraction

        numbers = [read(each, find) for each in parts]
        if any(type(each) is not int or each.bit_length() > LONGEST for each in numbers):
            raise ValueError("too long a number")
        return Fraction(*numbers)
    if name == "deque":
        from collections import deque

        return deque((read(each, find) for each in parts[0]), parts[1])
    import datetime

    if name == "timedelta":
        return datetime.timedelta(*parts)
    kinds: dict[str, Any] = {"date": datetime.date, "time": datetime.time, "datetime": datetime.datetime}
    return kinds[name].fromisoformat(parts[0])


def _hashed(members: list[Any]) -> list[Any]:
    """The same. Raises ``ValueError`` when so many share a hash that a table takes quadratic time."""
    counts: dict[int, int] = {}
    for member in members:
        counts[hash(member)] = counts.get(hash(member), 0) + 1
    if members and max(counts.values()) > ALIKE:
        raise ValueError("too many members of one hash")
    return members


def _table(content: Any, find: Find) -> dict[Any, Any]:
    keys = _hashed([read(key, find) for key, _ in content])
    return dict(zip(keys, [read(value, find) for _, value in content], strict=True))


_PLAIN: dict[str, Callable[[Any, Find], Any]] = {
    "t": lambda content, find: tuple(read(each, find) for each in content),
    "s": lambda content, find: set(_hashed([read(each, find) for each in content])),
    "S": lambda content, find: frozenset(_hashed([read(each, find) for each in content])),
    "d": _table,
    "c": lambda content, find: complex(*(read(each, find) for each in content)),
    "i": lambda content, _: int(content, 16),
    "f": lambda content, _: float(content),
    "b": lambda content, _: bytes.fromhex(content),
    "B": lambda content, _: bytearray.fromhex(content),
    "r": lambda content, _: range(*content),
    "q": _library,
}
