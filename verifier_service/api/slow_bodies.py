"""Bodies that do not come: a request keeps its connection only while its body arrives at a least rate."""

from __future__ import annotations

import asyncio
from typing import Any

from verifier_service.api import problems
from verifier_service.api.stalled import Impatient

BODY_S = 10.0  # to begin a body with; what has come buys more time, at the least rate
LEAST_RATE = 1_024.0  # bytes a second
MOST_S = 60.0  # that a body can have bought ahead; nginx, client_body_timeout


class Paced(Impatient):
    """Answers 408 and closes where a body comes at less than ``LEAST_RATE``. While the server does not
    read, it is not the client who is slow."""

    _body_look: asyncio.TimerHandle | None = None
    _body_awaited = False
    _body_due = 0.0
    _body_new = 0.0

    def body_moved(self) -> None:
        """A body is expected, or has come on by as much as it must in a second."""

    def body_ended(self) -> None:
        """The body is here, or is expected no more."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._body_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._body_awaited and self._body_look is None:
            self._body_new, self._body_due = 0.0, self.loop.time() + BODY_S
            self._body_look = self.loop.call_at(self._body_due, self._look_at_body)
            self.body_moved()

    def on_headers_complete(self) -> None:
        self._body_awaited = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._body_look is not None:
            self._body_due = min(self._body_due + len(body) / LEAST_RATE, self.loop.time() + MOST_S)
            self._body_new += len(body)
            if self._body_new >= LEAST_RATE:
                self._body_new = 0.0
                self.body_moved()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_came()
        super().on_message_complete()

    def _look_at_body(self) -> None:
        now = self.loop.time()
        if self.flow.read_paused:
            self._body_due = now + BODY_S
        if self._body_due > now:
            self._body_look = self.loop.call_at(self._body_due, self._look_at_body)
            return
        self._body_came()
        cycle: Any = self.cycle
        if cycle is None or cycle.response_started or self.pipeline:
            self.transport.abort()
            return
        cycle.disconnected = True  # whoever reads the body, or answers, does so no more
        cycle.message_event.set()
        self.transport.write(problems.body_too_slow())
        self.transport.close()

    def _body_came(self) -> None:
        self._body_awaited = False
        if self._body_look is not None:
            self._body_look.cancel()
            self._body_look = None
            self.body_ended()
