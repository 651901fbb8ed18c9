"""Waits: one reader for all, woken by commits, and nobody is left behind."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support import server
from tests.support.server import act, fresh, identity, submit
from verifier_service import bootstrap
from verifier_service.api.waiting import Hub
from verifier_service.bootstrap import Service
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import Issued
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.settings import Settings
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.sweep import Sweep

PROJECT, RUN = "default", "run"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    built = bootstrap.build(Settings(data=tmp_path))
    yield built
    built.store.close()


class Counting:
    """A store that counts snapshots, and fails them on demand."""

    def __init__(self, service: Service) -> None:
        self._store = service.store
        self.reads = 0
        self.failure: Exception | None = None

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        with self._store.read() as tx:
            yield tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def put(service: Service, *names: str) -> dict[int, str]:
    """Store trajectories; their names by pk."""
    items = [
        TrajectorySubmission.model_validate_json(
            json.dumps(
                {
                    "id": name,
                    "ladder": "molecule-identity",
                    "answer": "CCO",
                    "problem": {"reference": {"smiles": "OCC"}},
                }
            )
        )
        for name in names
    ]
    taken = service.submit(PROJECT, RUN, items)
    return {result.pk: str(result.id) for result in taken.results if result.pk is not None}


def finish(service: Service) -> None:
    """Verify and decide all there is."""
    worker = TierWorker(service, Tier.FAST, "embedded/test", batch=64)
    sweep = Sweep(service, "embedded/sweep")
    try:
        while worker.drain_once():
            sweep.tick()
        sweep.tick()
    finally:
        worker.stop()


def test_many_waiters_are_served_by_few_reads(service: Service) -> None:
    counting = Counting(service)
    hub = Hub(replace(service, store=counting))
    pks = put(service, *[f"t{n}" for n in range(50)])

    async def go() -> None:
        waits = [
            asyncio.create_task(hub.rewards(PROJECT, RUN, {pk: name}, rank=MET_FINAL, seconds=30))
            for pk, name in pks.items()
        ]
        await asyncio.sleep(0.1)
        assert hub.open_waits == 50
        before = counting.reads
        await asyncio.to_thread(finish, service)
        seen = await asyncio.gather(*waits)
        assert all(one.met for one in seen)
        assert [list(one.records) for one in seen] == [[name] for name in pks.values()]
        assert counting.reads - before < 60
        assert hub.open_waits == 0

    asyncio.run(go())


def test_what_was_issued_with_the_submission_is_not_read_again(service: Service) -> None:
    counting = Counting(service)
    hub = Hub(replace(service, store=counting))
    pks = put(service, "a", "b")
    finish(service)
    with service.store.read() as tx:
        records = tx.rewards.latest(PROJECT, RUN, ["a", "b"])
    issued = {pk: Issued(records[name], MET_FINAL) for pk, name in pks.items()}

    async def go() -> None:
        before = counting.reads
        seen = await hub.rewards(PROJECT, RUN, pks, rank=MET_FINAL, seconds=30, issued=issued)
        assert (seen.met, seen.records) == (True, records)
        assert counting.reads == before
        # One that is missing, not far enough, or older than asked for: then the database is asked.
        [first, second] = pks
        short = {first: issued[first], second: Issued(issued[second].record, 1)}
        for known, beyond in (({first: issued[first]}, 0), (short, 0), (issued, 1)):
            before = counting.reads
            await hub.rewards(PROJECT, RUN, pks, rank=MET_FINAL, seconds=0, beyond=beyond, issued=known)
            assert counting.reads > before

    asyncio.run(go())


def test_a_commit_wakes_its_waiters_at_once(service: Service) -> None:
    hub = Hub(service)
    pks = put(service, "t")

    async def go() -> float:
        wait = asyncio.create_task(hub.rewards(PROJECT, RUN, pks, rank=MET_FINAL, seconds=30))
        await asyncio.to_thread(finish, service)
        done = time.monotonic()
        await wait
        return time.monotonic() - done

    assert asyncio.run(go()) < 0.3


def test_what_was_not_announced_is_found_by_the_poll(service: Service) -> None:
    silent = bootstrap.build(service.settings)
    hub = Hub(service)
    pks = put(service, "t")

    async def go() -> bool:
        wait = asyncio.create_task(hub.rewards(PROJECT, RUN, pks, rank=MET_FINAL, seconds=30))
        await asyncio.to_thread(finish, silent)
        return (await asyncio.wait_for(wait, 3)).met

    assert asyncio.run(go())
    silent.store.close()


def test_time_is_kept(service: Service) -> None:
    hub = Hub(service)
    pks = put(service, "t")

    async def go() -> None:
        started = time.monotonic()
        seen = await hub.rewards(PROJECT, RUN, pks, rank=0, seconds=0.2)
        assert not seen.met
        assert 0.2 <= time.monotonic() - started < 10
        assert not (await hub.rewards(PROJECT, RUN, pks, rank=0, seconds=0)).met
        assert (await hub.rewards(PROJECT, RUN, {}, rank=0, seconds=30)).met
        assert not await hub.run(PROJECT, RUN, lambda run: run.feed > 0, seconds=0.1)

    asyncio.run(go())


def test_closing_ends_every_wait(service: Service) -> None:
    hub = Hub(service)
    pks = put(service, "t")

    async def go() -> None:
        wait = asyncio.create_task(hub.rewards(PROJECT, RUN, pks, rank=0, seconds=60))
        await asyncio.sleep(0.05)
        hub.close()
        assert not (await asyncio.wait_for(wait, 1)).met
        assert not (await asyncio.wait_for(hub.rewards(PROJECT, RUN, pks, rank=0, seconds=60), 1)).met
        hub.close()

    asyncio.run(go())


def test_a_reader_that_fails_tells_its_waiters_and_goes_on(service: Service) -> None:
    counting = Counting(service)
    hub = Hub(replace(service, store=counting))
    pks = put(service, "t")

    async def go() -> None:
        counting.failure = OSError("by hand")
        with pytest.raises(OSError, match="by hand"):
            await asyncio.wait_for(hub.rewards(PROJECT, RUN, pks, rank=0, seconds=60), 2)
        counting.failure = None
        assert not (await hub.rewards(PROJECT, RUN, pks, rank=0, seconds=0.05)).met
        assert hub.open_waits == 0

    asyncio.run(go())


def test_one_hub_serves_one_loop_after_another(service: Service) -> None:
    hub = Hub(service)
    pks = put(service, "t")
    for _ in range(3):
        assert not asyncio.run(hub.rewards(PROJECT, RUN, pks, rank=0, seconds=0.05)).met


def leave(url: str, request: bytes) -> socket.socket:
    """Send a request and do not read the answer."""
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname, address.port), timeout=10)
    connection.sendall(request)
    return connection


def request_of(method: str, path: str, key: str, body: bytes = b"") -> bytes:
    """A raw HTTP/1.1 request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: verifier\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("kind", ["submission", "query", "feed", "close"])
