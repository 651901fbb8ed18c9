"""A process that only loads verifiers and forks: each copy of it is a child that is warm at once.

It never runs an item, so what one candidate did to its process is in no later one. One JSON object per
message: ``load`` is answered by ``ready`` or ``refused``, ``fork`` by ``pid`` or ``refused``; ``reap`` is
not answered. The ends of a copy's pipes travel with ``fork``.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tiers.catalog_sources import Sources
from tiers.child_loading import Unusable, Warm, warmed

MAX_MESSAGE = 1 << 20
_MAX_REASON = 2000


class Ends(NamedTuple):
    """A child's ends of its pipes, its page and its log."""

    requests: int
    results: int
    life: int
    page: int
    log: int


class Copy(NamedTuple):
    """What a copy begins with."""

    parent: int
    ends: Ends
    warm: dict[str, Warm]
    settled: int


class Template:
    """The loop of the template. ``copies`` returns only in a copy, and in the template at its end."""

    def __init__(self, control: socket.socket, sources: Sources) -> None:
        self._control = control
        self._sources = sources
        self._warm: dict[str, Warm] = {}
        self._dead: list[int] = []

    def copies(self) -> Copy | None:
        """Obey until the harness goes (``None``); in each copy return what it begins with."""
        while True:
            body, descriptors, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, len(Ends._fields))
            if not body:
                return None
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            order = json.loads(body)
            match order["do"]:
                case "load":
                    self._answer(self._load(order["verifier"]))
                case "reap":
                    self._dead.append(order["pid"])
                case _:
                    copy = self._fork(order, descriptors)
                    if copy is not None:
                        return copy
            self._reap()

    def _answer(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _load(self, name: str) -> dict[str, Any]:
        try:
            self._warm[name] = warmed(self._sources, name)
        except Unusable as error:
            return {"refused": str(error)[:_MAX_REASON]}
        # What is loaded is moved out of the collector's sight: the copies go on sharing its memory.
        gc.collect()
        gc.freeze()
        return {"ready": self._warm[name].ready.model_dump(mode="json")}

    def _fork(self, order: dict[str, Any], descriptors: Sequence[int]) -> Copy | None:
        if len(list(Path("/proc/self/task").iterdir())) > 1:
            self._close(descriptors)
            self._answer({"refused": "a verifier has started threads, which a copy would not have"})
            return None
        settling, settled = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(settling)
            self._control.close()
            _move_in(Path(order["nest"]))
            return Copy(parent, Ends(*descriptors), self._warm, settled)
        os.close(settled)
        self._close(descriptors)
        # Until the copy leads a group of its own, it could not be killed as one.
        os.read(settling, 1)
        os.close(settling)
        self._answer(
            {"pid": pid, "ready": [one.ready.model_dump(mode="json") for one in self._warm.values()]}
        )
        return None

    def _reap(self) -> None:
        """Forget the dead whose end the harness has seen; until then their numbers stay theirs."""
        left = []
        for pid in self._dead:
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    left.append(pid)
        self._dead = left

    def _close(self, descriptors: Sequence[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


def _move_in(nest: Path) -> None:
    os.setsid()
    os.chdir(nest / "work")
    os.environ.update(HOME=str(nest / "home"), TMPDIR=str(nest / "tmp"))
    tempfile.tempdir = None
