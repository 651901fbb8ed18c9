"""Maths and code on the fast tier, beside what they stand on, in one run.

    python -m benchmarks.fast_tier [--count 2048] [--checks 200]

Maths, over distinct problems of eight kinds, as items per CPU second:

* ``math-verify``  warm, in this process (parse and verify; its own time limits off);
* ``forked``       the same, one forked process per item (items per second on the clock);
* ``verify``       our verifier, warm, in this process;
* ``http``         `verifier serve`, batches of 256, every item stored with a final record: CPU of the
                   server and of all its children.

Code, one small program with one test each, on one thread:

* ``bare sandbox`` bubblewrap with our arguments and filter, and in it the same interpreter with the same
                   switches, which does nothing and ends;
* ``verify``       our verifier: sandbox, compile, run, judge, close.

Both end when no process of the sandbox is left: orphans come back to this process, which waits for them, so
that their CPU is counted too. They are run in turn, one by one: a busy machine is busy for both.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.ingest import drive, server
from benchmarks.maths_problems import Problem, kinds, problems
from tiers.fast.code_tests import CodeTests
from tiers.fast.math_answer import MathAnswer
from tiers.sandbox import namespaces, probe, seccomp
from tiers.sandbox.delivery import boot_arguments
from verifier_service.domain.verifiers import CheckInput, Verifier

BATCH = 256


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2048, help="maths problems for each row")
    parser.add_argument("--checks", type=int, default=200, help="code checks")
    parser.add_argument("--port", type=int, default=8475)
    arguments = parser.parse_args()
    maths(arguments.count, arguments.port)
    code(arguments.checks)


def maths(count: int, port: int) -> None:
    """One table for all kinds together and one for whole numbers alone."""
    every = tuple(kinds())
    for name, chosen in (
        ("all kinds", every),
        ("whole numbers", ("integer",)),
        ("fractions", ("fraction",)),
    ):
        asked = [problems(count, seed, kinds=chosen) for seed in (1, 2, 3)]
        baseline = _library_cpu(asked[0][: min(count, 1024)])
        forked = _forked(asked[0][:64])
        own = _own_cpu(asked[1])
        with tempfile.TemporaryDirectory() as folder:
            http = _http_cpu(asked[2], port, Path(folder))
        print(f"\nmaths, {name}: {count} problems; us CPU each, items per CPU second, ratio to math-verify")
        for label, seconds in (("math-verify", baseline), ("verify", own), ("http", http)):
            print(f"  {label:14}{seconds * 1e6:10.0f}{1 / seconds:12.0f}{baseline / seconds:10.2f}")
        print(f"  {'forked':14}{'':10}{forked:12.0f}  on the clock")


def _library_cpu(asked: Sequence[Problem]) -> float:
    """CPU seconds per item of math-verify in this process, warm."""
    import logging

    from math_verify import parse, verify

    logging.disable(logging.WARNING)

    def judge(problem: Problem) -> bool:
        gold = parse(f"${problem.gold}$", parsing_timeout=None)
        return bool(verify(gold, parse(problem.response, parsing_timeout=None), timeout_seconds=None))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem in problems(64, 99):
            judge(problem)
        started = time.process_time()
        for problem in asked:
            judge(problem)
        return (time.process_time() - started) / len(asked)


def _forked(asked: Sequence[Problem]) -> float:
    """Items per second when every item gets a process of its own, forked from this warm one."""
    from math_verify import parse, verify

    started = time.perf_counter()
    for problem in asked:
        child = os.fork()
        if child == 0:
            gold = parse(f"${problem.gold}$", parsing_timeout=None)
            verify(gold, parse(problem.response, parsing_timeout=None), timeout_seconds=None)
            os._exit(0)
        os.waitpid(child, 0)
    return len(asked) / (time.perf_counter() - started)


def _own_cpu(asked: Sequence[Problem]) -> float:
    verifier = MathAnswer()
    verifier.warm()
    params = verifier.params_model()
    items = [CheckInput(candidate=each.response, reference={"answer": each.gold}) for each in asked]
    started = time.process_time()
    for item in items:
        verifier.attempt(item, params)
    return (time.process_time() - started) / len(asked)


def _http_cpu(asked: Sequence[Problem], port: int, folder: Path) -> float:
    """CPU seconds per item of the server and its children, from HTTP to a stored final record."""
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "verifier_service.cli", "serve", "--port", str(port)]
    with server([*command, "--data", str(folder)], folder, url) as process:
        key = (folder / "admin.key").read_text().strip()
        with httpx.Client(base_url=url, timeout=300, headers={"Authorization": f"Bearer {key}"}) as http:

            def post(batch: list[dict[str, Any]]) -> None:
                body = {"trajectories": batch, "wait": {"until": "final", "seconds": 120}}
                answer = http.post("/v1/runs/bench/trajectories", json=body).raise_for_status().json()
                if not all(
                    each["reward"] and each["reward"]["status"] == "final" for each in answer["results"]
                ):
                    raise SystemExit(f"not final: {answer['results'][0]}")

            for size in (1, BATCH):
                post(
                    [_item(each, f"warm-{size}-{at}") for at, each in enumerate(problems(size, 98 + size))]
                )
            items = [_item(each, f"item-{at}") for at, each in enumerate(asked)]
            batches = [items[at : at + BATCH] for at in range(0, len(items), BATCH)]
            figures = drive(process, post, batches)
    return (figures.server + figures.children) / len(asked)


def _item(problem: Problem, name: str) -> dict[str, Any]:
    wanted = {"prompt": "Compute.", "reference": {"answer": problem.gold}}
    return {"id": name, "ladder": "math", "problem": wanted, "answer": problem.response}


class Cost(NamedTuple):
    """Of one call: seconds on the clock, CPU seconds of this process and of all that it started."""

    wall: float
    cpu: float


def code(checks: int) -> None:
    """Cost of code checks beside the start and the end of a sandbox that does nothing."""
    sandbox = probe.find("auto")
    if sandbox.kind != "namespaces":
        raise SystemExit("this benchmark compares with bubblewrap, which cannot be used here")
    _adopt_orphans()
    python, _ = namespaces.interpreter()
    filter_file = os.memfd_create("filter")
    os.write(filter_file, seccomp.build())
    idle = [*boot_arguments(python)[:-1], "pass"]

    def bare() -> None:
        os.lseek(filter_file, 0, os.SEEK_SET)
        line = namespaces.command(namespaces.bubblewrap() or "bwrap", filter_file)
        subprocess.run([*line, *idle], pass_fds=(filter_file,), check=True)
        _reap_all()

    verifier = CodeTests()
    programs = _programs(checks)
    costs = _in_turn(checks, bare, lambda at: _passed(verifier, programs[at]))
    print(f"\ncode: {checks} checks of one test, in ms")
    print(f"  {'':14}{'median':>8}{'least':>8}{'CPU':>8}")
    rows = [_row(each) for each in costs]
    for label, row in zip(("bare sandbox", "verify"), rows, strict=True):
        print(f"  {label:14}" + "".join(f"{value * 1e3:8.2f}" for value in row))
    print(
        f"  {'ratio':14}" + "".join(f"{second / first:8.2f}" for first, second in zip(*rows, strict=True))
    )


def _row(costs: Sequence[Cost]) -> tuple[float, float, float]:
    """Median and least seconds on the clock, median CPU seconds."""
    walls = [each.wall for each in costs]
    return statistics.median(walls), min(walls), statistics.median(each.cpu for each in costs)


def _adopt_orphans() -> None:
    """Become the parent of what outlives its own parent. See prctl(2), PR_SET_CHILD_SUBREAPER."""
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) != 0:
        raise SystemExit("orphans cannot be waited for here")


def _reap_all() -> int:
    """Wait until no child is left; how many there were."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            count += 1
    return count


def _programs(count: int) -> list[CheckInput]:
    return [
        CheckInput(
            candidate=f"a, b = map(int, input().split())\nprint(a + b + {at})",
            reference={"tests": [{"stdin": f"{at} {at}\n", "stdout": f"{3 * at}"}]},
        )
        for at in range(count)
    ]


def _passed(verifier: Verifier, item: CheckInput) -> None:
    if verifier.verify(item, verifier.params_model()).score != 1.0:
        raise SystemExit("a right program was refused")


def _in_turn(
    count: int, first: Callable[[], None], second: Callable[[int], None]
) -> tuple[list[Cost], list[Cost]]:
    """Costs of both, called in turn, after one call of each to warm up."""
    first()
    second(0)
    firsts, seconds = [], []
    for at in range(count):
        firsts.append(_cost(first))
        seconds.append(_cost(lambda at=at: second(at)))
        if _reap_all():
            raise SystemExit("a check left a process behind")
    return firsts, seconds


def _cost(act: Callable[[], None]) -> Cost:
    spent, started = _cpu(), time.perf_counter()
    act()
    return Cost(time.perf_counter() - started, _cpu() - spent)


def _cpu() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


if __name__ == "__main__":
    main()