def test_a_client_that_leaves_frees_its_wait(kind: str) -> None:
    shared = server.shared()
    run, item = fresh(), act("sleep", s=4)
    with shared.client() as client, ExitStack() as stack:
        client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]}).raise_for_status()
        wait = {"until": "final", "seconds": 60}
        bodies: dict[str, tuple[str, str, dict[str, Any] | None]] = {
            "submission": ("POST", "trajectories", {"trajectories": [item], "wait": wait}),
            "query": ("POST", "rewards/query", {"ids": [item["id"]], "wait": wait}),
            "feed": ("GET", "rewards?after=1000&wait=60", None),
            "close": ("POST", "close?wait=60", None),
        }
        method, path, body = bodies[kind]
        raw = json.dumps(body).encode() if body is not None else b""
        request = request_of(method, f"/v1/runs/{run}/{path}", shared.key, raw)
        sockets = [stack.enter_context(leave(shared.url, request)) for _ in range(20)]
        assert soon(lambda: open_waits(client) >= 20)
        for connection in sockets:
            connection.close()
        assert soon(lambda: open_waits(client) == 0)


def open_waits(client: Any) -> int:
    return int(client.get("/healthz").json()["open_waits"])


def soon(condition: Any, seconds: float = 3.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def test_the_feed_wakes_for_a_record() -> None:
    run = fresh()
    with server.shared().client() as client:
        submit(client, run, identity("CCO"))
        head = client.get(f"/v1/runs/{run}/rewards").json()["cursor"]
        started = time.monotonic()
        empty = client.get(f"/v1/runs/{run}/rewards", params={"after": head, "wait": 0.3}).json()
        assert empty == {"records": [], "cursor": head}
        assert time.monotonic() - started >= 0.3
        item = act("sleep", s=0.5)
        client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]})
        started = time.monotonic()
        page = client.get(f"/v1/runs/{run}/rewards", params={"after": head, "wait": 20}).json()
        assert page["records"][0]["trajectory"] == item["id"]
        assert page["cursor"] == head + len(page["records"])
        assert time.monotonic() - started < 10


