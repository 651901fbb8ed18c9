"""The sender of webhooks: a thread with an event loop in every serving process, of which one sends."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended
from verifier_service.domain.ports.store import Lead, Transaction
from verifier_service.worker.webhook_lane import Lane

log = logging.getLogger(__name__)

PART = "webhooks"
POLL_S = 1.0
POLL_SHARE = 20.0  # a look over all feeds takes at most this part of the time
PAUSE_S = 0.02
PRUNE_S = 5.0
PRUNED_AT_ONCE = 2_000
DATABASE_THREADS = 4
MAX_TOLD = 1_024

T = TypeVar("T")


class WebhookSender:
    """One per database at a time: whoever holds the part sends, the others stand by. Claims carry leases,
    so that two at once would send some records twice and lose none."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = threading.Event()
        self._runs: set[str] = set()
        self._threads = ThreadPoolExecutor(DATABASE_THREADS, thread_name_prefix="webhooks-database")
        self._lanes: dict[int, tuple[Lane, asyncio.Task[None]]] = {}
        self._lead: Lead | None = None
        self._anybody = False
        self._look_due = 0.0
        self._prune_due = 0.0

    def run(self) -> None:
        """Send until stopped."""
        try:
            asyncio.run(self._main())
        finally:
            self._threads.shutdown()

    def stop(self) -> None:
        """Claim nothing more, and let attempts end that soon do."""
        self._stopping.set()
        self._ring()

    async def _main(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
        unsubscribe = self._service.dispatcher.subscribe(self._told)
        try:
            while not self._stopping.is_set():
                await self._guarded_tick()
                await self._pause()
        finally:
            unsubscribe()
            with self._lock:
                self._loop = None
            await self._stand_down()

    def _told(self, _project: str, run: str) -> None:
        """Runs on the announcing thread."""
        with self._lock:
            ring = not self._runs
            if len(self._runs) < MAX_TOLD:
                self._runs.add(run)
        if ring:
            self._ring()

    def _ring(self) -> None:
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), POLL_S)
        except TimeoutError:
            return
        self._wake.clear()
        await asyncio.sleep(PAUSE_S)

    async def _guarded_tick(self) -> None:
        try:
            await self._tick()
        except Contended:
            log.info("the webhooks' look at the database was in another's way; it is tried again")
        except Exception:
            log.exception("the webhooks' tick failed; it is tried again")

    async def _tick(self) -> None:
        with self._lock:
            told, self._runs = self._runs, set()
        if time.monotonic() >= self._look_due:
            await self._look()
        elif self._lead is not None and self._anybody and told:
            self._start(await self._read(lambda tx: tx.outbox.working(None if _many(told) else told)))
        if self._lead is not None and time.monotonic() >= self._prune_due:
            self._prune_due = time.monotonic() + PRUNE_S
            await self._prune()

    async def _look(self) -> None:
        """Once in a while: who leads, and who has something to send."""
        began = time.monotonic()
        self._look_due = began + POLL_S
        if not await self._in_thread(self._leads):
            await self._stop_lanes()
            return
        self._anybody = await self._read(lambda tx: tx.outbox.any_enabled())
        if self._anybody:
            self._start(await self._read(lambda tx: tx.outbox.working(None)))
            self._look_due = began + max(POLL_S, POLL_SHARE * (time.monotonic() - began))

    def _leads(self) -> bool:
        if self._lead is not None and not self._lead.holds():
            self._lead = None
        if self._lead is None:
            self._lead = self._service.store.lead(PART)
        return self._lead is not None

    def _start(self, webhooks: list[int]) -> None:
        for webhook in [pk for pk, (_, task) in self._lanes.items() if task.done()]:
            _, task = self._lanes.pop(webhook)
            if task.exception() is not None:
                log.error("webhook %d: its lane broke; it begins anew", webhook, exc_info=task.exception())
        for webhook in webhooks:
            if webhook not in self._lanes:
                lane = Lane(self._service, webhook, self._in_thread)
                self._lanes[webhook] = (lane, asyncio.create_task(lane.run()))
            self._lanes[webhook][0].wake()

    async def _prune(self) -> None:
        settings = self._service.settings
        pruned = PRUNED_AT_ONCE
        while pruned >= PRUNED_AT_ONCE and not self._stopping.is_set():
            pruned = await self._in_thread(
                lambda: self._service.unit(
                    lambda tx: tx.outbox.prune(
                        settings.webhook_keep_s, settings.webhook_keep_failed_s, PRUNED_AT_ONCE
                    )
                )
            )

    async def _stop_lanes(self) -> None:
        for lane, _ in self._lanes.values():
            lane.stop()
        if self._lanes:
            await asyncio.wait([task for _, task in self._lanes.values()])
        self._lanes.clear()

    async def _stand_down(self) -> None:
        await self._stop_lanes()
        if self._lead is not None:
            await self._in_thread(self._lead.release)

    async def _read(self, look: Callable[[Transaction], T]) -> T:
        def read() -> T:
            with self._service.store.read() as tx:
                return look(tx)

        return await self._in_thread(read)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _many(told: set[str]) -> bool:
    return len(told) >= MAX_TOLD
