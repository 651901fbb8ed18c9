"""The serving process: its key, its folder, its signals, and what survives its death."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import JUDGED, ROOT, act, submit
from verifier_service import bootstrap
from verifier_service.api import problems
from verifier_service.app import ensure_admin_key
from verifier_service.domain import errors
from verifier_service.services import tenants
from verifier_service.settings import Settings


def soon(found: Callable[[], Any], seconds: float = 15.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value


def start_expecting_failure(data: Path, **settings: str) -> str:
    """What a server that cannot start says."""
    chosen = {"VERIFIER_DATA": str(data), "VERIFIER_PORT": "0"} | settings
    ended = subprocess.run(
        [sys.executable, "-m", "verifier_service.app"],
        cwd=ROOT,
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_the_life_of_a_server(tmp_path: Path) -> None:
    """It holds its folder and address; its stop answers those who wait and gives running work back."""
    first = server.start(tmp_path)
    item = act("sleep", s=3) | {"id": "t"}
    body = {"ids": ["t"], "wait": {"until": "final", "seconds": 60}}
    answers: list[httpx.Response] = []
    try:
        assert first.url.startswith("http://127.0.0.1:")
        assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600
        refused = start_expecting_failure(tmp_path)
        assert f"in use by process {first.process.pid}" in refused
        taken = start_expecting_failure(tmp_path / "other", VERIFIER_PORT=first.url.rsplit(":", 1)[1])
        assert "cannot listen on" in taken
        with first.client() as client:
            assert client.get("/healthz").json()["status"] == "ok"
            ready = {"ready": True, "database": True, "workers": True, "sweep": True, "missing": []}
            assert client.get("/readyz").json() == ready
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
            client.post("/v1/runs/r/trajectories", json={"trajectories": [item]}).raise_for_status()
            soon(lambda: "runs" in str(client.get("/v1/runs/r/trajectories/t").json()["waiting"]))
            waiter = threading.Thread(
                target=lambda: answers.append(client.post("/v1/runs/r/rewards/query", json=body))
            )
            waiter.start()
            soon(lambda: client.get("/healthz").json()["open_waits"] == 1)
            children = first.children()
            started = time.monotonic()
            assert first.stop() == 0
            assert time.monotonic() - started < 10
            waiter.join(10)
    finally:
        first.close()
    assert answers[0].status_code == 202
    assert answers[0].json()["complete"] is False
    assert soon(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))

    with server.running(tmp_path) as again, again.client() as client:
        assert again.key == first.key
        done = client.post("/v1/runs/r/rewards/query", json=body).json()
        assert done["records"][0]["reward"] == 1.0
        [demand] = client.get("/v1/runs/r/trajectories/t").json()["demands"]
        assert demand["check"]["attempt"] == 1
        assert submit(client, "r", item)[0]["status"] == "duplicate"


def test_the_admin_key_is_kept_while_it_works(tmp_path: Path) -> None:
    service = bootstrap.build(Settings(data=tmp_path))
    first = ensure_admin_key(service).read_text()
    assert ensure_admin_key(service).read_text() == first
    file = tmp_path / "admin.key"
    for broken in (None, "vk_0.nonsense", "§", ""):
        if broken is None:
            file.unlink()
        else:
            file.write_text(broken)
        fresh = ensure_admin_key(service).read_text()
        assert fresh != first
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with service.store.read() as tx:
            assert tenants.authenticate(tx, fresh.strip()).key.scopes == tenants.EVERY_SCOPE
    assert [path.name for path in tmp_path.glob("admin*")] == ["admin.key"]
    service.store.close()


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    first = server.start(tmp_path)
    items = [act("sleep", s=0.2) | {"id": f"t{number}"} for number in range(8)]
    with first.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        client.post("/v1/runs/r/trajectories", json={"trajectories": items}).raise_for_status()
        children = first.children()
        first.kill()
    first.close()
    assert soon(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    with server.running(tmp_path) as again, again.client() as client:
        body = {"ids": [item["id"] for item in items], "wait": {"until": "final", "seconds": 60}}
        done = client.post("/v1/runs/r/rewards/query", json=body).json()
        assert done["complete"] is True
        assert [record["reward"] for record in done["records"]] == [1.0] * 8
        feed = client.get("/v1/runs/r/rewards").json()["records"]
        assert [record["seq"] for record in feed] == list(range(1, len(feed) + 1))


def test_a_stop_does_not_wait_for_an_idle_connection(tmp_path: Path) -> None:
    with server.running(tmp_path) as running:
        port = int(running.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as idle:
            idle.sendall(
                b"POST /v1/runs/r/trajectories HTTP/1.1\r\nHost: v\r\nContent-Length: 100\r\n\r\n{"
            )
            time.sleep(0.2)
            started = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/runs/r/", 404, "not_found"),
        ("PATCH", "/v1/runs/r", 405, "method_not_allowed"),
        ("GET", "/v1/runs/r%00", 422, "bad_format"),
        ("GET", "/v1/runs/r/rewards?after=-1", 422, "out_of_range"),
        ("GET", "/v1/runs/r/rewards?after=1e3", 422, "invalid_value"),
        ("GET", "/v1/runs/r/rewards?after=99999999999999999999999", 422, "out_of_range"),
        ("GET", "/v1/runs/r/rewards?wait=NaN", 422, None),
        ("GET", "/v1/runs/r/rewards?wait=121", 422, "out_of_range"),
        ("GET", "/v1/runs/r/rewards?status=nice", 422, "not_one_of"),
        ("GET", "/v1/reviews?queue=%ED%A0%80", 422, "bad_format"),
    ],
)
def test_errors_are_problem_bodies(method: str, path: str, status: int, code: str | None) -> None:
    with server.shared().client() as client:
        answer = client.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = json.loads(answer.text, parse_constant=pytest.fail)
    assert body["status"] == status
    assert {"type", "title", "detail", "code", "retryable"} <= set(body)
    if code is not None:
        assert body["code"] == code


def test_a_wrong_method_names_the_right_ones() -> None:
    with server.shared().client() as client:
        for path, methods in (
            ("/v1/runs/r", "GET, PUT"),
            ("/v1/keys", "GET, POST"),
            ("/v1/users", "GET, POST"),
            ("/v1/reviews/claim", "POST"),
            ("/v1/reviews/x", "GET"),
        ):
            assert client.patch(path).headers["allow"] == methods


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidInput("c", "m"), 422),
        (errors.Unauthenticated("c", "m"), 401),
        (errors.Forbidden("c", "m"), 403),
        (errors.NotFound("c", "m"), 404),
        (errors.Conflict("c", "m"), 409),
        (errors.LeaseLost("c", "m"), 409),
        (errors.BudgetExhausted("c", "m"), 402),
        (errors.Contended("c", "m"), 503),
        (errors.Transient("c", "m"), 500),
    ],
)
def test_every_domain_error_has_its_status(error: errors.VerificationError, status: int) -> None:
    answer = problems.of_error(error)
    body = json.loads(bytes(answer.body))
    assert (answer.status_code, body["status"], body["code"]) == (status, status, "c")
    assert body["retryable"] is error.retryable
    assert ("retry-after" in answer.headers) == (status == 503)
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_what_a_problem_quotes_cannot_break_its_body() -> None:
    strange = "half \ud800, NUL \x00, " + "long " * 10_000
    body = bytes(problems.of_error(errors.InvalidInput("c", strange, field="\udfff")).body)
    assert len(body) < 20_000
    read = json.loads(body)
    for text in (read["detail"], read["field"]):
        text.encode()
        assert "\x00" not in text


def test_an_unexpected_error_says_nothing_about_the_inside(tmp_path: Path) -> None:
    import asyncio

    async def go() -> httpx.Response:
        async with server.in_process(tmp_path) as client:
            app: Any = client._transport.app  # type: ignore[attr-defined]
            catalog = app.state.context.service.catalog
            catalog.list = lambda: 1 / 0
            return await client.get("/v1/verifiers")

    answer = asyncio.run(go())
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert answer.json()["error_id"]
    assert "division" not in answer.text
