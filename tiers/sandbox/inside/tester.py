"""Tests written in Python run here, in a sandbox of their own, against stand-ins for the solution.

Results of the solution arrive as plain data. What is no data stays on the other side behind a ``Proxy``,
and never decides a comparison with plain data: that is where objects with a friendly ``__eq__``,
``__sub__`` or ``__bool__`` fail. Objects that a test itself made by calling a class (a capital first
letter) keep their operators, because such tests are about them.
"""

from __future__ import annotations

import ast
import builtins
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from tiers.sandbox.inside.peer import Peer, Remote, awaited
from tiers.sandbox.inside.session import OPERATIONS

RECORD = b"S"
FILE = "test.py"
BUILTIN_ERRORS: Mapping[str, type[BaseException]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
}


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


class _Asserts(ast.NodeTransformer):
    """Counts every assertion that held: a test that asserted nothing has shown nothing."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        held = ast.Expr(ast.Call(ast.Name("__held__", ast.Load()), [], []))
        ast.copy_location(held, node)
        ast.fix_missing_locations(held)
        return [node, held]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        held = ast.Expr(ast.Call(ast.Name("__held__", ast.Load()), [], []))
        node.body.append(ast.fix_missing_locations(ast.copy_location(held, node)))
        return node


class _Namespace(dict[str, Any]):
    """The tests' names. Variables of the solution are asked for every time: they change."""

    def __init__(self, ask: Callable[[str], Any], **names: Any) -> None:
        super().__init__(names)
        self._ask = ask
        self.variables: set[str] = set()

    def __missing__(self, name: str) -> Any:
        if name in self.variables:
            return self._ask(name)
        raise KeyError(name)


