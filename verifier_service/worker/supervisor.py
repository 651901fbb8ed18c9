"""The threads of a serving process: the workers of a service on one machine, fast apart from slow, and the
sweep. With a broker the workers are processes of their own."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from typing import Protocol

from verifier_service.bootstrap import Service
from verifier_service.domain.digests import digest
from verifier_service.domain.evidence import Tier
from verifier_service.services import maintain
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.markets import MarketPoller
from verifier_service.worker.metering import Metering
from verifier_service.worker.purge import Purger
from verifier_service.worker.roster import Roster
from verifier_service.worker.sweep import Sweep
from verifier_service.worker.webhooks import WebhookSender

log = logging.getLogger(__name__)

OWNER_PREFIX = "embedded/"
STOP_S = 10.0


def installation(service: Service) -> str:
    """Names this data folder on this machine: two services may share one database, and neither may
    take the other's living work for that of its own dead predecessor."""
    return digest("installation", socket.gethostname(), str(service.settings.data.resolve()))[:10]


class Stoppable(Protocol):
    """Something that runs in a thread until it is told to stop."""

    def run(self) -> None: ...
    def stop(self) -> None: ...


class Supervisor:
    """Starts and stops the threads. One supervisor per data folder at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._installation = f"{OWNER_PREFIX}{installation(service)}/"
        self._name = f"{self._installation}{os.getpid()}-{secrets.token_hex(4)}"
        self._parts: list[Stoppable] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the sweep, and the workers unless they run elsewhere; those first take back what a dead
        predecessor held."""
        if self._service.settings.runs_workers:
            self._service.mend(lambda tx: maintain.reclaim(tx, self._installation))
            self._start_workers()
        self._add(Sweep(self._service, f"{self._name}/sweep"), f"{self._name}/sweep")
        self._add(Purger(self._service), f"{self._name}/purge")
        self._add(Metering(self._service), f"{self._name}/metering")
        self._add(WebhookSender(self._service), f"{self._name}/webhooks")
        if self._service.feed.sources:
            self._add(MarketPoller(self._service), f"{self._name}/markets")
        log.info("started %d threads", len(self._threads))

    def _start_workers(self) -> None:
        settings = self._service.settings
        roster = Roster(self._service, refuses=True)
        for tier, count, batch in (
            (Tier.FAST, settings.fast_workers, settings.fast_batch),
            (Tier.SIMULATION, settings.slow_workers, 1),
            (Tier.HIGH_FIDELITY, settings.slow_workers, 1),
        ):
            for index in range(count):
                owner = f"{self._name}/{tier}/{index}"
                tally = roster.enter(owner, tier)
                worker = TierWorker(self._service, tier, owner, batch=batch, count=tally.add)
                tally.alive = self._add(worker, owner).is_alive
        self._add(roster, f"{self._name}/heartbeat")

    def stop(self) -> None:
        """Stop every part; running work is given back without an attempt spent."""
        for part in self._parts:
            part.stop()
        for thread in self._threads:
            thread.join(STOP_S)
        Metering(self._service).flush()

    def _add(self, part: Stoppable, name: str) -> threading.Thread:
        thread = threading.Thread(target=part.run, name=name, daemon=True)
        self._parts.append(part)
        self._threads.append(thread)
        thread.start()
        return thread
