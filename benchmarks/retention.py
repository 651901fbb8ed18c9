"""A large run is archived and purged beside a run that goes on: how long, how much memory, how much space.

    python -m benchmarks.retention [--count 100000] [--databases sqlite postgres] [--layouts jsonl parquet]

The run is stored through the ports: trajectories of about 3 kB with five turns, three checks each, two
records each; one trajectory in ten shares its checks with a run that stays. Then a real server works on it,
and the commands are run as a user runs them. Prints for the archives in both layouts the time, the size and
the highest resident memory of server and command; for the purge the time, the size of the database before
and after, and what single submissions to the other run took meanwhile, beside what they took before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.contract.samples import LADDER, OTHER_RUN, PROJECT, RUN, check, demand, evidence, prepare, record
from tests.contract.samples import trajectory as sample
from tests.support.databases import postgres_server
from tests.support.server import Server, identity, running
from verifier_service.client import Client, Wait
from verifier_service.domain.checks import Completion
from verifier_service.domain.evidence import Cost
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence import migrate
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

BATCH = 1_000
CHECKS = 3
SHARED = 10  # one in so many
ASIDE = "aside"
ENDS = ("a", "en", "ilo", "or", "um", "ya")
WORDS = [f"{first}{second}" for first in "bcdfghklmnprst" for second in ENDS]
SAMPLE_S = 0.05


def seed(store: SqlStore, run: str, numbers: range) -> None:
    """Store judged trajectories of a run: bulk calls, as the service makes them."""
    with store.begin() as tx:
        rows = [sample(f"t{n}", body=json.dumps(_body(n)), turns=_turns(n), n_turns=5) for n in numbers]
        pks = tx.trajectories.insert(PROJECT, run, rows)
        wanted = [_check(f"{n}/{at}") for n in numbers for at in range(CHECKS)]
        refs = {ref.key: ref.pk for ref in tx.checks.ensure(PROJECT, run, wanted)}
        tx.demands.insert(
            [
                demand(pks[f"t{n}"], refs[f"{n}/{at}"], path=f"fast/{at}", state=DemandState.SATISFIED)
                for n in numbers
                for at in range(CHECKS)
            ]
        )
        for revision in (1, 2):
            tx.rewards.append(PROJECT, run, [record(f"t{n}", revision, run=run) for n in numbers])


def _turns(n: int) -> str:
    """Five turns of words, about 3 kB, that no two trajectories share."""
    chosen = random.Random(n)
    texts = [" ".join(chosen.choices(WORDS, k=100)) for _ in range(10)]
    turns = zip(texts[::2], texts[1::2], strict=True)
    return json.dumps([{"message": said, "observations": [{"text": seen}]} for said, seen in turns])


def _body(n: int) -> dict[str, Any]:
    problem = {"prompt": f"Propose molecule {n}. " * 10, "reference": {"smiles": "CCO"}}
    return {**problem, "answer": f"answer {n}"}


def _check(key: str) -> Any:
    ended = Completion(
        pk=0, fence=0, state=CheckState.SUCCEEDED, evidence=evidence(key), cost=Cost(cpu_s=0.001)
    )
    return check(key, ended=ended)


def fill(url: str, count: int) -> None:
    """The run that goes, and the one that stays."""
    migrate.upgrade(url)
    store = create_store(url)
    prepare(store, RUN, OTHER_RUN)
    for at in range(0, count, BATCH):
        seed(store, RUN, range(at, min(count, at + BATCH)))
    for at in range(0, count // SHARED, BATCH):
        seed(store, OTHER_RUN, range(at, min(count // SHARED, at + BATCH)))
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)
        tx.runs.pin(PROJECT, RUN, LADDER, 1)
    store.close()


class Watch:
    """The highest resident memory of processes, in MiB, sampled."""

    def __init__(self, **pids: int) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.first = {name: self._size(one) for name, one in self._processes.items()}
        self._began = {name: self._worked(one) for name, one in self._processes.items()}
        self.cpu_s = dict.fromkeys(pids, 0.0)
        self.most = dict(self.first)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for name, process in self._processes.items():
                with contextlib.suppress(psutil.NoSuchProcess):
                    self.most[name] = max(self.most[name], self._size(process))
                    self.cpu_s[name] = self._worked(process) - self._began[name]

    def _size(self, process: psutil.Process) -> float:
        return float(process.memory_info().rss) / 2**20

    def _worked(self, process: psutil.Process) -> float:
        return float(sum(process.cpu_times()[:2]))


class Trickle:
    """Single submissions to a run that stays, one after the other, and how long each took."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.took: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._server.url, self._server.key) as client:
            while not self._stop.wait(0.02):
                began = time.monotonic()
                client.submit(ASIDE, [identity("CCO")], wait=Wait("fast", 30))
                self.took.append(time.monotonic() - began)

    def __str__(self) -> str:
        took = sorted(self.took)
        p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
        spread = f"p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, most {took[-1] * 1e3:.0f} ms"
        return f"{len(took)} submissions, {spread}"


