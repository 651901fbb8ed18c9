"""What a log may hold: a traceback without the values of variables."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.server import JUDGED, act, running, submit

SCRIPT = """
import logging, sys
from verifier_service.observability import configure_logging
configure_logging("info", as_json=sys.argv[1] == "json")
def handle(token):
    raise RuntimeError("broken")
try:
    handle("SECRET-" + "TOKEN")
except RuntimeError:
    logging.getLogger("x").exception("it failed")
"""


@pytest.mark.parametrize("form", ["json", "lines"])
def test_tracebacks_carry_no_local_variables(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, form], capture_output=True, text=True, check=True, timeout=60
    )
    assert "RuntimeError: broken" in done.stderr
    assert "in handle" in done.stderr
    assert "SECRET-TOKEN" not in done.stderr


def test_what_happens_is_logged_with_its_ids(tmp_path: Path) -> None:
    settings = {"log_json": "true", "log_level": "debug", "foresight": "false"}
    with running(tmp_path / "data", **settings) as server, server.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        item = act("ok") | {"problem": {"prompt": "p", "reference": {"gold": "SECRET-GOLD"}}}
        submit(client, "r", item)
        case = client.get(f"/v1/runs/r/trajectories/{item['id']}").json()
        log = server.log()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    told = {line["event"]: line for line in lines}
    assert told["trajectories taken in"]["created"] == 1
    issued, attempt = told["record issued"], told["attempt succeeded"]
    assert (issued["project"], issued["run"], issued["trajectory"]) == ("default", "r", item["id"])
    assert issued["status"] == "final"
    assert attempt["check"] in {demand["check"]["key"] for demand in case["demands"]}
    assert (attempt["verifier"], attempt["tier"], attempt["attempt"]) == ("hostile", "fast", 1)
    assert attempt["worker"].startswith("embedded/")
    assert "SECRET-GOLD" not in log


def test_events_of_the_fast_tier_are_for_who_looks_for_them(tmp_path: Path) -> None:
    with running(tmp_path / "data", log_json="true") as server, server.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        submit(client, "r", act("ok"))
        assert "record issued" not in server.log()


def test_clients_that_leave_mid_body_are_no_errors_and_leave_no_secret(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        place = urlsplit(server.url)
        head = (
            f"POST /v1/runs/r/trajectories HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n"
            'Content-Length: 1000\r\n\r\n{"traj'
        )
        for _ in range(20):
            with socket.create_connection((str(place.hostname), place.port or 0)) as client:
                client.sendall(head.encode())
                time.sleep(0.02)
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
        log = server.log()
    assert server.key.partition(".")[2] not in log
    assert "Exception in ASGI" not in log
    assert "Traceback" not in log
