"""Connections that say nothing: they go, and leave descriptors to those who work."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

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


FORM = (
    b"POST /ui/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 6000\r\n\r\n"
)
CHUNKED = FORM.replace(b"Content-Length: 6000", b"Transfer-Encoding: chunked")


def sent_slowly(place: SplitResult, head: bytes, pieces: list[bytes]) -> bytes:
    """What comes back for a request whose body is sent in pieces, ten a second, until it is answered."""
    with socket.create_connection((str(place.hostname), place.port or 0)) as slow:
        slow.sendall(head)
        for piece in pieces:
            time.sleep(0.1)
            if select.select([slow], [], [], 0)[0]:
                break
            slow.sendall(piece)
        slow.settimeout(patience(10))
        return slow.recv(65_536)


def test_a_body_that_trickles_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_BODY_S", "1")
    with running(tmp_path, module="tests.support.few_files") as server:
        place = urlsplit(server.url)
        for head, piece in ((FORM, b"a"), (CHUNKED, b"1\r\na\r\n"), (FORM, b"")):
            answer = sent_slowly(place, head, [piece] * 200)
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            assert b"body_too_slow" in answer
            assert b"connection: close" in answer
        steady = sent_slowly(place, FORM, [b"a" * 250] * 24)
        assert steady.startswith(b"HTTP/1.1 403 "), "slow, but at more than the least rate"
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
        assert "Traceback" not in server.log()


def test_bodies_that_do_not_end_take_nothing_from_those_who_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_FILES", str(FILES))
    monkeypatch.setenv("TEST_BODY_S", "600")
    with running(tmp_path, module="tests.support.few_files") as server, ExitStack() as stack:
        place = urlsplit(server.url)
        for _ in range(FILES - connections.OUR_FILES + 50):
            slow = socket.create_connection((str(place.hostname), place.port or 0))
            stack.callback(slow.close)
            slow.sendall(FORM + b"csrf=")
        for _ in range(3):
            with server.client() as client:
                assert client.get("/v1/runs").status_code == 200


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
