"""The harness: runs jobs in warm children that can be killed, and loses none of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from tiers.harness_crew import Crew
from tiers.harness_directory import Directory
from tiers.harness_engine import Engine
from tiers.harness_nest import remove_abandoned
from tiers.harness_options import HarnessOptions
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.execution import Done, Job, Released

More = Callable[[frozenset[str]], Sequence[Job]]


class Watch:
    """The caller's hooks, each called when it is due. Their errors are let through."""

    def __init__(
        self,
        cancelled: Callable[[], Collection[str]],
        beat: Callable[[], None] | None,
        more: More | None,
        options: HarnessOptions,
    ) -> None:
        self.cancelled: Collection[str] = ()
        self._ask, self._beat, self._more, self._options = cancelled, beat, more, options
        now = time.monotonic()
        self._next_ask = now
        self._next_beat = now + options.beat_s
        self._next_more = now + options.more_s

    def look(self) -> None:
        """Beat and ask who is cancelled, if it is time."""
        now = time.monotonic()
        if self._beat is not None and now >= self._next_beat:
            self._next_beat = now + self._options.beat_s
            self._beat()
        if now >= self._next_ask:
            self._next_ask = now + self._options.poll_s
            self.cancelled = frozenset(self._ask())

    def more(self, enough: frozenset[str]) -> Sequence[Job]:
        """Ask for more jobs, if it is time."""
        if self._more is None or time.monotonic() < self._next_more:
            return ()
        jobs = self._more(enough)
        self._next_more = time.monotonic() + self._options.more_s
        return jobs

    def patience(self) -> float:
        """Seconds until the next hook is due."""
        until = self._next_ask
        if self._beat is not None:
            until = min(until, self._next_beat)
        if self._more is not None:
            until = min(until, self._next_more)
        return max(0.0, until - time.monotonic())


class ProcessHarness:
    """Implements the ``Harness`` port with warm children by lane.

    One thread at a time may ``run``; ``close`` may come from any thread. ``catalog`` declares the
    verifiers; the children load them by themselves from the same sources plus ``options.plugins``.
    """

    def __init__(self, catalog: Catalog, options: HarnessOptions | None = None) -> None:
        self._options = options or HarnessOptions()
        self._directory = Directory(catalog, self._options)
        self._crew = Crew(self._options)
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        remove_abandoned(self._options.folder)

    def run(
        self,
        jobs: Sequence[Job],
        cancelled: Callable[[], Collection[str]],
        beat: Callable[[], None] | None = None,
        more: More | None = None,
    ) -> Iterator[Done | Released]:
        """Yield one result per job as they arrive. See the port. Raises what the hooks raise."""
        watch = Watch(cancelled, beat, more, self._options)
        engine = self._enter()
        try:
            watch.look()
            engine.cancelled = watch.cancelled
            engine.submit(jobs)
            engine.start()
            missing = len(jobs)
            while missing:
                results = engine.results(watch.patience())
                missing -= len(results)
                yield from results
                watch.look()
                if engine.cancelled != watch.cancelled:
                    engine.cancelled = watch.cancelled
                    engine.ring()
                if added := watch.more(engine.enough):
                    missing += len(added)
                    engine.submit(added)
            engine.finish()
        finally:
            engine.stop()
            self._leave()

    def close(self) -> None:
        """Kill every child; a run in another thread gives its remaining jobs back."""
        with self._lock:
            self._crew.close(running=self._engine is not None)
            if self._engine is not None:
                self._engine.ring()

    def _enter(self) -> Engine:
        with self._lock:
            if self._engine is not None:
                raise RuntimeError("this harness is already running in another thread")
            self._engine = Engine(self._directory, self._options, self._crew)
            return self._engine

    def _leave(self) -> None:
        with self._lock:
            self._engine = None
            self._crew.end_run()
