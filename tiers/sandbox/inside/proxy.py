"""What stands for an object of the solution in the hands of tests that run in another sandbox.

A ``Proxy`` never decides a comparison with plain data: that is where objects with a friendly ``__eq__``,
``__sub__`` or ``__bool__`` fail. Objects that a test itself made by calling a class keep their operators,
because such tests are about them.
"""

from __future__ import annotations

from tiers.sandbox.inside.peer import Peer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class NotData(Exception):
    """An object of the solution's own class was used where only data can be judged."""


class Unsupported(Exception):
    """A test does what cannot be done across two processes: nobody's answer can be judged by it."""


class Proxy:
    # An object of the solution; ``_box_made`` when the test itself made it by calling a class.
    # No docstring: ``__doc__`` is the object's own.
    __doc__ = property(lambda self: self._box_peer.ask("getattr", [self, "__doc__"]))

    def __init__(self, peer: Peer, number: int, name: str) -> None:
        keep = object.__setattr__
        keep(self, "_box_peer", peer)
        keep(self, "_box_number", number)
        keep(self, "_box_name", name)
        keep(self, "_box_made", False)
        keep(self, "_box_class", False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in ("__name__", "__qualname__"):
            raise AttributeError(name)
        return self._box_peer.lend(self, name, self._box_peer.ask("getattr", [self, name]))

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        raise Unsupported("a test that derives a class from the solution's cannot be run")

    def __setattr__(self, name: str, value: Any) -> None:
        self._box_peer.ask("setattr", [self, name, value])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._box_peer.ask("call", [self, *args], kwargs)
        if self._box_class and isinstance(result, Proxy):
            object.__setattr__(result, "_box_made", True)
        return result

    def __instancecheck__(self, other: object) -> bool:
        return isinstance(other, Proxy) and self._box_peer.ask("isinstance", [other, self]) is True

    def __subclasscheck__(self, other: object) -> bool:
        return isinstance(other, Proxy) and self._box_peer.ask("issubclass", [other, self]) is True

    def __delattr__(self, name: str) -> None:
        self._box_peer.ask("delattr", [self, name])

    def __iter__(self) -> Iterator[Any]:
        walk = self._box_peer.ask("iter", [self])
        return walk if isinstance(walk, Proxy) else iter(walk)

    def __next__(self) -> Any:
        return self._box_peer.ask("next", [self])

    def __hash__(self) -> int:
        return int(self._box_peer.ask("hash", [self]))

    def __eq__(self, other: object) -> bool:
        return self._same("eq", other)

    def __ne__(self, other: object) -> bool:
        return self._same("ne", other)

    def _same(self, how: str, other: object) -> bool:
        if isinstance(other, Proxy) or self._box_made:
            return self._box_peer.ask(how, [self, other]) is True
        return how == "ne"


def _read_off(how: str) -> Callable[..., Any]:
    """What an object says of itself, not knowing what is expected: as good as returning that at once."""
    return lambda self, *args: self._box_peer.ask(how, [self, *args])


def _combined(how: str, *, reflected: bool = False) -> Callable[..., Any]:
    """What an object makes of another value. A plain one may be what the test expects: it is told only
    to objects that the test made."""

    def ask(self: Any, other: Any) -> Any:
        if not self._box_made and not isinstance(other, Proxy):
            raise NotData(f"an object of class {self._box_name} is no plain value")
        result = self._box_peer.ask(how, [other, self] if reflected else [self, other])
        if isinstance(result, Proxy) and self._box_made:
            object.__setattr__(result, "_box_made", True)
        return result

    return ask


_ARITHMETIC = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]
for _how in (*_ARITHMETIC, "lt", "le", "gt", "ge", "contains"):
    setattr(Proxy, f"__{_how.rstrip('_')}__", _combined(_how))
for _how in _ARITHMETIC:
    setattr(Proxy, f"__r{_how.rstrip('_')}__", _combined(_how, reflected=True))
for _how in [
    "len",
    "getitem",
    "setitem",
    "delitem",
    "str",
    "repr",
    "format",
    "reversed",
    "enter",
    "exit",
    "bool",
    "int",
    "float",
    "round",
    "index",
    "abs",
    "neg",
    "pos",
    "invert",
]:
    setattr(Proxy, f"__{_how}__", _read_off(_how))
