"""The harness: runs jobs in warm children that can be killed, and loses none of them."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from tiers.child_wire import Kind, Ready
from tiers.harness_batch import Batch
from tiers.harness_blame import lost, not_started, refused, unexecuted
from tiers.harness_child import Child
from tiers.harness_nest import remove_abandoned
from tiers.harness_options import HarnessOptions, lane_of
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Failure
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.execution import Done, Job, Released
from verifier_service.domain.verifiers import VerifierInfo

MAX_FRUITLESS = 3


class StartFailed(Exception):
    """No child could be made ready for a verifier; the message says why."""


class Watch:
    """The caller's two hooks, each called when it is due."""

    def __init__(
        self,
        cancelled: Callable[[], Collection[str]],
        beat: Callable[[], None] | None,
        options: HarnessOptions,
    ) -> None:
        self.cancelled: Collection[str] = ()
        self._ask, self._beat, self._options = cancelled, beat, options
        self._next_ask = 0.0
        self._next_beat = time.monotonic() + options.beat_s

    def look(self) -> None:
        """Beat and ask, if it is time. Lets their errors through."""
        now = time.monotonic()
        if self._beat is not None and now >= self._next_beat:
            self._next_beat = now + self._options.beat_s
            self._beat()
        if now >= self._next_ask:
            self._next_ask = now + self._options.poll_s
            self.cancelled = frozenset(self._ask())


