"""A child and everything it started, seen from outside: measured, found and killed as one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

import psutil

_MIB = 1024 * 1024


class Usage(NamedTuple):
    """Resident size in MiB and CPU seconds so far, over the child and its living descendants."""

    memory_mb: float
    cpu_s: float


class Leader(Protocol):
    """A session leader: a ``Popen``, or a copy of a template."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""


class ProcessGroup:
    """Wraps a session leader."""

    def __init__(self, process: Leader) -> None:
        self._process = process
        self._leader = psutil.Process(process.pid)
        self._known: list[psutil.Process] = []
        self._usage = Usage(0.0, 0.0)
        self._lock = threading.Lock()

    def gone(self) -> bool:
        """True when the leader has ended; it may not have been reaped yet. Does not wait."""
        if self._process.returncode is not None:
            return True
        try:
            return bool(self._leader.status() == psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return True

    def sample(self) -> Usage:
        """Measure now. For a dead, unreaped leader the CPU time is still right."""
        memory, cpu = 0.0, self._usage.cpu_s
        with suppress(psutil.Error):
            times = self._leader.cpu_times()
            cpu = times.user + times.system + times.children_user + times.children_system
            memory = self._leader.memory_info().rss
        self._known = list(descendants(self._leader))
        for process in self._known:
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu += times.user + times.system
                memory += process.memory_info().rss
        self._usage = Usage(memory / _MIB, cpu)
        return self._usage

    def alone(self) -> bool:
        """True when nothing the leader started is left, not even as a zombie."""
        return next(descendants(self._leader), None) is None

    def strike(self) -> None:
        """Kill the group and every known descendant outside it, without waiting for its end.

        Safe from any thread, and more than once.
        """
        with self._lock:
            if self._process.returncode is None:
                # Stopped first, so that nothing in the group can fork while the others are counted.
                self._signal(signal.SIGSTOP)
                strays = [*self._known, *descendants(self._leader)]
                self._signal(signal.SIGKILL)
                for process in strays:
                    with suppress(psutil.Error):
                        process.kill()

    def kill(self) -> int:
        """Strike, reap the leader, and return its exit code; a negative one is the signal that ended it.

        Safe from any thread, and more than once.
        """
        self.strike()
        with self._lock:
            return self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # PermissionError is macOS's answer when only a zombie is left in the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def descendants(leader: psutil.Process) -> Iterator[psutil.Process]:
    """Yield every process below ``leader``; those that vanish meanwhile are left out."""
    if sys.platform != "linux":
        with suppress(psutil.Error):
            yield from leader.children(recursive=True)
        return
    for pid in below(leader.pid):
        with suppress(psutil.Error):
            yield psutil.Process(pid)


def below(pid: int) -> Iterator[int]:
    """Yield the number of every process below one, its own children first. Linux only.

    The kernel's own list of children costs microseconds; psutil reads every process of the machine.
    """
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            waiting.append(child)
            yield child


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times for each check
            with suppress(OSError):
                yield from map(int, told(f"/proc/{pid}/task/{thread}/children").split())


def told(path: str) -> bytes:
    """What a file of ``/proc`` says. Raises ``OSError``."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)
