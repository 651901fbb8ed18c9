"""Connections of strangers: how many there may be, and how long one may say nothing.

A connection holds a descriptor before anybody knows whose it is. Without a bound, silent ones take every
descriptor that the workers of the same process need.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from verifier_service.api.slow_bodies import Paced

log = logging.getLogger(__name__)

WANTED_FILES = 65_536
OUR_FILES = 512  # for databases, workers, their children and pipes
LEAST = 64
HEAD_S = 20.0  # from the first byte to the end of a request's head, and until there is a first one


def raise_file_limit() -> int:
    """Take as many descriptors as the system gives; returns how many connections that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    return max(LEAST, files - OUR_FILES)


def protocol(limit: int) -> type[HttpToolsProtocol]:
    """The HTTP protocol of a server with at most ``limit`` connections. One more takes the place of the one
    that has been silent for longest, and is closed where all are at work; and so are those that do not send
    the head of a request in time. Silent is who has not sent the whole of a request, since its body last
    came on."""
    silent: dict[HttpToolsProtocol, None] = {}

    class Bounded(Paced):
        _head_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limit:
                oldest = next((one for one in silent if not one.flow.read_paused), self)
                silent.pop(oldest, None)
                oldest.transport.abort()
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_came()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._head_due is None and (self.cycle is None or self.cycle.response_complete):
                self._expect_head()
            super().data_received(data)

        def on_headers_complete(self) -> None:
            self._head_came()
            super().on_headers_complete()

        def body_moved(self) -> None:
            silent.pop(self, None)
            silent[self] = None

        def body_ended(self) -> None:
            silent.pop(self, None)

        def _expect_head(self) -> None:
            silent[self] = None
            self._head_due = self.loop.call_later(HEAD_S, self.transport.abort)

        def _head_came(self) -> None:
            silent.pop(self, None)
            if self._head_due is not None:
                self._head_due.cancel()
                self._head_due = None

    return Bounded
