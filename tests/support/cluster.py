"""A distributed service of real processes: Postgres, Redis, API servers, Celery workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from tests.support.brokers import Broker, broker
from tests.support.databases import PostgresServer, postgres_server
from tests.support.server import PLUGINS, ROOT, Server, start
from verifier_service.client import Client

READY_S = 60.0
LEASE_S = 3.0
TIERS = ("fast", "simulation", "high_fidelity")


@dataclass(eq=False)
class Worker:
    """A worker process of one tier. What it writes goes to ``log``."""

    tier: str
    process: subprocess.Popen[bytes]
    log: Path

    def await_ready(self) -> None:
        """Returns when it drains its tier."""
        until = time.monotonic() + READY_S
        while "draining" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, the children of its verifiers left to notice."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP to it and its children, as when a machine hangs."""
        for process in self._family():
            process.suspend()

    def thaw(self) -> None:
        """SIGCONT."""
        for process in self._family():
            process.resume()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def _family(self) -> list[psutil.Process]:
        whole = psutil.Process(self.process.pid)
        return [whole, *whole.children(recursive=True)]


@dataclass(eq=False)
class Cluster:
    """The processes, on a database of their own."""

    folder: Path
    postgres: PostgresServer
    redis: Broker
    database_url: str
    apis: list[Server] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The administrator's key, made by the first server."""
        return self.apis[0].key

    def client(self, api: int = 0) -> Client:
        """A client of one of the servers."""
        return Client(self.apis[api].url, self.key)

    def serve(self, module: str = "verifier_service.app") -> Server:
        """One more API server."""
        name = f"api-{len(self.apis)}"
        server = start(self.folder / name, module=module, **self._settings())
        self.apis.append(server)
        return server

    def work(self, tier: str, *command: str, prefix: Sequence[str] = ()) -> Worker:
        """One more worker; ``command`` before ``worker``, ``prefix`` before the interpreter."""
        name = f"{tier}-{len(self.workers)}"
        settings = {**self._settings(), "data": str(self.folder / name)}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("VERIFIER_")}
        environment = kept | {f"VERIFIER_{key.upper()}": value for key, value in settings.items()}
        module = command or ("verifier_service.cli",)
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", *module, "worker", "--tier", tier],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        worker = Worker(tier, process, log)
        self.workers.append(worker)
        return worker

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Rows straight from the database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]

    def close(self) -> None:
        """Kill what lives."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()
        for api in self.apis:
            if api.process.poll() is None:
                api.kill()
            api.close()

    def _settings(self) -> dict[str, str]:
        return {
            "database_url": self.database_url,
            "broker_url": self.redis.url,
            "plugins": json.dumps(PLUGINS),
            "lease_s": str(LEASE_S),
            "fast_batch": "16",
            "log_level": "info",
            **self.more,
        }


@contextmanager
def cluster(
    postgres: PostgresServer, redis: Broker, *, tiers: Sequence[str] = TIERS, **more: str
) -> Iterator[Cluster]:
    """A server and a worker per tier, ready, for one block, all with these settings."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        made = Cluster(Path(folder), postgres, redis, postgres.empty(), more=more)
        try:
            made.serve()
            for worker in [made.work(tier) for tier in tiers]:
                worker.await_ready()
            yield made
        finally:
            made.close()


@contextmanager
def engines() -> Iterator[tuple[PostgresServer, Broker]]:
    """A database server and a broker, both ours to stop."""
    with postgres_server() as postgres, broker() as redis:
        assert postgres.process is not None, "TEST_PG_URL is not ours to restart"
        yield postgres, redis
