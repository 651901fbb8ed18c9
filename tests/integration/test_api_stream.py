"""The feed as server-sent events: exact over any number of connections, idle at no cost."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import server
from tests.support.server import JUDGED, act, fresh, identity, patience, submit
from tests.support.streams import (
    closed,
    listen,
    open_waits,
    raw_stream,
    settled_run,
    shared_address,
    soon,
    stays,
    stream_scope,
)
from verifier_service.api import pages, stream
from verifier_service.client import AsyncClient, Client, NotFound
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus

IDLE = 200


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
        assert time.monotonic() - started < patience(8)
    assert soon(lambda: open_waits(admin) == 0)
    assert soon(lambda: process.num_fds() <= descriptors + 10)


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
