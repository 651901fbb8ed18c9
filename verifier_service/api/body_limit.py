"""The size limit of bodies, by Content-Length or while they arrive."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verifier_service.api import problems


class BodyLimit:
    """Answer 413, naming the limit, instead of reading more than ``limit`` bytes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse at once what announces too much; count what announces nothing."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdigit() and int(announced) > self._limit:
            await problems.body_too_large(self._limit)(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise problems.BodyTooLarge(self._limit)
            return message

        await self._app(scope, counted, send)
