"""The service under retries, dying workers and leaving clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.support import server
from tests.support.server import JUDGED, act, fresh, identity, submit
from verifier_service.persistence.engine import POOL_SIZE

CLIENTS = 500


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def soon(found: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value


def post(client: httpx.Client, run: str, item: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [item]})
    result: dict[str, Any] = answer.json()["results"][0]
    return result


def test_a_retry_is_the_same_trajectory(client: httpx.Client) -> None:
    run, item = fresh(), identity("CCO", "CCO")
    assert post(client, run, item)["status"] == "accepted"
    assert post(client, run, item)["status"] == "duplicate"
    conflict = post(client, run, item | {"answer": "CCC"})
    assert (conflict["status"], conflict["error"]["code"]) == ("conflict", "id_conflict")
    assert post(client, run, item | {"metadata": {"retry": 1}})["status"] == "conflict"
    assert post(client, fresh(), item | {"answer": "CCC"})["status"] == "accepted"


def test_twenty_at_once_are_one(client: httpx.Client) -> None:
    run, item = fresh(), act("ok", n=fresh())
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda _: post(client, run, item)["status"], range(20)))
    assert sorted(statuses) == ["accepted"] + ["duplicate"] * 19
    submit(client, run, item)
    report = client.get(f"/v1/runs/{run}").json()
    assert report["trajectories"] == 1
    assert report["tiers"][0]["succeeded"] == 1


def test_a_retry_after_a_restart_is_the_same_trajectory(tmp_path: Path) -> None:
    item = identity("CCO", "CCO")
    first = server.start(tmp_path)
    with first.client() as client:
        assert post(client, "r", item)["status"] == "accepted"
    first.kill()
    first.close()
    with server.running(tmp_path) as again, again.client() as client:
        assert post(client, "r", item)["status"] == "duplicate"
        assert post(client, "r", item | {"answer": "C"})["status"] == "conflict"
        submit(client, "r", item)
        assert client.get("/v1/runs/r").json()["trajectories"] == 1


def test_a_worker_killed_in_a_job_costs_one_attempt(client: httpx.Client) -> None:
    run, item = fresh(), act("sleep", s=2.5, n=fresh())
    post(client, run, item)

    def runs() -> bool:
        case = client.get(f"/v1/runs/{run}/trajectories/{item['id']}").json()
        return any("runs" in words for words in case["waiting"])

    soon(runs)
    time.sleep(0.5)
    victims = [child for child in server.shared().children() if _executes(child)]
    assert victims
    for victim in victims:
        victim.kill()
    [result] = submit(client, run, item, seconds=60)
    assert result["reward"]["reward"] == 1.0
    case = client.get(f"/v1/runs/{run}/trajectories/{item['id']}").json()
    [demand] = case["demands"]
    assert demand["check"]["state"] == "succeeded"
    assert [record["reward"] for record in case["rewards"] if record["reward"] is not None][-1] == 1.0


def _executes(process: psutil.Process) -> bool:
    """Leaves of the tree: spawners and guards have children of their own."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and not process.children()
    except psutil.NoSuchProcess:
        return False


def test_a_job_that_always_kills_its_worker_ends_and_the_queue_moves(client: httpx.Client) -> None:
    run = fresh()
    poison, eater = act("killed", n=fresh()), act("exit", n=fresh())
    good = [act("ok", n=fresh()) for _ in range(5)]
    results = submit(client, run, poison, eater, *good, seconds=90)
    for result in results[:2]:
        assert (result["reward"]["reward"], result["reward"]["status"]) == (None, "unscored")
        assert result["reward"]["reason"]["code"] == "infrastructure"
        case = client.get(f"/v1/runs/{run}/trajectories/{result['id']}").json()
        [demand] = case["demands"]
        assert demand["check"]["state"] == "failed"
        assert demand["check"]["attempt"] <= 3
    assert [result["reward"]["reward"] for result in results[2:]] == [1.0] * 5
    started = time.monotonic()
    submit(client, run, act("ok", n=fresh()))
    assert time.monotonic() - started < 10


def test_clients_that_leave_free_their_slots(tmp_path: Path) -> None:
    lasting = {"outcome": {"use": "lasting"}, "tiers": {"fast": [{"use": "lasting"}]}}
    with server.running(tmp_path) as running, running.client() as client:
        client.put("/v1/ladders/lasting", json=JUDGED | lasting | {"name": "lasting"}).raise_for_status()
        item = act("sleep", s=12) | {"ladder": "lasting"}
        post(client, "r", item)
        asyncio.run(_leave(running, item["id"]))
        started = time.monotonic()
        soon(lambda: client.get("/healthz").json()["open_waits"] == 0, seconds=10)
        assert time.monotonic() - started < 11
        assert soon(lambda: _connections(running) <= KEPT_FILES, seconds=5)
        [result] = submit(client, "r", item, seconds=30)
        assert result["reward"]["reward"] == 1.0
        assert client.get("/readyz").status_code == 200


async def _leave(running: server.Server, trajectory: str) -> None:
    """Many clients wait for a minute, and close their sockets once the server is seen to hold them."""
    body = json.dumps({"ids": [trajectory], "wait": {"until": "final", "seconds": 60}}).encode()
    head = (
        f"POST /v1/runs/r/rewards/query HTTP/1.1\r\nHost: v\r\nAuthorization: Bearer {running.key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    address = urlsplit(running.url)
    seen = asyncio.Event()

    async def one() -> None:
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + body)
        await writer.drain()
        await seen.wait()
        writer.close()
        await writer.wait_closed()

    async def watch() -> None:
        async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
            while (await client.get("/healthz")).json()["open_waits"] <= CLIENTS // 4:
                await asyncio.sleep(0.05)
        seen.set()

    async with asyncio.timeout(10):
        await asyncio.gather(watch(), *[one() for _ in range(CLIENTS)])


# Two pools keep their connections open, each with the database, its log and the log's index.
KEPT_FILES = 2 * POOL_SIZE * 3


def _connections(running: server.Server) -> int:
    """Open files of the server that belong to its database."""
    files = psutil.Process(running.process.pid).open_files()
    return sum("verifier.db" in file.path for file in files)
