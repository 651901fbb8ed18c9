"""How fast a program is beside a reference solution, measured in turn on the same tests."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tiers.coding.cases import Case, Source, Stdio
from tiers.coding.judge import Rules, judge
from tiers.sandbox import shops
from tiers.sandbox.workshop import CompileFault, Program
from verifier_service.domain.errors import TaskError

ROUNDS = 5
IDLE = "pass"
LEAST_S = 1e-3


class Speed(NamedTuple):
    """``ratio``: reference time over the program's time (above 1: faster than the reference)."""

    ratio: float
    sigma: float


def compare_speed(program: Program, reference: Program, cases: Sequence[Case], rules: Rules) -> Speed:
    """Run both in turn, ``ROUNDS`` times, and compare the sums of wall times over all tests.

    The time of an empty program on as many tests is taken off both: it is the sandbox's. What is left is
    at least a millisecond, below which nothing can be told apart. Raises
    ``TaskError`` when the reference fails its own tests, or where tests are programs themselves.
    """
    if any(isinstance(case, Source) for case in cases):
        raise TaskError("bad_tests", "speed is measured on stdin/stdout and call tests only")
    overhead = _overhead(program, len(cases), rules)
    own, wanted = [], []
    for _ in range(ROUNDS):
        own.append(max(LEAST_S, _seconds(program, cases, rules, None) - overhead))
        wanted.append(max(LEAST_S, _seconds(reference, cases, rules, "bad_solution") - overhead))
    # The shortest time is the least disturbed one.
    ratio = min(wanted) / min(own)
    spread = math.hypot(*(statistics.median(times) / min(times) - 1.0 for times in (own, wanted)))
    return Speed(ratio, ratio * spread)


def _overhead(program: Program, count: int, rules: Rules) -> float:
    if program.toolchain.run is not None:
        return 0.0
    idle = [Stdio(str(number), "", "") for number in range(min(count, 20))]
    empty = Program(IDLE, program.toolchain)
    return _seconds(empty, idle, rules, None) / len(idle) * count


def _seconds(program: Program, cases: Sequence[Case], rules: Rules, blame: str | None) -> float:
    try:
        with shops.open_shop(program, rules.limits.memory_mb).workshop as workshop:
            results = judge(workshop, None, cases, rules)
    except CompileFault as fault:
        raise TaskError(
            blame or "bad_tests", f"the reference solution does not compile: {fault}"
        ) from fault
    if blame is not None and any(each.code != "passed" for each in results):
        raise TaskError(blame, "the reference solution does not pass its own tests")
    return sum(each.runtime_s for each in results)
