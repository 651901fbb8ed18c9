"""A solution serves calls of tests that run in another sandbox; both ends of that conversation.

Every message is one JSON text. A request is answered before anything else is asked, but the one who
answers may ask back (a test's lambda given to the solution): the two are never out of step.
"""

from __future__ import annotations

import _operator
import builtins
import json
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

from tiers.sandbox.inside import programs
from tiers.sandbox.inside.values import Writer, name_of, read

MESSAGE = b"M"
ROOM = 1 << 24

OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{
        name: getattr(_operator, name)
        for name in [
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
            "neg",
            "pos",
            "invert",
            "abs",
            "index",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "contains",
            "getitem",
            "setitem",
            "delitem",
            "iadd",
            "isub",
            "imul",
        ]
    },
    "getattr": getattr,
    "setattr": setattr,
    "isinstance": isinstance,
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
    "call": lambda what, *args, **kwargs: programs_value(what(*args, **kwargs)),
    "enter": lambda what: type(what).__enter__(what),
    "exit": lambda what, *raised: type(what).__exit__(what, *raised),
}


def programs_value(value: Any) -> Any:
    """A coroutine's result; everything else as it is."""
    if type(value).__name__ == "coroutine" and hasattr(value, "send"):
        return programs.finished(value)
    return value


class Remote(Exception):
    """The other side raised: class name, name of the nearest builtin class, text."""

    def __init__(self, kind: str, base: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.base, self.text = kind, base, text


class Peer:
    """One end. ``proxy(number, name)`` stands for an object that stays on the other side."""

    def __init__(
        self,
        channel: Any,
        proxy: Callable[[Peer, int, str], Any],
        answers: Callable[[str, list[Any], dict[str, Any]], Any],
        raised: Callable[[Remote], BaseException] = lambda error: error,
    ) -> None:
        self._channel = channel
        self._proxy = proxy
        self._answers = answers
        self._raised = raised
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def ask(self, do: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """Ask for an operation and return its result.

        Raises what ``raised`` makes of the other side's error, or ``EOFError`` when it has gone.
        """
        self._send('{"do":%s,"args":%s,"kwargs":%s}', do, list(args), dict(kwargs or {}))
        while True:
            message = self._receive()
            if message is None:
                raise EOFError("the other side has gone")
            if "do" in message:
                self._answer(message)
            elif "err" in message:
                raise self._raised(Remote(*message["err"])) from None
            else:
                for mine, theirs in zip(args, message["back"], strict=False):
                    _refresh(mine, self._read(theirs))
                return self._read(message["ok"])

    def serve(self) -> None:
        """Answer until the other side has gone."""
        while (message := self._receive()) is not None:
            self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            args = [self._read(each) for each in message["args"]]
            kwargs = self._read(message["kwargs"])
            result = self._answers(message["do"], args, kwargs)
            text = '{"ok":%s,"back":%s}' % (self._write(result), self._changed(args))
        except BaseException as error:  # noqa: BLE001 - told to the other side, whatever it is
            kind, base = _told(error)
            text = json.dumps({"err": [kind, base, str(error)[:1000]]})
        self._channel.send(MESSAGE, text.encode())

    def _changed(self, args: Sequence[Any]) -> str:
        """What became of changeable arguments, so that changes in place are seen on the other side."""
        kinds = (list, dict, set, bytearray)
        return "[" + ",".join(self._write(each) if type(each) in kinds else "null" for each in args) + "]"

    def _send(self, template: str, do: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        parts = "[" + ",".join(self._write(each) for each in args) + "]"
        self._channel.send(MESSAGE, (template % (json.dumps(do), parts, self._write(kwargs))).encode())

    def _receive(self) -> dict[str, Any] | None:
        body = self._channel.receive_bytes()
        return json.loads(body) if body else None

    def _write(self, value: Any) -> str:
        return Writer(self._foreign, ROOM).write(value)

    def _foreign(self, value: Any) -> str:
        theirs = number_of(value)
        if theirs is not None:
            return '{"y":%d}' % theirs
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return '{"h":[%d,%s]}' % (number, json.dumps(name_of(type(value))))

    def _read(self, node: Any) -> Any:
        return read(node, self._found)

    def _found(self, tag: str, content: Any) -> Any:
        if tag == "y":
            return self._kept[content]
        if tag == "h":
            return self._proxy(self, content[0], content[1])
        raise ValueError(f"unknown tag {tag}")


def number_of(value: Any) -> int | None:
    """The number of a proxy, without asking the object itself."""
    if type(value).__name__ not in ("Proxy", "Function"):
        return None
    try:
        number = object.__getattribute__(value, "_box_number")
    except AttributeError:
        return None
    return number if type(number) is int else None


def _refresh(mine: Any, theirs: Any) -> None:
    if type(mine) is not type(theirs) or mine == theirs:
        return
    if type(mine) is list or type(mine) is bytearray:
        mine[:] = theirs
    elif type(mine) in (dict, set):
        mine.clear()
        mine.update(theirs)


def _told(error: BaseException) -> tuple[str, str]:
    kind = type(error)
    if isinstance(error, Remote):
        return error.kind, error.base
    for each in type.mro(kind):
        if each.__module__ == "builtins" and getattr(builtins, each.__name__, None) is each:
            return name_of(kind), each.__name__
    return name_of(kind), "Exception"


class Function:
    """A test's function in the solution's hands: it can be called, no more."""

    def __init__(self, peer: Peer, number: int, name: str) -> None:
        self._box_peer, self._box_number, self.__name__ = peer, number, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._box_peer.ask("call", [self, *args], kwargs)


def serve(program: Sequence[CodeType], channel: Any) -> None:
    """Run the solution's module, then serve what tests ask of it."""
    namespace = programs.execute(program, "solution")

    def answers(do: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if do == "names":
            return {name: _kind(namespace, name) for name in args[0]}
        if do == "public":
            return [name for name in namespace if not name.startswith("_")]
        if do == "get":
            return _named(namespace, args[0])
        return OPERATIONS[do](*args, **kwargs)

    Peer(channel, Function, answers).serve()


def _named(namespace: Mapping[str, Any], name: str) -> Any:
    found = namespace.get(name)
    if found is None and "Solution" in namespace:
        return getattr(namespace["Solution"](), name, None)
    return found


def _kind(namespace: Mapping[str, Any], name: str) -> list[str]:
    found = _named(namespace, name)
    if found is None and name not in namespace:
        return ["missing"]
    if isinstance(found, type(json)):
        return ["module", found.__name__]
    if isinstance(found, type) and issubclass(found, BaseException):
        return ["exception", *_told(found.__new__(found))]
    return ["data" if isinstance(found, _DATA) else "object"]


_DATA = (int, float, str, bytes, list, tuple, dict, set, frozenset, type(None), complex)
