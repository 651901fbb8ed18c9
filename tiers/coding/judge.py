"""Run a program on every test of its task, and say for each how it went."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, cast

from tiers.coding.cases import Call, Case, Source, Stdio
from tiers.coding.compare import NotData, decode, same_output, same_python, same_value
from tiers.coding.conversation import Conversation, Heard, Told, read_fault
from tiers.sandbox.box import COMPILED, Box, Limits, Stopped
from tiers.sandbox.languages import PYTHON
from tiers.sandbox.probe import Sandbox, run_order
from tiers.sandbox.workshop import COMPILE_S, CompileFault, Program, Run, Workshop
from verifier_service.domain.errors import Permanent, TaskError, Transient

Code = Literal[
    "passed",
    "wrong_answer",
    "time_limit",
    "memory_limit",
    "output_limit",
    "crashed",
    "no_such_function",
    "not_data",
    "nothing_checked",
    "not_run",
]
MAX_BROKEN = 2
MOST_S = 100.0
_SIGABRT, _SIGSEGV = 6, 11
_NEARLY = 0.75
_LIMITS = ("time_limit", "memory_limit", "output_limit")


class TestResult(NamedTuple):
    """How one test went. Times in seconds on the judge's clock, memory in MiB as told from inside.

    ``fault`` is the class and line (``ValueError|3``) of what the program raised.
    """

    id: str
    code: Code
    runtime_s: float
    cpu_s: float
    memory_mb: float
    fault: str = ""
    starved_s: float = 0.0


class Rules(NamedTuple):
    """How tests are run: limits of each, seconds for all, tolerance of numbers, what ``check`` is given."""

    limits: Limits
    total_s: float
    tolerance: float | None
    entry_point: str | None


def judge(
    workshop: Workshop, asking: Asking | None, cases: Sequence[Case], rules: Rules
) -> list[TestResult]:
    """Run all tests in order. After a few that hit limits, or when the time for all is used, the rest are
    ``not_run``. Time in which a test had no processor is not taken from the others, up to ``MOST_S`` in
    all. Raises ``TaskError`` for tests that cannot be run, ``Transient`` when the sandbox fails."""
    results: list[TestResult] = []
    started = time.monotonic()
    until = started + rules.total_s
    last = started + max(rules.total_s, min(2 * rules.total_s, MOST_S))
    broken = 0
    for case in cases:
        left = until - time.monotonic()
        if broken >= MAX_BROKEN or left <= 0:
            results.append(TestResult(case.id, "not_run", 0.0, 0.0, 0.0))
            continue
        limits = rules.limits._replace(time_s=min(rules.limits.time_s, max(left, 0.01)))
        new = list(_one(workshop, asking, case, rules, limits))
        # What a test had beyond its limit was given back to it for the same reason.
        over = sum(each.runtime_s for each in new) - limits.time_s
        until = min(last, until + max(0.0, over, *(each.starved_s for each in new)))
        broken += any(each.code in _LIMITS for each in new)
        results += new
    return results


def _one(
    workshop: Workshop, asking: Asking | None, case: Case, rules: Rules, limits: Limits
) -> Iterator[TestResult]:
    if isinstance(case, Source):
        if asking is None:
            raise Permanent("unsupported_tests", "this sandbox runs no tests written in Python")
        workshop.rest()
        yield from asking.results(case, limits)
        return
    started = time.monotonic()
    if isinstance(case, Stdio):
        run = workshop.run(case.stdin.encode("utf-8", "surrogatepass"), limits)
        code = _ended_badly(run, limits) or _printed(run, case, rules)
    else:
        run = workshop.call(case.target, case.args, case.kwargs, limits)
        code = _ended_badly(run, limits) or _returned(run, case, rules)
    fault = read_fault(run.note)
    yield TestResult(
        case.id, code, time.monotonic() - started, run.cpu_s, run.peak_mb, fault, run.starved_s
    )


def _ended_badly(run: Run, limits: Limits) -> Code | None:
    if run.ending in ("time_limit", "memory_limit", "output_limit"):
        return run.ending
    if run.note[:12] == b"EMemoryError":
        return "memory_limit"
    if run.note[:1] == b"B":
        return "output_limit"
    if run.note[:1] == b"N":
        return "no_such_function"
    if run.signal in (_SIGABRT, _SIGSEGV) and run.peak_mb > _NEARLY * limits.memory_mb:
        return "memory_limit"
    return "crashed" if run.ending == "lost" or run.exit != 0 else None


def _printed(run: Run, case: Stdio, rules: Rules) -> Code:
    text = run.out.decode("utf-8", "replace")
    return "passed" if same_output(text, case.stdout, rules.tolerance) else "wrong_answer"


def _returned(run: Run, case: Call, rules: Rules) -> Code:
    if run.note[:1] != b"V":
        return "crashed"
    try:
        found = decode(json.loads(run.note[1:]))
    except NotData:
        return "not_data"
    except (ValueError, RecursionError):
        return "wrong_answer"
    if case.python:
        return "passed" if same_python(found, case.expected) else "wrong_answer"
    wanted = [case.expected]
    if case.wrapped and isinstance(case.expected, list) and len(case.expected) == 1:
        wanted.append(case.expected[0])
    return "passed" if any(same_value(found, want, rules.tolerance) for want in wanted) else "wrong_answer"


class Asking:
    """Tests that are programs themselves. Boxes are kept from one source to the next while they stand."""

    def __init__(self, sandbox: Sandbox, program: Program, memory_mb: int, entry_point: str | None) -> None:
        self._sandbox, self._program = sandbox, program
        self._memory_mb, self._entry_point = memory_mb, entry_point
        self._solution: Box | None = None
        self._tester: Box | None = None

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    def results(self, case: Source, limits: Limits) -> Iterator[TestResult]:
        """One result for each test in a source. Raises ``TaskError`` when the fault is the tests'."""
        heard = self._heard(case, limits)
        names = list(case.functions) or [""]
        told = {record.name: record for record in heard.records}
        for record in heard.records:
            if record.code == "bad_test":
                raise TaskError("bad_tests", f"test {case.id}: {record.text}")
        failed = told.get("")
        kept = [name for name in names if name not in told or told[name].code != "skipped"]
        if not kept:
            raise TaskError("bad_tests", f"test {case.id}: all of it is skipped")
        for number, name in enumerate(names):
            if name not in kept:
                continue
            # Their names are words of the tests.
            label = f"{case.id}.{number}" if name else case.id
            code = self._code(told.get(name, failed), heard)
            yield TestResult(label, code, heard.wall_s / len(kept), 0.0, heard.peak_mb, heard.fault)

    def _code(self, record: Told | None, heard: Heard) -> Code:
        if record is not None and record.code not in ("crashed", "bad_test"):
            return cast("Code", record.code)
        if heard.trouble in ("time_limit", "memory_limit"):
            return "time_limit" if heard.trouble == "time_limit" else "memory_limit"
        return "memory_limit" if heard.fault.startswith("MemoryError") else "crashed"

    def _heard(self, case: Source, limits: Limits) -> Heard:
        solution, tester = self._boxes()
        try:
            heard = Conversation(solution, tester, self._entry_point).hold(
                case,
                limits,
                lambda order: run_order(self._sandbox, {"memory_mb": limits.memory_mb, **order}),
            )
        except BaseException:
            self._close()
            raise
        if heard.trouble is not None:
            self._close()
        return heard

    def _boxes(self) -> tuple[Box, Box]:
        if self._solution is None or self._tester is None:
            self._close()
            self._tester = self._sandbox.open("tester")
            self._solution = self._sandbox.open("session")
            self._compile(self._solution)
            empty = {"verb": "compile", "sources": [], "memory_mb": self._memory_mb}
            try:
                ready = self._tester.ask(empty, Limits(30.0, self._memory_mb)).kind == COMPILED
            except Stopped:
                ready = False
            if not ready:
                raise Transient("sandbox_failed", "the tests' sandbox did not get ready")
        return self._solution, self._tester

    def _compile(self, box: Box) -> None:
        sources = [part for part in (self._program.prelude, self._program.source) if part]
        order = {"verb": "compile", "sources": sources, "memory_mb": self._memory_mb}
        try:
            answer = box.ask(order, Limits(COMPILE_S, max(self._memory_mb, PYTHON.compile_memory_mb)))
        except Stopped as stopped:
            raise CompileFault(f"the source cannot be compiled ({stopped.trouble})") from None
        if answer.kind != COMPILED:
            raise CompileFault(answer.body.decode("utf-8", "replace")[:500])

    def _close(self) -> None:
        for box in (self._solution, self._tester):
            if box is not None:
                box.close()
        self._solution = self._tester = None
