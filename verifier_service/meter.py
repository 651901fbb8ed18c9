"""Counts of one process on their way to the database: in memory, and flushed every few seconds, so that
counting costs no transaction. What a killed process had not flushed is lost."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.ports.meters import Series

log = logging.getLogger(__name__)


class Meter:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._counts: Counter[Series] = Counter()
        self._lock = threading.Lock()

    def add(self, amounts: Mapping[Series, int]) -> None:
        """Count."""
        if amounts:
            with self._lock:
                self._counts.update(amounts)

    def flush(self, write: Callable[[Mapping[Series, float]], object]) -> None:
        """Hand over what was counted since the last time; kept where the database does not take it."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            write(dict(counts))
        except (Contended, Unavailable) as error:
            log.warning("counts are flushed later: %s", error)
            self.add(counts)
