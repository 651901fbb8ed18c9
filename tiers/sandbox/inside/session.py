"""A solution at the disposal of tests: what they may do with it, and what it sees of them."""

from __future__ import annotations

import _operator
import builtins
import io
import json
import sys

from tiers.sandbox.inside import programs
from tiers.sandbox.inside.peer import Peer, Remote, described, refresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType
    from typing import Any

_OPERATORS = (
    "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos invert abs index "
    "eq ne lt le gt ge contains getitem setitem delitem"
).split()
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(_operator, name) for name in _OPERATORS},
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "len": len,
    "iter": iter,
    "next": next,
    "str": str,
    "repr": repr,
    "bool": bool,
    "int": int,
    "float": float,
    "round": round,
    "hash": hash,
    "format": format,
    "reversed": reversed,
    "call": lambda what, *args, **kwargs: what(*args, **kwargs),
    "enter": lambda what: type(what).__enter__(what),
    "exit": lambda what, *raised: type(what).__exit__(what, *raised),
}


class Visitor:
    """Something of the tests in the solution's hands: a function, an iterator, an object."""

    def __init__(self, peer: Peer, number: int, name: str) -> None:
        own = object.__setattr__
        own(self, "_box_peer", peer)
        own(self, "_box_number", number)
        own(self, "__name__", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._box_peer.ask("call", [self, *args], kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._box_peer.ask("getattr", [self, name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._box_peer.ask("setattr", [self, name, value])

    def __iter__(self) -> Any:
        return self._box_peer.ask("iter", [self])

    def __next__(self) -> Any:
        return self._box_peer.ask("next", [self])

    def __len__(self) -> int:
        return int(self._box_peer.ask("len", [self]))

    def __getitem__(self, key: Any) -> Any:
        return self._box_peer.ask("getitem", [self, key])


def serve(program: Sequence[CodeType], channel: Any) -> None:
    """Run the solution's module, then serve what tests ask of it."""
    sys.stdout = io.StringIO()
    namespace = programs.execute(program, "solution")

    def answers(do: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if do == "names":
            return {name: _kind(namespace, name) for name in args[0]}
        if do == "get":
            return _named(namespace, args[0])
        if do == "refill":
            owner, name, value = args
            refresh(namespace.get(name) if owner is None else getattr(owner, name), value)
            return None
        if do == "library":
            return getattr(__import__(args[0]), args[1])(*args[2:], **kwargs)
        return OPERATIONS[do](*args, **kwargs)

    def error_class(name: str) -> Any:
        return namespace.get(name) or getattr(builtins, name, Exception)

    Peer(channel, Visitor, answers, _as_builtin, error_class).serve()


def _as_builtin(error: Remote) -> BaseException:
    """An error of the tests' functions, for the solution: the nearest builtin class."""
    kind = getattr(builtins, error.base, RuntimeError)
    try:
        return kind(*error.arguments)
    except Exception:  # noqa: BLE001 - some builtin errors want other arguments
        return RuntimeError(error.text)


def _named(namespace: Mapping[str, Any], name: str) -> Any:
    found = namespace.get(name)
    if found is None and name not in namespace and "Solution" in namespace:
        return getattr(namespace["Solution"](), name, None)
    return found


def _kind(namespace: Mapping[str, Any], name: str) -> list[str]:
    found = _named(namespace, name)
    if found is None and name not in namespace:
        return ["missing"]
    if isinstance(found, type(json)):
        return ["module", found.__name__]
    if isinstance(found, type) and issubclass(found, BaseException):
        return ["exception", *described(found)]
    return ["data" if isinstance(found, _DATA) else "object"]


_DATA = (int, float, str, bytes, list, tuple, dict, set, frozenset, type(None), complex)
