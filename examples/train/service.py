"""A service of the loop's own: ``verifier serve`` on a free port, in a folder that starts empty.

A fresh folder a run: evidence that an earlier run has paid for would make a later one look cheap.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from verifier_service.client import Client, VerifierError

ROOT = Path(__file__).resolve().parents[2]
LADDERS = Path(__file__).with_name("ladders")
PLUGIN = "examples.train.pi_gap:PiGap"
CREDITS_PER_CPU_HOUR = 3_600.0
START_S = 120.0
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Service:
    """Where it is, and a key that may submit, read and operate."""

    url: str
    key: str

    def client(self) -> Client:
        """A client of it; close it."""
        return Client(self.url, self.key)


@contextmanager
def running(python: str) -> Iterator[Service]:
    """Start it with the interpreter ``python``, with the three ladders and one credit a CPU second.

    Raises ``RuntimeError`` with the end of its log when it does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="verifier-train-") as folder:
        data = Path(folder)
        port = _free_port()
        process = _start(python, data, port)
        try:
            service = _ready(process, data, f"http://127.0.0.1:{port}")
            put_ladders(service)
            yield service
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def put_ladders(service: Service) -> None:
    """Store the ladders of the three conditions; harmless when they are there."""
    with service.client() as client:
        for path in sorted(LADDERS.glob("*.json")):
            spec = json.loads(path.read_text(encoding="utf-8"))
            client.put_ladder(spec["name"], spec)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(python: str, data: Path, port: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VERIFIER_")}
    environment |= {
        "VERIFIER_PLUGINS": json.dumps([PLUGIN]),
        "VERIFIER_CPU_HOUR": str(CREDITS_PER_CPU_HOUR),
        "OMP_NUM_THREADS": "1",
    }
    command = [python, "-m", "verifier_service.cli", "serve", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--data", str(data)]
    with (data / "server.log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _ready(process: subprocess.Popen[bytes], data: Path, url: str) -> Service:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with suppress(OSError, VerifierError):
            service = Service(url, (data / "admin.key").read_text("ascii").strip())
            with Client(url, service.key, retry_s=0.0) as client:
                client.ladders()
            return service
        time.sleep(0.2)
    tail = (data / "server.log").read_text("utf-8", "replace")[-2_000:]
    raise RuntimeError(f"the service did not start:\n{tail}")
