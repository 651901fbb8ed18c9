"""Endpoints and name servers that answer badly, slowly, for ever or not at all hold nobody else up."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.support.couriers import BODY, PUBLIC, SECRET, connects, courier, post
from tests.support.receivers import receiver
from verifier_service.dispatch import webhooks
from verifier_service.dispatch.webhooks import HttpLine
from verifier_service.domain.errors import Contended
from verifier_service.domain.webhook_rules import headers
from verifier_service.domain.webhooks import Answer


@contextmanager
def speaking(say: Callable[[socket.socket], object]) -> Iterator[str]:
    """The URL of a server that says what it likes on every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, say), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def serve(listener: socket.socket, say: Callable[[socket.socket], object]) -> None:
    while True:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with connection, suppress(OSError):
            connection.recv(65_536)
            say(connection)


def saying(*parts: bytes, pause_s: float = 0.0) -> Callable[[socket.socket], object]:
    def say(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_s)

    return say


PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("say", "status", "error"),
    [
        pytest.param(saying(OK, b"Content-Length: 99999\r\n\r\nx"), 200, None, id="short"),
        pytest.param(saying(OK, b"\r\n", *[b"x" * 2**20] * 99), 200, None, id="endless"),
        pytest.param(saying(*[b"%c" % one for one in OK], pause_s=0.1), None, "timeout", id="drips"),
        pytest.param(saying(OK, b"\r\n", *[b"x"] * 99, pause_s=0.1), 200, None, id="drips after"),
        pytest.param(saying(b"", pause_s=3), None, "timeout", id="silent"),
        pytest.param(saying(), None, "connection", id="closed"),
        pytest.param(saying(b"\x16\x03\x01 what?\r\n\r\n"), None, "connection", id="not HTTP"),
        pytest.param(saying(OK, b"X: " + b"y" * 200_000), None, "connection", id="headers"),
        pytest.param(saying(*[PROCESSING * 4_000] * 99), None, "connection", id="endless 1xx"),
        pytest.param(saying(PROCESSING * 9 + OK + b"\r\n"), 200, None, id="some 1xx"),
        pytest.param(saying(b"HTTP/1.1 101 Up\r\n\r\n"), None, "connection", id="upgrade"),
        pytest.param(saying(b"HTTP/1.1 204 No Content\r\n\r\n"), 204, None, id="no content"),
        pytest.param(saying(b"HTTP/1.1 503 No\r\nRetry-After: 7\r\n\r\n"), 503, "http_status", id="busy"),
    ],
)
def test_no_endpoint_holds_the_sender_up(
    say: Callable[[socket.socket], object], status: int | None, error: str | None
) -> None:
    began = time.monotonic()
    with speaking(say) as url:
        [answer] = post(courier(allow=("127.0.0.1",), timeout_s=1.0), url)
    assert answer.status == status
    assert (answer.error or "").partition(":")[0] == (error or "")
    assert answer.retry_after_s == (7.0 if status == 503 else None)
    assert time.monotonic() - began < 15


def test_a_refused_connection_and_a_slow_name_server_are_failures() -> None:
    def slow(_: str) -> list[str]:
        time.sleep(1.0)
        return ["127.0.0.1"]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    [refused] = post(courier(allow=("127.0.0.1",)), f"http://127.0.0.1:{port}/")
    assert (refused.error or "").startswith("connection: ConnectError")
    [late] = post(courier(allow=("127.0.0.1",), timeout_s=0.3, resolve=slow), "http://a.example.com/")
    assert late.error == "timeout: no answer within 0.3 s"


def test_another_address_of_a_name_is_tried_when_the_first_does_not_answer() -> None:
    with receiver() as taker:
        sender = courier(["127.0.0.9", "127.0.0.1"], allow=("127.0.0.0/8",))
        [answer] = post(sender, f"http://two.example.com:{taker.port}/")
        assert answer.status == 204


def test_a_flood_of_answers_before_the_answer_holds_no_loop() -> None:
    """Whatever else the sender does goes on, and the sender soon hangs up."""
    taken: list[int] = []

    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(PROCESSING * 4_000)
            taken.append(1)

    async def send(url: str) -> tuple[Answer, float, float]:
        sender = courier(allow=("127.0.0.1",), timeout_s=8.0)
        line, began = sender.line(), time.monotonic()
        post = asyncio.create_task(line.post(url, headers([SECRET], "msg_1", int(began), BODY), BODY))
        longest, before = 0.0, began
        while not post.done():
            await asyncio.sleep(0.001)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
        await line.close()
        return post.result(), time.monotonic() - began, longest

    with speaking(flood) as url:
        answer, seconds, longest = asyncio.run(send(url))
    assert (answer.error or "").startswith("connection: ReadError")
    assert (seconds < 7.5, longest < 3.0, len(taken) < 200) == (True, True, True)


def test_some_addresses_of_a_name_are_tried_and_not_thousands() -> None:
    many = [f"127.0.1.{last}" for last in range(1, 200)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    sender = courier(many, allow=("127.0.0.0/8",))
    with connects() as tried:
        [answer] = post(sender, f"http://many.example.com:{port}/")
    assert (answer.error or "").startswith("connection: ConnectError")
    assert [address for address, _ in tried] == many[:4]


def test_slow_names_of_a_project_delay_no_other_s() -> None:
    hang = threading.Event()

    def resolve(host: str) -> list[str]:
        if host.startswith("slow"):
            hang.wait(20)
        return [PUBLIC]

    async def register() -> None:
        sender = courier(resolve=resolve)
        slow = [
            asyncio.create_task(sender.admit(f"https://slow{n}.example.com/", project="theirs"))
            for n in range(100)
        ]
        await asyncio.sleep(0.1)
        before = threading.active_count()
        async with asyncio.timeout(1.0):
            await sender.admit("https://good.example.com/", project="mine")
        assert threading.active_count() - before <= 1
        for ended in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(ended, Contended)
            assert (ended.code, ended.field) == ("names_slow", "url")
        assert Contended.retryable
        hang.set()
        async with asyncio.timeout(2.0):
            await sender.admit("https://fast.example.com/", project="theirs")

    threads = threading.active_count()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(webhooks, "RESOLVE_S", 0.5)
            asyncio.run(register())
    finally:
        hang.set()
    assert threading.active_count() <= threads + 2


HANGING = """
import asyncio, time
from verifier_service.dispatch import webhooks
from verifier_service.dispatch.webhooks import HttpCourier
from verifier_service.domain.webhook_targets import Guard

async def send() -> None:
    courier = HttpCourier(Guard(), timeout_s=0.3, at_once=2, resolve=lambda host: time.sleep(60))
    registration = asyncio.create_task(courier.admit("https://slow.example.com/", project="p"))
    line = courier.line()
    print(await line.post("https://slow.example.com/", {}, b"x"))
    await line.close()
    registration.cancel()

asyncio.run(send())
"""


def test_a_name_server_that_hangs_does_not_delay_the_end_of_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=15, check=True
    )
    assert "timeout: no answer within 0.3 s" in ended.stdout


def test_lines_are_the_courier_s() -> None:
    assert isinstance(courier().line(), HttpLine)
