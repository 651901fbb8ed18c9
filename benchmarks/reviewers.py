"""Fifty people at one desk: whether every item gets exactly its votes, and how long each act takes.

    python -m benchmarks.reviewers [--reviewers 50] [--items 2000] [--approvals 2] [--scale 1.0]

Over HTTP against a server on Postgres (fsync on, on this machine's disk). Items come from submissions that
only people can judge. Each reviewer takes the next item, thinks for 0.5 to 2 seconds times ``--scale``, and
votes; now and then looks again, renews, lets go, puts aside, or sends the same vote twice. One vote in
twenty is wrong, so that some items need a further person. Decisions take effect meanwhile, and rewards
follow.

Prints the time of each act (p50, p95, longest), the CPU of the server and of the reviewers themselves, and
what the database says of the votes. Exits 1 when an item has too few votes or too many, two of one person,
or a result that does not follow from them, and when the p95 of any act is not below the bar.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

from tests.support.databases import postgres_server
from tests.support.server import Server, running
from verifier_service.domain.review_votes import tally

QUEUE = "bench"
LADDER = {
    "name": "people",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "review"},
    "truth": "lab",
    "tiers": {"lab": [{"use": "review", "params": {"queue": QUEUE}}]},
    "deadline_s": 864_000,
}
BAR_MS = 250.0
WRONG = 0.05
SIDE_STEPS = 0.04
BATCH = 250


@dataclass
class Figures:
    """Milliseconds by act, and what was answered."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def timed(self, act: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        took = (time.perf_counter() - began) * 1_000
        with self.lock:
            self.times[act].append(took)

    def count(self, what: str) -> None:
        with self.lock:
            self.answers[what] += 1


class Person:
    """One reviewer with a connection of their own."""

    def __init__(self, server: Server, name: str, figures: Figures, scale: float, done: threading.Event):
        self._http = httpx.Client(base_url=server.url, headers=server.headers, timeout=60)
        self.name, self._figures, self._scale, self._done = name, figures, scale, done
        self._dice = random.Random(name)

    def work(self) -> None:
        """Until nothing is left."""
        with self._http:
            while not self._done.is_set():
                item = self._post("claim", "claim", {"queue": QUEUE}).json()["review"]
                if item is None:
                    self._done.wait(0.5 * self._scale + 0.05)
                    continue
                self._think()
                if not self._wavers(item["id"]):
                    self._vote(item)

    def _vote(self, item: dict[str, Any]) -> None:
        good = len(item["candidate"]) % 2 == 0
        accepts = good is (self._dice.random() >= WRONG)
        said = {"verdict": "accept" if accepts else "reject", "reason": "" if accepts else "odd length"}
        times = 2 if self._dice.random() < SIDE_STEPS else 1
        for turn in range(times):
            answer = self._post("decision", f"{item['id']}/decision", said)
            self._figures.count(f"decision {answer.status_code}")
            if turn and answer.status_code != 200:
                self._figures.count("second of a double submit was not 200")

    def _wavers(self, review: str) -> bool:
        """Sometimes a reviewer does something else first; whether the item is gone then."""
        if self._dice.random() < SIDE_STEPS:
            with self._figures.timed("look"):
                self._http.get(f"/v1/reviews/{review}", params={"reviewer": self.name}).raise_for_status()
        if self._dice.random() < SIDE_STEPS:
            self._post("renew", f"{review}/renew", {}).raise_for_status()
        if self._dice.random() < SIDE_STEPS / 2:
            self._post("release", f"{review}/release", {}).raise_for_status()
            return True
        return False

    def _post(self, act: str, path: str, body: dict[str, Any]) -> httpx.Response:
        with self._figures.timed(act):
            return self._http.post(f"/v1/reviews/{path}", json={"reviewer": self.name, **body})

    def _think(self) -> None:
        self._done.wait(self._dice.uniform(0.5, 2.0) * self._scale)


def prepare(server: Server, database: str, items: int, approvals: int) -> None:
    """Declare the queue and the ladder, submit, and wait until all items are on the desk."""
    with server.client() as http:
        queue = {"name": QUEUE, "approvals": approvals, "minutes": 30.0}
        http.put(f"/v1/review-queues/{QUEUE}", json=queue).raise_for_status()
        http.put("/v1/ladders/people", json=LADDER).raise_for_status()
        for start in range(0, items, BATCH):
            batch = [
                {"id": f"t{n}", "ladder": "people", "answer": f"{n:06d}" + "x" * (n % 7)}
                for n in range(start, min(start + BATCH, items))
            ]
            http.post("/v1/runs/bench/trajectories", json={"trajectories": batch}).raise_for_status()
    while (there := count(database)) < items:
        print(f"\r{there} of {items} items are on the desk", end="", flush=True)
        time.sleep(1.0)
    print(f"\r{items} items are on the desk            ")


