"""One worker: claims checks of one tier, runs them in its harness, reports them as they end."""

from __future__ import annotations

import logging
import threading
import time

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.execution import Done, Released
from verifier_service.services.execute import Taken

log = logging.getLogger(__name__)

IDLE_S = 1.0
FLUSH_S = 0.5
FLUSH_ITEMS = 256
PAUSE_AFTER_ERROR_S = 1.0


class TierWorker:
    """Drains one tier until it is stopped. One thread runs it; ``stop`` may come from any."""

    def __init__(self, service: Service, tier: Tier, owner: str, *, batch: int) -> None:
        self._service = service
        self._tier = tier
        self._owner = owner
        self._batch = batch
        self._harness = service.harness()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Work until stopped. An unexpected error is logged and costs a pause, never the worker."""
        while not self._stopping.is_set():
            try:
                busy = self.drain_once()
            except Contended:
                log.warning("worker %s was always in another's way; its leases will expire", self._owner)
                busy = True
            except Exception:
                log.exception("worker %s failed on its batch; its leases will expire", self._owner)
                self._stopping.wait(PAUSE_AFTER_ERROR_S)
                busy = True
            if not busy:
                self._service.dispatcher.wait(self._tier, IDLE_S)
        self._harness.close()

    def stop(self) -> None:
        """Give back what is running and end."""
        self._stopping.set()
        self._harness.close()
        self._service.dispatcher.wake([self._tier])

    def drain_once(self) -> bool:
        """Claim and execute one batch; False when nothing was ready."""
        taken = self._service.take(self._tier, self._batch, self._owner)
        if taken.jobs:
            self._execute(taken)
        return bool(taken.jobs or taken.ended)

    def _execute(self, taken: Taken) -> None:
        pending: list[Done | Released] = []
        last = time.monotonic()

        def flush() -> None:
            nonlocal last
            if pending:
                self._service.report(self._owner, taken, list(pending))
                pending.clear()
            last = time.monotonic()

        def beat() -> None:
            flush()
            self._service.beat(self._owner, taken)

        results = self._harness.run(taken.jobs, lambda: self._service.unwanted(taken), beat)
        for result in results:
            pending.append(result)
            if len(pending) >= FLUSH_ITEMS or time.monotonic() - last >= FLUSH_S:
                flush()
        flush()