class ProcessHarness:
    """Implements the ``Harness`` port with one warm child per lane.

    One thread at a time may ``run``; ``close`` may come from any thread. ``catalog`` declares the
    verifiers; the child loads them by itself from the same sources plus ``options.plugins``.
    """

    def __init__(self, catalog: Catalog, options: HarnessOptions | None = None) -> None:
        self._catalog = catalog
        self._options = options or HarnessOptions()
        self._children: dict[str, Child] = {}
        self._lock = threading.Lock()
        self._running = False
        self._closing = False
        remove_abandoned(self._options.folder)

    def run(
        self,
        jobs: Sequence[Job],
        cancelled: Callable[[], Collection[str]],
        beat: Callable[[], None] | None = None,
    ) -> Iterator[Done | Released]:
        """Yield one result per job as they arrive. See the port. Raises what the hooks raise."""
        watch = Watch(cancelled, beat, self._options)
        self._enter()
        try:
            for group in _grouped(jobs):
                yield from self._run_group(deque(group), watch)
        finally:
            self._leave()

    def close(self) -> None:
        """Kill every child; a run in another thread gives its remaining jobs back."""
        with self._lock:
            self._closing = True
            for child in self._children.values():
                child.kill()
            if not self._running:
                self._discard_all()

    def _enter(self) -> None:
        with self._lock:
            if self._running:
                raise RuntimeError("this harness is already running in another thread")
            self._running = True

    def _leave(self) -> None:
        with self._lock:
            self._running = False
            for lane, child in tuple(self._children.items()):
                if child.busy or self._closing:
                    child.discard()
                    del self._children[lane]

    def _discard_all(self) -> None:
        for child in self._children.values():
            child.discard()
        self._children.clear()

    def _run_group(self, queue: deque[Job], watch: Watch) -> Iterator[Done | Released]:
        try:
            info = self._catalog.verifier(queue[0].verifier)
        except NotFound as error:
            yield from _all_refused(queue, refused(error.code, error.message))
            return
        if info.external:
            yield from _all_refused(queue, refused("external_verifier", f"{info.name} is not executed"))
            return
        one_by_one = fruitless = 0
        while queue:
            watch.look()
            yield from self._give_back(queue, watch)
            if not queue:
                return
            try:
                child = self._ready_child(info, watch)
            except StartFailed as error:
                if not self._closing:
                    failure = not_started(str(error))
                    yield from (unexecuted(job, failure, info.version) for job in _drained(queue))
                continue
            count = 1 if one_by_one else min(len(queue), self._options.max_batch)
            batch = Batch(child, info, [queue.popleft() for _ in range(count)], self._options)
            results = 0
            for result in self._run_batch(child, batch, info, watch):
                results += 1
                yield result
            queue.extendleft(reversed(batch.open.values()))
            one_by_one = len(queue) if batch.unclear else max(0, one_by_one - 1)
            fruitless = 0 if results or batch.unclear else fruitless + 1
            if fruitless >= MAX_FRUITLESS:
                yield from (unexecuted(job, lost(), info.version) for job in _drained(queue))

    def _give_back(self, queue: deque[Job], watch: Watch) -> Iterator[Released]:
        """Release the jobs nobody wants any more; all of them when the harness is closing."""
        if self._closing:
            yield from (Released(id=job.id, note="closing") for job in _drained(queue))
        elif watch.cancelled:
            for job in _drained(queue, keep=lambda job: job.id not in watch.cancelled):
                yield Released(id=job.id, note="cancelled")

    def _run_batch(
        self, child: Child, batch: Batch, info: VerifierInfo, watch: Watch
    ) -> Iterator[Done | Released]:
        child.busy = True
        yield from batch.send()
        while not batch.finished():
            frames = child.pump(min(batch.patience(), self._options.sample_s))
            yield from batch.receive(frames)
            yield from batch.overhear()
            if batch.finished():
                break
            watch.look()
            trouble = batch.trouble(watch.cancelled)
            if trouble is not None:
                if self._closing:
                    trouble = trouble._replace(ill="closing")
                with self._lock:
                    del self._children[lane_of(info).name]
                yield from batch.bury(trouble)
                return
        child.busy = False
        self._retire_if_worn(child, info)

    def _retire_if_worn(self, child: Child, info: VerifierInfo) -> None:
        options = self._options
        grown = child.growth_mb(options.weigh_s)
        if child.served >= options.recycle_items or grown > options.recycle_growth_mb or not child.alone():
            with self._lock:
                child.discard()
                del self._children[lane_of(info).name]

    def _ready_child(self, info: VerifierInfo, watch: Watch) -> Child:
        """Return this verifier's child, warm. Raises ``StartFailed``."""
        lane = lane_of(info)
        child = self._children.get(lane.name)
        if child is not None and child.gone():
            child.discard()
            child = None
        if child is None:
            child = self._start_child(info)
        if info.name not in child.loaded:
            try:
                child.loaded[info.name] = self._load(child, info, watch)
            except StartFailed:
                if child.busy:
                    child.discard()
                    del self._children[lane.name]
                raise
            child.set_base()
        return child

    def _start_child(self, info: VerifierInfo) -> Child:
        lane = lane_of(info)
        with self._lock:
            if self._closing:
                raise StartFailed("the harness is closing")
            try:
                child = Child(lane, self._options)
            except OSError as error:
                raise StartFailed(f"no process could be started: {error}") from error
            self._children[lane.name] = child
            return child

    def _load(self, child: Child, info: VerifierInfo, watch: Watch) -> Ready:
        child.send(Kind.LOAD, info.name.encode())
        until = time.monotonic() + self._options.start_s
        while True:
            for kind, body in child.pump(self._options.sample_s):
                if kind is Kind.REFUSED:
                    child.busy = False
                    raise StartFailed(f"{info.name}: {body.decode('utf-8', 'replace')}")
                if kind is Kind.READY:
                    child.busy = False
                    return _checked(Ready.model_validate_json(body), info)
                child.garbled = True
            if child.garbled:
                raise StartFailed(f"{info.name}: the child's output was not the protocol")
            if child.silent or child.gone():
                code = child.kill()
                raise StartFailed(f"{info.name}: the child ended with {code}: {child.last_words()[-300:]}")
            if time.monotonic() >= until:
                raise StartFailed(f"{info.name}: not ready after {self._options.start_s:g} s")
            watch.look()


def _checked(ready: Ready, info: VerifierInfo) -> Ready:
    if ready.verifier != info.name or ready.version != info.version:
        found = f"{ready.verifier} {ready.version}"
        raise StartFailed(f"the child loaded {found} instead of {info.name} {info.version}: restart")
    return ready


def _grouped(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one verifier and equal parameters together, groups and jobs in order of appearance."""
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        key = json.dumps(job.params, sort_keys=True) if job.params else ""
        groups.setdefault((job.verifier, key), []).append(job)
    yield from groups.values()


def _drained(queue: deque[Job], keep: Callable[[Job], bool] | None = None) -> list[Job]:
    """Take out of the queue, at once, every job that is not to be kept."""
    out = [job for job in queue if keep is None or not keep(job)]
    kept = [job for job in queue if keep is not None and keep(job)]
    queue.clear()
    queue.extend(kept)
    return out


def _all_refused(queue: deque[Job], failure: Failure) -> Iterator[Done]:
    for job in _drained(queue):
        yield unexecuted(job, failure, "")
