"""Throughput and latency on Postgres, Redis and Celery workers, beside plain Celery and a bare scorer.

    python -m benchmarks.distributed [--count 16384] [--size 256] [--lines 4] [--clients 128]

In one run, for a ladder of two fast checks that compare texts:

* ``plain Celery``  one task per item, two worker processes, results in the same Redis; nothing else is kept
* ``bare FastAPI``  a pydantic body and a scorer that does next to nothing; nothing is kept
* ``service``       API, Postgres (fsync on, on this machine's disk), Redis and one fast worker: every
                    trajectory, check, evidence and reward record is stored before the client hears of it
* ``foresight``     the same with ``VERIFIER_FORESIGHT=true``: the API process judges the fast checks of
                    those who wait, before it stores their batch
* ``two APIs``      the same with two API processes, as behind a balancer

``batches``: ``--lines`` connections post batches and wait for final records. ``single``: one connection,
one trajectory at a time. ``clients``: ``--clients`` connections with single trajectories. CPU is per
trajectory, of the service's processes (API, workers and their children, Postgres, Redis), without the
client's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.distributed_load import Load, drive
from benchmarks.ingest import TRIVIAL, server
from tests.support.brokers import Broker, broker
from tests.support.databases import PostgresServer, postgres_server
from verifier_service.client import Client

ROOT = Path(__file__).parent.parent
LADDER: dict[str, Any] = {
    "name": "two-checks",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "bench.text_equal"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "bench.text_present", "gate": "hard"}, {"use": "bench.text_equal"}]},
}
PATH = "/v1/runs/r/trajectories"
KINDS = ["baselines", "service", "foresight", "two"]
HEADS = ("per s", "p50 ms", "p99 ms", "max ms", "cpu us", "api", "workers", "postgres", "redis")


def items(count: int, tag: str) -> list[dict[str, Any]]:
    """Trajectories nobody has submitted."""
    return [
        {
            "id": f"{tag}-{index}",
            "ladder": LADDER["name"],
            "group": f"{tag}-{index // 8}",
            "group_size": 8,
            "problem": {"prompt": f"Name number {index}.", "reference": {"text": f"{tag} {index}"}},
            "answer": f"{tag} {index}",
        }
        for index in range(count)
    ]


def bodies(count: int, size: int, tag: str, *, wait: bool) -> list[bytes]:
    """Bodies of ``size`` items."""
    made = items(count, tag)
    rest = {"wait": {"until": "final", "seconds": 60}} if wait else {}
    return [
        json.dumps({"trajectories": made[start : start + size], **rest}).encode()
        for start in range(0, count, size)
    ]


def look(answer: dict[str, Any]) -> None:
    """Every trajectory has its final number, or the figures are worth nothing."""
    for result in answer["results"]:
        if result["reward"] is None or result["reward"]["reward"] != 1.0:
            raise SystemExit(f"no number: {result}")


class Service:
    """The processes of one installation, and the CPU they have used."""

    def __init__(
        self, postgres: PostgresServer, redis: Broker, folder: Path, *, apis: int = 1, **settings: str
    ) -> None:
        self.database_url = postgres.empty()
        self._environment = os.environ | {
            "VERIFIER_DATABASE_URL": self.database_url,
            "VERIFIER_BROKER_URL": redis.url,
            "VERIFIER_PLUGINS": '["benchmarks.one_check"]',
            "VERIFIER_LOG_LEVEL": "warning",
            "PYTHONPATH": str(ROOT),
            **{f"VERIFIER_{name.upper()}": value for name, value in settings.items()},
        }
        self._folder = folder
        self._postgres = postgres
        self._redis = redis
        self.apis, self.urls = [], []
        for index in range(apis):
            self.apis.append(self._start(f"api-{index}", "serve", "--port", "0"))
            self.urls.append(self._await(f"api-{index}", "serving on ").split("serving on ")[1].split()[0])
        self.key = (folder / "api-0" / "admin.key").read_text().strip()
        self.worker = self._start("fast", "worker", "--tier", "fast")
        self._await("fast", "ready")

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = self._environment | {"VERIFIER_DATA": str(self._folder / name)}
        if command[0] == "worker":
            environment["VERIFIER_LOG_LEVEL"] = "info"
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "verifier_service.cli", *command],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _await(self, name: str, words: str) -> str:
        log, until = self._folder / f"{name}.log", time.monotonic() + 60
        while words not in (text := log.read_text()):
            if time.monotonic() > until:
                raise SystemExit(text)
            time.sleep(0.1)
        return text

    def cpu(self) -> list[float]:
        """CPU seconds of API, workers, Postgres and Redis."""
        return [
            sum(_family(api.pid) for api in self.apis),
            _family(self.worker.pid),
            _postgres_cpu(self._postgres),
            _family(self._redis.pid),
        ]

    def stop(self) -> None:
        """End them."""
        for process in (self.worker, *self.apis):
            process.terminate()
        for process in (self.worker, *self.apis):
            process.wait(30)


@contextmanager
def service(
    postgres: PostgresServer, redis: Broker, *, apis: int = 1, **settings: str
) -> Iterator[Service]:
    """A running installation for one block, with its ladder."""
    with tempfile.TemporaryDirectory() as folder:
        made = Service(postgres, redis, Path(folder), apis=apis, **settings)
        try:
            with Client(made.urls[0], made.key) as client:
                client.put_ladder(LADDER["name"], LADDER)
            yield made
        finally:
            made.stop()


def _family(pid: int) -> float:
    """CPU seconds of a process, its living children, and of those that have ended."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        total += sum(process.cpu_times()[:4])
        for child in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                total += sum(child.cpu_times()[:2])
    return total


