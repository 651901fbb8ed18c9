"""Connections that say nothing: they go, and leave descriptors to those who work."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.server import JUDGED, act, patience, running, submit
from verifier_service.api import connections

FILES = 700


def test_silent_connections_take_nothing_from_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_FILES", str(FILES))
    with running(tmp_path, module="tests.support.few_files") as server, ExitStack() as stack:
        place = urlsplit(server.url)
        for _ in range(FILES + 100):
            silent = socket.create_connection((str(place.hostname), place.port or 0))
            stack.callback(silent.close)
        with server.client() as client:
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
            [result] = submit(client, "r", act("ok"))
            assert result["reward"]["reward"] == 1.0


def test_a_head_that_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_HEAD_S", "0.5")
    with running(tmp_path, module="tests.support.few_files") as server:
        place = urlsplit(server.url)
        whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        for before, partial in ((b"", b""), (b"", b"GET /healthz HTT"), (whole, b"GET /hea")):
            with socket.create_connection((str(place.hostname), place.port or 0)) as slow:
                slow.settimeout(patience(10))
                if before:
                    slow.sendall(before)
                    assert b"200 OK" in slow.recv(4_096)
                slow.sendall(partial)
                assert hangs_up(slow)
        with server.client() as client:
            assert client.get("/healthz").status_code == 200


def hangs_up(connection: socket.socket) -> bool:
    """Whether the other side ends it before the time limit of the socket."""
    try:
        while connection.recv(4_096):
            continue
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_the_limit_of_descriptors_is_raised_as_far_as_it_may_be() -> None:
    script = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 900))\n"
        "from verifier_service.api.connections import raise_file_limit\n"
        "print(raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(900 - connections.OUR_FILES), "900"]
