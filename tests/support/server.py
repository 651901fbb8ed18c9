"""A server for tests: the real process on a real database, or the application inside the test.

The process runs under ``$VERIFIER_SERVER_PYTHON`` where that is set: tests in a trainer's environment,
which has the client only, start the server of the developers' environment.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    import psutil

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ("tests.support.verifiers", "tests.support.measuring")
START_S = 60.0
STOP_S = 15.0

JUDGED: dict[str, Any] = {
    "name": "hostile",
    "candidate": {"kind": "act"},
    "outcome": {"use": "hostile"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "hostile"}]},
}
REVIEWED: dict[str, Any] = {
    "name": "reviewed",
    "candidate": {"kind": "molecule", "format": "smiles"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}, {"use": "molecule.identity"}],
        "lab": [{"use": "review", "params": {"queue": "chemists"}}],
    },
}


@dataclass(kw_only=True)
class Server:
    """A running ``verifier serve``: where it listens, the key that may do everything, its process."""

    url: str
    key: str
    data: Path
    process: subprocess.Popen[str]
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """The header that authenticates the administrator."""
        return {"Authorization": f"Bearer {self.key}"}

    def client(self, *, timeout: float = 60.0) -> httpx.Client:
        """A client with the administrator's key."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=timeout)

    def log(self) -> str:
        """What the server wrote to standard error so far."""
        return (self.data / "server.log").read_text()

    def stop(self) -> int:
        """SIGTERM, and the exit status; killed when it does not end in time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self) -> None:
        """Stop it if it runs, and close its pipe."""
        if self.process.poll() is None:
            self.stop()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        """SIGKILL, as when the machine is out of memory."""
        self.process.kill()
        self.process.wait(STOP_S)

    def children(self) -> list[psutil.Process]:
        """All descendants: the processes in which verifiers run."""
        import psutil

        return psutil.Process(self.process.pid).children(recursive=True)


def start(data: Path, *, module: str = "verifier_service.app", **settings: str) -> Server:
    """Start a server on ``data`` and a free port; returns when it answers.

    ``settings`` are named as in ``Settings``. The test verifiers are installed as plugins. ``module`` is
    what is run.
    """
    data.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERIFIER_")}
    chosen = {"data": str(data), "port": "0", "plugins": json.dumps(PLUGINS), **settings}
    environment = {**kept, **{f"VERIFIER_{name.upper()}": value for name, value in chosen.items()}}
    with (data / "server.log").open("a") as log:
        process = subprocess.Popen(
            [os.environ.get("VERIFIER_SERVER_PYTHON", sys.executable), "-m", module],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    url = _url(process, data)
    key = (data / "admin.key").read_text().strip()
    return Server(url=url, key=key, data=data, process=process, settings=settings)


@contextmanager
def running(data: Path, **settings: str) -> Iterator[Server]:
    """A server for one block."""
    server = start(data, **settings)
    try:
        yield server
    finally:
        server.close()


@functools.cache
def shared() -> Server:
    """One server for all tests that leave it as they found it.

    It has the ladders ``JUDGED`` and ``REVIEWED``. Each test takes a run of its own, see ``fresh``.
    """
    data = Path(tempfile.mkdtemp(prefix="verifier-"))
    server = start(data, review_grace_s="0.5")
    with server.client() as client:
        for ladder in (JUDGED, REVIEWED):
            client.put(f"/v1/ladders/{ladder['name']}", json=ladder).raise_for_status()
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    atexit.register(server.close)
    return server


def fresh(prefix: str = "run") -> str:
    """A name that nobody has used."""
    return f"{prefix}-{secrets.token_hex(5)}"


def patience(seconds: float) -> float:
    """A limit that holds on an idle machine, stretched by how overloaded this one is."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def act(do: str, **fields: Any) -> dict[str, Any]:
    """A trajectory for ``JUDGED`` whose verifier does what it says."""
    return {"id": fresh("t"), "ladder": JUDGED["name"], "answer": {"do": do, **fields}}


def identity(answer: Any, gold: str | None = "CCO", **fields: Any) -> dict[str, Any]:
    """A trajectory for ``molecule-identity``: is the answer the molecule ``gold``?"""
    reference = {"smiles": gold} if gold is not None else {}
    problem = {"inputs": fields.pop("inputs", {}), "reference": reference}
    return {"id": fresh("t"), "ladder": "molecule-identity", "problem": problem, "answer": answer, **fields}


def submit(
    client: httpx.Client, run: str, *items: dict[str, Any], until: str = "final", seconds: float = 30.0
) -> list[dict[str, Any]]:
    """Submit and wait; the results, each with its reward."""
    body = {"trajectories": list(items), "wait": {"until": until, "seconds": seconds}}
    answer = client.post(f"/v1/runs/{run}/trajectories", json=body)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


@asynccontextmanager
async def in_process(
    data: Path, *, workers: bool = False, **settings: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The application over ASGI with the administrator's key; with ``workers`` it does its work, too."""
    from verifier_service import bootstrap
    from verifier_service.app import create_app, ensure_admin_key
    from verifier_service.settings import Settings
    from verifier_service.worker.supervisor import Supervisor

    service = bootstrap.build(Settings(data=data, plugins=PLUGINS, **settings))  # type: ignore[arg-type]
    key = ensure_admin_key(service).read_text().strip()
    supervisor = Supervisor(service) if workers else None
    if supervisor is not None:
        supervisor.start()
    app = create_app(service)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://verifier", headers=headers) as client,
        ):
            yield client
    finally:
        if supervisor is not None:
            supervisor.stop()
        service.store.close()


def _url(process: subprocess.Popen[str], data: Path) -> str:
    """The URL from the line the server prints when it is ready."""
    lines: list[str] = []
    reader = threading.Thread(target=_read_line, args=(process.stdout, lines), daemon=True)
    reader.start()
    reader.join(START_S)
    if not lines or not lines[0].startswith("verifier serving on "):
        process.kill()
        process.communicate()
        raise RuntimeError(f"the server did not start: {lines} {(data / 'server.log').read_text()[-4000:]}")
    return lines[0].split()[-1]


def _read_line(stream: IO[str] | None, lines: list[str]) -> None:
    if stream is not None:
        lines.append(stream.readline().strip())
