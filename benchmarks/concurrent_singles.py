"""Hundreds of single submissions at once, each with a wait, from one event loop.

    python -m benchmarks.concurrent_singles [--count 500] [--rounds 5]

A streaming reward loop scores every rollout by itself. In one run, for the same answers:

* ``bare``    FastAPI with a pydantic body and a scorer that does next to nothing, nothing stored, asked
              by httpx with one request each;
* ``singles`` `verifier serve`, ``AsyncClient.submit`` with one trajectory each, wait until final;
* ``joined``  the same through ``AsyncClient.joint``, as the trainers' adapters ask.

Latencies are from the call to the answer, all calls being made at the same moment. Threads and sockets are
the server's most during a round: none may belong to a waiter.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.ingest import TRIVIAL, server
from benchmarks.ingest_scenarios import SCENARIOS
from verifier_service.client import AsyncClient, Client

SCENARIO = SCENARIOS["one-check"]
Ask = Callable[[dict[str, Any]], Awaitable[None]]


class Watched:
    """The most threads and database files a process had open."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.threads = self.databases = 0
        self._ended = threading.Event()

    def look(self) -> None:
        """Look every 50 ms until told to end."""
        while not self._ended.wait(0.05):
            self.threads = max(self.threads, self._process.num_threads())
            opened = [file.path for file in self._process.open_files()]
            self.databases = max(self.databases, sum(path.endswith("verifier.db") for path in opened))

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()


@contextmanager
def watching(process: psutil.Process) -> Iterator[Watched]:
    """Watch a process for one block."""
    watched = Watched(process)
    looking = threading.Thread(target=watched.look)
    looking.start()
    try:
        yield watched
    finally:
        watched.end()
        looking.join()


async def at_once(ask: Ask, items: list[dict[str, Any]]) -> list[float]:
    """Seconds of each call, all made at the same moment."""

    async def timed(item: dict[str, Any]) -> float:
        began = time.perf_counter()
        await ask(item)
        return time.perf_counter() - began

    return sorted(await asyncio.gather(*(timed(item) for item in items)))


def items(count: int, tag: str) -> list[dict[str, Any]]:
    """Submissions nobody has made."""
    return [SCENARIO.item(index, text, tag) for index, text in enumerate(SCENARIO.texts(count, tag))]


async def bare(url: str, count: int, rounds: int) -> list[list[float]]:
    """The baseline: one request each."""
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as http:

        async def ask(item: dict[str, Any]) -> None:
            (await http.post("/score", json={"trajectories": [item]})).raise_for_status()

        return [await at_once(ask, items(count, f"b{n}")) for n in range(rounds)]


async def ours(url: str, key: str, count: int, rounds: int, *, joined: bool) -> list[list[float]]:
    """Our service: every answer has to have its number."""
    async with AsyncClient(url, key) as client:
        joint = client.joint("joined")

        async def ask(item: dict[str, Any]) -> None:
            if joined:
                [result] = await joint.submit([item], seconds=60)
            else:
                [result] = (await client.submit("singles", [item], wait="final")).results
            if result.reward is None or result.reward.reward is None:
                raise SystemExit(f"an answer without a number: {result}")

        tag = "j" if joined else "s"
        return [await at_once(ask, items(count, f"{tag}{n}")) for n in range(rounds)]


def row(name: str, found: list[list[float]], watched: Watched | None = None) -> None:
    """One line: medians over the rounds after the first, which warms up."""
    later = found[1:] or found
    at = lambda share: sorted(one[min(len(one) - 1, int(share * len(one)))] for one in later)  # noqa: E731
    middle = [at(share)[len(later) // 2] * 1e3 for share in (0.5, 0.99, 1.0)]
    cells = "".join(f"{value:>10.0f}" for value in middle)
    seen = f"{watched.threads:>10}{watched.databases:>10}" if watched is not None else ""
    print(f"{name:10}{cells}{len(found[0]) / (middle[2] / 1e3):>10.0f}{seen}")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=8475)
    arguments = parser.parse_args()
    count, rounds, port = arguments.count, arguments.rounds, arguments.port
    print(f"{count} single submissions at once; ms, median of {max(1, rounds - 1)} rounds")
    print(f"{'':10}" + "".join(f"{head:>10}" for head in ("p50", "p99", "max", "per s", "threads", "dbs")))
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trivial_app.py").write_text(TRIVIAL)
        command = [sys.executable, "-m", "uvicorn", "trivial_app:app", "--port", str(port)]
        with server([*command, "--log-level", "error"], Path(folder), url):
            row("bare", asyncio.run(bare(url, count, rounds)))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "verifier_service.cli", "serve", "--port", str(port)]
        with server([*command, "--data", folder], Path(folder), url) as process:
            key = (Path(folder) / "admin.key").read_text().strip()
            with Client(url, key) as client:
                client.put_ladder(SCENARIO.ladder["name"], SCENARIO.ladder)
            for joined in (False, True):
                with watching(process) as watched:
                    found = asyncio.run(ours(url, key, count, rounds, joined=joined))
                row("joined" if joined else "singles", found, watched)


if __name__ == "__main__":
    main()
