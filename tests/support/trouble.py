"""A service in trouble: a real server that is killed and started again, behind a proxy that can deliver
every request twice, with ladders whose verifiers fail and hang on request.

Ladder ``hostile``: the answer is an act, ``{"do": "ok"}``. Ladder ``spoken``: the last line of the answer's
text is an act as JSON. ``{"do": "ok"}`` scores 1, ``{"do": "raise"}`` fails, ``{"do": "spin"}`` hangs until
its deadline of 5 s; text that is no act scores 0. Evidence is shared in the project: an answer that an
earlier run paid for is free, so tests about budgets take a ``novel`` one.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.support.server import JUDGED, Server, start
from verifier_service.client import Client
from verifier_service.domain.runs import Budgets, RunSpec

SPOKEN: dict[str, Any] = {
    "name": "spoken",
    "candidate": {"kind": "act", "format": "text"},
    "outcome": {"use": "spoken"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "spoken"}]},
}
OK = '{"do": "ok"}'
WRONG = "I do not know"
FAILS = '{"do": "raise"}'
HANGS = '{"do": "spin"}'
KEPT = ("Authorization", "Content-Type", "Accept")


class Trouble:
    """A server at ``url`` with the administrator's ``key``, and what may befall it."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._port = free_port()
        self._server = self._start()
        self._starting = threading.Lock()
        self._proxy = _Proxy(self._server.url)
        self.url = self._proxy.url
        self.key = self._server.key
        self._lasting: list[threading.Thread] = []

    def furnish(self) -> None:
        """Store the ladders."""
        with self.client() as client:
            for ladder in (JUDGED, SPOKEN):
                client.put_ladder(ladder["name"], ladder)

    @property
    def direct_url(self) -> str:
        """The server itself: connections are refused while it is stopped."""
        return self._server.url

    @property
    def requests(self) -> int:
        """How many requests came to the proxy."""
        return self._proxy.requests

    def duplicate(self, twice: bool = True) -> None:
        """Deliver every request twice; the second answer is the one that is passed on."""
        self._proxy.twice = twice

    def break_down(self, broken: bool = True) -> None:
        """Answer every request with 500."""
        self._proxy.broken = broken

    def stop_for(self, seconds: float, *, after: float = 0.0) -> threading.Thread:
        """Kill the server ``after`` so many seconds and start it again ``seconds`` later, meanwhile."""
        lasting = threading.Thread(target=self._stop_and_start, args=(seconds, after), daemon=True)
        self._lasting.append(lasting)
        lasting.start()
        return lasting

    def broke(self, run: str) -> str:
        """Make a run whose compute budget is spent before it begins; its name."""
        with Client(self._server.url, self.key) as client:
            client.put_run(run, RunSpec(budgets=Budgets(compute=0.0)))
        return run

    def client(self) -> Client:
        """A client of the server itself."""
        return Client(self._server.url, self.key)

    def close(self) -> None:
        """Stop everything."""
        for lasting in self._lasting:
            lasting.join()
        self._proxy.close()
        self._server.close()

    def _stop_and_start(self, seconds: float, after: float) -> None:
        time.sleep(after)
        with self._starting:
            self._server.kill()
            time.sleep(seconds)
            self._server.close()
            self._server = self._start()

    def _start(self) -> Server:
        return start(self._data, port=str(self._port))


@contextmanager
def troubled(data: Path) -> Iterator[Trouble]:
    """A service in trouble for one block."""
    trouble = Trouble(data)
    try:
        trouble.furnish()
        yield trouble
    finally:
        trouble.close()


def novel(do: str = "ok") -> str:
    """An act that nobody has asked for."""
    return json.dumps({"do": do, "n": secrets.token_hex(8)})


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Proxy:
    def __init__(self, upstream: str) -> None:
        self.twice = False
        self.broken = False
        self.requests = 0
        self._counting = threading.Lock()
        self._http = httpx.Client(base_url=upstream, timeout=180.0, trust_env=False)
        self._listener = _Listener(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._listener.server_port}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def deliver(self, method: str, path: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        """The upstream's answer. Raises ``httpx.TransportError``."""
        with self._counting:
            self.requests += 1
        if self.broken:
            return httpx.Response(500, json={"detail": "broken"})
        if self.twice:
            self._http.request(method, path, headers=headers, content=body)
        return self._http.request(method, path, headers=headers, content=body)

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._http.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: self.headers[name] for name in KEPT if name in self.headers}
                try:
                    answer = proxy.deliver(self.command, self.path, headers, body)
                except httpx.TransportError:
                    # As when the server is gone: the connection ends without an answer.
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name in ("Content-Type", "Retry-After"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: tests print what matters."""

        return Handler


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A trainer that hangs up is no news."""
