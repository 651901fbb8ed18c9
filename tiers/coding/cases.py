"""The tests of a task, in the forms that data sets use. A task without usable tests is nobody's failure."""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tiers.sandbox.inside.reading import classes
from verifier_service.domain.errors import TaskError
from verifier_service.domain.records import JsonObject

MAX_TESTS = 2_000
MAX_TEXT = 1 << 26
TARGET = re.compile(r"[A-Za-z_]\w{0,99}(\(\))?(\.[A-Za-z_]\w{0,99}(\(\))?){0,4}\Z")
_BUILTINS = frozenset(dir(builtins))
_INPUT, _OUTPUT = ("stdin", "input"), ("stdout", "output")


class Stdio(NamedTuple):
    """Give the program an input; it must print this output."""

    id: str
    stdin: str
    stdout: str


class Call(NamedTuple):
    """Call something in the program; it must return this. ``python``: compared as ``==`` does."""

    id: str
    target: str
    args: list[Any]
    kwargs: dict[str, Any]
    expected: Any
    python: bool = False
    wrapped: bool = False


class Source(NamedTuple):
    """Python code with assertions: the ``names`` it wants from the program, its ``functions``, and which of
    the names are ``classes``, as all the tests together show."""

    id: str
    source: str
    names: tuple[str, ...]
    functions: tuple[str, ...]
    classes: tuple[str, ...] = ()


Case: TypeAlias = Stdio | Call | Source


def read_cases(reference: JsonObject, entry_point: str | None) -> tuple[Case, ...]:
    """The tests of ``reference["tests"]`` or ``["tests_b64"]``, in order, with unique ids.

    Raises ``TaskError``: ``no_tests`` when there is nothing that could fail, ``bad_tests`` otherwise.
    """
    tests = _decoded(reference["tests_b64"]) if "tests_b64" in reference else reference.get("tests")
    if tests is None or tests in ([], {}, ""):
        raise TaskError("no_tests", "reference.tests is missing or empty")
    try:
        cases = _with_classes(tuple(_numbered(_cases(tests, entry_point))), entry_point)
    except (RecursionError, MemoryError) as error:
        raise TaskError("bad_tests", "the tests are nested too deeply") from error
    if not cases:
        raise TaskError("no_tests", "reference.tests holds no test")
    return cases


def _with_classes(cases: tuple[Case, ...], entry_point: str | None) -> tuple[Case, ...]:
    sources = [case for case in cases if isinstance(case, Source)]
    names = dict.fromkeys(name for source in sources for name in source.names)
    trees = [ast.parse(source.source) for source in sources]
    found = classes(trees, names, bare_name(entry_point))
    return tuple(case._replace(classes=found) if isinstance(case, Source) else case for case in cases)


def bare_name(entry_point: str | None) -> str:
    """The name in ``name``, ``Class().method`` or ``Class.method`` that the program itself has."""
    return (entry_point or "").partition("(")[0].partition(".")[0]


def _decoded(text: object) -> Any:
    if not isinstance(text, str):
        raise TaskError("no_tests", "reference.tests_b64 is not a string")
    try:
        return json.loads(base64.b64decode(text, validate=True).decode("utf-8"))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise TaskError("no_tests", "reference.tests_b64 is not base64 of UTF-8 JSON") from error


def _cases(tests: Any, entry_point: str | None) -> Iterator[Case]:
    if isinstance(tests, Mapping):
        yield from _table(tests)
        return
    members = [tests] if isinstance(tests, str) else tests
    if not isinstance(members, list) or len(members) > MAX_TESTS:
        raise TaskError("bad_tests", f"reference.tests must be a text or a list of at most {MAX_TESTS}")
    for position, member in enumerate(members):
        if isinstance(member, str):
            yield from _written(str(position), member, entry_point)
        elif isinstance(member, Mapping):
            yield _given(_named(member, position), member, entry_point)
        else:
            raise TaskError("bad_tests", f"reference.tests[{position}] is neither a text nor an object")


def _named(member: Mapping[str, Any], position: int) -> str:
    name = member.get("id", str(position))
    if not isinstance(name, str) or not 1 <= len(name) <= 100:
        raise TaskError("bad_tests", f"reference.tests[{position}].id must be 1 to 100 characters")
    return name


def _numbered(cases: Iterator[Case]) -> Iterator[Case]:
    seen: dict[str, int] = {}
    for case in cases:
        count = seen[case.id] = seen.get(case.id, -1) + 1
        yield case if not count else case._replace(id=f"{case.id}#{count}")


def _given(name: str, member: Mapping[str, Any], entry_point: str | None) -> Case:
    if "call" in member or member.get("testtype") == "functional":
        return _call(name, member, entry_point)
    stdin = next((member[key] for key in _INPUT if key in member), "")
    stdout = next((member[key] for key in _OUTPUT if key in member), None)
    if not isinstance(stdin, str) or not isinstance(stdout, str):
        raise TaskError("bad_tests", f"test {name} has neither stdout nor call and expected")
    return Stdio(name, stdin, stdout)


