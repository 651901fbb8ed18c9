"""One end of the conversation between a solution and tests that run in another sandbox.

Every message is one JSON text. A request is answered before anything else is asked, but the one who
answers may ask back (a test's lambda given to the solution): the two are never out of step.
"""

from __future__ import annotations

import builtins
import io
import json
import sys

from tiers.sandbox.inside.values import Writer, name_of, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

MESSAGE = b"M"
ROOM = 1 << 24
PRINTED = 1 << 16
FIELDS = 200
LENT = 200
CHANGEABLE = (list, dict, set, bytearray)
_TYPES = "int float str bool list tuple dict set frozenset bytes bytearray complex range object".split()
_PURE = (
    "len abs min max sum sorted all any repr chr ord round hex bin oct divmod pow reversed enumerate zip "
    "map filter isinstance"
).split()
_BUILT_IN = {id(getattr(builtins, name)): name for name in (*_TYPES, *_PURE)}


class Remote(Exception):
    """The other side raised: class and its module, nearest builtin class, text, arguments, attributes."""

    def __init__(
        self, do: str, told: Sequence[str], arguments: Sequence[Any], fields: Mapping[Any, Any]
    ) -> None:
        self.do = do
        self.kind, self.module, self.base, self.text = told
        super().__init__(self.text)
        self.arguments, self.fields = arguments, fields


