"""Tests written in Python run here, in a sandbox of their own, against stand-ins for the solution.

Results of the solution arrive as plain data; what is no data stays on the other side behind a ``Proxy``.
"""

from __future__ import annotations

import ast
import builtins
import json
import sys

from tiers.sandbox.inside import guard, reading
from tiers.sandbox.inside.peer import Peer, Remote, awaited
from tiers.sandbox.inside.proxy import NotData, Proxy, Unsupported
from tiers.sandbox.inside.session import OPERATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType
    from typing import Any

    Names = dict[str, Any]
else:
    Names = dict

RECORD = b"S"
FILE = "test.py"
NO_ERROR = "BaseException"
BUILTIN_ERRORS: Mapping[str, type[BaseException]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
}


class Unfit(Exception):
    """A test that cannot judge anybody."""


class Skipped(Exception):
    """A test that says of itself that it is not to be run."""


class _Namespace(Names):
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
        self._peer = Peer(channel, Proxy, self._answers, self.translate, self._error_class, lambda: "")
        self._errors: dict[str, type[BaseException]] = {}
        self._tree = ast.parse(order["source"])
        self._silent = {name for name, method in reading.methods(self._tree) if not reading.checks(method)}
        self.held = 0
        self.missing: set[str] = set()
        self._known = -1

    def run(self) -> None:
        """Send one record for each test of the source, at least one."""
        namespace = _Namespace(self._variable, __name__="test")
        namespace["__held__"] = self._count
        namespace["__checked__"] = self._checked
        sys.modules["test"] = type(sys)("test")
        names = list(self._order["names"])
        ready, _ = self._record("", lambda: self._stand_ins(names, namespace), silent=True)
        if not ready:
            return
        self._ready(names, namespace)
        code = compile(reading.Counted().visit(self._tree), FILE, "exec", dont_inherit=True)
        found = self._order["functions"]
        good, _ = self._record("", lambda: _execute(code, namespace), silent=bool(found))
        if not good:
            return
        cases = Fixtures(namespace, found, skips=self._untouched())
        for name in found:
            self._record(name, self._one(namespace, name, cases))

    def _one(self, namespace: dict[str, Any], name: str, cases: Fixtures) -> Callable[[], object]:
        if name == "check":
            return lambda: namespace["check"](namespace[self._order["entry_point"]])
        if "." not in name:
            return lambda: awaited_result(namespace[name]())
        return lambda: cases.run(name, self._count if name in self._silent else None)

    def _ready(self, names: list[str], namespace: _Namespace) -> None:
        """What the tests do from here on is their own doing, until they ask the solution for something.

        Only where it has nothing but stand-ins that ask: whatever else a name stands for is the solution's
        choice, and so is that it stands for nothing.
        """
        own = set(reading.libraries(self._tree, names))
        own.update(self.missing & reading.bound(self._tree))
        own.discard(self._order["entry_point"])
        if all(isinstance(namespace.get(name), Proxy) for name in names if name not in own):
            self._known = self._peer.asked
            self._tell("", "ready", "")

    def _untouched(self) -> bool:
        return self._known == self._peer.asked

    def _tell(self, name: str, code: str, text: str) -> None:
        body = json.dumps({"name": name, "code": code, "text": text[:200], "held": self.held})
        self._channel.send(RECORD, body.encode())

    def _variable(self, name: str) -> Any:
        return self._peer.lend(None, name, self._peer.ask("get", [name]))

    def _count(self) -> None:
        self.held += 1

    def _checked(self, result: Any) -> Any:
        self.held += 1
        return result

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
        except Skipped:
            code = "skipped"
        except EOFError:
            code = "crashed"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a test or the solution raised
            code, text = self._blame(error), type(error).__name__
        if code != "passed" or not silent:
            if code == "passed" and self.held == 0:
                code = "bad_test" if self._untouched() else "nothing_checked"
                text = "it checks nothing"
            self._tell(name, code, text)
        return code == "passed", self.held

    def _blame(self, error: BaseException) -> str:
        """Whose fault an error is: the tests', if the solution had no part in it, or of a name that nobody
        was to have."""
        if getattr(error, "_of_solution", False):
            return "crashed"
        if isinstance(error, Unsupported | Unfit):
            return "bad_test"
        if type(error).__name__ == "SkipTest":
            return "skipped" if self._untouched() else "nothing_checked"
        name = getattr(error, "name", None)
        if isinstance(error, NameError):
            return "no_such_function" if name in self.missing else "bad_test"
        if isinstance(error, ImportError):
            return "no_such_function" if name == "solution" else "bad_test"
        if isinstance(error, AttributeError) and isinstance(getattr(error, "obj", None), _Solution):
            return "no_such_function"
        # To raise or to catch what the solution has by a name asks it for nothing.
        return "bad_test" if self._untouched() and NO_ERROR not in str(error) else "crashed"

    def _stand_ins(self, names: list[str], namespace: _Namespace) -> None:
        """Put what the solution has under these names into the namespace."""
        found = self._peer.ask("names", [names])
        errors = set(reading.derived_errors(self._tree))
        own = [name for name in names if name != self._order["entry_point"]]
        namespace.update((name, reading.imported(name)) for name in reading.libraries(self._tree, own))
        for name in names:
            kind, *rest = found[name]
            if name in namespace:
                continue
            if (
                kind == "missing"
                or (kind == "module" and reading.imported(rest[0]) is None)
                or (kind != "exception" and name in errors)
            ):
                self.missing.add(name)
            elif kind == "module":
                namespace[name] = reading.imported(rest[0])
            elif kind == "exception":
                namespace[name] = self._error(*rest)
            elif kind == "data":
                namespace.variables.add(name)
            else:
                value = self._peer.ask("get", [name])
                if isinstance(value, Proxy):
                    object.__setattr__(value, "_box_class", name in self._order["classes"])
                namespace[name] = value
        sys.modules["solution"] = _Solution(namespace, names)

    def _answers(self, do: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The solution uses what a test gave it: nothing below the surface of an object."""
        if not self._peer.gave(args[0]):
            raise TypeError("not for the solution")
        guard.check(do, args[0], args[1:])
        return guard.passes(OPERATIONS[do](*args, **kwargs))

    def _error(self, kind: str, module: str, base: str) -> type[BaseException]:
        parent = BUILTIN_ERRORS.get(base, Exception)
        if module == "builtins":
            return BUILTIN_ERRORS.get(kind, parent)
        if module.partition(".")[0] in sys.stdlib_module_names and module in sys.modules:
            found = getattr(sys.modules[module], kind, None)
            if isinstance(found, type) and issubclass(found, parent):
                return found
        return self._errors.setdefault(kind, type(kind, (parent,), {"__module__": "solution"}))

    def _error_class(self, name: str) -> Any:
        return self._errors.get(name) or BUILTIN_ERRORS.get(name, Exception)

    def translate(self, error: Remote) -> BaseException:
        """The solution's error as one that a test can catch by its name and look at."""
        kind = self._error(error.kind, error.module, error.base)
        ends = issubclass(kind, StopIteration | StopAsyncIteration) and error.do != "next"
        if ends and "StopIteration" not in self._order["source"]:
            # It would end a loop of the test over its own cases.
            kind = RuntimeError
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


class Fixtures:
    """Runs methods in the order of the source; a class is set up before its first and torn down after its
    last. ``skips``: nothing of the solution was asked until the classes stood, so that whatever is to be
    skipped was not of its making."""

    def __init__(self, namespace: Mapping[str, Any], names: Sequence[str], *, skips: bool) -> None:
        self._namespace = namespace
        self._skips = skips
        self._last = {name.partition(".")[0]: name for name in names if "." in name}
        self._broken: dict[str, BaseException] = {}
        self._stands: set[str] = set()
        self._module = False

    def run(self, name: str, count: Callable[[], None] | None) -> None:
        """Run one method; raises what it raised. ``count`` is for a method whose checks stand elsewhere."""
        head, _, method = name.partition(".")
        cls = self._namespace[head]
        function = getattr(cls, method)
        for each in (cls, function):
            if getattr(each, "__unittest_expecting_failure__", False):
                raise Unfit("a test that is expected to fail")
            if getattr(each, "__unittest_skip__", False):
                if self._skips:
                    raise Skipped
                return
        try:
            self._set_up(head, cls)
            _run(cls, method)
        finally:
            if self._last[head] == name:
                self._tear_down(head, cls)
        if count is not None:
            count()

    def _set_up(self, head: str, cls: Any) -> None:
        if head in self._broken:
            raise self._broken[head]
        if head in self._stands:
            return
        try:
            if not self._module:
                self._module = True
                self._namespace.get("setUpModule", _nothing)()
            getattr(cls, "setUpClass", _nothing)()
        except BaseException as error:
            self._broken[head] = error
            raise
        self._stands.add(head)

    def _tear_down(self, head: str, cls: Any) -> None:
        if head in self._stands:
            getattr(cls, "tearDownClass", _nothing)()
        getattr(cls, "doClassCleanups", _nothing)()


def _nothing() -> None:
    """Where a class has no such method."""


def _run(cls: Any, method: str) -> None:
    import unittest

    case = cls(method)
    if isinstance(case, unittest.IsolatedAsyncioTestCase):
        _raised(case)
        return
    case.setUp()
    try:
        awaited_result(getattr(case, method)())
    finally:
        case.tearDown()
        case.doCleanups()


def _raised(case: Any) -> None:
    """Run one whose methods share a loop, which only its own ``run`` can; raises what it raised first."""
    import unittest

    found: list[BaseException] = []

    def keep(_: Any, *told: Any) -> None:
        found.extend(each[1] for each in told[-1:] if each is not None)

    def skip(_: Any, __: Any, reason: str) -> None:
        found.append(unittest.SkipTest(reason))

    kept = {"addError": keep, "addFailure": keep, "addSubTest": keep, "addSkip": skip}
    case.run(type("Result", (unittest.TestResult,), kept)())
    if found:
        raise found[0]


def awaited_result(value: Any) -> Any:
    """A test that is a coroutine is run."""
    return awaited(value) if hasattr(value, "cr_frame") else value


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
