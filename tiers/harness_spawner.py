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
from collections.abc import Mapping, Sequence
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
        let_die(self.life)
        os.close(self.requests)
        os.close(self.results)


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


class Ends(NamedTuple):
    """The child's ends of the same pipes; closed here once the child has them."""

    requests: int
    results: int
    life: int

    def close(self) -> None:
        """Close all three."""
        for descriptor in self:
            os.close(descriptor)


def make_pipes() -> tuple[Ends, Pipes]:
    """The pipes between this process and one child."""
    requests, results, life = os.pipe(), os.pipe(), os.pipe()
    ours = Pipes(requests[1], results[0], life[1])
    _LIVES.add(ours.life)
    os.set_blocking(ours.requests, False)
    os.set_blocking(ours.results, False)
    return Ends(requests[0], results[1], life[0]), ours


def spawn_child(nest: Nest, lane: Lane, plugins: Sequence[str]) -> tuple[subprocess.Popen[bytes], Pipes]:
    """Start a child in ``nest``; return the process and the parent's ends. Raises ``OSError``."""
    theirs, ours = make_pipes()
    numbers = {**theirs._asdict(), "page": nest.page}
    try:
        process = _spawn(nest, lane, plugins, numbers)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def spawn_template(
    nest: Nest, lane: Lane, plugins: Sequence[str], control: int
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a template that obeys ``control``; return the process and the end of its life pipe."""
    theirs, ours = os.pipe()
    _LIVES.add(ours)
    try:
        return _spawn(nest, lane, plugins, {"control": control, "life": theirs}), ours
    except BaseException:
        let_die(ours)
        raise
    finally:
        os.close(theirs)


def let_die(life: int) -> None:
    """Close the end of a life pipe."""
    _LIVES.discard(life)
    os.close(life)


def _spawn(
    nest: Nest, lane: Lane, plugins: Sequence[str], descriptors: Mapping[str, int]
) -> subprocess.Popen[bytes]:
    numbers = {
        "parent": os.getpid(),
        "file-mb": lane.file_mb,
        "open-files": lane.open_files,
        **descriptors,
    }
    arguments = [sys.executable, "-P", "-s", "-m", "tiers.child"]
    for name, value in numbers.items():
        arguments += [f"--{name}", str(value)]
    for plugin in plugins:
        arguments += ["--plugin", plugin]
    return _SPAWNER.start(arguments, tuple(descriptors.values()), nest)
