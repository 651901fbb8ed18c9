"""Answers that take long end when the key that asked for them is revoked, whether or not they are read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Iterable, Mapping
from contextlib import suppress

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from verifier_service.api.watch import Watch

log = logging.getLogger(__name__)

ENDING_S = 1.0  # a client that reads has taken the end of its answer by then
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class KeyedStream(StreamingResponse):
    """A stream that stops where it is, as if it were cut, when its key is revoked."""

    def __init__(
        self,
        content: AsyncIterable[bytes] | Iterable[bytes],
        revoked: Watch[str],
        key_id: str,
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._revoked = revoked
        self._key_id = key_id

    async def stream_response(self, send: Send) -> None:
        sending = asyncio.ensure_future(super().stream_response(send))
        revoked = asyncio.create_task(self._revoked.until(self._key_id))
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
