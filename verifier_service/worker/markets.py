"""Asks sources what became of events that checks wait for: outside of transactions, in a thread of its own,
so that a slow source holds up nothing else."""

from __future__ import annotations

import logging
import random
import threading

from verifier_service.bootstrap import Service, settlements
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.ports.settlements import Polled
from verifier_service.domain.ports.store import Lead
from verifier_service.domain.settlements import Poll

log = logging.getLogger(__name__)

PART = "markets"
POLL_S = 1.0
EVENTS_AT_ONCE = 16  # of one source
LEASE_S = 300.0  # more than the slowest source may take for as many


class MarketPoller:
    """One per database at a time. What a source answered is stored with the end of its poll, so that a
    process that dies in between asks again, and an event settles once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()
        self._lead: Lead | None = None

    def run(self) -> None:
        """Ask until stopped."""
        while not self._stopping.wait(POLL_S):
            try:
                if self._leads():
                    self.step()
            except (Contended, Unavailable) as error:
                log.warning("sources are asked later: %s", error)
            except Exception:
                log.exception("asking sources failed; it is tried again")
        if self._lead is not None:
            self._lead.release()

    def stop(self) -> None:
        """Ask nothing more."""
        self._stopping.set()

    def step(self) -> int:
        """Ask about some of the events that are due; how many answers were taken."""
        polls = settlements.due_polls(self._service, EVENTS_AT_ONCE, LEASE_S)
        answers = self._service.feed.ask(polls)
        # Those that pause a source come last: nothing of it is put off to a time before that.
        for poll, answer in sorted(zip(polls, answers, strict=True), key=lambda pair: pair[1].busy):
            self._take(poll, answer)
        return len(answers)

    def _take(self, poll: Poll, answer: Polled) -> None:
        interval_s = self._service.feed.sources[poll.source]
        try:
            settlements.take_answer(self._service, poll, answer, interval_s, random.random)
        except Contended:
            log.info("the answer about %s was in another's way; it is asked again", poll.event)

    def _leads(self) -> bool:
        if self._lead is not None and not self._lead.holds():
            self._lead = None
        if self._lead is None:
            self._lead = self._service.store.lead(PART)
        return self._lead is not None
