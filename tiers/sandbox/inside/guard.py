"""What a solution may do with the objects that a test gave it.

It may use them, and not look behind them: from a generator a way leads through its frame to every name of
the tests, from ``str.format`` through any function to its constants.
"""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ASKED_BACK = ("call", "iter", "next", "getattr", "setattr", "len", "getitem")
_BEHIND = (type, types.ModuleType, types.FrameType, types.CodeType, types.TracebackType)
_RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_CLOSED = (
    *_BEHIND,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
_ON_RUNNING = ("send", "close", "throw", "asend", "aclose", "athrow")
_HARMLESS = frozenset(
    "abs bin chr divmod hash hex id len max min oct ord pow print repr round sorted sum".split()
)


def check(do: str, what: Any, rest: list[Any]) -> None:
    """Raise ``AttributeError`` or ``TypeError`` for what a solution has no business to do."""
    if do not in _ASKED_BACK or isinstance(what, _BEHIND):
        raise TypeError("not for the solution")
    if do in ("getattr", "setattr"):
        name = rest[0]
        if type(name) is not str or name.startswith("_") or isinstance(what, _CLOSED):
            raise AttributeError(name)
        if isinstance(what, _RUNNING) and name not in _ON_RUNNING:
            raise AttributeError(name)
        if do == "setattr" and callable(getattr(type(what), name, None)):
            raise AttributeError(name)
    if do == "call" and not _callable(what):
        raise TypeError("not for the solution")


def _callable(what: Any) -> bool:
    if isinstance(what, types.BuiltinFunctionType):
        owner = what.__self__
        return not isinstance(owner, types.ModuleType) or _of_module(owner.__name__, what.__name__)
    if isinstance(what, types.MethodDescriptorType):
        return not what.__name__.startswith(("_", "format"))
    return not isinstance(what, types.WrapperDescriptorType | types.MethodWrapperType)


def _of_module(module: str, name: str) -> bool:
    if module == "builtins":
        return name in _HARMLESS
    return module not in ("sys", "gc", "posix", "marshal", "_imp", "_thread", "_ctypes", "_posixsubprocess")


def passes(result: Any) -> Any:
    """A result on its way to the solution. Raises ``AttributeError`` for what leads behind the tests."""
    if isinstance(result, _BEHIND) and not isinstance(result, type):
        raise AttributeError(type(result).__name__)
    return result
