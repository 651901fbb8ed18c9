"""The feed as server-sent events: exact over any number of connections, idle at no cost."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn

from tests.support import server
from tests.support.server import JUDGED, Server, act, fresh, identity, patience, submit
from verifier_service.api import connections, pages, stalled, stream
from verifier_service.client import AsyncClient, Client, NotAuthenticated, NotFound
from verifier_service.client.streams import EventReader
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus

IDLE = 200


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


@pytest.fixture(scope="module")
def admin() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(server.shared().url, server.shared().key) as client:
        yield client


def test_a_stream_of_a_closed_run_is_its_feed_and_ends(admin: httpx.Client) -> None:
    run = closed(admin, settled_run(admin, 150))
    feed = admin.get(f"/v1/runs/{run}/rewards", params={"limit": 1000}).json()["records"]
    assert len(feed) > 2 * 64, "more than two pages"
    told = listen(admin, run)
    *rewards, end = told.events
    assert [data for _, _, data in rewards] == feed
    assert [(place, name) for place, name, _ in rewards] == [(str(r["seq"]), "reward") for r in feed]
    assert end == (str(feed[-1]["seq"]), "end", {"cursor": feed[-1]["seq"]})


def test_a_stream_goes_on_exactly_where_it_is_told(admin: httpx.Client) -> None:
    run = closed(admin, settled_run(admin, 5))
    whole = listen(admin, run).seqs
    for seq in whole:
        rest = [later for later in whole if later > seq]
        assert listen(admin, run, after=seq).seqs == rest
        if rest:
            again = listen(admin, run, after=0, headers={"Last-Event-ID": str(seq)})
            assert again.seqs == rest
    path = f"/v1/runs/{run}/rewards/stream"
    done = admin.get(path, headers={"Last-Event-ID": str(whole[-1])})
    assert (done.status_code, done.content) == (204, b"")


def test_a_stream_by_status_sends_its_records_and_the_place_in_the_feed(admin: httpx.Client) -> None:
    run = fresh()
    submit(admin, run, identity("CCO"), identity("CCO", None), identity("CC"), identity("CCO", None))
    closed(admin, run)
    feed = admin.get(f"/v1/runs/{run}/rewards").json()["records"]
    for status in ("unscored", "provisional", "final"):
        told = listen(admin, run, status=status)
        assert told.seqs == [record["seq"] for record in feed if record["status"] == status]
        assert told.events[-1][:2] == (str(feed[-1]["seq"]), "end")


def test_a_stream_that_is_given_time_ends_without_an_end(admin: httpx.Client) -> None:
    run = settled_run(admin)
    started = time.monotonic()
    told = listen(admin, run, wait=0.5)
    assert 0.5 <= time.monotonic() - started < patience(5)
    assert told.seqs
    assert {name for _, name, _ in told.events} == {"reward"}
    assert listen(admin, run, wait=0).seqs == told.seqs


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {"Last-Event-ID": "x"}, 422, "invalid_value"),
        ("", {"Last-Event-ID": "-1"}, 422, "out_of_range"),
        ("?after=-1", {}, 422, "out_of_range"),
        ("?status=nice", {}, 422, "not_one_of"),
        ("?wait=1e9", {}, 422, "out_of_range"),
    ],
)
def test_what_is_asked_wrongly_is_a_problem(
    admin: httpx.Client, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = admin.get(f"/v1/runs/{fresh()}/rewards/stream{query}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_an_event_that_the_feed_does_not_have_is_a_conflict(admin: httpx.Client) -> None:
    """After a restore from an older backup, what was lost must not be lost in silence."""
    run = settled_run(admin)
    for state in ("open", "closed"):
        answer = admin.get(f"/v1/runs/{run}/rewards/stream?wait=0", headers={"Last-Event-ID": "99999"})
        assert (answer.status_code, answer.json()["code"]) == (409, "feed_lost"), state
        assert answer.json()["field"] == "Last-Event-ID"
        closed(admin, run)


def test_an_empty_last_event_id_is_none(admin: httpx.Client) -> None:
    """Browsers send none before the first event; some clients send an empty one."""
    run = closed(admin, settled_run(admin))
    assert listen(admin, run, headers={"Last-Event-ID": ""}).seqs == listen(admin, run).seqs


def test_an_unknown_run_has_no_stream(admin: httpx.Client, client: Client) -> None:
    assert admin.get(f"/v1/runs/{fresh()}/rewards/stream").json()["code"] == "run_not_found"
    with pytest.raises(NotFound):
        next(client.stream(fresh()))


def test_records_come_as_they_are_issued(client: Client, admin: httpx.Client) -> None:
    run = settled_run(admin)
    came: list[tuple[float, RewardRecord]] = []
    listener = threading.Thread(
        target=lambda: came.extend((time.monotonic(), record) for record in client.stream(run))
    )
    listener.start()
    assert soon(lambda: len(came) == 3)
    item = act("ok", n=fresh())
    submit(admin, run, item)
    issued = time.monotonic()
    assert soon(lambda: any(record.trajectory == item["id"] for _, record in came))
    at = next(at for at, record in came if record.trajectory == item["id"])
    assert at - issued < patience(1)
    closed(admin, run)
    listener.join(10)
    assert not listener.is_alive(), "the stream ends with the run"
    feed = admin.get(f"/v1/runs/{run}/rewards").json()["records"]
    assert [record.seq for _, record in came] == [record["seq"] for record in feed]


def test_the_async_client_streams_too(admin: httpx.Client) -> None:
    run = settled_run(admin, 4)
    submit(admin, run, identity("CCO", None))
    closed(admin, run)
    feed = admin.get(f"/v1/runs/{run}/rewards").json()["records"]

    async def go() -> tuple[list[int], list[int], int]:
        async with AsyncClient(server.shared().url, server.shared().key) as client:
            whole = [record.seq async for record in client.stream(run)]
            final = [record.seq async for record in client.stream(run, status=RewardStatus.FINAL)]
            async with aclosing(client.stream(run)) as left:
                first = await anext(left)
            return whole, final, first.seq

    whole, final, first = asyncio.run(go())
    assert whole == [record["seq"] for record in feed]
    assert final == [record["seq"] for record in feed if record["status"] == "final"]
    assert first == whole[0]


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


def test_idle_streams_and_polls_cost_no_thread_and_who_leaves_frees_everything(admin: httpx.Client) -> None:
    shared, run = server.shared(), settled_run(admin)
    process = psutil.Process(shared.process.pid)
    listen(admin, run, wait=0)
    with ExitStack() as stack:
        for _ in range(30):  # the threads that the pool keeps
            stack.enter_context(raw_stream(shared, run))
        assert soon(lambda: open_waits(admin) == 30)
        threads, descriptors = process.num_threads(), process.num_fds()
        poll = f"GET /v1/runs/{run}/rewards?after=1000&wait=60 HTTP/1.1\r\nHost: v\r\n"
        for _ in range(IDLE):
            stack.enter_context(raw_stream(shared, run))
            other = stack.enter_context(socket.create_connection(shared_address(shared), timeout=20))
            other.sendall(f"{poll}Authorization: Bearer {shared.key}\r\n\r\n".encode())
        assert soon(lambda: open_waits(admin) == 30 + 2 * IDLE, 30)
        time.sleep(1.0)
        assert process.num_threads() <= threads + 24, "no more than the pool has, however many wait"
        assert process.num_fds() <= descriptors + 2 * IDLE + 48, (
            "a connection each, and none of the database"
        )
        started = time.monotonic()
        assert admin.get(f"/v1/runs/{run}").status_code == 200
        assert time.monotonic() - started < patience(1)
    assert soon(lambda: open_waits(admin) == 0)
    assert soon(lambda: process.num_fds() <= descriptors + 10)


def shared_address(running: Server) -> tuple[str, int]:
    url = httpx.URL(running.url)
    return url.host, url.port or 80


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


@pytest.fixture(scope="module")
def long_run(admin: httpx.Client) -> str:
    """A closed run of more records than the buffers of a connection hold."""
    run = fresh()
    padding = "x" * 20_000
    for _ in range(4):
        items = [act("score", value=1.0, pad=f"{padding}{n}") for n in range(250)]
        submit(admin, run, *items, seconds=120)
    return closed(admin, run)


def is_held(running: Server, connection: socket.socket) -> bool:
    """Whether the server still has its end of a connection."""
    port = connection.getsockname()[1]
    held = psutil.Process(running.process.pid).net_connections("tcp4")
    return any(one.raddr and one.raddr.port == port for one in held)


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


def test_nothing_is_read_ahead_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream holds for a client that does not read is the page that it could not send."""
    monkeypatch.setattr(pages, "PAGE", 2)

    async def go() -> tuple[int, bytes]:
        async with server.in_process(tmp_path, workers=True) as client:
            items = [identity("C" * (1 + n)) for n in range(20)]
            wait = {"until": "final", "seconds": 30}
            await client.post("/v1/runs/r/trajectories", json={"trajectories": items, "wait": wait})
            app: Any = client._transport.app  # type: ignore[attr-defined]
            reads, read = [], app.state.context.pages.read

            async def counted(place: pages.FeedPlace) -> pages.Page:
                reads.append(place)
                return await read(place)

            monkeypatch.setattr(app.state.context.pages, "read", counted)
            taken = bytearray()

            async def send(message: dict[str, Any]) -> None:
                taken.extend(message.get("body", b""))
                if b"event" in taken:
                    await asyncio.sleep(60)

            scope = stream_scope("r", client.headers["authorization"])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(app(scope, stays, send), 1.5)
            return len(reads), bytes(taken)

    reads, taken = asyncio.run(go())
    assert reads == 1
    assert taken.count(b"event: reward") == 2


