"""Wakes inside one process: conditions for worker threads, callbacks for waiters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from verifier_service.domain.evidence import TIERS, Tier

Listener = Callable[[str, str], None]


class EmbeddedDispatcher:
    """``Dispatcher`` for workers that are threads of this process."""

    def __init__(self) -> None:
        self._events = {tier: threading.Event() for tier in TIERS}
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    def wake(self, tiers: Collection[Tier]) -> None:
        """Set the tiers' events; a worker that is busy finds its event set when it comes back."""
        for tier in tiers:
            self._events[tier].set()

    def wait(self, tier: Tier, timeout_s: float) -> bool:
        """Block until the tier is woken; the event is consumed."""
        woken = self._events[tier].wait(timeout_s)
        self._events[tier].clear()
        return woken

    def announce(self, project: str, run: str) -> None:
        """Call every listener."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(project, run)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; the returned function removes it, and may be called again."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return unsubscribe