def count(database: str, *states: str) -> int:
    """Items in the database, in these states."""
    with psycopg.connect(database) as connection:
        where = "WHERE state = ANY(%s)" if states else "WHERE %s::text[] IS NOT NULL"
        row = connection.execute(f"SELECT count(*) FROM reviews {where}", [list(states)]).fetchone()
    return int(row[0]) if row else 0


def check(database: str, approvals: int, figures: Figures) -> list[str]:
    """What is wrong with the votes."""
    with psycopg.connect(database) as connection:
        items = connection.execute("SELECT pk, id, state FROM reviews").fetchall()
        rows = connection.execute(
            "SELECT review, reviewer, verdict FROM votes ORDER BY review, decided_at, reviewer"
        ).fetchall()
        told = connection.execute(
            "SELECT kind, count(*) FROM review_events GROUP BY kind ORDER BY kind"
        ).fetchall()
    votes = defaultdict(list)
    for review, reviewer, verdict in rows:
        votes[review].append((reviewer, verdict))
    wrong, disputed = [], 0
    for pk, name, state in items:
        said = [verdict for _, verdict in votes[pk]]
        now = tally(said, approvals)
        needed = approvals if len(set(said[:approvals])) == 1 else approvals + 1
        disputed += needed > approvals
        if len({reviewer for reviewer, _ in votes[pk]}) != len(said):
            wrong.append(f"{name}: two votes of one person")
        if len(said) != needed or now.state != "decided" or state not in ("decided", "effective"):
            wrong.append(f"{name} is {state} with {len(said)} votes of {needed}")
    accepted = figures.answers["decision 201"]
    if accepted != len(rows):
        wrong.append(f"{accepted} votes were acknowledged, {len(rows)} are stored")
    print(f"{len(items)} items, {len(rows)} votes, {disputed} decided by a further person")
    print("acts:", ", ".join(f"{kind} {number}" for kind, number in told))
    return wrong


def report(figures: Figures, took: float, cpu_s: float, own_s: float) -> float:
    """Print the times; the worst p95."""
    worst = 0.0
    print(f"{'act':<10}{'times':>7}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}")
    for act, times in sorted(figures.times.items()):
        times.sort()
        p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
        worst = max(worst, p95)
        print(f"{act:<10}{len(times):>7}{p50:>9.1f}{p95:>9.1f}{times[-1]:>9.1f}")
    total = sum(map(len, figures.times.values()))
    print(f"{total} acts in {took:.1f} s, {total / took:.0f} per second; worst p95 {worst:.0f} ms")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    each = cpu_s * 1_000 / total
    share = own_s / took / (os.cpu_count() or 1)
    print(f"CPU of the server {each:.1f} ms per act, rewards and all; load {load:.1f} per core")
    print(f"CPU of the reviewers {own_s * 1_000 / total:.1f} ms per act, {share:.0%} of the machine")
    print("answers:", ", ".join(f"{what}: {number}" for what, number in sorted(figures.answers.items())))
    return worst


def main() -> int:
    """Run it once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviewers", type=int, default=50)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--approvals", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the time that people think")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds until a decision takes effect")
    given = parser.parse_args()
    figures, done = Figures(), threading.Event()
    with postgres_server(durable=True) as postgres, tempfile.TemporaryDirectory() as folder:
        url = postgres.empty()
        settings = {"database_url": url, "review_grace_s": str(given.grace), "learning": "false"}
        with running(Path(folder) / "data", **settings) as server:
            prepare(server, url, given.items, given.approvals)
            people = [
                Person(server, f"reviewer-{n:02d}", figures, given.scale, done)
                for n in range(given.reviewers)
            ]
            used = psutil.Process(server.process.pid)
            began, before, own = time.perf_counter(), sum(used.cpu_times()[:2]), time.process_time()
            with ThreadPoolExecutor(given.reviewers) as pool:
                working = [pool.submit(person.work) for person in people]
                while count(url, "open") and not any(one.done() for one in working):
                    time.sleep(0.5)
                took = time.perf_counter() - began
                cpu_s = sum(used.cpu_times()[:2]) - before
                own_s = time.process_time() - own
                done.set()
            for one in working:
                one.result()
            worst = report(figures, took, cpu_s, own_s)
            wrong = check(url, given.approvals, figures)
    for line in wrong[:20]:
        print("WRONG:", line)
    print(f"votes: {'as they should be' if not wrong else f'{len(wrong)} faults'}")
    print(f"p95 below {BAR_MS:.0f} ms: {'yes' if worst < BAR_MS else 'NO'}")
    return 1 if wrong or worst >= BAR_MS else 0


if __name__ == "__main__":
    sys.exit(main())
