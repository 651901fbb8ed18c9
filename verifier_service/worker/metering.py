"""The thread of a process that flushes what it has counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from verifier_service.bootstrap import Service
from verifier_service.domain.ports.meters import Series

log = logging.getLogger(__name__)

FLUSH_S = 2.0


class Metering:
    """Flushes until it is stopped. Whoever stops it flushes a last time when all others have stopped."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()

    def run(self) -> None:
        """Flush every two seconds."""
        while not self._stopping.wait(FLUSH_S):
            self.flush()

    def stop(self) -> None:
        """End."""
        self._stopping.set()

    def flush(self) -> None:
        """Write what was counted."""
        try:
            self._service.meter.flush(self._write)
        except Exception:
            log.exception("counts are lost")

    def _write(self, amounts: Mapping[Series, float]) -> None:
        self._service.unit(lambda tx: tx.meters.add(amounts))
