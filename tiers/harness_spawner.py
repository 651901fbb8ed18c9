"""Starting children: always from one thread that lives as long as the process.

The kernel's parent-death signal fires when the *thread* that started the child ends, so a worker thread
that comes and goes must not start children itself. The pipe whose closing kills a child must have one
writer only: a forked copy of this process closes its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple

from tiers.harness_nest import Nest
from tiers.harness_options import Lane

_LIVES: set[int] = set()


def _let_go() -> None:
    for life in _LIVES:
        os.close(life)
    _LIVES.clear()


os.register_at_fork(after_in_child=_let_go)


class Pipes(NamedTuple):
    """The parent's ends: requests are written, results read, ``life`` only held open."""

    requests: int
    results: int
    life: int

    def close(self) -> None:
        """Close all three."""
        _LIVES.discard(self.life)
        for descriptor in self:
            os.close(descriptor)


class _Order(NamedTuple):
    arguments: Sequence[str]
    descriptors: Sequence[int]
    nest: Nest
    answer: Future[subprocess.Popen[bytes]]


class Spawner:
    """A daemon thread that runs ``Popen``; made on first use, and anew in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._owner = 0

    def start(
        self, arguments: Sequence[str], descriptors: Sequence[int], nest: Nest
    ) -> subprocess.Popen[bytes]:
        """Start a session leader that inherits ``descriptors`` only. Raises ``OSError``."""
        order = _Order(arguments, descriptors, nest, Future())
        with self._lock:
            if self._owner != os.getpid():
                self._owner = os.getpid()
                self._orders = SimpleQueue()
                threading.Thread(target=_work, args=(self._orders,), name="spawner", daemon=True).start()
            self._orders.put(order)
        return order.answer.result()


def _work(orders: SimpleQueue[_Order]) -> None:
    while True:
        order = orders.get()
        try:
            order.answer.set_result(_start(order))
        except Exception as error:  # noqa: BLE001 - handed to the thread that asked
            order.answer.set_exception(error)


def _start(order: _Order) -> subprocess.Popen[bytes]:
    with order.nest.log.open("ab") as log:
        return subprocess.Popen(
            order.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=order.nest.work,
            env=order.nest.environment(),
            pass_fds=order.descriptors,
            start_new_session=True,
        )


_SPAWNER = Spawner()


def spawn_child(nest: Nest, lane: Lane, plugins: Sequence[str]) -> tuple[subprocess.Popen[bytes], Pipes]:
    """Start ``tiers.child`` in ``nest``; return the process and the parent's ends. Raises ``OSError``."""
    requests, results, life = os.pipe(), os.pipe(), os.pipe()
    theirs = (requests[0], results[1], life[0])
    ours = Pipes(requests[1], results[0], life[1])
    _LIVES.add(ours.life)
    numbers = {
        "parent": os.getpid(),
        "requests": theirs[0],
        "results": theirs[1],
        "life": theirs[2],
        "page": nest.page,
        "file-mb": lane.file_mb,
        "open-files": lane.open_files,
    }
    arguments = [sys.executable, "-P", "-s", "-m", "tiers.child"]
    for name, value in numbers.items():
        arguments += [f"--{name}", str(value)]
    for plugin in plugins:
        arguments += ["--plugin", plugin]
    try:
        process = _SPAWNER.start(arguments, (*theirs, nest.page), nest)
    except BaseException:
        ours.close()
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    os.set_blocking(ours.requests, False)
    os.set_blocking(ours.results, False)
    return process, ours
