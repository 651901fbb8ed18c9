"""Answers that take long end when the key that asked for them is revoked, whether or not they are read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Iterable, Mapping
from contextlib import suppress

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from verifier_service.api.threads import in_thread
from verifier_service.api.waiting import KEYS_EVERY_S
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.ports.store import Store

log = logging.getLogger(__name__)

ENDING_S = 1.0  # a client that reads has taken the end of its answer by then
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class KeyWatch:
    """Looks at the keys of all who send, in one read, now and then. Of one event loop at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[asyncio.Future[None], str] = {}
        self._looking: asyncio.Task[None] | None = None

    async def revoked(self, key_id: str) -> None:
        """Return once the key is revoked."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._watched[future] = key_id
        if self._looking is None or self._looking.done() or self._looking.get_loop() is not loop:
            self._looking = loop.create_task(self._look_on())
        try:
            await future
        finally:
            self._watched.pop(future, None)

    async def _look_on(self) -> None:
        while self._watched:
            await asyncio.sleep(KEYS_EVERY_S)
            try:
                dead = await in_thread(self._dead, set(self._watched.values()))
            except (Contended, Unavailable) as error:
                log.warning("the keys of those who send are read again: %s", error)
                continue
            for future, key_id in self._watched.items():
                if key_id in dead and not future.done():
                    future.set_result(None)

    def _dead(self, key_ids: set[str]) -> set[str]:
        with self._store.read() as tx:
            return tx.keys.dead(key_ids)


class KeyedStream(StreamingResponse):
    """A stream that stops where it is, as if it were cut, when its key is revoked."""

    def __init__(
        self,
        content: AsyncIterable[bytes] | Iterable[bytes],
        watch: KeyWatch,
        key_id: str,
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._watch = watch
        self._key_id = key_id

    async def stream_response(self, send: Send) -> None:
        sending = asyncio.ensure_future(super().stream_response(send))
        revoked = asyncio.create_task(self._watch.revoked(self._key_id))
        try:
            await asyncio.wait({sending, revoked}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return sending.result()
        finally:
            sending.cancel()
            revoked.cancel()
            await asyncio.gather(sending, revoked, return_exceptions=True)
        log.info("the stream of a key that was revoked is cut")
        with suppress(TimeoutError):  # who does not read is left to the protocol, see ``stalled``
            await asyncio.wait_for(send(_END), ENDING_S)
