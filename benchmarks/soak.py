"""Many mixed items through one server: does anything pile up?

    python -m benchmarks.soak [--count 200000] [--warm 20000] [--idle 500] [--cheap]

Maths of eight kinds, JSON against schemas, molecules, and (one in two hundred) programs, some of them
wrong or hostile, in batches of 256; with ``--cheap`` JSON only, to measure the API. With ``--idle`` so many
long-polls and so many streams wait all the time. Prints, while it runs and at the end, the resident memory,
the open descriptors, the threads and the number of processes of the server with all that it started, after
the warm-up and now, and what is left in the temporary folder and under the sandbox's user ids when the
server has stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from benchmarks.idlers import idlers
from benchmarks.ingest import server
from benchmarks.maths_problems import problems
from tiers.sandbox.namespaces import UID_BASE

BATCH = 256
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "size": {"type": "integer", "minimum": 0}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
PROGRAMS = (
    "a, b = map(int, input().split())\nprint(a + b)",
    "a, b = map(int, input().split())\nprint(a - b)",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nprint(1)",
    "open('/tmp/x', 'w').write('x' * 10**6)\nprint(sum(map(int, input().split())))",
    "raise SystemExit(0)",
    "x = [0] * 10**10",
)


class Footprint(NamedTuple):
    """MiB resident, open descriptors, threads, processes: of the server and of all below it."""

    memory_mb: float
    descriptors: int
    threads: int
    processes: int


def footprint(process: psutil.Process) -> dict[str, Footprint]:
    """The server itself and its children apart."""
    below = [0.0, 0, 0, 0]
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            below[0] += child.memory_info().rss / 1048576
            below[1] += child.num_fds()
            below[2] += child.num_threads()
            below[3] += 1
    own = Footprint(process.memory_info().rss / 1048576, process.num_fds(), process.num_threads(), 1)
    return {"server": own, "children": Footprint(below[0], *map(int, below[1:]))}


def items(count: int, *, cheap: bool = False) -> Iterator[dict[str, Any]]:
    """Mixed trajectories, each different."""
    if cheap:
        for at in range(count):
            answer = json.dumps({"name": f"n{at}", "size": at if at % 3 else -at})
            yield _item(f"soak-{at}", "structured", answer, {"schema": SCHEMA})
        return
    draw = random.Random(5)
    maths = iter(())
    for at in range(count):
        kind = at % 200
        name = f"soak-{at}"
        if kind == 0:
            yield _item(name, "code", draw.choice(PROGRAMS), _sum_tests(at), {"time_limit_s": 0.5})
        elif kind % 10 == 1:
            answer = json.dumps({"name": f"n{at}", "size": at if at % 3 else -at})
            yield _item(name, "structured", answer, {"schema": SCHEMA})
        elif kind % 10 == 2:
            smiles = "C" * (1 + at % 9) + "O" * (at % 2) + f"[{12 + at % 3}CH3]"
            yield _item(name, "molecule-identity", smiles, {"smiles": "C" * (1 + at % 9) + "[13CH3]"})
        else:
            problem = next(maths, None)
            if problem is None:
                maths = iter(problems(512, at))
                problem = next(maths)
            yield _item(name, "math", problem.response, {"answer": problem.gold})


def _sum_tests(at: int) -> dict[str, Any]:
    return {"tests": [{"stdin": f"{at} {n}\n", "stdout": f"{at + n}"} for n in range(2)]}


def _item(
    name: str, ladder: str, answer: str, reference: dict[str, Any], inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    problem = {"prompt": "", "inputs": inputs or {}, "reference": reference}
    return {"id": name, "ladder": ladder, "answer": answer, "problem": problem}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--warm", type=int, default=20_000)
    parser.add_argument("--port", type=int, default=8481)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--cheap", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak(arguments, Path(folder))
    time.sleep(1.0)
    nests = list(Path(tempfile.gettempdir()).glob("verifier-child-*"))
    strays = [each.pid for each in psutil.process_iter(["uids"]) if _stray(each)]
    print(f"after the end: {len(nests)} folders of children, {len(strays)} processes of sandboxes")


def _stray(process: psutil.Process) -> bool:
    uids = process.info["uids"]
    return uids is not None and UID_BASE <= uids.real < UID_BASE + (1 << 24)


def soak(arguments: argparse.Namespace, folder: Path) -> None:
    """Drive the server, measuring every twentieth of the way."""
    url = f"http://127.0.0.1:{arguments.port}"
    command = [sys.executable, "-m", "verifier_service.cli", "serve", "--port", str(arguments.port)]
    with server([*command, "--data", str(folder)], folder, url) as process:
        key = (folder / "admin.key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, timeout=300, headers=headers) as http:
            before = process.num_threads()
            with idlers(url, key, arguments.idle):
                print(f"{2 * arguments.idle} idle clients; {before} threads, now {process.num_threads()}")
                drive(http, process, arguments)


def drive(http: httpx.Client, process: psutil.Process, arguments: argparse.Namespace) -> None:
    """Send everything and wait for it."""
    count = arguments.count
    stream, done, base, unscored = items(count, cheap=arguments.cheap), 0, None, 0
    started, next_look = time.perf_counter(), arguments.warm
    while batch := list(itertools.islice(stream, BATCH)):
        unscored += post(http, batch)
        done += len(batch)
        if done >= next_look:
            gc.collect()
            now = footprint(process)
            base = base or now
            report(done, time.perf_counter() - started, base, now, unscored)
            next_look += max(BATCH, count // 20)


def post(http: httpx.Client, batch: list[dict[str, Any]]) -> int:
    """Send a batch and wait for it; how many have no number in the end."""
    body = {"trajectories": batch, "wait": {"until": "final", "seconds": 120}}
    answer = http.post("/v1/runs/soak/trajectories", json=body).raise_for_status().json()
    rewards = [result["reward"] for result in answer["results"]]
    if not answer["complete"]:
        raise SystemExit(
            f"not complete: {[each for each in rewards if not each or each['reward'] is None][:1]}"
        )
    return sum(reward["reward"] is None for reward in rewards)


def report(
    done: int, seconds: float, base: dict[str, Footprint], now: dict[str, Footprint], unscored: int
) -> None:
    """One line: growth since the warm-up."""
    cells = []
    for name, what in now.items():
        before = base[name]
        cells.append(
            f"{name} {what.memory_mb:.0f} MiB ({what.memory_mb - before.memory_mb:+.1f}), "
            f"{what.descriptors} descriptors ({what.descriptors - before.descriptors:+d}), "
            f"{what.threads} threads ({what.threads - before.threads:+d}), "
            f"{what.processes} processes ({what.processes - before.processes:+d})"
        )
    print(f"{done:7d} items, {done / seconds:5.0f}/s, {unscored} unscored; " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