def _call(name: str, member: Mapping[str, Any], entry_point: str | None) -> Call:
    if "call" not in member:  # LiveCodeBench: one JSON value a line
        try:
            args = [json.loads(line) for line in str(member["input"]).split("\n") if line.strip()]
            expected = json.loads(member["output"])
        except (KeyError, ValueError, TypeError) as error:
            raise TaskError("bad_tests", f"test {name}: input and output are not JSON") from error
        return Call(name, _target(name, entry_point), args, {}, expected)
    args, kwargs = member.get("args", []), member.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, Mapping):
        raise TaskError("bad_tests", f"test {name}: args must be a list and kwargs an object")
    if "expected" not in member:
        raise TaskError("no_tests", f"test {name} expects nothing")
    return Call(name, _target(name, member["call"]), args, dict(kwargs), member["expected"])


def _target(name: str, target: object) -> str:
    if not isinstance(target, str) or not TARGET.match(target):
        raise TaskError("bad_tests", f"test {name}: what to call must be a name like f or Solution().f")
    return target


def _table(tests: Mapping[str, Any]) -> Iterator[Case]:
    """APPS: parallel lists of inputs and outputs, with ``fn_name`` for calls."""
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise TaskError("bad_tests", "reference.tests needs inputs and outputs of one length")
    if len(inputs) > MAX_TESTS:
        raise TaskError("bad_tests", f"at most {MAX_TESTS} tests")
    function = tests.get("fn_name")
    for position, (given, wanted) in enumerate(zip(inputs, outputs, strict=True)):
        name = str(position)
        if function is not None:
            args = given if isinstance(given, list) else [given]
            yield Call(name, _target(name, function), args, {}, wanted, wrapped=True)
        elif isinstance(given, str | list) and isinstance(wanted, str | list):
            yield Stdio(name, _lines(given), _lines(wanted))
        else:
            raise TaskError("bad_tests", f"test {name}: inputs and outputs must be texts")


def _lines(text: str | list[Any]) -> str:
    return text if isinstance(text, str) else "\n".join(map(str, text))


def _written(name: str, source: str, entry_point: str | None) -> Iterator[Case]:
    """Python assertions. Plain ones (a call with literals equals a literal) need no tester."""
    if len(source) > MAX_TEXT:
        raise TaskError("bad_tests", f"test {name} is longer than {MAX_TEXT} characters")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError("bad_tests", f"test {name} is not Python: {type(error).__name__}") from error
    if not any(_asserts(node) for node in ast.walk(tree)):
        raise TaskError("no_tests", f"test {name} asserts nothing")
    plain = [_plain(f"{name}.{line}", node) for line, node in enumerate(tree.body)]
    if plain and all(plain):
        for case in plain:
            if case is not None:
                yield case if len(plain) > 1 else case._replace(id=name)
        return
    functions = tuple(_functions(name, tree, entry_point))
    yield Source(name, source, _wanted(tree, entry_point), functions)


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.startswith(("assert", "fail"))
    return isinstance(node, ast.Raise)


def _plain(name: str, node: ast.stmt) -> Call | None:
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
        return None
    comparison = node.test
    if len(comparison.ops) != 1 or not isinstance(comparison.ops[0], ast.Eq):
        return None
    for call, wanted in (
        (comparison.left, comparison.comparators[0]),
        (comparison.comparators[0], comparison.left),
    ):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            function = call.func.id
            if function in _BUILTINS or function.lstrip("_")[:1].isupper():
                return None
            try:
                args = [ast.literal_eval(each) for each in call.args]
                kwargs = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords if each.arg}
                expected = ast.literal_eval(wanted)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return None
            if len(kwargs) != len(call.keywords):
                return None
            return Call(name, function, args, kwargs, expected, python=True)
    return None


def _functions(name: str, tree: ast.Module, entry_point: str | None) -> Iterator[str]:
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            wants = len(node.args.args) - len(node.args.defaults)
            if node.name == "check" and wants == 1 and "check" not in called:
                if entry_point is None:
                    raise TaskError(
                        "bad_tests", f"test {name} has check(candidate): inputs.entry_point is needed"
                    )
                yield "check"
            elif node.name.startswith("test") and node.name not in called:
                if wants:
                    raise TaskError("bad_tests", f"test {name}: {node.name} wants arguments")
                yield node.name
        elif isinstance(node, ast.ClassDef) and _is_test_case(node.bases):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name.startswith(
                    "test"
                ):
                    yield f"{node.name}.{method.name}"


def _is_test_case(bases: Sequence[ast.expr]) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in bases)


def _wanted(tree: ast.Module, entry_point: str | None) -> tuple[str, ...]:
    """Names that the tests load and no builtin has, or that they import from ``solution``."""
    names = dict.fromkeys([bare_name(entry_point)] if entry_point else [])
    own = set(_defined(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id not in _BUILTINS and node.id not in own:
                names[node.id] = None
        elif isinstance(node, ast.ImportFrom) and node.module == "solution":
            names.update(dict.fromkeys(each.name for each in node.names if each.name != "*"))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "solution"
        ):
            names[node.attr] = None
    return tuple(names)


def _defined(tree: ast.Module) -> Iterator[str]:
    """What the tests bring along: a program's own things of the same names are not meant."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "solution":
            yield from (each.asname or each.name for each in node.names)