def test_the_feed_by_status_waits_past_other_records() -> None:
    run = fresh()
    with server.shared().client() as client:
        submit(client, run, identity("CCO"), identity("CCO", None), identity("CC"))
        path = f"/v1/runs/{run}/rewards"
        everything = client.get(path).json()["records"]
        for status in ("unscored", "provisional", "final"):
            wanted = [record for record in everything if record["status"] == status]
            page = client.get(path, params={"status": status}).json()
            assert page == {"records": wanted, "cursor": everything[-1]["seq"]}
        started = time.monotonic()
        none = client.get(path, params={"status": "retracted", "wait": 0.3}).json()
        assert none == {"records": [], "cursor": everything[-1]["seq"]}
        assert 0.3 <= time.monotonic() - started < 10


def test_the_feed_in_pages_is_the_feed() -> None:
    run = fresh()
    with server.shared().client() as client:
        submit(client, run, *[identity("C" * (1 + n)) for n in range(9)])
        path = f"/v1/runs/{run}/rewards"
        everything = client.get(path).json()["records"]
        assert [record["seq"] for record in everything] == list(range(1, len(everything) + 1))
        read: list[Any] = []
        while page := client.get(path, params={"after": len(read), "limit": 4}).json()["records"]:
            assert len(page) <= 4
            read += page
        assert read == everything
        beyond = client.get(path, params={"after": 10**9}).json()
        assert beyond == {"records": [], "cursor": 10**9}


def test_who_is_met_need_not_wait_for_who_is_not() -> None:
    run, quick, slow = fresh(), act("ok", n=fresh()), act("sleep", s=4.0, n=fresh())
    with server.shared().client() as client:
        body = {
            "trajectories": [quick, slow],
            "wait": {"until": "final", "seconds": 60, "linger": 0.1},
        }
        answer = client.post(f"/v1/runs/{run}/trajectories", json=body)
        assert answer.status_code == 202
        told = {result["id"]: result for result in answer.json()["results"]}
        assert told[quick["id"]]["met"]
        assert told[quick["id"]]["reward"]["reward"] == 1.0
        assert not told[slow["id"]]["met"]

        ids = [quick["id"], slow["id"], "nobody"]
        asked = client.post(f"/v1/runs/{run}/rewards/query", json={"ids": ids}).json()
        assert asked["pending"] == [slow["id"]]
        assert not asked["complete"]

        wait = {"until": "final", "seconds": 60}
        later = client.post(f"/v1/runs/{run}/rewards/query", json={"ids": ids, "wait": wait})
        assert later.status_code == 200
        assert later.json()["pending"] == []
        assert later.json()["complete"]


def test_a_linger_is_a_number_of_seconds() -> None:
    with server.shared().client() as client:
        for linger, code in [(-1, "out_of_range"), (1e9, "out_of_range"), ("soon", "wrong_type")]:
            body = {"trajectories": [act("ok")], "wait": {"seconds": 1, "linger": linger}}
            answer = client.post(f"/v1/runs/{fresh()}/trajectories", json=body)
            assert answer.status_code == 422
            assert answer.json()["field"] == "wait.linger"
            assert answer.json()["code"] == code
