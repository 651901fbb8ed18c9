"""The parent's side of one child process."""

from __future__ import annotations

import os
import select
import time
import weakref

from tiers.child_wire import Executing, FrameReader, Garbled, Kind, Ready, SharedPage, frame
from tiers.harness_group import Leader, ProcessGroup, Usage
from tiers.harness_nest import Nest
from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_spawner import Pipes, spawn_child
from tiers.harness_template import Template

Frames = list[tuple[Kind, bytes]]
_CHUNK = 1 << 18
_MOST_AT_ONCE = 1 << 22


class Child:
    """A running child. One thread uses it; only ``kill`` may come from another.

    ``loaded`` holds the verifiers that are warm in it, ``served`` counts the items it has run. ``silent``
    is set when its end of the results is closed, ``garbled`` when it sent something else than the
    protocol.
    """

    def __init__(self, lane: Lane, options: HarnessOptions, template: Template | None = None) -> None:
        """Start it, without waiting for it, or copy it from a template, warm. Raises ``OSError``."""
        self.loaded: dict[str, Ready] = {} if template is None else dict(template.loaded)
        self.served = 0
        self.silent = False
        self.garbled = False
        self._base_mb = self._grown_mb = self._weighed = 0.0
        self._nest = Nest(options.folder, options.environment)
        try:
            process, self._pipes = self._begin(lane, options, template)
        except BaseException:
            self._nest.remove()
            raise
        self._group = ProcessGroup(process)
        self._page = SharedPage(self._nest.page)
        self._reader = FrameReader()
        self._outgoing = memoryview(b"")
        self._end = weakref.finalize(self, _destroy, self._group, self._pipes, self._nest, self._page)

    def _begin(
        self, lane: Lane, options: HarnessOptions, template: Template | None
    ) -> tuple[Leader, Pipes]:
        if template is None:
            return spawn_child(self._nest, lane, options.plugins)
        return template.fork(self._nest)

    def send(self, kind: Kind, body: bytes) -> None:
        """Queue a request to an idle child; ``move`` writes what the pipe does not take at once."""
        self._page.reset()
        self._outgoing = memoryview(frame(kind, body))
        self._write()

    def listen(self, poll: select.poll) -> None:
        """Register what this child is waited for with; a channel that is closed has no news."""
        if not self.silent:
            poll.register(self._pipes.results, select.POLLIN)
        if self._outgoing:
            poll.register(self._pipes.requests, select.POLLOUT)

    def move(self) -> Frames:
        """Move bytes both ways, without waiting; return complete frames."""
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

    def stop_after(self, index: int) -> int:
        """Tell the child to start nothing above ``index``; return the highest index it may have started."""
        return self._page.stop_after(index)

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

    def strike(self) -> None:
        """Kill the group without waiting for its end; ``gone`` tells when that has come."""
        self._group.strike()

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


def _destroy(group: ProcessGroup, pipes: Pipes, nest: Nest, page: SharedPage) -> None:
    group.kill()
    pipes.close()
    page.close()
    nest.remove()
