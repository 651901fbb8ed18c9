"""Threads in which names are resolved: bounded, and left behind when the process ends.

A resolver of the system blocks for as long as its name servers let it, and cannot be stopped.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

MOST_WAITING = 64
OF_A_PROJECT = 2
IN_ALL = 64


class Full(Exception):
    """Too many wait already, or no thread can be had."""


class DaemonThreads:
    """Runs calls in at most ``most`` threads, which end when there is nothing to do. Nobody waits for them
    at the end of the process, as it happens with ``concurrent.futures``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()
        self.running = 0

    async def run(self, call: Callable[[str], T], argument: str) -> T:
        """``call(argument)`` in a thread; not begun when its caller is cancelled before. Raises ``Full``,
        and what ``call`` raises."""
        future: Future[T] = Future()
        self._put(future, lambda: _settle(future, call, argument))
        return await asyncio.wrap_future(future)

    def _put(self, future: Future[Any], work: Callable[[], None]) -> None:
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting = deque(one for one in self._waiting if not one[0].cancelled())
            if len(self._waiting) >= MOST_WAITING:
                raise Full(f"{MOST_WAITING} names wait to be resolved")
            self._waiting.append((future, work))
            if self.running >= self._most:
                return
            self.running += 1
            try:
                threading.Thread(target=self._work, name="webhook-names", daemon=True).start()
            except RuntimeError as error:
                self.running -= 1
                if not self.running:
                    self._waiting.clear()
                raise Full("no thread can be had") from error

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self.running -= 1
                    return
                _, work = self._waiting.popleft()
            work()


class ProjectThreads:
    """``OF_A_PROJECT`` threads for each project, so that names of one that hang delay no other's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, DaemonThreads] = {}

    def of(self, project: str) -> DaemonThreads:
        """Those of a project. Raises ``Full`` when they have none yet and ``IN_ALL`` are busy."""
        with self._lock:
            self._of = {name: threads for name, threads in self._of.items() if threads.running}
            if project not in self._of and len(self._of) * OF_A_PROJECT >= IN_ALL:
                raise Full(f"names of {len(self._of)} projects are being resolved")
            return self._of.setdefault(project, DaemonThreads(OF_A_PROJECT))


def _settle(future: Future[T], call: Callable[[str], T], argument: str) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call(argument)
    except BaseException as error:  # noqa: BLE001 - the caller's, who waits elsewhere
        future.set_exception(error)
    else:
        future.set_result(result)
