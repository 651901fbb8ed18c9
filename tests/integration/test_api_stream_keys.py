"""Who may no longer read, or does not: streams and archives end for them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.support import server
from tests.support.server import act, fresh, identity, patience, submit
from tests.support.streams import (
    closed,
    is_held,
    open_waits,
    raw_stream,
    settled_run,
    soon,
    stays,
    stream_scope,
)
from verifier_service.api import connections, stalled
from verifier_service.client import Client, NotAuthenticated


@pytest.fixture(scope="module")
def admin() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


@pytest.fixture(scope="module")
def long_run(admin: httpx.Client) -> str:
    """A closed run of more records than the buffers of a connection hold."""
    run = fresh()
    padding = "x" * 20_000
    for _ in range(4):
        items = [act("score", value=1.0, pad=f"{padding}{n}") for n in range(250)]
        submit(admin, run, *items, seconds=120)
    return closed(admin, run)


def test_a_revoked_key_ends_what_it_waits_for(admin: httpx.Client) -> None:
    run = settled_run(admin)
    made = admin.post("/v1/keys", json={"name": "k", "scopes": ["read", "operate"]}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    polls: dict[str, tuple[str, dict[str, Any]]] = {
        "feed": (f"/v1/runs/{run}/rewards", {"after": 1000, "wait": 60}),
        "hindsight": (f"/v1/runs/{run}/hindsight", {"after": 1000, "wait": 60}),
    }
    answers: dict[str, int] = {}

    def poll(name: str) -> None:
        path, query = polls[name]
        with httpx.Client(base_url=server.shared().url, headers=headers, timeout=70) as other:
            answers[name] = other.get(path, params=query).status_code

    def follow() -> None:
        with Client(server.shared().url, made["token"]) as other:
            try:
                list(other.stream(run))
            except NotAuthenticated:
                answers["stream"] = 401

    threads = [threading.Thread(target=poll, args=(name,)) for name in polls]
    threads.append(threading.Thread(target=follow))
    for thread in threads:
        thread.start()
    assert soon(lambda: open_waits(admin) == 3)
    started = time.monotonic()
    admin.delete(f"/v1/keys/{made['key']['id']}").raise_for_status()
    for thread in threads:
        thread.join(30)
    assert answers == {"feed": 401, "hindsight": 401, "stream": 401}
    assert time.monotonic() - started < patience(8)


def test_a_revoked_key_ends_an_archive_that_is_not_read(admin: httpx.Client, long_run: str) -> None:
    shared = server.shared()
    made = admin.post("/v1/keys", json={"name": "k", "scopes": ["operate", "gold"]}).json()
    with (
        raw_stream(shared, long_run, made["token"], "archive") as silent,
        raw_stream(shared, long_run, path="archive") as other,
    ):
        time.sleep(1.0)
        admin.delete(f"/v1/keys/{made['key']['id']}").raise_for_status()
        assert soon(lambda: not is_held(shared, silent), 20)
        assert is_held(shared, other), "whose key lives has more time"


def test_a_revoked_key_reads_no_more_of_an_archive(admin: httpx.Client, long_run: str) -> None:
    """What was on its way when the key was revoked comes, and nothing after it."""
    made = admin.post("/v1/keys", json={"name": "k", "scopes": ["operate", "gold"]}).json()
    with raw_stream(server.shared(), long_run, made["token"], "archive") as slow:
        head = slow.recv(1_000)
        assert b"200 OK" in head
        admin.delete(f"/v1/keys/{made['key']['id']}").raise_for_status()
        time.sleep(patience(5))
        came = len(head)
        try:
            while piece := slow.recv(100_000):
                came += len(piece)
                last = piece
        except OSError:
            last = b""
    assert b'"kind":"end"' not in last
    assert came < 10_000_000, "of more than 20 MB"


def test_a_client_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled, "STALLED_S", 1.0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.is_set():
            await send({"type": "http.response.body", "body": b"x" * 50_000, "more_body": True})
            await asyncio.sleep(0.001)

    gone = threading.Event()
    config = uvicorn.Config(
        app, port=0, lifespan="off", log_level="critical", http=connections.protocol(10)
    )
    running = uvicorn.Server(config)
    serving = threading.Thread(target=running.run)
    serving.start()
    try:
        assert soon(lambda: running.started)
        address = running.servers[0].sockets[0].getsockname()
        with socket.socket() as silent, socket.create_connection(address, timeout=20) as slow:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.connect(address)
            silent.sendall(b"GET / HTTP/1.1\r\nHost: v\r\n\r\n")
            assert soon(lambda: len(running.server_state.connections) == 2)
            assert soon(lambda: len(running.server_state.connections) == 1), "it holds nothing any more"
            slow.sendall(b"GET / HTTP/1.1\r\nHost: v\r\n\r\n")
            until = time.monotonic() + 3.0
            while time.monotonic() < until:
                assert slow.recv(200_000), "who reads, however slowly, is waited for"
                time.sleep(0.05)
    finally:
        gone.set()
        running.should_exit = True
        serving.join(20)


def test_a_revoked_key_ends_a_stream_that_is_not_read(tmp_path: Path) -> None:
    async def go() -> None:
        async with server.in_process(tmp_path, workers=True) as client:
            wait = {"until": "final", "seconds": 30}
            body = {"trajectories": [identity("CCO")], "wait": wait}
            await client.post("/v1/runs/r/trajectories", json=body)
            made = (await client.post("/v1/keys", json={"name": "k", "scopes": ["read"]})).json()
            stuck = asyncio.Event()

            async def send(message: dict[str, Any]) -> None:
                if b"event" in message.get("body", b""):
                    stuck.set()
                if stuck.is_set():
                    await asyncio.sleep(60)

            app: Any = client._transport.app  # type: ignore[attr-defined]
            scope = stream_scope("r", f"Bearer {made['token']}")
            following = asyncio.create_task(app(scope, stays, send))
            await asyncio.wait_for(stuck.wait(), patience(10))
            (await client.delete(f"/v1/keys/{made['key']['id']}")).raise_for_status()
            await asyncio.wait_for(following, patience(8))

    asyncio.run(go())
