"""What hanging items cost the others: the same arrivals without them, with them, and with them in one
child, beside each other in one run.

    python -m benchmarks.overtaking [--rate 40] [--seconds 20] [--share 0.05] [--deadline 1.0]
                                    [--hang spin|sleep_in_c] [--verifier hostile|heavy] [--children N]

Items arrive one by one at the stated rate, whether or not the last ones are done; an innocent one works
for ``--work`` seconds of CPU. ``heavy`` takes a second of CPU to warm up, as computer algebra does.
Throughput counts the innocents that ended before the last one arrived.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from tests.support.verifiers import PLUGIN
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.domain.ports.execution import Done, Job
from verifier_service.domain.verifiers import CheckInput


@dataclass
class Arrivals:
    """A fixed schedule of jobs, and when each of them ended."""

    plan: list[tuple[float, Job]]
    began: float = 0.0
    position: int = 0
    waits: dict[str, float] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)

    def due(self, _: frozenset[str] = frozenset()) -> Sequence[Job]:
        """The jobs that have arrived by now."""
        first = self.position
        now = time.monotonic() - self.began
        while self.position < len(self.plan) and self.plan[self.position][0] <= now:
            self.position += 1
        return [job for _, job in self.plan[first : self.position]]

    def run(self, harness: ProcessHarness) -> None:
        """Let everything arrive and end."""
        arrival = {job.id: at for at, job in self.plan}
        self.began = time.monotonic()
        while self.position < len(self.plan):
            jobs = self.due()
            if not jobs:
                time.sleep(0.001)
                continue
            for result in harness.run(jobs, lambda: (), None, self.due):
                assert isinstance(result, Done)
                if result.limit_hit is not None:
                    self.late.append(result.wall_s)
                else:
                    self.waits[result.id] = time.monotonic() - self.began - arrival[result.id]


def plan(arguments: argparse.Namespace, share: float) -> Iterator[tuple[float, Job]]:
    """Arrivals at even distances; the same innocents with and without others."""
    dice = random.Random(3)
    for n in range(int(arguments.rate * arguments.seconds)):
        hangs = dice.random() < share
        act = {"do": arguments.hang} if hangs else {"do": "burn", "s": arguments.work}
        yield (
            n / arguments.rate,
            Job(
                id=str(n),
                verifier=arguments.verifier,
                item=CheckInput(candidate={"n": n, **act}),
                time_s=arguments.deadline if hangs else 60.0,
                memory_mb=1024,
            ),
        )


def measure(name: str, arguments: argparse.Namespace, share: float, children: int | None) -> float:
    """Print one line; returns the innocents' throughput."""
    catalog = VerifierCatalog(Sources((PLUGIN,), shipped={}, installed=False))
    chosen = {} if children is None else {"fast_children": children}
    harness = ProcessHarness(catalog, HarnessOptions(plugins=(PLUGIN,), **chosen))
    warm = CheckInput(candidate={"do": "sleep", "s": 0.02})
    until = time.monotonic() + 6.0
    while time.monotonic() < until:
        job = Job(id="w", verifier=arguments.verifier, item=warm, time_s=60.0, memory_mb=1024)
        list(harness.run([job], lambda: ()))
    arrivals = Arrivals(list(plan(arguments, share)))
    arrivals.run(harness)
    harness.close()
    innocents = {job.id: at for at, job in arrivals.plan if job.time_s == 60.0}
    in_time = sum(innocents[key] + wait <= arguments.seconds for key, wait in arrivals.waits.items())
    lost = len(innocents) - len(arrivals.waits)
    cuts = quantiles(arrivals.waits.values(), n=100)
    ends = [f"{1000 * (wall - arguments.deadline):.0f}" for wall in arrivals.late]
    print(
        f"{name:26} {in_time / arguments.seconds:7.1f} {1000 * cuts[49]:8.1f} {1000 * cuts[98]:8.1f} "
        f"{1000 * max(arrivals.waits.values()):8.1f} {len(ends):6} {max(ends, key=float, default='-'):>8}"
        + (f"  {lost} innocents lost" if lost else "")
    )
    return in_time / arguments.seconds


def main() -> None:
    """Print the lines and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--deadline", type=float, default=1.0)
    parser.add_argument("--work", type=float, default=0.002)
    parser.add_argument("--hang", default="spin", choices=("spin", "sleep_in_c"))
    parser.add_argument("--verifier", default="hostile", choices=("hostile", "heavy"))
    parser.add_argument("--children", type=int)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    print(
        f"{arguments.rate:g} arrivals/s for {arguments.seconds:g} s, {arguments.share:.0%} of them hang "
        f"({arguments.hang}) until their deadline of {arguments.deadline:g} s, innocents work "
        f"{1000 * arguments.work:g} ms, verifier {arguments.verifier}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'innocents':26} {'per s':>7} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} "
        f"{'hung':>6} {'late ms':>8}"
    )
    without = measure("nobody hangs", arguments, 0.0, arguments.children)
    hanging = measure("overtaking", arguments, arguments.share, arguments.children)
    single = measure("one child, no overtaking", arguments, arguments.share, 1)
    fair = without * (1 - arguments.share)
    print(
        f"innocents keep {hanging / fair:.0%} of their throughput; without overtaking {single / fair:.0%}"
    )


if __name__ == "__main__":
    main()
