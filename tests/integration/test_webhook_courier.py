"""What the sender of webhooks connects to, over real sockets, and what it does not."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.couriers import PUBLIC, SECRET, connects, courier, post
from tests.support.receivers import Receiver, receiver
from verifier_service.dispatch.webhooks import HttpCourier
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.webhook_targets import Guard

URLS = Path(__file__).parents[1] / "corpus" / "webhooks" / "urls.jsonl"
CASES = [json.loads(line) for line in URLS.read_text("utf-8").splitlines()]


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