def _postgres_cpu(postgres: PostgresServer) -> float:
    return _family(postgres.process.pid) if postgres.process is not None else 0.0


def row(name: str, load: Load, count: int, used: list[float] | None = None) -> None:
    """One line of the table."""
    cells = [f"{count / load.wall:>9.0f}", *(f"{load.at(share):>9.1f}" for share in (0.5, 0.99, 1.0))]
    if used is not None:
        cells += [f"{sum(used) / count * 1e6:>9.0f}", *(f"{one / count * 1e6:>9.0f}" for one in used)]
    print(f"{name:26}" + "".join(cells), flush=True)


def ours(name: str, made: Service, arguments: argparse.Namespace, tag: str) -> None:
    """The three loads on one installation."""
    loads = (
        ("batches", arguments.count, arguments.size, arguments.lines),
        ("single", arguments.singles, 1, 1),
        ("clients", arguments.singles * 8, 1, arguments.clients),
    )
    for load, count, size, lines in loads:
        warm = bodies(size * lines * 2, size, f"{tag}-{load}-warm", wait=True)
        asyncio.run(drive(made.urls, made.key, PATH, warm, lines, look))
        before = made.cpu()
        measured = bodies(count, size, f"{tag}-{load}", wait=True)
        found = asyncio.run(drive(made.urls, made.key, PATH, measured, lines, look))
        used = [after - first for after, first in zip(made.cpu(), before, strict=True)]
        row(f"{name} {load}", found, count, used)


def bare(arguments: argparse.Namespace) -> None:
    """The scorer that keeps nothing."""
    url = f"http://127.0.0.1:{arguments.port}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trivial_app.py").write_text(TRIVIAL)
        command = [sys.executable, "-m", "uvicorn", "trivial_app:app", "--port", str(arguments.port)]
        with server([*command, "--log-level", "error"], Path(folder), url):
            for name, count, size, lines in (
                ("batches", arguments.count, arguments.size, arguments.lines),
                ("single", arguments.singles, 1, 1),
                ("clients", arguments.singles * 8, 1, arguments.clients),
            ):
                made = [
                    json.dumps(
                        {"trajectories": [one | {"turns": []} for one in json.loads(body)["trajectories"]]}
                    )
                    for body in bodies(count, size, name, wait=False)
                ]
                load = asyncio.run(
                    drive([url], None, "/score", [one.encode() for one in made], lines, lambda _: None)
                )
                row(f"bare FastAPI {name}", load, count)


def plain_celery(redis: Broker, arguments: argparse.Namespace) -> None:
    """A task per item, waited for."""
    os.environ["PLAIN_REDIS"] = redis.url.replace("/0", "/1")
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "benchmarks.plain_celery",
        "worker",
        "-c",
        "2",
        "-l",
        "error",
    ]
    worker = subprocess.Popen([*command, "--without-gossip", "--without-mingle"], cwd=ROOT)
    try:
        from celery import group

        from benchmarks.plain_celery import judge

        judge.delay("a", "a").get(timeout=60)
        count = min(arguments.count, 4_096)
        made = items(count, "plain")
        latencies, began = [], time.perf_counter()
        for start in range(0, count, arguments.size):
            asked = time.perf_counter()
            batch = made[start : start + arguments.size]
            jobs = group(judge.s(one["answer"], one["problem"]["reference"]["text"]) for one in batch)
            if set(jobs.apply_async().get(timeout=120)) != {1.0}:
                raise SystemExit("plain Celery judged wrongly")
            latencies.append(time.perf_counter() - asked)
        row("plain Celery batches", Load(latencies, time.perf_counter() - began), count)
        latencies, began = [], time.perf_counter()
        for _ in range(arguments.singles):
            asked = time.perf_counter()
            judge.delay("a", "a").get(timeout=60)
            latencies.append(time.perf_counter() - asked)
        row("plain Celery single", Load(latencies, time.perf_counter() - began), arguments.singles)
    finally:
        worker.terminate()
        worker.wait(30)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=16_384)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--lines", type=int, default=4)
    parser.add_argument("--singles", type=int, default=512)
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--port", type=int, default=8476)
    parser.add_argument("--only", choices=KINDS, nargs="*", default=KINDS)
    arguments = parser.parse_args()
    only = arguments.only
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; CPU in us per trajectory")
    print(f"{'':26}" + "".join(f"{head:>9}" for head in HEADS))
    with postgres_server(durable=True) as postgres, broker() as redis:
        if "baselines" in only:
            plain_celery(redis, arguments)
            bare(arguments)
        if "service" in only:
            with service(postgres, redis) as made:
                ours("service", made, arguments, "s")
        if "foresight" in only:
            with service(postgres, redis, foresight="true") as made:
                ours("foresight", made, arguments, "f")
        if "two" in only:
            with service(postgres, redis, apis=2, foresight="true") as made:
                ours("two APIs", made, arguments, "t")


if __name__ == "__main__":
    main()
