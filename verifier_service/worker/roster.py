"""The workers of one process: what they say of themselves, and the thread that says that they live."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.catalog import VerifierListing
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.resources import Offer, lacking
from verifier_service.domain.workers import Counts, VerifierHere, WorkerCard
from verifier_service.worker.machine import offer

log = logging.getLogger(__name__)

OURS = "verifier-service"


@dataclass(eq=False)
class Tally:
    """What one worker has done since it started. Its own thread counts, the heartbeat reads."""

    card: WorkerCard
    counts: Counts = field(default_factory=Counts)
    alive: Callable[[], bool] = lambda: True

    def add(self, counts: Counts) -> None:
        """Count reported attempts."""
        self.counts = self.counts.plus(counts)


class Roster:
    """Cards of workers, and their heartbeats: one thread per process, apart from those that work, so that
    one that is busy for hours is seen to live as well as one that is idle."""

    def __init__(self, service: Service, *, refuses: bool) -> None:
        self._service = service
        self._refuses = refuses
        self._offer = offer(service.settings)
        self._listings = tuple(service.catalog.list())
        self._tallies: list[Tally] = []
        self._stopping = threading.Event()

    def enter(self, id: str, tier: Tier) -> Tally:
        """Make the card of a worker; from the next heartbeat on it is seen."""
        here = [one for one in self._listings if one.info.tier is tier and not one.info.external]
        card = WorkerCard(
            id=id,
            host=socket.gethostname(),
            pid=os.getpid(),
            tier=tier,
            resources=self._offer,
            verifiers=tuple(_here(one, self._offer) for one in here),
            refuses=self._refuses,
            beat_s=self._service.settings.heartbeat_s,
            packages=_packages(here),
        )
        tally = Tally(card)
        self._tallies.append(tally)
        return tally

    def run(self) -> None:
        """Beat until stopped, and then say goodbye. What the database does not take is said again."""
        self._beat()
        while not self._stopping.wait(self._service.settings.heartbeat_s):
            self._beat()
        self._say(self._leave)

    def stop(self) -> None:
        """End after the running beat."""
        self._stopping.set()

    def _beat(self) -> None:
        living = [(tally.card, tally.counts) for tally in self._tallies if tally.alive()]
        self._say(lambda: self._service.unit(lambda tx: tx.workers.beat(living)))

    def _leave(self) -> None:
        last = [(tally.card, tally.counts) for tally in self._tallies]

        def step(tx: Transaction) -> None:
            tx.workers.beat(last)
            tx.workers.leave([card.id for card, _ in last])

        self._service.unit(step)

    def _say(self, step: Callable[[], object]) -> None:
        try:
            step()
        except (Contended, Unavailable) as error:
            log.warning("the heartbeat is late: %s", error)
        except Exception:
            log.exception("the heartbeat failed; the next one tries again")


def _here(listing: VerifierListing, offered: Offer) -> VerifierHere:
    info = listing.info
    missing = listing.unavailable or lacking(info.needs, info.limits.memory_mb, offered)
    return VerifierHere(name=info.name, version=info.version, lacking=missing, libraries=listing.libraries)


def _packages(listings: Iterable[VerifierListing]) -> dict[str, str]:
    """Versions of what decides how this worker judges."""
    found = {name: one for listing in listings for name, one in listing.libraries.items()}
    return {"python": sys.version.split()[0], OURS: _installed(OURS), **dict(sorted(found.items()))}


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def tiers_told(tallies: Collection[Tally]) -> str:
    """For the log: how many verifiers each tier's workers run, and what keeps them from others."""
    cards = {tally.card.tier: tally.card for tally in tallies}
    return "; ".join(
        f"{tier} with {len(card.runs())} verifiers"
        + "".join(f", without {one.name} ({one.lacking})" for one in card.verifiers if one.lacking)
        for tier, card in cards.items()
    )
