"""The thread that keeps all children of a harness busy and enforces their limits during one run.

Jobs come in and results go out through queues; it never waits for the caller, so that a caller who
commits results for a while delays no deadline and no other child.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from tiers.harness_batch import Batch
from tiers.harness_blame import lost, not_started, unexecuted
from tiers.harness_crew import Crew, Seat, StartFailed
from tiers.harness_directory import Directory, Listed
from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_waiting import MAX_FRUITLESS, Group, Waiting
from verifier_service.domain.evidence import Failure
from verifier_service.domain.ports.execution import Done, Job, Released

Results = list[Done | Released]
_DYING_LOOK_S = 0.002


class Engine:
    """One run. ``submit``, ``results`` and ``stop`` are for the caller's thread."""

    def __init__(self, directory: Directory, options: HarnessOptions, crew: Crew) -> None:
        self.cancelled: Collection[str] = ()
        self.enough: frozenset[str] = frozenset()
        self._directory = directory
        self._options = options
        self._crew = crew
        self._waiting = Waiting()
        self._orders: SimpleQueue[Sequence[Job]] = SimpleQueue()
        self._answers: SimpleQueue[Results | BaseException] = SimpleQueue()
        self._out: Results = []
        self._stopping = self._finishing = False
        self._alarm, self._bell = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._bell, False)
        self._ringing = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="harness", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Add jobs."""
        self._orders.put(jobs)
        self.ring()

    def ring(self) -> None:
        """Make the thread look up: something has changed. Once it has ended nothing happens."""
        with self._ringing, suppress(BlockingIOError):
            if not self._ended:
                os.write(self._bell, b"!")

    def results(self, patience: float) -> Results:
        """Wait for results. Raises what ended the thread."""
        try:
            answer = self._answers.get(timeout=max(0.0, patience))
        except Empty:
            return []
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def finish(self) -> None:
        """Every job has its result: wait until the children are ready for the next run."""
        self._finishing = True
        self.ring()
        self._thread.join()

    def stop(self) -> None:
        """End the thread; what was executing is left to ``Crew.end_run``."""
        self._stopping = True
        self.ring()
        if self._thread.ident is not None:
            self._thread.join()
        with self._ringing:
            self._ended = True
            os.close(self._alarm)
            os.close(self._bell)

    def _run(self) -> None:
        try:
            while not (self._stopping or (self._finishing and self._at_rest())):
                self._turn()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._answers.put(error)

    def _turn(self) -> None:
        self._accept()
        self._release()
        for lane in self._waiting.lanes():
            self._assign(lane)
        self._crew.keep_spares()
        self.enough = self._directory.names(self._full_lanes())
        self._tell()
        self._sleep()
        for seat in self._crew.seats():
            self._serve(seat)
        self._tell()

    def _tell(self) -> None:
        if self._out:
            self._answers.put(self._out)
            self._out = []

    def _at_rest(self) -> bool:
        return all(seat.batch is None for seat in self._crew.seats())

    def _accept(self) -> None:
        while not self._orders.empty():
            for job in self._orders.get():
                listed = self._directory.find(job.verifier)
                if isinstance(listed, Failure):
                    self._out.append(unexecuted(job, listed, ""))
                else:
                    self._waiting.add(job, listed)

    def _release(self) -> None:
        """Give back the jobs nobody wants any more; all of them when the harness is closing."""
        if self._crew.closing:
            for job in self._waiting.drop(lambda _: True):
                self._out.append(Released(id=job.id, note="closing"))
        elif self.cancelled:
            unwanted = self.cancelled
            for job in self._waiting.drop(lambda job: job.id in unwanted):
                self._out.append(Released(id=job.id, note="cancelled"))

    def _assign(self, lane: Lane) -> None:
        """Give waiting jobs to children, as many as the lane may keep busy."""
        self._crew.discard_idle_dead(lane)
        while (group := self._waiting.first(lane)) is not None:
            seats = self._crew.seats(lane)
            running = sum(seat.batch is not None and not seat.aside for seat in seats)
            if running >= lane.active:
                return
            name = group.info.name
            ready = next((seat for seat in seats if seat.idle() and name in seat.infos), None)
            if ready is not None:
                self._send(ready, group)
                continue
            if running + sum(seat.loading is not None for seat in seats) >= lane.active:
                return
            free = self._crew.free(seats, name)
            if free is None and len(seats) >= lane.width:
                return
            try:
                seat = free or self._crew.start(lane)
                if name not in seat.infos:
                    self._crew.load(seat, group.info)
            except StartFailed as error:
                if self._crew.closing:
                    return
                self._fail(group.info.name, error)

    def _send(self, seat: Seat, group: Group) -> None:
        batch = Batch(seat.child, group.info, self._waiting.take(group), self._options)
        self._out.extend(batch.send())
        if not batch.finished():
            seat.batch, seat.group, seat.aside, seat.results = batch, group, False, 0

    def _sleep(self) -> None:
        """Wait until a child or the caller has news, or a limit may be due."""
        poll = select.poll()
        poll.register(self._alarm, select.POLLIN)
        now = time.monotonic()
        until = now + self._options.sample_s
        for seat in self._crew.seats():
            if seat.trouble is not None:
                until = min(until, now + _DYING_LOOK_S)
            elif not seat.idle():
                seat.child.listen(poll)
                if seat.batch is not None:
                    until = min(until, seat.batch.due())
        if (self._alarm, select.POLLIN) in poll.poll(max(0.0, until - time.monotonic()) * 1000.0):
            os.read(self._alarm, 4096)

    def _serve(self, seat: Seat) -> None:
        if seat.loading is not None:
            self._await_load(seat)
        elif seat.trouble is not None:
            if seat.child.gone():
                self._bury(seat)
        elif seat.batch is not None and seat.group is not None:
            self._attend(seat, seat.batch, seat.group)

    def _await_load(self, seat: Seat) -> None:
        info = seat.loading
        try:
            self._crew.loaded(seat)
        except StartFailed as error:
            others = self._crew.seats(seat.lane)
            if info is not None and not any(info.name in other.infos for other in others):
                self._fail(info.name, error)
            else:
                self._crew.spare_failed(error)

    def _fail(self, verifier: str, error: StartFailed) -> None:
        if not self._crew.closing:
            failure = not_started(str(error))
            self._fail_all(failure, verifier)

    def _fail_all(self, failure: Failure, verifier: str) -> None:
        listed = self._directory.find(verifier)
        version = listed.info.version if isinstance(listed, Listed) else ""
        for job in self._waiting.drop(lambda job: job.verifier == verifier):
            self._out.append(unexecuted(job, failure, version))

    def _attend(self, seat: Seat, batch: Batch, group: Group) -> None:
        self._take(seat, group, batch.receive(seat.child.move()))
        self._take(seat, group, batch.overhear())
        if batch.finished():
            self._finish(seat, batch, group)
            return
        trouble = batch.trouble(self.cancelled)
        if trouble is not None:
            seat.trouble = trouble
            seat.aside = True
            seat.child.strike()
        elif self._in_the_way(seat, batch):
            seat.aside = True
            self._waiting.put_back(group, batch.overtake())

    def _in_the_way(self, seat: Seat, batch: Batch) -> bool:
        """True when others wait behind a slow item, and other children may run them."""
        if seat.aside or seat.lane.active >= seat.lane.width or not batch.slow():
            return False
        return batch.behind() or self._waiting.first(seat.lane) is not None

    def _take(self, seat: Seat, group: Group, results: Iterable[Done | Released]) -> None:
        for result in results:
            seat.results += 1
            group.acquit(result.id)
            self._out.append(result)

    def _finish(self, seat: Seat, batch: Batch, group: Group) -> None:
        self._waiting.put_back(group, list(batch.open.values()))
        seat.batch = seat.group = None
        seat.aside = False
        group.fruitless = 0
        self._crew.retire_if_worn(seat)

    def _bury(self, seat: Seat) -> None:
        """Take what a dead child left, and run what it did not reach again."""
        batch, group, trouble = seat.batch, seat.group, seat.trouble
        if batch is None or group is None or trouble is None:
            return
        if self._crew.closing:
            trouble = trouble._replace(ill="closing")
        self._take(seat, group, batch.bury(trouble))
        self._crew.discard(seat)
        left = list(batch.open.values())
        if batch.unclear:
            group.suspect(left)
        group.fruitless = 0 if seat.results or batch.unclear else group.fruitless + 1
        self._waiting.put_back(group, left)
        if group.fruitless >= MAX_FRUITLESS:
            self._fail_all(lost(), group.info.name)

    def _full_lanes(self) -> set[str]:
        """Lanes in which enough waits to keep them busy until more has come."""
        return {
            lane.name
            for lane in self._waiting.lanes()
            if self._waiting.count(lane.name) >= (1 if lane.active == 1 else 2 * lane.active)
        }
