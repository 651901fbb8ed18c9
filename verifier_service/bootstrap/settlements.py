"""Settlements as events: checks are told of them, and what sources answer is stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from verifier_service.bootstrap.steps import Followed, Step
from verifier_service.bootstrap.units import Service
from verifier_service.domain.ports.settlements import Polled
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.settlements import Due, Poll
from verifier_service.services import settle, settlements

LEAST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 3_600.0
MAX_RETRY_AFTER_S = 86_400.0
MOST_DOUBLINGS = 12


def tell(service: Service, due: Due) -> bool:
    """Tell some of the checks that wait for an event; False when none is behind any more."""

    def step(tx: Transaction) -> tuple[bool, Followed]:
        told = settlements.tell(tx, service.catalog, due)
        followed = service.follow(tx, Step(None, told.pks))
        settle.settle(tx, service.beliefs, told.amended, correcting=True)
        settle.settle(tx, service.beliefs, told.closed, closing=True, correcting=True)
        places = {(case.standing.project, case.standing.run) for case in (*told.amended, *told.closed)}
        return told.done, followed._replace(told=followed.told | places)

    done, followed = service.unit(step)
    service.announce(followed)
    return not done


def take_answer(
    service: Service, poll: Poll, answer: Polled, interval_s: float, jitter: Callable[[], float]
) -> None:
    """Store what a source answered about an event, or when to ask it again. Failures double the pause, and
    ``Retry-After`` is waited for; a source that is busy is asked about nothing meanwhile."""

    def work(tx: Transaction) -> None:
        error = answer.error
        if answer.actual is not None:
            error = settlements.polled(tx, poll.project, poll.source, answer.actual)
            if error is None:
                return
        failures = poll.failures + 1 if error is not None else 0
        pause = pause_s(interval_s, failures, answer.retry_after_s) * (1.0 + 0.1 * jitter())
        if answer.busy:
            tx.settlements.pause(poll.source, pause)
        tx.settlements.put_off(poll.pk, pause, failures=failures, error=error)

    service.unit(work)


def pause_s(interval_s: float, failures: int, asked_s: float | None) -> float:
    """Seconds until a source is asked again."""
    doubled = interval_s * 2.0 ** min(max(failures - 1, 0), MOST_DOUBLINGS)
    pause = max(LEAST_PAUSE_S, min(doubled, max(LONGEST_PAUSE_S, interval_s)))
    return max(pause, min(asked_s or 0.0, MAX_RETRY_AFTER_S))


def due_polls(service: Service, limit: int, lease_s: float) -> list[Poll]:
    """Events to ask about now, at most ``limit`` of each source. They are asked about again after
    ``lease_s`` if nothing comes of it."""
    with service.store.read() as tx:
        names = tx.settlements.asking(service.feed.sources)
    found: list[Poll] = []
    for name in names:
        found += service.unit(partial(_claim, name, limit, lease_s))
    return found


def _claim(source: str, limit: int, lease_s: float, tx: Transaction) -> list[Poll]:
    return tx.settlements.claim_polls([source], limit, lease_s)
