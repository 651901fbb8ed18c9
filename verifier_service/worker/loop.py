"""One worker: claims checks of one tier, runs them in its harness, reports them as they end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.execution import Job
from verifier_service.domain.workers import Counts, Kind
from verifier_service.services.execute import Taken
from verifier_service.worker.hand import Hand

log = logging.getLogger(__name__)

IDLE_S = 1.0
BATCHES_AHEAD = 2
PAUSE_AFTER_ERROR_S = 1.0
LAST_WORDS_S = 8.0


class TierWorker:
    """Drains one tier until it is stopped. One thread runs it; ``stop`` may come from any.

    With ``only``, it leaves other kinds of checks to workers that can run them; without, what cannot run
    here is refused. ``pulse`` is called whenever the database has answered it, ``count`` whenever attempts
    were reported.
    """

    def __init__(
        self,
        service: Service,
        tier: Tier,
        owner: str,
        *,
        batch: int,
        only: Collection[Kind] | None = None,
        pulse: Callable[[], None] = lambda: None,
        count: Callable[[Counts], None] = lambda _: None,
    ) -> None:
        self._service = service
        self._tier = tier
        self._owner = owner
        self._batch = batch
        self._only = only
        self._pulse = pulse
        self._count = count
        self._harness = service.harness()
        self._stopping = threading.Event()
        self._unheard = False

    def run(self) -> None:
        """Work until stopped. An unexpected error is logged and costs a pause, never the worker."""
        while not self._stopping.is_set():
            try:
                busy = self.drain_once()
            except (Contended, Unavailable) as error:
                log.warning("worker %s asks again: %s", self._owner, error)
                self._stopping.wait(PAUSE_AFTER_ERROR_S)
                busy = True
            except Exception:
                log.exception("worker %s failed on its batch, which is given back", self._owner)
                self._unheard = True
                self._stopping.wait(PAUSE_AFTER_ERROR_S)
                busy = True
            if not busy:
                self._service.dispatcher.wait(self._tier, IDLE_S)
        self._harness.close()

    def stop(self) -> None:
        """Give back what is running and end."""
        self._stopping.set()
        self._harness.close()
        self._service.dispatcher.wake([self._tier])

    def drain_once(self) -> bool:
        """Claim and execute a batch, and what comes up meanwhile; False when nothing was ready."""
        taken = self._take(limit=self._batch)
        self._pulse()
        if taken.jobs:
            self._execute(taken)
        return bool(taken.jobs or taken.ended)

    def _take(self, hand: Hand | None = None, **wanted: Any) -> Taken:
        """Claim; after a claim whose commit may have happened unheard, what it took is given back."""
        if self._unheard:
            held = {} if hand is None else {claim.pk: claim.fence for claim in hand.held().claims.values()}
            self._service.disown(self._owner, held)
            self._unheard = False
        try:
            return self._service.take(self._tier, owner=self._owner, only=self._only, **wanted)
        except Unavailable:
            self._unheard = True
            raise

    def _deliver(self, hand: Hand) -> None:
        """Report what is left. While the database is away it is asked again; a worker that is told to stop
        has a few seconds."""
        stop_at: float | None = None
        while True:
            hand.flush(at_once=True)
            if stop_at is None and self._stopping.is_set():
                stop_at = time.monotonic() + LAST_WORDS_S
            if not hand.unreported or (stop_at is not None and time.monotonic() >= stop_at):
                return
            time.sleep(PAUSE_AFTER_ERROR_S / 2)

    def _execute(self, taken: Taken) -> None:
        hand = Hand(lambda held, results: self._service.report(self._owner, held, results, self._count))
        hand.add(taken)
        supply = Supply()

        def beat() -> None:
            hand.flush()
            try:
                self._service.beat(self._owner, hand.held())
            except (Contended, Unavailable) as error:
                log.warning("leases are renewed later: %s", error)
            else:
                self._pulse()

        def unwanted() -> Collection[str]:
            try:
                return self._service.unwanted(hand.held())
            except Unavailable:
                return ()  # nobody can have cancelled anything either

        def more(enough: frozenset[str]) -> Sequence[Job]:
            hand.flush_if_quiet()
            room = self._batch * (1 + BATCHES_AHEAD) - len(hand)
            woken = self._service.dispatcher.wait(self._tier, 0.0)
            if self._stopping.is_set() or not supply.due(enough, woken=woken, room=room):
                return ()
            limit = min(room, self._batch)
            try:
                added = self._take(hand, limit=limit, without=enough)
            except (Contended, Unavailable):
                return ()  # what runs is worth more than what could be added: it is tried again
            supply.took(full=len(added.jobs) >= limit or bool(added.ended))
            hand.add(added)
            return added.jobs

        # Dear verifiers run one at a time: a check that is claimed early only waits here instead.
        ask = more if self._tier is Tier.FAST else None
        for result in self._harness.run(taken.jobs, unwanted, beat, ask):
            hand.keep(result)
        self._deliver(hand)


class Supply:
    """When it is worth asking the database for more work while some is running."""

    def __init__(self) -> None:
        self._promising = True
        self._enough: frozenset[str] = frozenset()
        self._asked = time.monotonic()

    def due(self, enough: frozenset[str], *, woken: bool, room: int) -> bool:
        """True when there may be something to claim that was not there, or not wanted, before."""
        if woken or self._enough - enough or time.monotonic() - self._asked >= IDLE_S:
            self._promising = True
        self._enough = enough
        return self._promising and room > 0

    def took(self, *, full: bool) -> None:
        """Something was claimed: all there was, unless the claim was full."""
        self._promising = full
        self._asked = time.monotonic()
