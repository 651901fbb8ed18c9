"""The parent's side of one child process."""

from __future__ import annotations

import os
import select
import time
import weakref

from tiers.child_wire import Executing, FrameReader, Garbled, Kind, Ready, SharedPage, frame
from tiers.harness_group import ProcessGroup, Usage
from tiers.harness_nest import Nest
from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_spawner import Pipes, spawn_child

Frames = list[tuple[Kind, bytes]]
_CHUNK = 1 << 18
_MOST_AT_ONCE = 1 << 22
_LINGER_S = 1.0


class Child:
    """A running child. One thread uses it; only ``kill`` may come from another.

    ``loaded`` holds the verifiers that are warm in it, ``served`` counts the items it has run, ``busy``
    is true between a request and its last answer. ``silent`` is set when its end of the results is
    closed, ``garbled`` when it sent something that is not the protocol.
    """

    def __init__(self, lane: Lane, options: HarnessOptions) -> None:
        """Start it, without waiting for it. Raises ``OSError``."""
        self.loaded: dict[str, Ready] = {}
        self.served = 0
        self.busy = False
        self.silent = False
        self.garbled = False
        self._base_mb = self._grown_mb = self._weighed = 0.0
        self._nest = Nest(options.folder, options.environment)
        try:
            process, self._pipes = spawn_child(self._nest, lane, options.plugins)
        except BaseException:
            self._nest.remove()
            raise
        self._group = ProcessGroup(process)
        self._page = SharedPage(self._nest.page)
        self._reader = FrameReader()
        self._outgoing = memoryview(b"")
        self._poll = select.poll()
        self._poll.register(self._pipes.results, select.POLLIN)
        self._end = weakref.finalize(self, _destroy, self._group, self._pipes, self._nest, self._page)

    def send(self, kind: Kind, body: bytes) -> None:
        """Queue a request to an idle child; ``pump`` writes what the pipe does not take at once."""
        self._page.reset()
        self._outgoing = memoryview(frame(kind, body))
        self._poll.register(self._pipes.requests, select.POLLOUT)
        self.busy = True
        self._write()

    def pump(self, patience: float) -> Frames:
        """Wait up to ``patience`` seconds for news, move bytes both ways, return complete frames."""
        self._poll.poll(max(0.0, patience) * 1000.0)
        if self._outgoing:
            self._write()
        return self.received()

    def received(self) -> Frames:
        """Return the frames that are complete by now; also those a dead child had sent."""
        frames: Frames = []
        total = 0
        while total < _MOST_AT_ONCE and not self.garbled:
            try:
                data = os.read(self._pipes.results, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self.silent = True
                break
            total += len(data)
            try:
                for each in self._reader.feed(data):
                    frames.append(each)
            except Garbled:
                self.garbled = True
        return frames

    def held(self) -> Frames:
        """Return results the child has not sent yet; some may come again."""
        body = self._page.held()
        return [(Kind.DONE, body)] if body else []

    def executing(self) -> Executing | None:
        """Return the item that runs now, or that ran when the child died."""
        return self._page.executing()

    def started_last(self) -> Executing | None:
        """Return the item of the current request that started last, if any has."""
        return self._page.last()

    def sample(self) -> Usage:
        """Measure the whole process group now."""
        return self._group.sample()

    def set_base(self) -> None:
        """Take its present size as that of a warm child."""
        self._base_mb, self._grown_mb = self.sample().memory_mb, 0.0

    def growth_mb(self, every: float) -> float:
        """MiB gained since it was warm, measured again after ``every`` seconds."""
        now = time.monotonic()
        if now - self._weighed >= every:
            self._weighed = now
            self._grown_mb = self.sample().memory_mb - self._base_mb
        return self._grown_mb

    def gone(self) -> bool:
        """True when the process has ended, whoever still holds its pipes."""
        return self._group.gone()

    def alone(self) -> bool:
        """True when it has left no process of its own behind."""
        return self._group.alone()

    def await_end(self) -> bool:
        """Give a child that has closed its pipe a moment to end by itself; return whether it did."""
        until = time.monotonic() + _LINGER_S
        while not self.gone() and time.monotonic() < until:
            time.sleep(0.005)
        return self.gone()

    def kill(self) -> int:
        """Kill and reap the group; return the exit code (negative: the signal)."""
        return self._group.kill()

    def last_words(self) -> str:
        """The end of the child's log."""
        return self._nest.last_words()

    def discard(self) -> None:
        """Kill it and give back its descriptors and folder. Idempotent."""
        self._end()

    def _write(self) -> None:
        try:
            while self._outgoing:
                self._outgoing = self._outgoing[os.write(self._pipes.requests, self._outgoing) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.silent = True
            self._outgoing = memoryview(b"")
        self._poll.unregister(self._pipes.requests)


def _destroy(group: ProcessGroup, pipes: Pipes, nest: Nest, page: SharedPage) -> None:
    group.kill()
    pipes.close()
    page.close()
    nest.remove()
