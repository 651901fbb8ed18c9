"""How fast a program is beside a reference solution, measured in turn on the same tests."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tiers.coding.cases import Call, Case, Source, Stdio
from tiers.coding.judge import Rules, TestResult, judge
from tiers.sandbox import shops
from tiers.sandbox.workshop import CompileFault, Program
from verifier_service.domain.errors import TaskError

ROUNDS = 5
IDLE = "def idle(*args, **kwargs):\n    pass\n"
IDLE_ROUNDS = 3
IDLE_RUNS = 20
LEAST_S = 1e-3
_LIMITS = ("time_limit", "memory_limit", "not_run")


class Speed(NamedTuple):
    """``ratio``: reference time over the program's time (above 1: faster than the reference)."""

    ratio: float
    sigma: float


class Unsteady(Exception):
    """The program passed its tests once and failed them while it was timed; the failure is its result."""

    def __init__(self, results: Sequence[TestResult]) -> None:
        super().__init__("the program does not pass its tests every time")
        self.results = results


def compare_speed(program: Program, reference: Program, cases: Sequence[Case], rules: Rules) -> Speed:
    """Run both in turn, ``ROUNDS`` times, and compare the sums of wall times over all tests.

    The time of an idle program on the same inputs is taken off both: it is the sandbox's. What is left is
    at least a millisecond, below which nothing can be told apart.
    Raises ``Unsteady``, ``CompileFault``, and ``TaskError`` when the reference fails its own tests, or
    where tests are programs themselves.
    """
    if any(isinstance(case, Source) for case in cases):
        raise TaskError("bad_tests", "speed is measured on stdin/stdout and call tests only")
    overhead = _overhead(program, cases, rules)
    own, wanted, failed = [], [], []
    for _ in range(ROUNDS):
        results = _results(program, cases, rules)
        if _passed(results):
            own.append(max(LEAST_S, _seconds(results) - overhead))
        elif any(each.code != "passed" and each.code not in _LIMITS for each in results):
            raise Unsteady(results)
        else:
            failed = results
        wanted.append(max(LEAST_S, _seconds(_reference(reference, cases, rules)) - overhead))
    if not own:
        raise Unsteady(failed)
    # The shortest time is the least disturbed one.
    ratio = min(wanted) / min(own)
    spread = math.hypot(*(statistics.median(times) / min(times) - 1.0 for times in (own, wanted)))
    return Speed(ratio, ratio * spread)


def _overhead(program: Program, cases: Sequence[Case], rules: Rules) -> float:
    """Of calls, all are tried: they share a process. Of runs, a few stand for the rest."""
    if program.toolchain.run is not None:
        return 0.0
    calls = [each._replace(target="idle", expected=None) for each in cases if isinstance(each, Call)]
    runs = [Stdio(each.id, each.stdin, "") for each in cases if isinstance(each, Stdio)]
    few = runs[:IDLE_RUNS]
    idle = Program(IDLE, program.toolchain)
    times = []
    for _ in range(IDLE_ROUNDS):
        results = _results(idle, [*calls, *few], rules)
        of_runs = _seconds(results[len(calls) :]) * (len(runs) / max(1, len(few)))
        times.append(_seconds(results[: len(calls)]) + of_runs)
    return min(times)


def _reference(reference: Program, cases: Sequence[Case], rules: Rules) -> list[TestResult]:
    try:
        results = _results(reference, cases, rules)
    except CompileFault as fault:
        raise TaskError("bad_solution", f"the reference solution does not compile: {fault}") from fault
    if not _passed(results):
        raise TaskError("bad_solution", "the reference solution does not pass its own tests")
    return results


def _results(program: Program, cases: Sequence[Case], rules: Rules) -> list[TestResult]:
    with shops.open_shop(program, rules.limits.memory_mb).workshop as workshop:
        return judge(workshop, None, cases, rules)


def _passed(results: Sequence[TestResult]) -> bool:
    return all(each.code == "passed" for each in results)


def _seconds(results: Sequence[TestResult]) -> float:
    return sum(each.runtime_s for each in results)
