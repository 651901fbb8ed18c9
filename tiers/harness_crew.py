"""The children of one harness: found, started, warmed, retired, within the width of their lanes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from pydantic import ValidationError

from tiers.child_wire import Kind, Ready
from tiers.harness_batch import Batch, Trouble
from tiers.harness_child import Child
from tiers.harness_nursery import Nursery
from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_waiting import Group
from verifier_service.domain.verifiers import VerifierInfo

log = logging.getLogger(__name__)

_SPARE_PAUSE_S = 10.0


class StartFailed(Exception):
    """No child could be made ready for a verifier; the message says why."""


class Seat:
    """One child and what it is doing: at most one of ``loading`` and ``batch``.

    ``infos`` are the verifiers that are warm in it, ``refused`` those that are not to be had. ``trouble``
    is set once it has been killed and its end is awaited; ``aside`` while it is left alone with a slow
    item.
    """

    def __init__(self, lane: Lane, child: Child) -> None:
        self.lane = lane
        self.child = child
        self.infos: dict[str, VerifierInfo] = {}
        self.refused: set[str] = set()
        self.loading: VerifierInfo | None = None
        self.load_until = 0.0
        self.look_at = 0.0
        self.group: Group | None = None
        self.batch: Batch | None = None
        self.trouble: Trouble | None = None
        self.aside = False
        self.results = 0

    def idle(self) -> bool:
        """True when it can take work."""
        return self.loading is None and self.batch is None


class Crew:
    """Seats by lane. One thread uses it at a time; ``close`` may come from any other."""

    def __init__(self, options: HarnessOptions) -> None:
        self.closing = False
        self._no_spare_before = 0.0
        self._options = options
        self._seats: list[Seat] = []
        self._lock = threading.RLock()
        self._nursery = Nursery(options)

    def seats(self, lane: Lane | None = None) -> list[Seat]:
        """The seats of a lane, or all, the oldest first."""
        return [seat for seat in self._seats if lane is None or seat.lane.name == lane.name]

    def start(self, lane: Lane) -> Seat:
        """Start a child: a warm copy where there is a template. Raises ``StartFailed``."""
        with self._lock:
            if self.closing:
                raise StartFailed("the harness is closing")
            seat = self._copied(lane) or self._spawned(lane)
            self._seats.append(seat)
            return seat

    def _copied(self, lane: Lane) -> Seat | None:
        template = self._nursery.template(lane)
        if template is None or not template.loaded:
            return None
        try:
            seat = Seat(lane, Child(lane, self._options, template))
        except OSError as error:
            self._nursery.failed(lane, error)
            return None
        known = self._nursery.known(lane)
        seat.infos = {name: known[name] for name in template.loaded}
        seat.child.set_base()
        return seat

    def _spawned(self, lane: Lane) -> Seat:
        try:
            return Seat(lane, Child(lane, self._options))
        except OSError as error:
            raise StartFailed(f"no process could be started: {error}") from error

    def free(self, seats: Sequence[Seat], verifier: str) -> Seat | None:
        """An idle child that may be asked to warm a verifier; one that refused it only if none has it."""
        idle = [seat for seat in seats if seat.idle()]
        willing = [seat for seat in idle if verifier not in seat.refused]
        if any(verifier in seat.infos for seat in seats):
            return next(iter(willing), None)
        return next(iter(willing or idle), None)

    def discard(self, seat: Seat) -> None:
        """Kill a seat's child, and forget both."""
        with self._lock:
            if seat in self._seats:
                self._seats.remove(seat)
            seat.child.discard()

    def discard_idle_dead(self, lane: Lane) -> None:
        """Forget children that died while they had nothing to do."""
        for seat in self.seats(lane):
            if seat.idle() and seat.child.gone():
                self.discard(seat)

    def retire_if_worn(self, seat: Seat) -> None:
        """Replace a child that has served long, has grown, or has left a process behind."""
        options, child = self._options, seat.child
        grown = child.growth_mb(options.weigh_s)
        if child.served >= options.recycle_items or grown > options.recycle_growth_mb or not child.alone():
            self.discard(seat)

    def load(self, seat: Seat, info: VerifierInfo) -> None:
        """Ask an idle child to warm a verifier; ``loaded`` tells when it has."""
        seat.loading = info
        seat.load_until = time.monotonic() + self._options.start_s
        seat.child.send(Kind.LOAD, info.name.encode())

    def loaded(self, seat: Seat) -> bool:
        """Look whether the verifier is warm. Raises ``StartFailed``; a broken child is then discarded."""
        info = seat.loading
        if info is None:
            return True
        try:
            answered = self._answer(seat, info)
        except StartFailed:
            seat.refused.add(info.name)
            if seat.loading is not None:
                self.discard(seat)
            raise
        if answered:
            seat.loading = None
            seat.infos[info.name] = info
            self._nursery.learn(seat.lane, info)
            seat.child.set_base()
        return answered

    def _answer(self, seat: Seat, info: VerifierInfo) -> bool:
        child, now = seat.child, time.monotonic()
        for kind, body in child.move():
            if kind is Kind.REFUSED:
                seat.loading = None
                raise StartFailed(f"{info.name}: {body.decode('utf-8', 'replace')}")
            if kind is Kind.READY:
                child.loaded[info.name] = _checked(body, info)
                return True
            child.garbled = True
        if child.garbled:
            raise StartFailed(f"{info.name}: the child's output was not the protocol")
        if child.silent or (now >= seat.look_at and child.gone()):
            code = child.kill()
            raise StartFailed(f"{info.name}: the child ended with {code}: {child.last_words()[-300:]}")
        if now >= seat.load_until:
            raise StartFailed(f"{info.name}: not ready after {self._options.start_s:g} s")
        seat.look_at = now + self._options.sample_s
        return False

    def end_run(self) -> None:
        """Kill every child that has jobs; the others stay warm, unless the harness is closing."""
        for seat in self.seats():
            if seat.batch is not None or self.closing:
                self.discard(seat)

    def close(self, *, running: bool) -> None:
        """Start nothing any more and kill everything; a run that goes on discards what it used."""
        with self._lock:
            self.closing = True
            self._nursery.close()
            for seat in self._seats:
                seat.child.kill()
            if not running:
                for seat in self._seats:
                    seat.child.discard()
                self._seats.clear()

    def keep_spares(self) -> None:
        """Bring the lanes on by one step towards their spares: warm children beyond the one that works.

        Nothing is started before a lane has shown by a first result that it is in use.
        """
        lanes = {seat.lane.name: seat.lane for seat in self._seats if seat.lane.spares}
        for lane in lanes.values():
            seats = self.seats(lane)
            if any(seat.loading is not None for seat in seats) or not any(s.child.served for s in seats):
                continue
            try:
                with self._lock:
                    self._keep_spares(lane, seats)
            except StartFailed as error:
                self.spare_failed(error)

    def _keep_spares(self, lane: Lane, seats: Sequence[Seat]) -> None:
        template = self._nursery.template(lane)
        known = self._nursery.known(lane)
        fresh = [seat for seat in seats if not seat.aside]
        if template is None and not self._nursery.hopeless(lane):
            return
        if len(fresh) <= lane.spares:
            if len(seats) < lane.width and time.monotonic() >= self._no_spare_before:
                seat = self.start(lane)
                if not seat.infos:
                    self.load(seat, next(iter(known.values())))
            return
        for seat in reversed(fresh):
            missing = [name for name in known if name not in seat.infos and name not in seat.refused]
            if missing and seat.idle() and not seat.child.gone():
                if template is not None and not seat.child.served:
                    self.discard(seat)
                else:
                    self.load(seat, known[missing[0]])
                return

    def spare_failed(self, error: StartFailed) -> None:
        """A spare could not be made: not an error of any job, and not to be tried again at once."""
        log.warning("no spare process: %s", error)
        self._no_spare_before = time.monotonic() + _SPARE_PAUSE_S


def _checked(body: bytes, info: VerifierInfo) -> Ready:
    try:
        ready = Ready.model_validate_json(body)
    except ValidationError as error:
        raise StartFailed(f"{info.name}: the child's output was not the protocol") from error
    if ready.verifier != info.name or ready.version != info.version:
        found = f"{ready.verifier} {ready.version}"
        raise StartFailed(f"the child loaded {found} instead of {info.name} {info.version}: restart")
    return ready
