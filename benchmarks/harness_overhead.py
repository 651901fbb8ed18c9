"""What the harness adds to each item: CPU of parent and child, and wall time, per item.

    python -m benchmarks.harness_overhead [--batches 200] [--size 256]

Runs a verifier that does nothing, on small items and on items of 5 turns (2.8 kB), and prints
microseconds per item.
"""

from __future__ import annotations

import argparse
import time

import psutil

from tests.support.verifiers import PLUGIN
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.domain.ports.execution import Job
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.domain.verifiers import CheckInput

SMALL = CheckInput(candidate="CC(=O)Oc1ccccc1C(=O)O")
TURN = Turn(
    message="I compute the gap of this molecule next. " * 5,
    calls=(ToolCall(id="c1", name="xtb", arguments={"smiles": "CC(=O)Oc1ccccc1C(=O)O", "opt": True}),),
    observations=(Observation(call="c1", text="gap 4.51 eV " * 15, data={"gap": 4.51}),),
)
TURNS = CheckInput(candidate="CC(=O)Oc1ccccc1C(=O)O", turns=(TURN,) * 5)


def measure(harness: ProcessHarness, item: CheckInput | str, batches: int, size: int) -> None:
    """Print the three numbers for one kind of item."""
    jobs = [Job(id=str(n), verifier="idle", item=item, time_s=5.0, memory_mb=1024) for n in range(size)]
    list(harness.run(jobs, lambda: ()))
    me = psutil.Process()
    (child,) = me.children()
    before = [sum(process.cpu_times()[:2]) for process in (me, child)]
    started = time.perf_counter()
    for _ in range(batches):
        for _result in harness.run(jobs, lambda: ()):
            pass
    wall = time.perf_counter() - started
    after = [sum(process.cpu_times()[:2]) for process in (me, child)]
    scale = 1e6 / (batches * size)
    parent, below = ((b - a) * scale for a, b in zip(before, after, strict=True))
    total = parent + below
    print(f"parent {parent:5.1f}  child {below:5.1f}  cpu {total:5.1f}  wall {wall * scale:5.1f}  us/item")


def main() -> None:
    """Measure small items and items with turns, as records and as JSON text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--size", type=int, default=256)
    arguments = parser.parse_args()
    catalog = VerifierCatalog(Sources((PLUGIN,), shipped={}, installed=False))
    harness = ProcessHarness(
        catalog, HarnessOptions(plugins=(PLUGIN,), recycle_items=10**9, spare_children=0)
    )
    for name, item in (("small", SMALL), ("turns", TURNS)):
        for form, value in (("record", item), ("text", item.model_dump_json())):
            print(f"{name:6} {form:7}", end=" ")
            measure(harness, value, arguments.batches, arguments.size)
    harness.close()


if __name__ == "__main__":
    main()
