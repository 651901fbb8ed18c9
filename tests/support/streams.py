"""Server-sent events in tests: listened to, or asked for and never read."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from tests.support.server import Server, fresh, identity, patience, submit
from verifier_service.client.streams import EventReader


@dataclass(frozen=True)
class Sent:
    """What a stream sent until it ended: (id, type, data)."""

    events: list[tuple[str, str, Any]]

    @property
    def seqs(self) -> list[int]:
        return [data["seq"] for _, name, data in self.events if name == "reward"]


def soon(condition: Callable[[], Any], seconds: float = 10.0) -> bool:
    until = time.monotonic() + patience(seconds)
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def listen(client: httpx.Client, run: str, **query: Any) -> Sent:
    headers = query.pop("headers", {})
    with client.stream("GET", f"/v1/runs/{run}/rewards/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        events, reader = [], EventReader()
        for chunk in answer.iter_bytes():
            for event in reader.read(chunk):
                events.append((reader.last_id, event.name, json.loads(event.data)))
    return Sent(events)


def settled_run(client: httpx.Client, count: int = 3) -> str:
    run = fresh()
    submit(client, run, *[identity("C" * (1 + n % 20)) for n in range(count)])
    return run


def closed(client: httpx.Client, run: str) -> str:
    answer = client.post(f"/v1/runs/{run}/close", params={"wait": 30})
    assert answer.status_code == 200, answer.text
    return run


def open_waits(admin: httpx.Client) -> int:
    return int(admin.get("/healthz").json()["open_waits"])


def raw_stream(
    running: Server, run: str, key: str | None = None, path: str = "rewards/stream"
) -> socket.socket:
    """A connection on which a stream was asked for and nothing is read."""
    url = httpx.URL(running.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(20)
    connection.connect((url.host, url.port or 80))
    head = (
        f"GET /v1/runs/{run}/{path} HTTP/1.1\r\nHost: v\r\nAuthorization: Bearer {key or running.key}\r\n"
    )
    connection.sendall(f"{head}\r\n".encode())
    return connection


def shared_address(running: Server) -> tuple[str, int]:
    url = httpx.URL(running.url)
    return url.host, url.port or 80


def is_held(running: Server, connection: socket.socket) -> bool:
    """Whether the server still has its end of a connection."""
    port = connection.getsockname()[1]
    held = psutil.Process(running.process.pid).net_connections("tcp4")
    return any(one.raddr and one.raddr.port == port for one in held)


def stream_scope(run: str, authorization: str) -> dict[str, Any]:
    """The request for a stream, as a server hands it to the application."""
    path = f"/v1/runs/{run}/rewards/stream"
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"authorization", authorization.encode())],
    }


async def stays() -> dict[str, Any]:
    """A client that does not leave."""
    return await asyncio.sleep(60, {"type": "http.disconnect"})