def command(server: Server, *words: str) -> tuple[float, Watch]:
    """Run a command; seconds, and the memory of it and of the server."""
    environment = {**os.environ, "VERIFIER_URL": server.url, "VERIFIER_API_KEY": server.key}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "verifier_service.cli", *words], env=environment, stdout=subprocess.DEVNULL
    )
    with Watch(server=server.process.pid, command=process.pid) as watch:
        code = process.wait()
    assert code == 0, words
    return time.monotonic() - began, watch


def measure(
    name: str, url: str, folder: Path, given: argparse.Namespace, size: Callable[[], float]
) -> None:
    """One database from filling it to what is left."""
    began, count = time.monotonic(), given.count
    fill(url, count)
    print(f"{name}: {count} trajectories stored in {time.monotonic() - began:.0f} s, {size():.0f} MB")
    with running(folder / "data", database_url=url, project=PROJECT) as server:
        for layout in given.layouts:
            out = folder / layout
            took, watch = command(server, "runs", "archive", RUN, "--out", str(out), "--format", layout)
            written = sum(file.stat().st_size for file in out.iterdir()) / 1e6
            print(f"  archive as {layout}: {took:.0f} s, {written:.0f} MB; {_memory(watch)}")
        with Trickle(server) as before:
            time.sleep(10)
        with Trickle(server) as meanwhile:
            took, watch = command(server, "runs", "purge", RUN, "--yes")
        print(f"  purge: {took:.0f} s; {_memory(watch)}")
        print(f"  the other run before: {before}; meanwhile: {meanwhile}")
        time.sleep(5)
        print(f"  database now: {size():.0f} MB")


def _memory(watch: Watch) -> str:
    size, most, worked = watch.first, watch.most, watch.cpu_s
    server = f"server {worked['server']:.0f} s CPU, {size['server']:.0f} to {most['server']:.0f} MiB"
    return f"{server}; command {worked['command']:.0f} s CPU, at most {most['command']:.0f} MiB"


def on_sqlite(folder: Path, given: argparse.Namespace) -> None:
    """SQLite on disk."""
    file = folder / "verifier.db"

    measure("SQLite", f"sqlite:///{file}", folder, given, lambda: file.stat().st_size / 1e6)
    print(f"  after the server has stopped: {file.stat().st_size / 1e6:.0f} MB")


def on_postgres(folder: Path, given: argparse.Namespace) -> None:
    """Postgres on disk, with durable commits."""
    with postgres_server(durable=True) as server:
        url = server.empty()
        measure("PostgreSQL", url, folder, given, lambda: _database(url))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
        print(f"  after VACUUM: {_database(url):.0f} MB")
        refill(url, given.count)


def refill(url: str, count: int) -> None:
    """What was freed is used again: as many trajectories once more."""
    store = create_store(url)
    with store.begin() as tx:
        tx.runs.ensure(PROJECT, "again", tx.runs.get(PROJECT, RUN).spec, 1)
    for at in range(0, count, BATCH):
        seed(store, "again", range(count + at, min(2 * count, count + at + BATCH)))
    store.close()
    print(f"  after as many trajectories in another run: {_database(url):.0f} MB")


def _database(url: str) -> float:
    with psycopg.connect(url) as connection:
        [size] = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return float(size) / 1e6


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument(
        "--databases", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"]
    )
    layouts = ["jsonl", "parquet"]
    parser.add_argument("--layouts", nargs="*", choices=layouts, default=layouts)
    given = parser.parse_args()
    for name in given.databases:
        with tempfile.TemporaryDirectory(prefix="retention-") as folder:
            {"sqlite": on_sqlite, "postgres": on_postgres}[name](Path(folder), given)


if __name__ == "__main__":
    main()
