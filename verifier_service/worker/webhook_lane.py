"""One endpoint's deliveries: claimed, posted a few at a time, written down. Endpoints share nothing but the
event loop and the threads of the database, so that a slow one is slow for itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from verifier_service.bootstrap import Service
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.webhook_rules import RECORD_GONE, headers
from verifier_service.domain.webhooks import Answer, Claimed, Parcel, Place, Sent
from verifier_service.services import webhooks

log = logging.getLogger(__name__)

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

CLAIMED_AT_ONCE = 32
LEASE_TIMEOUTS = 4.0  # a lease in time limits of an attempt
GATHER_S = 0.1
IDLE_S = 30.0
TROUBLE_S = 1.0
GRACE_S = 3.0


class Lane:
    """Runs until nothing came for ``IDLE_S``, or until it is stopped."""

    def __init__(self, service: Service, webhook: int, in_thread: InThread) -> None:
        self._service = service
        self._webhook = webhook
        self._in_thread = in_thread
        self._line = service.courier.line()
        self._place: Place | None = None
        self._queue: deque[Parcel] = deque()
        self._flying: dict[asyncio.Task[Answer], Parcel] = {}
        self._ended: list[Sent] = []
        self._news = asyncio.Event()
        self._stopping = False
        self._lease_s = LEASE_TIMEOUTS * service.settings.webhook_timeout_s
        self._leased_until = 0.0
        self._clock_lag = 0.0

    def wake(self) -> None:
        """There may be something to send."""
        self._news.set()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._news.set()

    async def run(self) -> None:
        """Send what there is."""
        try:
            while not self._stopping:
                self._news.clear()
                if not await self._exchange(CLAIMED_AT_ONCE):
                    await asyncio.sleep(TROUBLE_S)
                    continue
                self._take_off()
                if self._flying:
                    await self._land()
                elif not self._ended and not await self._told(IDLE_S):
                    break
        finally:
            await self._close()

    async def _told(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _exchange(self, most: int) -> bool:
        """Write what ended; claim when nothing is left, and while attempts fail only when none is under
        way. False when the database could not be reached: nothing is forgotten, the lease covers it."""
        failing = self._place is not None and self._place.streak > 0
        want = 0 if self._queue or (failing and self._flying) else most
        if not want and not self._ended:
            return True
        asked_at, ended = time.monotonic(), self._ended
        try:
            claimed: Claimed = await self._in_thread(partial(self._service.unit, self._work(ended, want)))
        except Exception:
            log.exception("webhook %d: its deliveries are not written yet", self._webhook)
            return False
        self._ended = []
        self._place = claimed.place
        if claimed.place is None or claimed.place.streak:
            self._give_back()
        if claimed.parcels:
            self._queue.extend(claimed.parcels)
            self._leased_until = asked_at + self._lease_s
            self._clock_lag = claimed.now - asked_at
        return True

    def _work(self, ended: list[Sent], want: int) -> Callable[[Transaction], Claimed]:
        patience, lease_s = self._service.patience, self._lease_s
        return lambda tx: webhooks.exchange(
            tx, self._webhook, ended, want=want, lease_s=lease_s, patience=patience
        )

    def _take_off(self) -> None:
        place = self._place
        if place is None:
            return
        at_once = 1 if place.streak else self._service.settings.webhook_at_once
        if time.monotonic() > self._leased_until - self._service.settings.webhook_timeout_s:
            self._give_back()
        while self._queue and len(self._flying) < at_once:
            parcel = self._queue.popleft()
            self._flying[asyncio.create_task(self._post(place, parcel))] = parcel

    async def _post(self, place: Place, parcel: Parcel) -> Answer:
        if parcel.body is None:
            return Answer(error=RECORD_GONE)
        timestamp = int(time.monotonic() + self._clock_lag)
        signed = headers(place.secrets, parcel.event, timestamp, parcel.body)
        try:
            return await self._line.post(place.url, signed, parcel.body)
        except Exception as error:
            log.exception("webhook %s: an attempt failed in the sender", place.id)
            return Answer(error=f"sender: {type(error).__name__}")

    async def _land(self) -> None:
        """Wait until attempts have ended, and for a while start others in their place: many ends are
        written in one transaction. A failure is written at once, it may hold the others up."""
        until: float | None = None
        while self._flying:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            await asyncio.wait(self._flying, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            done = [task for task in self._flying if task.done()]
            landed = [Sent(parcel=self._flying.pop(task), answer=task.result()) for task in done]
            self._ended.extend(landed)
            if self._stopping or any(not sent.answer.delivered for sent in landed if sent.answer):
                return
            self._take_off()
            until = time.monotonic() + GATHER_S if until is None else until

    def _give_back(self) -> None:
        self._ended.extend(Sent(parcel=parcel, answer=None) for parcel in self._queue)
        self._queue.clear()

    async def _close(self) -> None:
        """Let attempts end that soon do; of the others nobody knows, they are made again."""
        if self._flying:
            await asyncio.wait(self._flying, timeout=GRACE_S)
        for task, parcel in self._flying.items():
            answer = task.result() if task.done() else None
            task.cancel()
            self._ended.append(Sent(parcel=parcel, answer=answer))
        self._flying.clear()
        self._give_back()
        await self._exchange(0)
        await self._line.close()
