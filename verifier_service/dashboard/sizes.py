"""How much a page takes: refused when it is announced, or when it has come, not when all of it is here.

The API takes bodies of many megabytes, and the pages are served from the same port. Without a limit of
their own a form is read as far as a batch of trajectories may be.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verifier_service.dashboard.sessions import PUBLIC
from verifier_service.domain.lab_sheets import MAX_FILE_BYTES

UPLOAD = "/ui/lab/results"
FIELDS_BYTES = 65_536  # of an upload, beside its file
FORM_BYTES = 1_048_576
STRANGERS_BYTES = 131_072
LINGER_S = 3.0


class TooMuch(HTTPException):
    """More was sent than the page takes. Frameworks let this class pass unchanged."""

    def __init__(self, what: str, limit: int) -> None:
        words = f"{what} has more than {limit} bytes, the limit"
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words, {"Connection": "close"})
        self.limit = limit


def too_large_file() -> TooMuch:
    """What to raise for a file that is larger than one of a laboratory may be."""
    return TooMuch("the file", MAX_FILE_BYTES)


class Bounded:
    """Raise ``TooMuch`` where a body is read that is announced, or grows, beyond the limit of its page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what fits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most, refused = _limit(scope["path"])
        announced = Headers(scope=scope).get("content-length", "")
        read = int(announced) if announced.isdecimal() and int(announced) > most else 0

        async def counted() -> Message:
            nonlocal read
            if read > most:
                raise refused
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise refused
            return message

        async def lingering(message: Message) -> None:
            ends = message["type"] == "http.response.body" and not message.get("more_body", False)
            if read <= most or not ends:
                await send(message)
                return
            await send({**message, "more_body": True})
            await _discard(receive)
            await send({"type": "http.response.body", "body": b""})

        await self._app(scope, counted, lingering)


async def _discard(receive: Receive) -> None:
    """Take in for a while what still comes. A connection that is closed with bytes unread is reset, and who
    still sends never sees the answer (RFC 9112, section 9.6)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                continue


def _limit(path: str) -> tuple[int, TooMuch]:
    if path == UPLOAD:
        return MAX_FILE_BYTES + FIELDS_BYTES, too_large_file()
    most = STRANGERS_BYTES if path in PUBLIC else FORM_BYTES
    return most, TooMuch("the form", most)
