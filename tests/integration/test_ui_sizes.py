"""What is too large for a page is refused when that is known, not when all of it has come."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support import server
from tests.support.server import Server
from tests.support.surfing import SESSION, Surfer, surfer
from verifier_service.dashboard.sizes import FIELDS_BYTES, FORM_BYTES, STRANGERS_BYTES
from verifier_service.domain.lab_sheets import MAX_FILE_BYTES

UPLOAD = "/ui/lab/results"
PIECE = 65_536
MULTIPART = "multipart/form-data; boundary=edge"
OPENING = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="big.csv"\r\n\r\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("sizes")) as running:
        yield running


@pytest.fixture(scope="module")
def operator(site: Server) -> Surfer:
    return surfer(site, "operator")


class Slow:
    """A request that is sent piece by piece, as a browser does with a large file."""

    def __init__(self, who: Surfer, path: str, *headers: str) -> None:
        at = urlsplit(who.url)
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {at.netloc}",
            f"Content-Type: {MULTIPART}",
            f"Cookie: {SESSION}={who.session}",
            f"X-CSRF-Token: {who.token() if who.session else ''}",
            "Sec-Fetch-Mode: cors",
            *headers,
        ]
        self.sent = 0
        self.socket = socket.create_connection((at.hostname, at.port), timeout=30)
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())

    def piece(self, content: bytes) -> None:
        """One chunk of a body that announces no length."""
        self.socket.sendall(b"%x\r\n%s\r\n" % (len(content), content))
        self.sent += len(content)

    def answered(self, wait_s: float) -> bool:
        """Whether an answer has begun."""
        self.socket.settimeout(wait_s)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) != b""
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(30)

    def answer(self) -> str:
        """All that came back; the server closes."""
        found = b""
        while piece := self.socket.recv(PIECE):
            found += piece
        self.socket.close()
        return found.decode()


def test_what_is_announced_is_refused_before_it_comes(site: Server, operator: Surfer) -> None:
    begun = time.monotonic()
    slow = Slow(operator, UPLOAD, f"Content-Length: {MAX_FILE_BYTES + FIELDS_BYTES + 1}")
    slow.socket.sendall(OPENING)
    answer = slow.answer()
    assert answer.startswith("HTTP/1.1 413 ")
    assert f"the file has more than {MAX_FILE_BYTES} bytes" in answer
    assert "connection: close" in answer.lower()
    assert "content-security-policy" in answer.lower()
    assert time.monotonic() - begun < 20


def test_what_announces_nothing_is_counted(site: Server, operator: Surfer) -> None:
    slow = Slow(operator, UPLOAD, "Transfer-Encoding: chunked")
    slow.piece(OPENING)
    while not slow.answered(0.001) and slow.sent < 48 * 2**20:
        slow.piece(b"x" * PIECE)
    most = MAX_FILE_BYTES + FIELDS_BYTES
    assert most < slow.sent < 2 * most, "what the buffers between us hold, and no more"
    assert slow.answer().startswith("HTTP/1.1 413 ")


def test_nothing_of_it_is_stored_and_the_next_is_taken(site: Server, operator: Surfer) -> None:
    headers = {"Origin": site.url, "X-CSRF-Token": operator.token()}
    for size, status in ((MAX_FILE_BYTES + 1, 413), (MAX_FILE_BYTES, 422)):
        files = {"file": ("big.csv", b"x" * size)}
        answer = operator.http.post(UPLOAD, files=files, headers=headers)
        assert answer.status_code == status
    assert "Nothing was imported yet." in operator.get("/ui/lab").text


@pytest.mark.parametrize(
    ("path", "most"), [("/ui/login", STRANGERS_BYTES), ("/ui/account/password", FORM_BYTES)]
)
def test_forms_have_limits_of_their_own(site: Server, operator: Surfer, path: str, most: int) -> None:
    who = operator if path != "/ui/login" else Surfer(site.url)
    answer = Slow(who, path, f"Content-Length: {most + 1}").answer()
    assert answer.startswith("HTTP/1.1 413 ")
    assert f"the form has more than {most} bytes" in answer
