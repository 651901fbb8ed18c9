"""How fast a program is beside a reference solution, measured in turn on the same tests."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from tiers.coding.cases import Call, Case, Source, Stdio
from tiers.coding.judge import Rules, TestResult, judge
from tiers.sandbox import shops
from tiers.sandbox.workshop import CompileFault, Program
from verifier_service.domain.errors import TaskError, Transient

ROUNDS = 5
IDLE = "def idle(*args, **kwargs):\n    pass\n"
IDLE_ROUNDS = 3
IDLE_RUNS = 20
LEAST_S = 1e-3
# All of a check takes so many seconds at most, below the verifier's limit. Opening sandboxes for one more
# run may take these, and the run so much longer than before.
SPEED_S = 110.0
OPENING_S = 2.0
ALLOWANCE = 1.25
_LIMITS = ("time_limit", "memory_limit", "not_run")


class Speed(NamedTuple):
    """``ratio``: reference time over the program's time (above 1: faster than the reference). ``sigma`` is
    ``None`` where one of them was timed once."""

    ratio: float
    sigma: float | None


class Unsteady(Exception):
    """The program passed its tests once and failed them while it was timed; the failure is its result."""

    def __init__(self, results: Sequence[TestResult]) -> None:
        super().__init__("the program does not pass its tests every time")
        self.results = results


def compare_speed(
    program: Program,
    reference: Program,
    cases: Sequence[Case],
    rules: Rules,
    passed: Sequence[TestResult],
    started: float,
) -> Speed:
    """Run both in turn, up to ``ROUNDS`` times, and compare the sums of wall times over all tests.

    ``passed`` are the program's results in a check that ``started`` then on the monotonic clock. Rounds
    that do not fit into its ``SPEED_S`` are left out; if none does, the time is that of ``passed``.
    The time of an idle program on the same inputs is taken off both: it is the sandbox's. What is left is
    at least a millisecond, below which nothing can be told apart.
    Raises ``Unsteady``, ``CompileFault``, ``Transient`` when the machine was too busy, and ``TaskError``
    when the reference fails its own tests or takes too long, or where tests are programs themselves.
    """
    if any(isinstance(case, Source) for case in cases):
        raise TaskError("bad_tests", "speed is measured on stdin/stdout and call tests only")
    clock = _Clock(started + SPEED_S)
    wanted = [_first_time(reference, cases, rules, clock)]
    overhead = _overhead(program, cases, rules, clock)
    own: list[float] = []
    failed: list[TestResult] = []
    for turn in range(ROUNDS):
        if not clock.fits(max([_seconds(passed), *own])):
            break
        results = _results(program, cases, clock.within(rules))
        if _passed(results):
            own.append(_seconds(results))
        elif any(each.code != "passed" and each.code not in _LIMITS for each in results):
            raise Unsteady(results)
        elif clock.left() > 0:
            failed = results
        if turn and clock.fits(max(wanted)):
            wanted += _one_more(reference, cases, rules, clock)
    if failed and not own:
        raise Unsteady(failed)
    return _speed(wanted, own or [_seconds(passed)], overhead)


class _Clock:
    """What is left of the time for measuring."""

    def __init__(self, until: float) -> None:
        self._until = until

    def left(self) -> float:
        """Seconds; not above 0 when it is over."""
        return self._until - time.monotonic()

    def fits(self, seconds: float) -> bool:
        """Whether there is time for a run that took so long before."""
        return self.left() > ALLOWANCE * seconds + OPENING_S

    def within(self, rules: Rules) -> Rules:
        """The same rules, ended by this clock."""
        return rules._replace(total_s=min(rules.total_s, max(self.left(), LEAST_S)))


def _speed(wanted: Sequence[float], own: Sequence[float], overhead: float) -> Speed:
    """The shortest times are the least disturbed ones. What was timed once has no spread to tell."""
    best = [max(LEAST_S, min(times) - overhead) for times in (wanted, own)]
    ratio = best[0] / best[1]
    if min(len(wanted), len(own)) < 2:
        return Speed(ratio, None)
    middle = [max(LEAST_S, statistics.median(times) - overhead) for times in (wanted, own)]
    spread = math.hypot(*(mid / low - 1.0 for mid, low in zip(middle, best, strict=True)))
    return Speed(ratio, ratio * spread)


def _first_time(reference: Program, cases: Sequence[Case], rules: Rules, clock: _Clock) -> float:
    """Seconds of the reference, in a time that depends on no program: what tests may take together is
    taken off as if it had been used."""
    room = min(rules.total_s, SPEED_S - rules.total_s - 2 * OPENING_S)
    given = min(room, clock.left())
    results = _results_of_reference(reference, cases, rules._replace(total_s=max(given, LEAST_S)))
    if any(each.code in _LIMITS for each in results) and given < rules.total_s:
        if given < room:
            raise Transient("sandbox_failed", "no time was left to measure the reference solution")
        raise TaskError(
            "bad_solution", f"the reference solution takes over {room:g} s: too slow to measure"
        )
    return _seconds(_require_passed(results))


def _one_more(reference: Program, cases: Sequence[Case], rules: Rules, clock: _Clock) -> list[float]:
    """Seconds of the reference once more; nothing when the time ended it."""
    results = _results_of_reference(reference, cases, clock.within(rules))
    return [_seconds(_require_passed(results))] if clock.left() > 0 else []


def _overhead(program: Program, cases: Sequence[Case], rules: Rules, clock: _Clock) -> float:
    """Of calls, all are tried: they share a process. Of runs, a few stand for the rest."""
    if program.toolchain.run is not None:
        return 0.0
    calls = [each._replace(target="idle", expected=None) for each in cases if isinstance(each, Call)]
    runs = [Stdio(each.id, each.stdin, "") for each in cases if isinstance(each, Stdio)]
    few = runs[:IDLE_RUNS]
    idle = Program(IDLE, program.toolchain)
    times: list[float] = []
    for _ in range(IDLE_ROUNDS):
        if times and clock.left() <= OPENING_S:
            break
        results = _results(idle, [*calls, *few], clock.within(rules))
        of_runs = _seconds(results[len(calls) :]) * (len(runs) / max(1, len(few)))
        times.append(_seconds(results[: len(calls)]) + of_runs)
    return min(times)


def _results_of_reference(reference: Program, cases: Sequence[Case], rules: Rules) -> list[TestResult]:
    try:
        return _results(reference, cases, rules)
    except CompileFault as fault:
        raise TaskError("bad_solution", f"the reference solution does not compile: {fault}") from fault


def _require_passed(results: list[TestResult]) -> list[TestResult]:
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
