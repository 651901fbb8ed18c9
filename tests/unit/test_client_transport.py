"""The HTTP of both clients against servers that are busy, break off, or send what nobody can decode."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from verifier_service.client import (
    AsyncClient,
    Client,
    NotAllowed,
    UnexpectedAnswer,
    VerifierUnavailable,
)

HEAD = {"project": "p", "run": "r", "through": 1, "references": True, "created_at": "2026-01-01T00:00:00Z"}
LINES = (
    {"kind": "head", "row": {"format": "verifier-archive", "version": 1, **HEAD}},
    {"kind": "reward", "row": {"seq": 1}},
    {"kind": "end", "row": {"rows": {"reward": 1}}},
)
ARCHIVE = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in LINES)

Said = tuple[int, dict[str, str], bytes]
WHOLE: Said = (200, {}, ARCHIVE)
BUSY: Said = (429, {}, b"{}")
AWAY: Said = (503, {}, b"upstream reset")
CUT: Said = (200, {"Content-Length": "999999"}, ARCHIVE[:-9])
EMPTY: Said = (200, {"Content-Length": "999999"}, b"")
GARBLED: Said = (200, {"Content-Encoding": "gzip"}, b"this is no gzip at all")


@contextmanager
def saying(*answers: Said) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn, then the last, and the paths that were asked for."""
    left, asked = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(self.path)
            status, headers, content = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests print what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def blocking(url: str) -> list[str]:
    with Client(url, "key", retry_s=5.0) as client:
        return [row.kind for row in client.archive("r")]


def concurrent(url: str) -> list[str]:
    async def read() -> list[str]:
        async with AsyncClient(url, "key", retry_s=5.0) as client:
            return [row.kind async for row in client.archive("r")]

    return asyncio.run(read())


both = pytest.mark.parametrize("read", [blocking, concurrent])


@both
def test_an_archive_waits_for_a_busy_server(read: Callable[[str], list[str]]) -> None:
    with saying(BUSY, AWAY, EMPTY, WHOLE) as (url, asked):
        assert read(url) == ["head", "reward"]
        assert len(asked) == 4


@both
def test_an_archive_that_began_is_not_begun_again(read: Callable[[str], list[str]]) -> None:
    with saying(CUT, WHOLE) as (url, asked):
        with pytest.raises(VerifierUnavailable):
            read(url)
        assert len(asked) == 1


@both
def test_an_archive_that_is_refused_is_not_asked_for_again(read: Callable[[str], list[str]]) -> None:
    with saying((403, {}, b"{}"), WHOLE) as (url, asked):
        with pytest.raises(NotAllowed):
            read(url)
        assert len(asked) == 1


@both
def test_an_archive_that_cannot_be_decoded_is_no_answer(read: Callable[[str], list[str]]) -> None:
    with saying(GARBLED) as (url, _), pytest.raises(UnexpectedAnswer, match="decoded"):
        read(url)


def test_no_call_lets_an_answer_through_that_cannot_be_decoded() -> None:
    async def concurrent(url: str) -> None:
        async with AsyncClient(url, "key") as client:
            with pytest.raises(UnexpectedAnswer, match="decoded"):
                await client.keys()
            with pytest.raises(UnexpectedAnswer, match="decoded"):
                [record async for record in client.stream("r")]

    with saying(GARBLED) as (url, _):
        asyncio.run(concurrent(url))
        with Client(url, "key") as client:
            with pytest.raises(UnexpectedAnswer, match="decoded"):
                client.keys()
            with pytest.raises(UnexpectedAnswer, match="decoded"):
                list(client.stream("r"))


@pytest.mark.parametrize("verb", ["create_key", "add_webhook", "rotate_webhook"])
def test_what_shows_a_secret_once_is_not_made_twice_behind_a_proxy(verb: str) -> None:
    given = {
        "create_key": ("k", ["read"]),
        "add_webhook": ("https://a.example/",),
        "rotate_webhook": ("w",),
    }
    with saying(AWAY) as (url, asked), Client(url, "key", retry_s=5.0) as client:
        with pytest.raises(VerifierUnavailable):
            getattr(client, verb)(*given[verb])
        assert len(asked) == 1
