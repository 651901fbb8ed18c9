"""The end of a process that was told to stop, whatever hangs in it."""

from __future__ import annotations

import logging
import os
import threading

log = logging.getLogger(__name__)

STOP_S = 20.0


def end_within(seconds: float = STOP_S) -> None:
    """End the process at the latest then: a thread that waits for a database which says nothing cannot be
    stopped. Its leases end by themselves, and what it had not committed did not happen."""

    def end() -> None:
        log.error("something hangs; the process ends after %.0f s without waiting for it", seconds)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
