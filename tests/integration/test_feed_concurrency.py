"""The feed under concurrent commits: readers by cursor miss nothing, see nothing twice, and agree.

Writers, threads of two processes on Postgres, take their numbers and commit in an order of chance; readers
are a process with a store of its own, a long-poll, and streams over HTTP.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import pytest

from tests.support import server
from tests.support.databases import PostgresServer
from tests.support.records import scored
from verifier_service.client import Client
from verifier_service.domain.runs import RunSpec, RunState
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

PROJECT, RUN = "default", "feed"
WRITERS, RECORDS = 8, 20_000
EACH = RECORDS // WRITERS
LARGEST = 40
LONGEST_S = 0.02
Read = list[tuple[int, str]]


class Undone(Exception):
    """A transaction that took its numbers and is rolled back."""


def write(url: str, writer: int) -> int:
    """Records of one writer, in transactions that linger between taking their numbers and the commit; some
    are rolled back then. Returns how many were."""
    draw, store, done, undone = random.Random(writer), create_store(url), 0, 0
    while done < EACH:
        size = min(draw.randint(1, LARGEST), EACH - done)
        records = [scored(0.5, f"{writer}-{done + at}", run=RUN) for at in range(size)]
        try:
            with store.begin() as tx:
                tx.rewards.append(PROJECT, RUN, records)
                if draw.random() < 0.3:
                    time.sleep(draw.uniform(0, LONGEST_S))
                if draw.random() < 0.1:
                    raise Undone
        except Undone:
            undone += 1
        else:
            done += size
            if draw.random() < 0.3:
                time.sleep(draw.uniform(0, LONGEST_S))
    store.close()
    return undone


def write_all(url: str, writers: list[int]) -> int:
    """Writers that are threads of one process."""
    with ThreadPoolExecutor(len(writers)) as threads:
        return sum(threads.map(lambda writer: write(url, writer), writers))


def read(url: str, limit: int) -> Read:
    """The feed by cursor, in pages of its own size, from the store of another process."""
    store, came, cursor = create_store(url), [], 0
    while len(came) < RECORDS:
        with store.read() as tx:
            page = tx.rewards.feed(PROJECT, RUN, cursor, limit)
        came += [(record.seq, record.trajectory) for record in page]
        cursor = came[-1][0] if came else 0
        if not page:
            time.sleep(0.002)
    store.close()
    return came


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.empty()


@pytest.fixture(scope="module")
def running(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Server]:
    with server.running(tmp_path_factory.mktemp("feed"), database_url=url) as started:
        yield started


@pytest.fixture(scope="module")
def reads(url: str, running: server.Server) -> dict[str, Read]:
    """What each reader saw of the same feed while it was written."""
    store = create_store(url)
    with store.begin() as tx:
        tx.runs.ensure(PROJECT, RUN, RunSpec(), seed=1)
    numbers = list(range(WRITERS))
    with get_context("spawn").Pool(3) as pool, ThreadPoolExecutor(3) as threads:
        over: dict[str, Future[Read]] = {
            "long-poll": threads.submit(follow, running, 100),
            "stream": threads.submit(stream, running),
            "interrupted stream": threads.submit(interrupted, running),
        }
        reader = pool.apply_async(read, (url, 7))
        writers = [pool.apply_async(write_all, (url, half)) for half in (numbers[::2], numbers[1::2])]
        undone = sum(writer.get(120) for writer in writers)
        close(store)
        seen = {"store": reader.get(60)} | {name: other.result(60) for name, other in over.items()}
    store.close()
    assert undone > 20, "transactions were rolled back after they took their numbers"
    return seen


def close(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)


def follow(running: server.Server, limit: int) -> Read:
    """Long-polls until all have come."""
    came: Read = []
    with Client(running.url, running.key) as client:
        while len(came) < RECORDS:
            page = client.rewards(RUN, after=came[-1][0] if came else 0, limit=limit, wait_s=30)
            came += [(record.seq, record.trajectory) for record in page.records]
    return came


def stream(running: server.Server) -> Read:
    """One stream until the run is closed."""
    with Client(running.url, running.key) as client:
        return [(record.seq, record.trajectory) for record in client.stream(RUN)]


def interrupted(running: server.Server) -> Read:
    """Streams that are left after a number of records of chance."""
    draw, came = random.Random(7), Read()
    with Client(running.url, running.key) as client:
        while len(came) < RECORDS:
            leave_after = draw.randint(1, 2_000)
            for record in client.stream(RUN, after=came[-1][0] if came else 0):
                came.append((record.seq, record.trajectory))
                leave_after -= 1
                if not leave_after:
                    break
    return came


def test_no_reader_misses_a_record_or_sees_one_twice(reads: dict[str, Read]) -> None:
    everything = {f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH)}
    assert len(reads) == 4
    for name, came in reads.items():
        counts = Counter(trajectory for _, trajectory in came)
        assert counts.keys() == everything, name
        assert set(counts.values()) == {1}, name


def test_the_order_is_the_same_for_all_and_has_no_gap(reads: dict[str, Read]) -> None:
    first, *others = reads.values()
    assert [seq for seq, _ in first] == list(range(1, RECORDS + 1))
    for other in others:
        assert other == first


def test_writers_took_turns(reads: dict[str, Read]) -> None:
    """The test is one of concurrency only if they did."""
    order = [trajectory.split("-")[0] for _, trajectory in reads["stream"]]
    turns = sum(before != after for before, after in pairwise(order))
    assert turns > 500
    for writer in range(WRITERS):
        mine = [int(name.split("-")[1]) for _, name in reads["stream"] if name.startswith(f"{writer}-")]
        assert mine == sorted(mine), "each writer's own order is kept"
