"""What the sender of webhooks connects to, over real sockets, and what it does not."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.receivers import Receiver, receiver
from verifier_service.dispatch import webhooks
from verifier_service.dispatch.webhooks import HttpCourier, HttpLine
from verifier_service.domain.errors import Contended, InvalidInput
from verifier_service.domain.webhook_rules import headers, new_secret
from verifier_service.domain.webhook_targets import Guard
from verifier_service.domain.webhooks import Answer

URLS = Path(__file__).parents[1] / "corpus" / "webhooks" / "urls.jsonl"
CASES = [json.loads(line) for line in URLS.read_text("utf-8").splitlines()]
PUBLIC = "93.184.215.14"
SECRET = new_secret()
BODY = b'{"type":"reward.final","data":{"run":"r","seq":1}}'

_watched: list[Any] | None = None


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watched is not None:
        _watched.append(arguments[1])


sys.addaudithook(_on_event)


@contextmanager
def connects() -> Iterator[list[Any]]:
    """Every address that this process tries to connect to, whether anybody answers or not."""
    global _watched
    _watched = found = []
    try:
        yield found
    finally:
        _watched = None


@pytest.fixture(scope="module")
def inner() -> Iterator[socket.socket]:
    """A service of the inner network: on loopback, IPv4 and IPv6."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        listener.setblocking(False)
        yield listener


def accepted(listener: socket.socket) -> int:
    """How many connections came since it was asked last."""
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def courier(
    *answers: list[str], allow: tuple[str, ...] = (), ports: set[int] = frozenset(), **settings: Any
) -> HttpCourier:
    """One whose names resolve to each of ``answers`` in turn, then to the last."""
    left = list(answers)

    def resolve(host: str) -> list[str]:
        if not left:
            raise socket.gaierror(socket.EAI_NONAME, f"no {host}")
        return left.pop(0) if len(left) > 1 else left[0]

    guard = Guard.of(plain_http=True, ports={80, 443, *ports}, allow=allow)
    return HttpCourier(guard, **{"timeout_s": 2.0, "at_once": 2, "resolve": resolve, **settings})


def post(sender: HttpCourier, url: str, times: int = 1) -> list[Answer]:
    async def send() -> list[Answer]:
        line = sender.line()
        try:
            signed = headers([SECRET], "msg_1", int(time.time()), BODY)
            return [await line.post(url, signed, BODY) for _ in range(times)]
        finally:
            await line.close()

    return asyncio.run(send())


def admit(sender: HttpCourier, url: str) -> str | None:
    """The code with which a URL is refused at registration, and the field that is blamed."""
    try:
        asyncio.run(sender.admit(url, project="p"))
    except InvalidInput as error:
        return f"{error.field}: {error.code}"
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_hostile_urls_are_refused_and_never_contacted(case: dict[str, Any], inner: socket.socket) -> None:
    """The inner service's port is allowed here, so that only the address stands in the way."""
    port = inner.getsockname()[1]
    url = case["url"].replace("{port}", str(port))
    answers = [case["addresses"]] if "addresses" in case else []
    with connects() as tried:
        assert admit(courier(*answers, ports={port}), url) == f"url: {case['code']}"
        [answer] = post(courier(*answers, ports={port}), url)
    assert answer.status is None
    assert (answer.error or "").partition(":")[0] in (case["code"], "connection")
    assert tried == []
    assert accepted(inner) == 0


def test_the_proof_can_fail(inner: socket.socket) -> None:
    """An operator who allows the inner service reaches it, by address, by network and by name."""
    port = inner.getsockname()[1]
    for url, allow in (
        (f"http://127.0.0.1:{port}/", "127.0.0.1"),
        (f"http://127.0.0.1.nip.io:{port}/", "127.0.0.0/8"),
        (f"http://inner:{port}/", "inner"),
        (f"http://[::1]:{port}/", "::1"),
    ):
        sender = courier(["127.0.0.1"], allow=(allow,), timeout_s=0.2)
        assert admit(sender, url) is None
        with connects() as tried:
            [answer] = post(sender, url)
        assert answer.error == "timeout: no answer within 0.2 s"
        assert [address[1] for address in tried] == [port]
        assert accepted(inner) == 1