class Testing:
    """One test source against one session with the solution."""

    def __init__(self, order: Mapping[str, Any], channel: Any) -> None:
        self._order = order
        self._channel = channel
        self._peer = Peer(channel, Proxy, self._answers, self.translate, self._error_class)
        self._errors: dict[str, type[BaseException]] = {}
        self.held = 0
        self.missing: set[str] = set()

    def run(self) -> None:
        """Send one record for each test of the source, at least one."""
        namespace = _Namespace(self._variable, __name__="test")
        namespace["__held__"] = self._count
        sys.modules["test"] = type(sys)("test")
        names = list(self._order["names"])
        ready, _ = self._record("", lambda: self._stand_ins(names, namespace), silent=True)
        if not ready:
            return
        code = compile(_Asserts().visit(ast.parse(self._order["source"])), FILE, "exec", dont_inherit=True)
        found = self._order["functions"]
        good, _ = self._record("", lambda: _execute(code, namespace), silent=bool(found))
        if not good:
            return
        for name in found:
            self._record(name, self._one(namespace, name))

    def _one(self, namespace: dict[str, Any], name: str) -> Callable[[], object]:
        if name == "check":
            return lambda: namespace["check"](namespace[self._order["entry_point"]])
        head, _, method = name.partition(".")
        if not method:
            return lambda: _awaited(namespace[name]())
        return lambda: _case(namespace[head], method, self._count)

    def _variable(self, name: str) -> Any:
        return self._peer.lend(None, name, self._peer.ask("get", [name]))

    def _count(self) -> None:
        self.held += 1

    def _record(self, name: str, run: Callable[[], object], *, silent: bool = False) -> tuple[bool, int]:
        """Run, and say how it went; ``silent`` says so only when it failed."""
        self.held = 0
        code, text = "passed", ""
        try:
            run()
        except AssertionError:
            code, text = "wrong_answer", ""
        except NotData as error:
            code, text = "not_data", str(error)
        except EOFError:
            code = "crashed"
        except Exception as error:  # noqa: BLE001 - whatever a test or the solution raised
            code, text = self._blame(error), type(error).__name__
        if code != "passed" or not silent:
            if code == "passed" and self.held == 0:
                code = "nothing_checked"
            body = json.dumps({"name": name, "code": code, "text": text[:200], "held": self.held})
            self._channel.send(RECORD, body.encode())
        return code == "passed", self.held

    def _blame(self, error: Exception) -> str:
        """Whose fault an error is: a name that nobody has is the tests', if not asked of the solution."""
        if getattr(error, "_of_solution", False):
            return "crashed"
        if isinstance(error, Unsupported):
            return "bad_test"
        name = getattr(error, "name", None)
        if isinstance(error, NameError):
            return "no_such_function" if name in self.missing else "bad_test"
        if isinstance(error, ImportError):
            return "no_such_function" if name == "solution" else "bad_test"
        if isinstance(error, AttributeError) and isinstance(getattr(error, "obj", None), _Solution):
            return "no_such_function"
        return "crashed"

    def _stand_ins(self, names: list[str], namespace: _Namespace) -> None:
        """Put what the solution has under these names into the namespace."""
        found = self._peer.ask("names", [names])
        for name in names:
            kind, *rest = found[name]
            if kind == "missing":
                self.missing.add(name)
            elif kind == "module":
                if rest[0].partition(".")[0] in sys.stdlib_module_names:
                    namespace[name] = __import__(rest[0], fromlist=["_"])
            elif kind == "exception":
                namespace[name] = self._error(*rest)
            elif kind == "data":
                namespace.variables.add(name)
            else:
                value = self._peer.ask("get", [name])
                if isinstance(value, Proxy):
                    object.__setattr__(value, "_box_class", name.lstrip("_")[:1].isupper())
                namespace[name] = value
        sys.modules["solution"] = _Solution(namespace, names)

    def _answers(self, do: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The solution uses what a test gave it: nothing below the surface of an object."""
        what = args[0]
        if do in ("getattr", "setattr") and (isinstance(what, _CLOSED) or str(args[1]).startswith("_")):
            raise AttributeError(args[1])
        if do not in _ASKED_BACK or isinstance(what, type | type(sys)):
            raise TypeError("not for the solution")
        return OPERATIONS[do](*args, **kwargs)

    def _error(self, kind: str, module: str, base: str) -> type[BaseException]:
        parent = BUILTIN_ERRORS.get(base, Exception)
        if module == "builtins":
            return BUILTIN_ERRORS.get(kind, parent)
        if module.partition(".")[0] in sys.stdlib_module_names:
            found = getattr(__import__(module, fromlist=["_"]), kind, None)
            if isinstance(found, type) and issubclass(found, parent):
                return found
        return self._errors.setdefault(kind, type(kind, (parent,), {"__module__": "solution"}))

    def _error_class(self, name: str) -> Any:
        return self._errors.get(name) or BUILTIN_ERRORS.get(name, Exception)

    def translate(self, error: Remote) -> BaseException:
        """The solution's error as one that a test can catch by its name and look at."""
        kind = self._error(error.kind, error.module, error.base)
        try:
            raised = kind.__new__(kind, *error.arguments)
            raised.args = tuple(error.arguments)
        except Exception:  # noqa: BLE001 - some builtin errors want other arguments
            raised = RuntimeError(error.text)
        for name, value in error.fields.items():
            if isinstance(name, str) and not name.startswith("_"):
                setattr(raised, name, value)
        raised._of_solution = True  # type: ignore[attr-defined]
        return raised


_CLOSED = (type, type(sys), type(lambda: None), type(len), Proxy)
_ASKED_BACK = ("call", "iter", "next", "getattr", "setattr", "len", "getitem")


class _Solution(type(sys)):  # type: ignore[misc]
    """The module ``solution`` for tests that import it."""

    def __init__(self, namespace: _Namespace, names: list[str]) -> None:
        super().__init__("solution")
        self._box_namespace = namespace
        self.__all__ = [name for name in names if name in namespace or name in namespace.variables]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._box_namespace[name]
        except KeyError:
            raise AttributeError(name) from None


def _awaited(value: Any) -> Any:
    """A test that is a coroutine is run."""
    return awaited(value) if hasattr(value, "cr_frame") else value


def _case(cls: Any, method: str, count: Callable[[], None]) -> None:
    """Run one method of a ``unittest.TestCase``; raises what it raised."""
    case = cls(method)
    case.setUp()
    try:
        getattr(case, method)()
    finally:
        case.tearDown()
        case.doCleanups()
    count()


def _execute(code: CodeType, namespace: dict[str, Any]) -> None:
    exec(code, namespace)


def serve(order: Mapping[str, Any], channel: Any) -> None:
    """Run the tests of one order."""
    sys.setrecursionlimit(10_000)
    for module, names in _LOOK_INSIDE.items():
        if module in order["source"]:
            _forward_library(module, names)
    Testing(order, channel).run()


_LOOK_INSIDE = {"dataclasses": ("asdict", "astuple", "replace"), "copy": ("copy", "deepcopy")}


def _forward_library(module: str, names: tuple[str, ...]) -> None:
    """Let functions that look inside of an object do so where the object is."""
    library = __import__(module)
    for name in names:
        own = getattr(library, name)

        def forwarded(what: Any, *args: Any, _own: Any = own, _name: str = name, **kwargs: Any) -> Any:
            if isinstance(what, Proxy):
                return what._box_peer.ask("library", [module, _name, what, *args], kwargs)
            return _own(what, *args, **kwargs)

        setattr(library, name, forwarded)