def test_heartbeats_come_while_nothing_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.2)

    async def go() -> bytes:
        async with server.in_process(tmp_path, workers=True) as client:
            items = [identity("CCO", None), identity("CC")]
            wait = {"until": "final", "seconds": 30}
            await client.post("/v1/runs/r/trajectories", json={"trajectories": items, "wait": wait})
            query: dict[str, Any] = {"status": "retracted", "wait": 1.0}
            return (await client.get("/v1/runs/r/rewards/stream", params=query)).content

    told = asyncio.run(go()).decode()
    assert told.startswith("retry: 1000\n\n")
    assert 3 <= told.count(": ping\n") <= 6
    assert told.count("id: 2\n") == 1, "what the filter left out is known once"


def test_a_stop_ends_streams_and_a_client_goes_on_after_the_restart(tmp_path: Path) -> None:
    first = server.start(tmp_path)
    port = first.url.rsplit(":", 1)[1]
    came: list[int] = []
    try:
        with first.client() as client:
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
            submit(client, "r", act("ok", n=1), act("ok", n=2))
        with Client(first.url, first.key) as listening:
            listener = threading.Thread(
                target=lambda: came.extend(record.seq for record in listening.stream("r"))
            )
            listener.start()
            assert soon(lambda: len(came) == 2)
            stuck = raw_stream(first, "r")
            started = time.monotonic()
            assert first.stop() == 0
            assert time.monotonic() - started < 10
            stuck.close()
            with server.running(tmp_path, port=port) as again, again.client() as client:
                submit(client, "r", act("ok", n=3), act("ok", n=4))
                assert soon(lambda: len(came) == 4)
                closed(client, "r")
                feed = client.get("/v1/runs/r/rewards").json()["records"]
                listener.join(10)
                assert not listener.is_alive()
    finally:
        first.close()
    assert came == [record["seq"] for record in feed]
    assert came == list(range(1, len(came) + 1))
