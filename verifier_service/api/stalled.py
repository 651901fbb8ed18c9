"""Clients that do not take what they asked for: their connection, and all that waits for it, is given up.

A server that only closes such a connection keeps it until its buffer is empty, which may be never.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STALLED_S = 60.0  # nothing of an answer was taken for so long; nginx, send_timeout
CLOSED_S = 5.0  # and of one that the server has ended before its time


class Impatient(HttpToolsProtocol):
    """Aborts a connection whose client takes nothing, for ``STALLED_S``, of what is ready for it."""

    _look: asyncio.TimerHandle | None = None
    _left = 0
    _taken_at = 0.0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self._look is None:
            self._left, self._taken_at = 0, self.loop.time()
            self._look_later()

    def resume_writing(self) -> None:
        self._taken_at = self.loop.time()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._look = self.loop.call_later(min(CLOSED_S, STALLED_S) / 2, self._look_now)

    def _look_now(self) -> None:
        """What comes anew while nothing is taken makes the buffer larger; what is taken, smaller."""
        transport: Any = self.transport
        left, now, self._look = transport.get_write_buffer_size(), self.loop.time(), None
        if left == 0 and (self.cycle is None or self.cycle.response_complete):
            return
        if left == 0 or left < self._left:
            self._taken_at = now
        self._left = left
        if now >= self._taken_at + (CLOSED_S if transport.is_closing() else STALLED_S):
            transport.abort()
        else:
            self._look_later()