def test_a_name_that_moves_inside_after_registration_is_not_followed(inner: socket.socket) -> None:
    port = inner.getsockname()[1]
    for inside in ("10.0.0.5", "127.0.0.1", "::1"):
        sender = courier([PUBLIC], [inside], ports={port})
        url = f"http://name.example.com:{port}/"
        assert admit(sender, url) is None
        with connects() as tried:
            [answer] = post(sender, url)
        assert answer.error == "blocked_address"
        assert tried == []
    assert accepted(inner) == 0


def test_what_was_checked_is_what_is_connected_to() -> None:
    """The name is asked once per connection: the answer that a second question would get is not used."""
    with receiver() as taker:
        asked = []

        def resolve(host: str) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

        sender = courier(allow=("127.0.0.1",), resolve=resolve)
        with connects() as tried:
            answers = post(sender, f"http://name.example.com:{taker.port}/x?y=1", times=3)
        assert [answer.status for answer in answers] == [204] * 3
        assert tried == [("127.0.0.1", taker.port)]
        assert asked == ["name.example.com"]
        assert taker.connections == 1
        assert taker.requests[0].headers["host"] == f"name.example.com:{taker.port}"
        assert taker.requests[0].path == "/x?y=1"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int, inner: socket.socket) -> None:
    location = f"http://127.0.0.1:{inner.getsockname()[1]}/"
    with receiver(status=status, headers={"Location": location}) as outside:
        sender = courier(["127.0.0.1"], allow=("127.0.0.0/8",))
        [answer] = post(sender, outside.url)
    assert (answer.status, answer.error) == (status, f"http_status: {status}")
    assert accepted(inner) == 0


def test_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, inner: socket.socket
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{inner.getsockname()[1]}")
    with receiver(secrets=[SECRET]) as taker:
        [answer] = post(courier(allow=("127.0.0.1",)), taker.url)
    assert answer.status == 204
    assert accepted(inner) == 0


def test_https_only_unless_the_operator_says_so() -> None:
    guard = Guard.of(plain_http=False, ports=None, allow=())
    sender = HttpCourier(guard, timeout_s=1, at_once=1, resolve=lambda _: [PUBLIC])
    assert admit(sender, "http://public.example.com/") == "url: url_scheme"
    assert admit(sender, "https://public.example.com/") is None
    assert admit(sender, "https://public.example.com:8443/") is None
    assert admit(sender, "https://public.example.com:8080/") == "url: url_port"
    assert admit(sender, f"https://public.example.com/{'a' * 2_048}") == "url: url_too_long"


def test_a_certificate_is_checked_for_the_name_of_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = certified(tmp_path, "hooks.example.com")
    taker = Receiver(secrets=[SECRET])
    taker.start(certificate)
    try:
        url = f"https://hooks.example.com:{taker.port}/"
        strangers = courier(["127.0.0.1"], allow=("127.0.0.1",))
        [refused] = post(strangers, url)
        assert "CERTIFICATE_VERIFY_FAILED" in (refused.error or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        [taken] = post(courier(["127.0.0.1"], allow=("127.0.0.1",)), url)
        assert taken.status == 204
        [other] = post(courier(allow=("127.0.0.1",)), f"https://127.0.0.1:{taker.port}/")
        assert "CERTIFICATE_VERIFY_FAILED" in (other.error or "")
        assert len(taker.requests) == 1
    finally:
        taker.stop()


def certified(folder: Path, name: str) -> ssl.SSLContext:
    """A server's context with a certificate for ``name``, signed by itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    made = [*command, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


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
