"""Figures that are dear to count, kept for a while: as of when, and for how long they will do."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LEAST_S = 5.0  # a figure is never counted again sooner
TIMES = 10.0  # nor sooner than so many times what counting took: it takes a tenth of a thread at most
KEPT = 256
AT_ONCE = 2  # counted at a time; further ones wait for their turn, or are answered with what there is


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[T]):
    """A figure, how many seconds old it is, and how many it took to count."""

    value: T
    age_s: float
    took_s: float


@dataclass(slots=True)
class _Entry:
    turn: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    made_at: float | None = None
    took_s: float = 0.0
    failure: Exception | None = None  # of counting that nobody waited for

    def fresh(self, now: float) -> bool:
        return self.made_at is not None and now - self.made_at < max(LEAST_S, TIMES * self.took_s)


class Snapshots:
    """One per process; thread-safe. Bounded: what was not asked for longest is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._counting = threading.BoundedSemaphore(AT_ONCE)

    def of(self, key: Hashable, count: Callable[[], T]) -> Snapshot[T]:
        """The figure under ``key``, counted now if there is none or it is old. While somebody counts it,
        others are given the old one, and wait only where there is none. Raises what ``count`` raises."""
        entry = self._entry(key)
        if entry.fresh(self._clock()):
            return self._shown(entry)
        if not entry.turn.acquire(blocking=entry.made_at is None):
            return self._shown(entry)
        try:
            if not entry.fresh(self._clock()):
                self._count(entry, count)
            return self._shown(entry)
        finally:
            entry.turn.release()

    def soon(self, key: Hashable, count: Callable[[], T], patience_s: float) -> Snapshot[T] | None:
        """As ``of``, for somebody who does not wait longer: what is counted by then, else the old figure,
        else nothing, and the next to ask finds it. Raises what ``count`` raised, or had raised before."""
        entry = self._entry(key)
        if not entry.fresh(self._clock()) and entry.turn.acquire(blocking=False):
            thread = threading.Thread(target=self._aside, args=(entry, count), name="counting", daemon=True)
            thread.start()
            thread.join(patience_s)
        elif entry.made_at is None and entry.turn.acquire(timeout=patience_s):
            entry.turn.release()
        failure, entry.failure = entry.failure, None
        if failure is not None:
            raise failure
        return None if entry.made_at is None else self._shown(entry)

    def _aside(self, entry: _Entry, count: Callable[[], Any]) -> None:
        """Count in a thread of its own, which was given the turn."""
        try:
            if not entry.fresh(self._clock()):
                self._count(entry, count)
        except Exception as error:  # noqa: BLE001 - told to whoever asks next
            entry.failure = error
        finally:
            entry.turn.release()

    def _count(self, entry: _Entry, count: Callable[[], Any]) -> None:
        with self._counting:
            began = self._clock()
            value = count()
            ended = self._clock()
        entry.value, entry.took_s = value, ended - began
        entry.made_at = ended

    def _entry(self, key: Hashable) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
            return entry

    def _shown(self, entry: _Entry) -> Snapshot[Any]:
        made_at = self._clock() if entry.made_at is None else entry.made_at
        return Snapshot(entry.value, max(0.0, self._clock() - made_at), entry.took_s)
