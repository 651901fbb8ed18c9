"""Runs many replays: every policy on the same streams, over ladders, protocols, budgets and seeds."""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.escalation.ladders import ReplayLadder, load
from benchmarks.escalation.metrics import metrics
from benchmarks.escalation.policies import policies
from benchmarks.escalation.replay import Replay
from benchmarks.escalation.streams import Protocol, stream

REPORT_SEEDS = 1_000  # tuning has the seeds below
BAR = 24


@dataclass(frozen=True, slots=True)
class Task:
    """One stream; ``half`` is that of the rows."""

    ladder: str
    protocol: Protocol
    share: float
    seed: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What a policy reached on one stream."""

    task: Task
    policy: str
    kind: str
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. ``policies``: parts of names, all policies if empty."""

    data: Path
    ladders: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    shares: tuple[float, ...]
    seeds: int
    half: str
    policies: tuple[str, ...] = ()
    cost_error: str = "none"

    def tasks(self) -> list[Task]:
        """Paired: the same seeds everywhere; tuning never sees those of the report."""
        first = 0 if self.half == "tune" else REPORT_SEEDS
        return [
            Task(ladder, protocol, share, first + seed)
            for ladder in self.ladders
            for protocol in self.protocols
            for share in self.shares
            for seed in range(self.seeds)
        ]


def run(plan: Plan, jobs: int) -> list[Cell]:
    """All cells, in the order of the tasks; progress goes to stderr."""
    tasks = plan.tasks()
    if jobs <= 1:
        _prepare(plan)
        return _gather(map(_play, tasks), len(tasks))
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_prepare, initargs=(plan,)) as workers:
        return _gather(workers.imap(_play, tasks), len(tasks))


_plan: Plan | None = None
_ladders: dict[str, ReplayLadder] = {}


def _prepare(plan: Plan) -> None:
    global _plan  # one plan per worker process
    _plan = plan
    _ladders.update({ladder.name: ladder.half(plan.half) for ladder in load(plan.data, plan.ladders)})


def _play(task: Task) -> list[Cell]:
    assert _plan is not None
    ladder = _ladders[task.ladder]
    case = stream(ladder, task.protocol, task.share, task.seed, cost_error=_plan.cost_error)
    return [
        Cell(task, policy.name, policy.kind, metrics(Replay(case, policy).run()))
        for policy in policies(ladder.levels, ladder.arrival)
        if not _plan.policies or any(part in policy.name for part in _plan.policies)
    ]


def _gather(results: Iterator[list[Cell]], total: int) -> list[Cell]:
    began, cells = time.monotonic(), list[Cell]()
    for done, found in enumerate(results, start=1):
        cells += found
        took = time.monotonic() - began
        _progress(done, total, took, took / done * (total - done))
    return cells


def _progress(done: int, total: int, took: float, left: float) -> None:
    filled = math.floor(BAR * done / total)
    line = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} streams, {took:.0f} s, {left:.0f} s left"
    if sys.stderr.isatty():
        print(f"\r{line}  ", end="" if done < total else "\n", file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 20) == 0:
        print(line, file=sys.stderr, flush=True)


def names_of(cells: Sequence[Cell]) -> list[str]:
    """Policies in the order in which they were run."""
    return list(dict.fromkeys(cell.policy for cell in cells))
