"""One batch in one child: results in, trouble noticed, blame laid on the right item."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import ValidationError

from tiers.child_wire import WIRE_DONES, Executing, Kind, WireDone, batch_body
from tiers.harness_blame import crash_failure, garbled_failure, limit_outcome, refused, unexecuted
from tiers.harness_child import Child, Frames
from tiers.harness_options import HarnessOptions
from verifier_service.domain.evidence import Cost, Outcome
from verifier_service.domain.ports.execution import Done, Job, LimitHit, Released
from verifier_service.domain.verifiers import CheckInput, VerifierInfo

log = logging.getLogger(__name__)

Ill = Literal["time_limit", "memory_limit", "died", "garbled", "cancelled", "closing", "stalled"]


_FAREWELL_S = 1.0
_LINGER_S = 1.0
_LINGER_LOOK_S = 0.005
_SECOND_LOOK_S = 0.001


class Trouble(NamedTuple):
    """Why a child must go, the item executing when that was noticed, and what was used by then."""

    ill: Ill
    item: Executing | None
    cpu_s: float


class Batch:
    """Jobs of one verifier and one set of parameters, on their way through one child.

    ``open`` maps index to job for everything without a result yet. ``unclear`` is set when the child
    went down by an item that cannot be told from its neighbours: they must be run one at a time.
    ``overtaken`` is set when the jobs behind a slow item were taken out; what is open when the batch
    has finished was then not executed.
    """

    def __init__(
        self, child: Child, info: VerifierInfo, jobs: Sequence[Job], options: HarnessOptions
    ) -> None:
        self.open: dict[int, Job] = {}
        self.unclear = False
        self.overtaken = False
        self._finished = False
        self._silent_since: float | None = None
        self._child = child
        self._info = info
        self._jobs = jobs
        self._options = options
        self._ready = child.loaded[info.name]
        self._idle_since = time.monotonic()
        self._next_sample = self._idle_since + options.sample_s
        self._peaks: dict[int, float] = {}

    def send(self) -> Iterator[Done]:
        """Send the jobs; yield a failure for each item that cannot be written down."""
        texts: list[bytes] = []
        for job in self._jobs:
            try:
                texts.append(_text(job.item))
            except ValueError as error:
                yield self._refused(job, "bad_input", f"not a check input: {type(error).__name__}")
            else:
                self.open[len(texts) - 1] = job
        try:
            body = batch_body(self._info.name, self._jobs[0].params, texts)
        except ValueError as error:
            yield from (self._refused(job, "invalid_params", str(error)) for job in self.open.values())
            self.open.clear()
        if self.open:
            self._child.send(Kind.BATCH, body)
        else:
            self._finished = True

    def _refused(self, job: Job, code: str, message: str) -> Done:
        return unexecuted(job, refused(code, message), self._ready.version, self._ready.libraries)

    def finished(self) -> bool:
        """True when the child is ready for the next batch."""
        return self._finished

    def due(self) -> float:
        """The monotonic time at which something may have to be done although the child says nothing."""
        if self._silent_since is not None:
            return time.monotonic() + _LINGER_LOOK_S
        item = self._child.executing()
        until = self._next_sample
        if item is not None and item.index in self.open:
            until = min(until, item.started + self.open[item.index].time_s)
            # One that has been due for a while waits for company: nothing to do until that comes.
            slow_at = item.started + self._options.overtake_s
            now = time.monotonic()
            if not self.overtaken and slow_at > now - _SECOND_LOOK_S:
                until = min(until, max(slow_at, now + _SECOND_LOOK_S))
        return until

    def behind(self) -> bool:
        """True when jobs of this batch would have to wait for the one that is executing."""
        return len(self.open) > 1

    def slow(self) -> bool:
        """True while one item has been executing for longer than others are to wait for it."""
        item = self._child.executing()
        if item is None or item.index not in self.open:
            return False
        return time.monotonic() - item.started >= self._options.overtake_s

    def overtake(self) -> list[Job]:
        """Leave the child alone with its slow item; return the jobs behind it, to be run elsewhere."""
        item = self._child.executing()
        if item is None:
            return []
        self.overtaken = True
        last = self._child.stop_after(item.index)
        return [self.open.pop(index) for index in sorted(self.open) if index > last]

    def receive(self, frames: Frames) -> Iterator[Done]:
        """Turn frames into results. An unreadable outcome is that item's; anything else is garbage."""
        for kind, body in frames:
            if kind is Kind.END and (self.overtaken or not self.open):
                self._finished = True
                return
            for entry in _entries(body) if kind is Kind.DONE else (None,):
                if entry is None or not 0 <= entry.index < len(self._jobs):
                    self._child.garbled = True
                    return
                if entry.index in self.open:
                    self._child.served += 1
                    yield self._done(self.open.pop(entry.index), entry)
        if frames:
            # The caller may have paused between results: that was not the child's silence.
            self._idle_since = time.monotonic()

    def overhear(self) -> Iterator[Done]:
        """Yield results that wait in the child behind an item that takes long."""
        if self._child.executing() is None or time.monotonic() < self._next_sample:
            return
        frames = self._child.held()
        # Read while the child may write: what does not parse is not garbage, it will come by the pipe.
        if all(_valid(body) for _, body in frames):
            yield from self.receive(frames)

    def trouble(self, cancelled: Collection[str]) -> Trouble | None:
        """Return why the child must be killed now, or ``None``."""
        now = time.monotonic()
        item = self._child.executing()
        job = self.open.get(item.index) if item is not None else None
        ill = self._broken()
        if ill is None and item is not None and job is not None:
            self._idle_since = now
            ill = self._overdue(item, job, cancelled)
        elif ill is None and now - self._idle_since > (self._options.stall_s if self.open else _FAREWELL_S):
            ill = "stalled"
        if ill is None and now >= self._next_sample:
            self._next_sample = now + self._options.sample_s
            ill = self._measured(item, job)
        return None if ill is None else Trouble(ill, item, self._child.sample().cpu_s)

    def bury(self, trouble: Trouble) -> list[Done | Released]:
        """Kill the child, take what it had sent, and close the item that is to blame, if one is.

        Blame needs certainty: a limit or a cancellation counts only against an item that was executing
        both when it was noticed and when the child died; a broken channel only against an item that was
        alone. Everything left in ``open`` goes unblamed and can be run again.
        """
        exit_code = self._child.kill()
        results: list[Done | Released] = list(self.receive(self._child.received()))
        if not self._child.garbled:
            results.extend(self.receive(self._child.held()))
        item = self._culprit(trouble)
        words = self._child.last_words()
        self._child.discard()
        late = ""
        if item is not None and item.index in self.open:
            job = self.open.pop(item.index)
            results.append(self._close(job, item, trouble, exit_code, words))
            if trouble.ill == "time_limit":
                late = f" {1000 * (time.monotonic() - item.started - job.time_s):.0f} ms late"
        log.warning(
            "child of %s ended: %s%s, exit code %d %s", self._info.name, trouble.ill, late, exit_code, words
        )
        return results

    def _broken(self) -> Ill | None:
        if self._child.garbled:
            return "garbled"
        if not self._child.silent:
            return None
        # A child that has closed its pipe gets a moment to end by itself.
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if self._child.gone():
            return "died"
        return "garbled" if now - self._silent_since > _LINGER_S else None

    def _overdue(self, item: Executing, job: Job, cancelled: Collection[str]) -> Ill | None:
        if job.id in cancelled:
            return "cancelled"
        if time.monotonic() - item.started < job.time_s:
            return None
        # Looked at again, because a false verdict on time costs the candidate its score.
        time.sleep(_SECOND_LOOK_S)
        return "time_limit" if self._child.executing() == item else None

    def _measured(self, item: Executing | None, job: Job | None) -> Ill | None:
        if self._child.gone():
            return "died"
        used_mb = self._child.sample().memory_mb
        if item is not None and self._child.executing() == item:
            self._peaks[item.index] = max(used_mb, self._peaks.get(item.index, 0.0))
        return "memory_limit" if job is not None and used_mb > job.memory_mb else None

    def _culprit(self, trouble: Trouble) -> Executing | None:
        executing, last = self._child.executing(), self._child.started_last()
        if trouble.ill == "garbled" or (trouble.ill == "died" and executing is None):
            if len(self._jobs) > 1:
                self.unclear = last is not None
                return None
            return last
        if trouble.ill in ("died", "closing"):
            return executing
        same = trouble.item is not None and executing is not None and trouble.item.index == executing.index
        return executing if same else None

    def _close(
        self, job: Job, item: Executing, trouble: Trouble, exit_code: int, words: str
    ) -> Done | Released:
        cost = Cost(cpu_s=max(0.0, trouble.cpu_s - item.cpu_s))
        wall_s, peak_mb = max(0.0, time.monotonic() - item.started), self._peaks.get(item.index)
        limit: LimitHit | None = None
        outcome: Outcome
        match trouble.ill:
            case "cancelled" | "closing" as note:
                return Released(id=job.id, note=note, cost=cost, wall_s=wall_s, peak_mb=peak_mb)
            case "time_limit" | "memory_limit" as limit:
                outcome = limit_outcome(limit, job, self._info)
            case "garbled":
                outcome = garbled_failure()
            case _:
                outcome = crash_failure(exit_code, words)
        return Done(
            id=job.id,
            outcome=outcome,
            cost=cost,
            wall_s=wall_s,
            libraries=self._ready.libraries,
            version=self._ready.version,
            limit_hit=limit,
            blamed=True,
            peak_mb=peak_mb,
        )

    def _done(self, job: Job, entry: WireDone) -> Done:
        return Done(
            id=job.id,
            outcome=entry.finding or entry.failure or garbled_failure(),
            cost=Cost(cpu_s=entry.cpu_s),
            wall_s=entry.wall_s,
            libraries=self._ready.libraries,
            version=self._ready.version,
            peak_mb=self._peaks.pop(entry.index, None) if self._peaks else None,
        )


def _text(item: CheckInput | str) -> bytes:
    return (item if isinstance(item, str) else item.model_dump_json()).encode()


def _entries(body: bytes) -> Sequence[WireDone | None]:
    try:
        return WIRE_DONES.validate_json(body)
    except ValidationError:
        return tuple(_lenient(body))


def _valid(body: bytes) -> bool:
    return None not in _entries(body)


def _lenient(body: bytes) -> Iterator[WireDone | None]:
    """Entry by entry: an outcome that is not one becomes a failure; ``None`` stands for garbage."""
    try:
        entries = json.loads(body)
    except ValueError:
        yield None
        return
    for entry in entries if isinstance(entries, list) else (None,):
        try:
            yield WireDone.model_validate_json(json.dumps(entry))
        except ValidationError:
            index = entry.get("index") if isinstance(entry, dict) else None
            if not isinstance(index, int):
                yield None
                return
            yield WireDone(index=index, cpu_s=0.0, wall_s=0.0, failure=garbled_failure())
