"""What a process finds when it asks the database whether it is there and whether anybody sweeps."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from verifier_service.domain.ports.store import Store

log = logging.getLogger(__name__)

FRESH_S = 1.0
ANSWER_S = 2.0
SWEPT_S = 3.0  # another process takes over within a second
PART = "sweep"


@dataclass(frozen=True, slots=True)
class Found:
    """``sweep`` is false, too, where the database cannot tell."""

    database: bool
    sweep: bool


class Probe:
    """Asks at most once a second, and one question at a time: askers of a database that hangs are answered
    after ``ANSWER_S``, and one thread stays with it however many ask. Of one event loop at a time."""

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project
        self._found: Found | None = None
        self._at = 0.0
        self._began = 0.0
        self._swept = time.monotonic()
        self._answer: asyncio.Future[Found] | None = None

    async def look(self) -> Found:
        """What was found in the last second, else what is found now."""
        now = time.monotonic()
        if self._found is not None and now < self._at + FRESH_S:
            return self._found
        loop = asyncio.get_running_loop()
        answer = self._answer
        if answer is None or answer.get_loop() is not loop:
            answer = loop.create_future()
            try:
                # A thread of its own: those of the requests may all hang at the same database. And a
                # daemon: a process that stops does not wait for it.
                threading.Thread(target=self._ask, args=(answer,), name="readiness", daemon=True).start()
            except RuntimeError as error:
                log.warning("there is no thread to ask the database with: %s", error)
                return Found(database=False, sweep=False)
            self._began, self._answer = now, answer
        done, _ = await asyncio.wait({answer}, timeout=max(0.0, self._began + ANSWER_S - now))
        return self._keep(answer) if done else Found(database=False, sweep=False)

    def _keep(self, answer: asyncio.Future[Found]) -> Found:
        found = answer.result()
        if self._answer is answer:
            self._answer, self._at, self._found = None, time.monotonic(), found
        return found

    def _ask(self, answer: asyncio.Future[Found]) -> None:
        """In the thread."""
        found = self._read()
        with suppress(RuntimeError):  # the loop has ended meanwhile
            answer.get_loop().call_soon_threadsafe(answer.set_result, found)

    def _read(self) -> Found:
        try:
            with self._store.read() as tx:
                database = self._project in tx.projects.names()
            if self._store.led(PART):
                self._swept = time.monotonic()
        except Exception as error:  # noqa: BLE001 - whatever it is, the database does not answer
            log.warning("the database does not answer: %s", error)
            return Found(database=False, sweep=False)
        return Found(database=database, sweep=time.monotonic() < self._swept + SWEPT_S)
