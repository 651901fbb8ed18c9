"""The demo's own server: a ``verifier serve`` in a folder of its own, on a free port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from verifier_service.cli.boundary import Failed
from verifier_service.client import Client, VerifierError

HOST = "127.0.0.1"
START_S = 90.0
STOP_S = 15.0
LOG = "demo-server.log"
LOG_TAIL = 2_000
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A server that runs, with the key that may do everything in it."""

    url: str
    key: str
    data: Path
    process: subprocess.Popen[bytes]

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(data: Path, port: int | None = None) -> Iterator[DemoServer]:
    """Start the server, wait until it answers, and stop it at the end."""
    chosen = port or free_port()
    with _unwinding():
        process = _start(data, chosen)
        try:
            yield _ready(process, data, f"http://{HOST}:{chosen}")
        finally:
            _stop(process)


@contextmanager
def _unwinding() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind as Ctrl-C does: no server may stay behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def workers() -> int:
    """Slow calculations at a time: two where two cores may be used."""
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _start(data: Path, port: int) -> subprocess.Popen[bytes]:
    # Settings of a real installation (its database above all) must not reach the demo.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VERIFIER_")}
    environ.setdefault("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-m", "verifier_service.cli", "serve"]
    command += ["--host", HOST, "--port", str(port), "--data", str(data), "--workers", str(workers())]
    with (data / LOG).open("ab") as log:
        # Its own session: Ctrl-C in the terminal ends the demo, and the demo ends the server.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
        )


def _ready(process: subprocess.Popen[bytes], data: Path, url: str) -> DemoServer:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with suppress(OSError, VerifierError):
            key = (data / "admin.key").read_text("ascii").strip()
            with Client(url, key, retry_s=0.0) as client:
                client.ladders()
            return DemoServer(url, key, data, process)
        time.sleep(0.2)
    ended = process.poll()
    what = f"did not answer within {START_S:.0f} s" if ended is None else f"ended with code {ended}"
    raise Failed(f"the server {what}; its log says:\n{_tail(data)}", f"read {data / LOG}")


def _tail(data: Path) -> str:
    try:
        return (data / LOG).read_text("utf-8", "replace")[-LOG_TAIL:].strip() or "(nothing)"
    except OSError as error:
        return f"(no log: {error})"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
