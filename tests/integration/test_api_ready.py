"""Readiness: soon false when the database or the sweep is gone, soon true again, and never late itself."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import server
from tests.support.databases import PostgresProcess, PostgresServer, postgres_server
from tests.support.server import patience
from verifier_service import bootstrap
from verifier_service.api import probe
from verifier_service.api.probe import Found, Probe
from verifier_service.app import create_app
from verifier_service.bootstrap import Service
from verifier_service.domain.ports.store import Store
from verifier_service.settings import Settings
from verifier_service.worker.ending import STOP_S
from verifier_service.worker.sweep import Sweep

ALL = {"ready": True, "database": True, "workers": True, "sweep": True, "missing": []}
NO_DATABASE = {"ready": False, "database": False, "workers": True, "sweep": False}


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[PostgresServer, PostgresProcess]]:
    """A database server that is ours to stop."""
    with postgres_server() as made:
        assert made.process is not None, "TEST_PG_URL is not ours to stop"
        yield made, made.process


@pytest.fixture(scope="module")
def running(
    machine: tuple[PostgresServer, PostgresProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[server.Server]:
    with server.running(tmp_path_factory.mktemp("ready"), database_url=machine[0].empty()) as started:
        yield started


@contextmanager
def stopped(process: PostgresProcess) -> Iterator[None]:
    """A database server that is gone for one block."""
    process.stop(signal.SIGINT)
    try:
        yield
    finally:
        process._process = process._start()


@contextmanager
def frozen(process: PostgresProcess) -> Iterator[None]:
    """A database server that takes connections and says nothing."""
    whole = psutil.Process(process._process.pid)
    family = [whole, *whole.children(recursive=True)]
    for each in family:
        each.suspend()
    try:
        yield
    finally:
        for each in family:
            each.resume()


def becomes(client: httpx.Client, status: int, seconds: float = 5.0) -> dict[str, Any]:
    """The answer, once it has that status; each comes within three seconds."""
    until = time.monotonic() + patience(seconds)
    while True:
        started = time.monotonic()
        answer = client.get("/readyz")
        assert time.monotonic() - started < patience(10.0)
        if answer.status_code == status:
            body: dict[str, Any] = answer.json()
            return body
        assert time.monotonic() < until, answer.text
        time.sleep(0.1)


def test_a_database_that_is_gone(
    machine: tuple[PostgresServer, PostgresProcess], running: server.Server
) -> None:
    with running.client() as client:
        assert becomes(client, 200) == ALL
        with stopped(machine[1]):
            assert becomes(client, 503) == NO_DATABASE | {"missing": ["database", "sweep"]}
            assert client.get("/healthz").status_code == 200
            refused = client.get("/v1/runs")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert becomes(client, 200, 10) == ALL


def test_a_database_that_hangs(
    machine: tuple[PostgresServer, PostgresProcess], running: server.Server
) -> None:
    process = psutil.Process(running.process.pid)
    with running.client() as client:
        becomes(client, 200)
        with frozen(machine[1]):
            assert becomes(client, 503)["missing"] == ["database", "sweep"]
            before = process.num_threads()
            stuck = [threading.Thread(target=calling, args=(running,)) for _ in range(40)]
            for thread in stuck:
                thread.start()
            time.sleep(1.0)
            asking = [threading.Thread(target=client.get, args=("/readyz",)) for _ in range(50)]
            started = time.monotonic()
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
            assert time.monotonic() - started < patience(10.0)
            assert process.num_threads() <= before + 24 + 4, "one thread hangs, however many ask"
        for thread in stuck:
            thread.join()
        assert becomes(client, 200, 10) == ALL


def calling(running: server.Server) -> None:
    """A call that hangs with the database, and takes a thread of the server's pool."""
    with running.client() as client:
        client.get("/v1/runs")


@pytest.fixture
def service(postgres: PostgresServer, tmp_path: Path) -> Iterator[Service]:
    built = bootstrap.build(Settings(data=tmp_path, database_url=postgres.empty()))
    yield built
    built.store.close()


async def asked(service: Service, alive: Callable[[], bool] = lambda: True) -> httpx.Response:
    transport = httpx.ASGITransport(app=create_app(service, alive=alive))
    async with httpx.AsyncClient(transport=transport, base_url="http://v") as client:
        return await client.get("/readyz")


def test_nobody_sweeps_until_somebody_does(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SWEPT_S", 0.0)
    answer = asyncio.run(asked(service))
    assert (answer.status_code, answer.json()) == (
        503,
        ALL | {"ready": False, "sweep": False, "missing": ["sweep"]},
    )
    # Whoever sweeps may be any process: here, a thread over a store of its own.
    other = bootstrap.build(service.settings)
    sweep = Sweep(other, "embedded/other")
    sweeping = threading.Thread(target=sweep.run)
    sweeping.start()
    monkeypatch.setattr(probe, "SWEPT_S", 3.0)
    until = time.monotonic() + patience(5)
    while not service.store.led("sweep"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert asyncio.run(asked(service)).json() == ALL
    sweep.stop()
    sweeping.join(10)
    other.store.close()
    assert not service.store.led("sweep")


def test_workers_that_died_are_named(service: Service) -> None:
    answer = asyncio.run(asked(service, alive=lambda: False))
    assert answer.status_code == 503
    assert "workers" in answer.json()["missing"]


class Staged:
    """A store in which a part is played or not, and a clock that says when."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.led_by_anybody = True

    def read(self) -> Any:
        return self._store.read()

    def led(self, name: str) -> bool:
        assert name == "sweep"
        return self.led_by_anybody


def test_a_change_of_hands_is_not_the_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the death of who swept and the next there are moments without any."""
    monkeypatch.setattr(probe, "FRESH_S", 0.0)
    monkeypatch.setattr(probe, "SWEPT_S", 0.6)
    staged: Any = Staged(service.store)

    async def go() -> list[Found]:
        looking = Probe(replace(service, store=staged).store, service.settings.project)
        found = [await looking.look()]
        staged.led_by_anybody = False
        found.append(await looking.look())
        await asyncio.sleep(0.8)
        found.append(await looking.look())
        staged.led_by_anybody = True
        found.append(await looking.look())
        return found

    swept = [found.sweep for found in asyncio.run(go())]
    assert swept == [True, True, False, True]


def test_a_thread_that_could_not_start_is_forgotten(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process at its limit of threads is not ready, and is asked anew the next time."""
    staged: Any = Staged(service.store)

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def go() -> list[Found]:
        looking = Probe(staged, service.settings.project)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", full)
            found = [await looking.look()]
        return [*found, await looking.look()]

    assert asyncio.run(go()) == [Found(database=False, sweep=False), Found(database=True, sweep=True)]


def test_a_database_that_hangs_does_not_keep_a_server_that_is_told_to_stop(
    machine: tuple[PostgresServer, PostgresProcess], tmp_path: Path
) -> None:
    postgres, process = machine
    stubborn = server.start(tmp_path / "stubborn", database_url=postgres.empty())
    with frozen(process):
        time.sleep(1.0)  # the sweep waits for an answer by now
        stubborn.process.send_signal(signal.SIGTERM)
        stubborn.process.wait(patience(STOP_S + 10))
    stubborn.close()
