"""The sweep: asks the policy, opens and applies reviews, reaps, and finishes what was left."""

from __future__ import annotations

import logging
import threading
import time

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState
from verifier_service.services import desk, execute, maintain
from verifier_service.services.maintain import Left

log = logging.getLogger(__name__)

SLOW_TICK_S = 1.0
RUNS_PER_TICK = 64
REVIEWS_PER_TICK = 32
DRAIN_LIMIT = 20


class Sweep:
    """One per database. Every step is idempotent and commits by itself."""

    def __init__(self, service: Service, owner: str) -> None:
        self._service = service
        self._owner = owner
        self._stopping = threading.Event()
        self._last = time.monotonic()
        self._slow_due = 0.0

    def run(self) -> None:
        """Tick until stopped. An error is logged and the next tick tries again."""
        while not self._stopping.wait(self._service.settings.tick_s):
            try:
                self.tick()
            except Contended:
                continue
            except Exception:
                log.exception("the sweep failed; it goes on at its next tick")

    def stop(self) -> None:
        """End after the running step."""
        self._stopping.set()

    def tick(self) -> None:
        """Decide what is undecided; once a second do everything else."""
        now = time.monotonic()
        slow = now >= self._slow_due
        with self._service.store.read() as tx:
            undecided = set(tx.runs.undecided(RUNS_PER_TICK))
            held = set(tx.runs.holding(RUNS_PER_TICK)) if slow else set()
        for project, run in sorted(undecided | held):
            self._decide(project, run, revisit_held=slow)
        if slow:
            self._slow_due = now + SLOW_TICK_S
            self._slow(slept=now - self._last > self._service.settings.lease_s / 2)
        self._last = now

    def _decide(self, project: str, run: str, *, revisit_held: bool) -> None:
        for _ in range(DRAIN_LIMIT):
            if not self._service.decide(project, run, revisit_held=revisit_held) or revisit_held:
                return

    def _slow(self, *, slept: bool) -> None:
        service = self._service
        # After a laptop's sleep every lease looks expired: let the living renew theirs first.
        if not slept:
            service.mend(maintain.reap)
        service.mend(maintain.unfinished)
        self._open_reviews()
        service.mend(lambda tx: Left(pks=tuple(desk.apply_due(tx, service.catalog, service.tariff))))
        service.mend(lambda tx: Left(pks=tuple(desk.expire(tx))))
        with service.store.read() as tx:
            closing = tx.runs.in_state(RunState.CLOSING)
            ready = tx.checks.ready()
        for project, run in closing:
            service.close_step(project, run)
        service.dispatcher.wake(ready)

    def _open_reviews(self) -> None:
        taken = self._service.take(Tier.LAB, REVIEWS_PER_TICK, self._owner)
        if taken.claims:
            with self._service.store.begin() as tx:
                _open(tx, self._owner, taken)


def _open(tx: Transaction, owner: str, taken: execute.Taken) -> None:
    for claim in taken.claims.values():
        desk.open_review(tx, owner, claim)
