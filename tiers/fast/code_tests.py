"""``code.tests``: does the program pass the task's tests? Run in a sandbox, judged outside of it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar, Literal

from pydantic import Field

from tiers.coding.cases import Case, Source, read_cases
from tiers.coding.judge import Asking, Rules, TestResult, judge
from tiers.coding.preludes import require_prelude
from tiers.coding.speed import Speed, Unsteady, compare_speed
from tiers.sandbox import shops
from tiers.sandbox.box import Limits as RunLimits
from tiers.sandbox.languages import BadLanguages, Toolchain, declared
from tiers.sandbox.probe import NoSandbox
from tiers.sandbox.workshop import CompileFault, Program
from verifier_service.domain.errors import Resource, TaskError
from verifier_service.domain.evidence import Finding, Hint, Measurement, Reason, Tier, Verdict
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_SOURCE = 200_000
MAX_TIME_S = 30.0
MAX_MEMORY_MB = 2048
WORDS = {
    "wrong_answer": "gave another result than expected",
    "time_limit": "took longer than the time limit",
    "memory_limit": "took more memory than the limit",
    "output_limit": "wrote more than the limit",
    "crashed": "ended with an error",
    "no_such_function": "found no function or class of the name that the task asks for",
    "not_data": "got an object of the program's own class where a plain value is expected",
    "nothing_checked": "never reached an assertion",
    "not_run": "did not run, because earlier ones had used up the time",
}


class CodeParams(Params):
    """How tests make a score, and the limits that a task does not set itself.

    ``score``: ``all`` (1 when every test passes, else 0), ``fraction`` (the share that passes) or
    ``speed`` (when all pass: the reference solution's time over the program's, at most 1).
    ``total_s`` bounds all tests of one program together.
    """

    score: Literal["all", "fraction", "speed"] = "all"
    time_limit_s: float = Field(default=5.0, gt=0, le=MAX_TIME_S)
    memory_mb: int = Field(default=512, ge=64, le=MAX_MEMORY_MB)
    total_s: float = Field(default=60.0, gt=0, le=90.0)


class CodeTests(Verifier):
    """Run the candidate on ``reference["tests"]`` and compare outside the sandbox.

    ``inputs`` may name ``language``, ``entry_point``, ``time_limit_s``, ``memory_mb``,
    ``float_tolerance`` and a ``prelude`` (source that is run before the candidate's). The time limit of a
    test is wall time without the time in which the machine had no processor for it.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="code.tests",
        version="1",
        tier=Tier.FAST,
        summary="The program passes the task's tests, run in a sandbox and judged outside of it",
        reads=frozenset({"candidate", "inputs", "reference"}),
        on_limit="reject",
        libraries=("python",),
        quantities=("runtime", "peak_memory", "speedup"),
        limits=Limits(time_s=120.0, memory_mb=6144, max_batch=16),
        typical_cpu_s=0.05,
        parallel=True,
    )
    params_model: ClassVar[type[Params]] = CodeParams

    def unavailable(self) -> str | None:
        """Return why no program can be run on this machine, or ``None``."""
        try:
            declared()
            shops.chosen()
        except (NoSandbox, BadLanguages) as error:
            return str(error)
        return None

    def warm(self) -> None:
        """Prove the sandbox again in this process."""
        shops.chosen()

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Return the score with one artifact that lists every test. Features: ``characters`` and ``lines``
        of the program, ``passed_fraction`` of the tests.

        Raises ``TaskError`` (``no_tests``, ``bad_tests``, ``bad_inputs``, ``bad_solution``) for the task,
        ``Resource`` for a language this worker does not have, ``Transient`` when the sandbox fails.
        """
        assert isinstance(params, CodeParams)  # noqa: S101 - for mypy: the harness validated them
        started = time.monotonic()
        task = _Task(item.inputs, params)
        cases = read_cases(item.reference, task.entry_point)
        toolchain = _toolchain(task.language)
        if toolchain.run is not None and any(not hasattr(case, "stdin") for case in cases):
            raise TaskError("bad_tests", f"{task.language} programs are tested by stdin and stdout only")
        solution = _reference_solution(item.reference, params)
        refusal = _refusal(item.candidate)
        if refusal is not None:
            return refusal
        program = Program(str(item.candidate), toolchain, task.prelude)
        try:
            results, speed = _run(program, cases, task.rules), None
            if not any(each.code == "passed" for each in results):
                require_prelude(program, cases, task.rules.limits)
            if params.score == "speed" and solution and all(each.code == "passed" for each in results):
                beside = program._replace(source=solution)
                speed = compare_speed(program, beside, cases, task.rules, results, started)
        except CompileFault as fault:
            require_prelude(program, cases, task.rules.limits)
            return _not_compiled(str(fault), program)
        except Unsteady as unsteady:
            results, speed = list(unsteady.results), None
        return _finding(results, params, speed, task, program)


class _Task:
    """What the inputs say. Raises ``TaskError`` ``bad_inputs``."""

    def __init__(self, inputs: JsonObject, params: CodeParams) -> None:
        self.language = _text(inputs, "language", "python") or "python"
        self.entry_point = _text(inputs, "entry_point", None)
        self.prelude = _text(inputs, "prelude", "") or ""
        time_s = _number(inputs, "time_limit_s", params.time_limit_s, MAX_TIME_S)
        memory = _number(inputs, "memory_mb", float(params.memory_mb), MAX_MEMORY_MB)
        tolerance = inputs.get("float_tolerance")
        self.tolerance = None if tolerance is None else _number(inputs, "float_tolerance", 0.0, 1.0)
        limits = RunLimits(time_s, max(64, int(memory)))
        self.rules = Rules(limits, params.total_s, self.tolerance, self.entry_point)


def _text(inputs: JsonObject, name: str, default: str | None) -> str | None:
    value = inputs.get(name, default)
    if value is not None and (not isinstance(value, str) or len(value) > MAX_SOURCE):
        raise TaskError("bad_inputs", f"inputs.{name} must be a text of at most {MAX_SOURCE} characters")
    return value


def _number(inputs: JsonObject, name: str, default: float, most: float) -> float:
    value = inputs.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise TaskError("bad_inputs", f"inputs.{name} must be a number above 0 and at most {most:g}")
    return float(value)


def _toolchain(language: str) -> Toolchain:
    languages = declared()
    if language not in languages:
        known = ", ".join(sorted(languages))
        raise Resource("language_unavailable", f"this worker runs {known}; set VERIFIER_LANGUAGES")
    return languages[language]


def _reference_solution(reference: JsonObject, params: CodeParams) -> str | None:
    solution = reference.get("solution")
    if solution is not None and not isinstance(solution, str):
        raise TaskError("bad_solution", "reference.solution must be a text")
    if params.score == "speed" and not solution:
        raise TaskError("bad_solution", "the score is speed, and there is no reference.solution")
    return solution


def _refusal(candidate: JsonValue) -> Finding | None:
    if candidate is None or candidate == "" or (isinstance(candidate, str) and not candidate.strip()):
        return _rejected("empty_answer", "there is no program in the answer")
    if not isinstance(candidate, str):
        return _rejected("not_text", "the answer is not a text")
    if len(candidate) > MAX_SOURCE:
        return _rejected("too_large", f"the program is longer than {MAX_SOURCE} characters")
    try:
        candidate.encode()
    except UnicodeEncodeError:
        return _rejected("compile_error", "the program holds characters that no text has (lone surrogates)")
    return None


def _rejected(code: str, message: str, hints: tuple[Hint, ...] = ()) -> Finding:
    return Finding(
        verdict=Verdict.REJECT, score=0.0, reason=Reason(code=code, message=message), hints=hints
    )


def _not_compiled(fault: str, program: Program) -> Finding:
    hint = Hint(kind="compile_error", text=fault)
    finding = _rejected("compile_error", f"the program does not compile: {fault}", (hint,))
    return finding.model_copy(update={"features": _size(program) | {"passed_fraction": 0.0}})


def _size(program: Program) -> dict[str, float]:
    source = program.source
    return {"characters": float(len(source)), "lines": float(source.count("\n") + 1)}


def _run(program: Program, cases: Sequence[Case], rules: Rules) -> list[TestResult]:
    with ExitStack() as stack:
        shop = shops.open_shop(program, rules.limits.memory_mb)
        workshop = stack.enter_context(shop.workshop)
        asking = None
        if shop.sandbox is not None and any(isinstance(case, Source) for case in cases):
            asking = stack.enter_context(
                Asking(shop.sandbox, program, rules.limits.memory_mb, rules.entry_point)
            )
        return judge(workshop, asking, cases, rules)


def _finding(
    results: Sequence[TestResult], params: CodeParams, speed: Speed | None, task: _Task, program: Program
) -> Finding:
    passed = sum(each.code == "passed" for each in results)
    good = passed == len(results)
    measurements = [
        Measurement(quantity="runtime", value=sum(each.runtime_s for each in results), unit="s"),
        Measurement(quantity="peak_memory", value=max(each.memory_mb for each in results), unit="MiB"),
    ]
    score = passed / len(results) if params.score == "fraction" else float(good)
    if speed is not None:
        score = min(1.0, speed.ratio)
        measurements.append(Measurement(quantity="speedup", value=speed.ratio, unit="1", sigma=speed.sigma))
    first = next((each for each in results if each.code != "passed"), None)
    return Finding(
        verdict=Verdict.ACCEPT if good else Verdict.REJECT,
        score=score,
        reason=None if first is None else _reason(first, len(results) - passed, len(results)),
        measurements=tuple(measurements),
        hints=_hints(results),
        features=_size(program) | {"passed_fraction": passed / len(results)},
        artifacts=({"kind": "tests", "tests": [_row(each) for each in results]},),
        assumptions=_assumptions(task, params),
    )


def _reason(first: TestResult, failed: int, count: int) -> Reason:
    return Reason(
        code=first.code, message=f"{failed} of {count} tests failed; the first {WORDS[first.code]}"
    )


def _hints(results: Sequence[TestResult]) -> tuple[Hint, ...]:
    """What went wrong, by kind, without a word of the tests."""
    counts = Counter((each.code, each.fault) for each in results if each.code != "passed")
    hints = []
    for (code, fault), count in counts.most_common(5):
        name, _, line = fault.partition("|")
        where = (
            f" ({name} in line {line})" if name and line not in ("", "0") else f" ({name})" if name else ""
        )
        hints.append(
            Hint(kind=code, text=f"{count} of {len(results)} tests: the program {WORDS[code]}{where}.")
        )
    return tuple(hints)


def _row(result: TestResult) -> JsonObject:
    return {
        "id": result.id,
        "result": result.code,
        "runtime_s": round(result.runtime_s, 4),
        "cpu_s": round(result.cpu_s, 4),
        "memory_mb": math.ceil(result.memory_mb),
    }


def _assumptions(task: _Task, params: CodeParams) -> tuple[str, ...]:
    numbers = (
        "numbers in output compared as text"
        if task.tolerance is None
        else f"numbers within {task.tolerance:g}"
    )
    limits = task.rules.limits
    return (
        f"language {task.language}; {limits.time_s:g} s and {limits.memory_mb} MiB for each test",
        f"white space at the ends of lines is ignored; {numbers}; score: {params.score}",
    )
