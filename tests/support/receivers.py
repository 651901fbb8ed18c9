"""Receivers of webhooks for tests: real HTTP servers that verify what comes, and misbehave on request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOLERANCE_S = 300


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request: its event, the body as parsed, and its headers in lower case."""

    event: str
    body: dict[str, Any]
    headers: dict[str, str]
    path: str


@dataclass(eq=False)
class Receiver:
    """Answers ``status`` with ``headers`` after ``delay_s``; ``requests`` are those of records that it
    took, in their order. Bodies whose signature no ``secret`` made are refused with 400, and counted in
    ``forged``. ``connections`` counts every connection, whatever was sent over it."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    answer: bytes = b""
    secrets: list[str] = field(default_factory=list)
    decide: Callable[[Received], int | None] = lambda _: None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    forged: int = 0
    port: int = 0
    scheme: str = "http"
    _server: ThreadingHTTPServer | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    def start(self, certificate: ssl.SSLContext | None = None) -> None:
        """Listen, on the port of before where there was one."""
        self._server = _Listener(("127.0.0.1", self.port), self._handler())
        if certificate is not None:
            self.scheme = "https"
            self._server.socket = certificate.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Connections are refused from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def events(self) -> Counter[str]:
        """How often each event came."""
        with self._lock:
            return Counter(one.event for one in self.requests)

    def records(self) -> dict[str, tuple[str, int]]:
        """The record (run, seq) of each event. An event that came for two records fails."""
        found: dict[str, tuple[str, int]] = {}
        with self._lock:
            for one in self.requests:
                record = (one.body["data"]["run"], one.body["data"]["seq"])
                assert found.setdefault(one.event, record) == record
        assert len(set(found.values())) == len(found)
        return found

    def await_records(self, count: int, seconds: float = 30.0) -> dict[str, tuple[str, int]]:
        """Returns when that many records have come."""
        until = time.monotonic() + seconds
        while len(found := self.records()) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} records came"
            time.sleep(0.02)
        return found

    def take(self, headers: dict[str, str], body: bytes, path: str) -> int:
        """Verify and keep one request; the status to answer."""
        if self.secrets and not any(verified(secret, headers, body) for secret in self.secrets):
            with self._lock:
                self.forged += 1
            return 400
        received = Received(event=headers["webhook-id"], body=json.loads(body), headers=headers, path=path)
        if self.delay_s:
            time.sleep(self.delay_s)
        decided = self.decide(received)
        status = self.status if decided is None else decided
        if 200 <= status < 300 and received.body["type"] != "webhook.test":
            with self._lock:
                self.requests.append(received)
        return status

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                with receiver._lock:
                    receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the sender was killed in the middle
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.send_response(receiver.take(headers, body, self.path))
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: tests print what matters."""

        return Handler


def verified(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """The receiver's side of Standard Webhooks 1.0.0, written from its text and not from the sender."""
    if abs(time.time() - int(headers["webhook-timestamp"])) > TOLERANCE_S:
        return False
    key = base64.b64decode(secret.split("_", 1)[1])
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = hmac.new(key, content, hashlib.sha256).digest()
    for one in headers["webhook-signature"].split(" "):
        version, _, signature = one.partition(",")
        if version == "v1" and hmac.compare_digest(base64.b64decode(signature), expected):
            return True
    return False


@contextmanager
def receiver(**settings: Any) -> Iterator[Receiver]:
    """A running one for one block."""
    made = Receiver(**settings)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that hangs up is no news."""
