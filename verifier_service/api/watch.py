"""One look, now and then, for all who wait for something to become so: a key revoked, a run purged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from verifier_service.api.threads import in_thread
from verifier_service.domain.errors import Contended, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)


class Watch(Generic[T]):
    """``look``, called in a thread, tells of which of the things that are waited for it is so by now; it is
    called every ``every_s`` seconds as long as anybody waits. Of one event loop at a time."""

    def __init__(self, look: Callable[[set[T]], Collection[T]], every_s: float) -> None:
        self._look = look
        self._every_s = every_s
        self._awaited: dict[asyncio.Future[None], T] = {}
        self._looking: asyncio.Task[None] | None = None

    async def until(self, thing: T) -> None:
        """Return once it is so."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._awaited[future] = thing
        if self._looking is None or self._looking.done() or self._looking.get_loop() is not loop:
            self._looking = loop.create_task(self._look_on())
        try:
            await future
        finally:
            self._awaited.pop(future, None)

    async def _look_on(self) -> None:
        while self._awaited:
            await asyncio.sleep(self._every_s)
            try:
                found = await in_thread(self._look, set(self._awaited.values()))
            except (Contended, Unavailable) as error:
                log.warning("what is waited for is looked at again: %s", error)
                continue
            except Exception:
                log.exception("what is waited for could not be looked at")
                continue
            for future, thing in self._awaited.items():
                if thing in found and not future.done():
                    future.set_result(None)
