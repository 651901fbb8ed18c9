"""The sweep: asks the policy, opens and applies reviews, reaps, and finishes what was left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from verifier_service.bootstrap import Service, settlements
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Lead, Transaction
from verifier_service.domain.runs import RunState
from verifier_service.domain.settlements import Due
from verifier_service.services import desk, execute, maintain
from verifier_service.services.maintain import Left
from verifier_service.services.settlements import wait
from verifier_service.worker.learner import Learner

log = logging.getLogger(__name__)

PART = "sweep"
SLOW_TICK_S = 1.0
RARE_TICK_S = 10.0
AWAY_PAUSE_S = 0.5
DECIDING_S = 2.0
SAY_S = 1.0
LONG_S = 0.5
RETRACTING_S = 1.0
SETTLING_S = 1.0
EVENTS_PER_TICK = 256
RUNS_PER_TICK = 64
REVIEWS_PER_TICK = 32
DRAIN_LIMIT = 20
MAX_HOLDING = 100_000


class Sweep:
    """One per database at a time: whoever holds the part ticks, the others stand by. Every step is
    idempotent and commits by itself, so that two at once would do no harm."""

    def __init__(self, service: Service, owner: str) -> None:
        self._service = service
        self._owner = owner
        self._stopping = threading.Event()
        self._slow_due = 0.0
        self._rare_due = 0.0
        self._seen_at: float | None = None
        self._no_reaping_until = 0.0
        self._was_away = False
        self._worked_s = 0.0
        self._rests: dict[tuple[str, str], float] = {}
        self._next: tuple[str, str] | None = None
        self._held_at = 0.0
        self._turn = 0
        self._lead: Lead | None = None
        self._learner = Learner(service)

    def run(self) -> None:
        """Tick until stopped. An error is logged and the next tick tries again."""
        while not self._stopping.wait(self._service.settings.tick_s):
            self._guarded("the tick", self._tick_if_leading)
        if self._lead is not None:
            self._guarded("standing down", self._lead.release)

    def _tick_if_leading(self) -> None:
        self._hold()
        if self._lead is None:
            self._lead = self._service.store.lead(PART)
            self._seen_at = None
        if self._lead is not None:
            self.tick()

    def _hold(self) -> bool:
        """Say that this process lives, and hear whether the part is still its own."""
        if self._lead is not None and not self._lead.holds():
            self._lead = None
        self._held_at = time.monotonic()
        return self._lead is not None

    def stop(self) -> None:
        """End after the running step."""
        self._stopping.set()

    def tick(self) -> None:
        """Decide what is undecided; once a second do everything else."""
        began = time.monotonic()
        with self._service.store.read() as tx:
            undecided = tx.runs.undecided(RUNS_PER_TICK)
            self._notice_sleep(tx.now())
        first = undecided.index(self._next) if self._next in undecided else 0
        for place in (*undecided[first:], *undecided[:first]):
            self._next = place
            if time.monotonic() - began > DECIDING_S:
                break  # it is the first in the next tick, after what is done once a second
            self._guarded(f"deciding {place}", partial(self._decide, *place))
        if time.monotonic() >= self._slow_due:
            self._slow_due = time.monotonic() + SLOW_TICK_S
            self._slow()
        self._worked_s = time.monotonic() - began
        if time.monotonic() >= self._rare_due:
            self._rare_due = time.monotonic() + RARE_TICK_S
            self._rarely()

    def _notice_sleep(self, now: float) -> None:
        """After a laptop's sleep, and when the database was away, every lease looks expired: let the living
        renew theirs first.

        A long tick is no sleep: the time that it worked is left out.
        """
        lease_s = self._service.settings.lease_s
        slept = self._seen_at is not None and now - self._seen_at - self._worked_s > lease_s / 2
        if slept or self._was_away:
            log.info("leases get time to be renewed before any is reaped")
            self._no_reaping_until = now + lease_s
        self._seen_at, self._was_away = now, False

    def _guarded(self, what: str, step: Callable[[], object]) -> None:
        """One step that may fail without stopping the others."""
        try:
            if time.monotonic() - self._held_at > SAY_S:
                self._hold()
            step()
        except Contended:
            log.info("%s was in another's way; it is tried again", what)
        except Unavailable as error:
            log.warning("%s failed; it is tried again: %s", what, error)
            self._was_away = True
            self._stopping.wait(AWAY_PAUSE_S)
        except Exception:
            log.exception("%s failed; it is tried again", what)

    def _decide(self, project: str, run: str) -> None:
        for _ in range(DRAIN_LIMIT):
            if not self._service.decide(project, run):
                return

    def _slow(self) -> None:
        service = self._service
        if (self._seen_at or 0.0) >= self._no_reaping_until:
            self._guarded("reaping", lambda: service.mend(maintain.reap))
        self._guarded("finishing", lambda: service.mend(maintain.unfinished))
        self._guarded("opening reviews", self._open_reviews)
        self._guarded("settling events", self._settle_events)
        self._guarded("applying decisions", lambda: service.mend(self._apply_due))
        self._guarded("deadlines", lambda: service.mend(lambda tx: Left(pks=tuple(desk.expire(tx)))))
        self._guarded("ageing reviews", lambda: service.unit(desk.escalate))
        self._guarded("retracting", self._retract)
        with service.store.read() as tx:
            closing = tx.runs.in_state(RunState.CLOSING)
            holding = tx.runs.holding(MAX_HOLDING)
            ready = tx.checks.ready()
            ended = tx.costs.noted()
        if ended:
            self._guarded("learning costs", service.learn_costs)
        for place in closing:
            self._guarded(f"closing {place}", partial(service.close_step, *place))
        self._rests = {place: self._rests[place] for place in holding if place in self._rests}
        for place in self._in_turn(holding):
            self._revisit(place)
        service.dispatcher.wake(ready)
        self._guarded("learning", self._learner.step)

    def _rarely(self) -> None:
        service = self._service
        self._guarded(
            "asking for new versions",
            lambda: service.mend(lambda tx: maintain.outdated(tx, service.catalog)),
        )
        self._guarded("forgetting workers", lambda: service.mend(maintain.prune_workers))

    def _revisit(self, place: tuple[str, str]) -> None:
        """Look again at what a run holds back. One for which that takes long rests ten times as long: it
        may hold a million."""
        began = time.monotonic()
        if began < self._rests.get(place, 0.0):
            return
        revisit = partial(self._service.decide, *place, revisit_held=True)
        self._guarded(f"revisiting {place}", revisit)
        took = time.monotonic() - began
        if took > LONG_S:
            self._rests[place] = began + 10 * took

    def _retract(self) -> None:
        """Go on with what was taken back, for a share of the time; the oldest first."""
        until = time.monotonic() + RETRACTING_S
        with self._service.store.read() as tx:
            pending = tx.retractions.open(RUNS_PER_TICK)
        for place in pending:
            self._guarded(f"retraction {place}", partial(self._work_off, *place, until))

    def _work_off(self, project: str, retraction: str, until: float) -> None:
        while time.monotonic() < until:
            if not self._service.retract_step(project, retraction):
                return

    def _apply_due(self, tx: Transaction) -> Left:
        return Left(pks=tuple(desk.apply_due(tx, self._service.catalog, self._service.tariff)))

    def _in_turn(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """A bounded number of runs per tick, each run when it is its turn."""
        if len(places) <= RUNS_PER_TICK:
            return list(places)
        start = self._turn % len(places)
        self._turn = start + RUNS_PER_TICK
        return [*places[start:], *places[:start]][:RUNS_PER_TICK]

    def _open_reviews(self) -> None:
        taken = self._service.take(Tier.LAB, REVIEWS_PER_TICK, self._owner)
        if taken.claims:
            catalog = self._service.catalog
            tariff = self._service.tariff
            self._service.mend(lambda tx: Left(pks=tuple(_open(tx, catalog, tariff, self._owner, taken))))

    def _settle_events(self) -> None:
        """Tell checks what became of their events, for a share of the time; the oldest first."""
        until = time.monotonic() + SETTLING_S
        with self._service.store.read() as tx:
            pending = tx.settlements.due(EVENTS_PER_TICK)
        for due in pending:
            self._guarded(f"settling {due.event}", partial(self._tell, due, until))

    def _tell(self, due: Due, until: float) -> None:
        while time.monotonic() < until:
            if not settlements.tell(self._service, due):
                return


def _open(tx: Transaction, catalog: Catalog, tariff: Tariff, owner: str, taken: execute.Taken) -> list[int]:
    """One check that cannot be handed over leaves the others open; its lease expires. Returns trajectories
    whose check has ended instead."""
    touched: list[int] = []
    for claim in taken.claims.values():
        try:
            with tx.savepoint():
                if catalog.verifier(claim.verifier).awaits == "settlement":
                    touched += wait(tx, owner, claim)
                else:
                    desk.open_review(tx, catalog, tariff, owner, claim)
        except (Contended, Unavailable):
            raise
        except Exception:
            log.exception("the review of check %s cannot be opened; the others are", claim.key)
    return touched
