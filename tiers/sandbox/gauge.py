"""What the processes of one sandbox use, read from outside: memory of every kind, and processor time."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from tiers.harness_group import below, told

_MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# What the kernel keeps for a file without contents, and for the most that one socket holds unread.
_INODE = 1 << 10
_SOCKET = 1 << 18


class Clock(NamedTuple):
    """Seconds of one process: on a processor (with children that ended), and waiting for one."""

    spent: float
    waited: float


class Gauge:
    """Measures everything below ``leader``; ``enclosed`` says that it has its own files and network."""

    def __init__(self, leader: int, *, enclosed: bool) -> None:
        self._leader = leader
        self._enclosed = enclosed
        self._before: dict[int, Clock] = {}

    def processes(self) -> list[int]:
        """Their numbers, the first one inside first."""
        return list(below(self._leader))

    @property
    def started(self) -> list[int]:
        """The processes there were at the last start, the first one inside first."""
        return list(self._before)

    def start(self) -> None:
        """Count processor time from now on."""
        self._before = {pid: _clock(pid) for pid in self.processes()}

    def starved(self, budget: float, granted: float) -> float:
        """Seconds in which something inside wanted a processor and had none.

        That is the machine's fault and does not count against a time limit, unless all of the processes
        together have had ``budget`` seconds already: then they had only kept each other waiting. To what
        was ``granted`` before, no more is added than they may still use.
        """
        since = self._since()
        waited = max((one.waited for one in since), default=0.0)
        spent = sum(one.spent for one in since)
        return min(max(0.0, waited), granted + budget - spent)

    def spent(self) -> float:
        """Seconds on a processor since the start."""
        return sum(one.spent for one in self._since())

    def _since(self) -> list[Clock]:
        """What each process has had since the start."""
        found = []
        for pid in self.processes():
            before, now = self._before.get(pid, Clock(0.0, 0.0)), _clock(pid)
            found.append(Clock(max(0.0, now.spent - before.spent), now.waited - before.waited))
        return found

    def memory_mb(self) -> float:
        """Resident memory, files in memory, and what sockets may hold."""
        inside = self.processes()
        total = sum(map(_resident, inside))
        if self._enclosed and inside:
            total += _files(inside[0]) + _sockets(inside[0])
        return total / _MIB


def _resident(pid: int) -> int:
    """Of any living thread: where the first one has ended, the process itself says nothing."""
    with suppress(OSError, ValueError, IndexError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times for each check
            with suppress(OSError, ValueError, IndexError):
                pages = int(told(f"/proc/{pid}/task/{thread}/statm").split()[1])
                if pages:
                    return pages * _PAGE
    return 0


def _files(pid: int) -> int:
    with suppress(OSError):
        space = os.statvfs(f"/proc/{pid}/root/tmp")
        return (space.f_blocks - space.f_bfree) * space.f_frsize + (space.f_files - space.f_ffree) * _INODE
    return 0


def _sockets(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(told(f"/proc/{pid}/net/sockstat").split()[2]) * _SOCKET
    return 0


def _clock(pid: int) -> Clock:
    with suppress(OSError, ValueError, IndexError):
        fields = told(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        waited = int(told(f"/proc/{pid}/schedstat").split()[1]) / 1e9
        return Clock(sum(map(int, fields[11:15])) / _TICKS, waited)
    return Clock(0.0, 0.0)