class Peer:
    """One end. ``proxy(peer, number, name)`` makes what stands for an object of the other side."""

    def __init__(
        self,
        channel: Any,
        proxy: Callable[[Peer, int, str], Any],
        answers: Callable[[str, list[Any], dict[str, Any]], Any],
        raised: Callable[[Remote], BaseException] = lambda error: error,
        error_class: Callable[[str], Any] = lambda name: getattr(builtins, name, Exception),
        printed: Callable[[], str] | None = None,
    ) -> None:
        self._channel = channel
        self.asked = 0
        self._proxy = proxy
        self._answers = answers
        self._raised = raised
        self._error_class = error_class
        self._printed = printed or _printed
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._proxies: dict[int, Any] = {}
        self._lent: dict[tuple[int, str], tuple[Any, str, Any, str]] = {}

    def ask(self, do: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """Ask for an operation and return its result.

        Raises what ``raised`` makes of the other side's error, or ``EOFError`` when it has gone.
        """
        self.asked += 1
        if self._lent and do != "refill":
            self._return_lent()
        self._send('{"do":%s,"args":%s,"kwargs":%s}', do, list(args), dict(kwargs or {}))
        while True:
            message = self._receive()
            if message is None:
                raise EOFError("the other side has gone")
            if "do" in message:
                self._answer(message)
                continue
            if message.get("out"):
                sys.stdout.write(message["out"])
            if "err" in message:
                *told, arguments, fields = message["err"]
                raise self._raised(Remote(do, told, self._read(arguments), self._read(fields))) from None
            return self._result(message, args)

    def lend(self, owner: Any, name: str, value: Any) -> Any:
        """Keep an eye on a container that is an attribute or a variable of the other side: what is done to
        it here is done there before anything else is asked."""
        if type(value) in CHANGEABLE and len(self._lent) < LENT:
            self._lent[id(value), name] = (owner, name, value, self._write(value))
        return value

    def _return_lent(self) -> None:
        lent, self._lent = self._lent, {}
        for key, (owner, name, value, before) in lent.items():
            now = self._write(value)
            if now != before:
                self.ask("refill", [owner, name, value])
            self._lent[key] = (owner, name, value, now)

    def _result(self, message: dict[str, Any], args: Sequence[Any]) -> Any:
        for mine, theirs in zip(args, message["back"], strict=False):
            refresh(mine, self._read(theirs))
        if message["same"] is not None:
            return args[message["same"]]
        value = self._read(message["ok"])
        return _awaitable(value) if message["later"] else value

    def serve(self) -> None:
        """Answer until the other side has gone."""
        while (message := self._receive()) is not None:
            self._answer(message)

    def gave(self, value: Any) -> bool:
        """Whether the other side was given this very object to refer to."""
        number = self._numbers.get(id(value))
        return number is not None and self._kept[number] is value

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            args = [self._read(each) for each in message["args"]]
            kwargs = self._read(message["kwargs"])
            result = self._answers(message["do"], args, kwargs)
            later = type(result).__name__ == "coroutine" and hasattr(result, "send")
            if later:
                result = awaited(result)
            text = '{"ok":%s,"back":%s,"same":%s,"later":%s,"out":%s}' % (
                self._write(result, kept=message["do"] == "call" and isinstance(args[0], type)),
                self._changed(args),
                json.dumps(_place(result, args)),
                json.dumps(later),
                json.dumps(self._printed()),
            )
        except BaseException as error:  # noqa: BLE001 - told to the other side, whatever it is
            text = '{"err":%s,"out":%s}' % (self._told(error), json.dumps(self._printed()))
        self._channel.send(MESSAGE, text.encode())

    def _told(self, error: BaseException) -> str:
        kind, module, base = described(type(error))
        names = ",".join(json.dumps(each) for each in (kind, module, base, str(error)[:1000]))
        try:
            return f"[{names},{self._write(error.args)},{self._write(dict(vars(error)))}]"
        except BaseException:  # noqa: BLE001 - arguments that cannot be told are left out
            return f'[{names},[],{{"d":[]}}]'

    def _changed(self, args: Sequence[Any]) -> str:
        """What became of changeable arguments, so that changes in place are seen on the other side."""
        return (
            "[" + ",".join(self._write(each) if type(each) in CHANGEABLE else "null" for each in args) + "]"
        )

    def _send(self, template: str, do: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        parts = "[" + ",".join(self._write(each) for each in args) + "]"
        self._channel.send(MESSAGE, (template % (json.dumps(do), parts, self._write(kwargs))).encode())

    def _receive(self) -> dict[str, Any] | None:
        body = self._channel.receive_bytes()
        return json.loads(body) if body else None

    def _write(self, value: Any, *, kept: bool = False) -> str:
        """``kept``: an object of a class that the solution made from a builtin stays where it is."""
        if kept and getattr(type(value), "__module__", "") == "solution":
            return self._foreign(value)
        return Writer(self._foreign, ROOM).write(value)

    def _foreign(self, value: Any) -> str:
        theirs = number_of(value)
        if theirs is not None:
            return '{"y":%d}' % theirs
        name = _BUILT_IN.get(id(value))
        if name is not None:
            return '{"z":"%s"}' % name
        if type(value) is slice:
            return '{"l":%s}' % self._write([value.start, value.stop, value.step])
        if isinstance(value, type) and issubclass(value, BaseException):
            return '{"e":%s}' % json.dumps(value.__name__)
        if type(value).__name__ == "traceback":
            return "null"
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
        if tag == "z" and content in (*_TYPES, *_PURE):
            return getattr(builtins, content)
        if tag == "l":
            return slice(*self._read(content))
        if tag == "e":
            found = self._error_class(content)
            return found if isinstance(found, type) and issubclass(found, BaseException) else Exception
        if tag == "n":
            return _named_tuple(content[0], content[1])(*self._read(content[2]))
        if tag != "h":
            raise ValueError(f"unknown tag {tag}")
        # One object, one stand-in: identity means the same on both sides.
        if content[0] not in self._proxies:
            self._proxies[content[0]] = self._proxy(self, content[0], content[1])
        return self._proxies[content[0]]


def number_of(value: Any) -> int | None:
    """The number of a stand-in, without asking the object itself."""
    if type(value).__name__ not in ("Proxy", "Visitor"):
        return None
    try:
        number = object.__getattribute__(value, "_box_number")
    except AttributeError:
        return None
    return number if type(number) is int else None


def _named_tuple(name: str, fields: list[str]) -> Any:
    from collections import namedtuple

    if len(fields) > FIELDS:
        raise ValueError("too many fields")
    return namedtuple(name, fields)


def _place(result: Any, args: Sequence[Any]) -> int | None:
    """Which changeable argument came back as the result, if one did."""
    places = (place for place, each in enumerate(args) if each is result and type(each) in CHANGEABLE)
    return next(places, None)


def awaited(coroutine: Any) -> Any:
    """Run a coroutine to its result."""
    import asyncio

    return asyncio.run(coroutine)


def _awaitable(value: Any) -> Any:
    async def later() -> Any:
        return value

    return later()


def _printed() -> str:
    """What was printed since it was last told."""
    buffer = sys.stdout
    if not isinstance(buffer, io.StringIO):
        return ""
    text = buffer.getvalue()[:PRINTED]
    buffer.seek(0)
    buffer.truncate()
    return text


def refresh(mine: Any, theirs: Any) -> None:
    if type(mine) is not type(theirs) or mine == theirs:
        return
    if type(mine) is list or type(mine) is bytearray:
        mine[:] = theirs
    elif type(mine) in (dict, set):
        mine.clear()
        mine.update(theirs)


def described(kind: type[BaseException]) -> tuple[str, str, str]:
    """An error's class, its module, and the nearest builtin class above it."""
    for each in type.mro(kind):
        if each.__module__ == "builtins" and getattr(builtins, each.__name__, None) is each:
            return name_of(kind), str(kind.__module__), each.__name__
    return name_of(kind), str(kind.__module__), "Exception"
