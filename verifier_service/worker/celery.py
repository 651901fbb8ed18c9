"""A Celery worker of one tier, or of several: ``celery -A verifier_service.worker.celery worker -Q fast``.

A message only wakes it: the thread that drains a tier claims from the database, polls it when no message
comes, and keeps the warm children of its verifiers. It therefore has to live in the worker's own process,
with Celery's thread pool.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from typing import Any

from celery import Celery, signals
from celery.concurrency.thread import TaskPool
from celery.exceptions import WorkerTerminate

from verifier_service import bootstrap
from verifier_service.bootstrap import Service
from verifier_service.dispatch.celery import WAKE_TASK, CeleryDispatcher, celery_app, tier_of
from verifier_service.domain.evidence import Tier
from verifier_service.observability import configure_logging
from verifier_service.settings import Settings
from verifier_service.worker.ending import end_within
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.metering import Metering
from verifier_service.worker.pulse import Pulse, forget
from verifier_service.worker.roster import Roster, tiers_told
from verifier_service.worker.supervisor import Stoppable

log = logging.getLogger(__name__)

STOP_S = 10.0
NO_BROKER = "a worker needs VERIFIER_BROKER_URL, for instance redis://127.0.0.1:6379/0"
WRONG_POOL = "a worker keeps its verifiers in its own process: start it with -P threads"
NO_TIER = "this worker serves no tier: name queues with -Q, for instance -Q fast"


class CannotWork(RuntimeError):
    """The worker cannot start like this, in words for its operator."""


class Crew:
    """The threads that drain this worker's tiers."""

    def __init__(self, settings: Settings, dispatcher: CeleryDispatcher) -> None:
        self._settings = settings
        self._dispatcher = dispatcher
        self._name = f"{socket.gethostname()}/{os.getpid()}-{secrets.token_hex(4)}"
        self._service: Service | None = None
        self._parts: list[Stoppable] = []
        self._threads: list[threading.Thread] = []

    def start(self, tiers: list[Tier]) -> None:
        """Join the parts and drain these tiers. Raises ``CannotWork``."""
        if not tiers:
            raise CannotWork(NO_TIER)
        service = bootstrap.build(self._settings, self._dispatcher)
        self._service = service
        roster = Roster(service, refuses=False)
        forget(self._settings.data)
        tallies = []
        for tier in tiers:
            fast = tier is Tier.FAST
            count = self._settings.fast_workers if fast else self._settings.slow_workers
            for index in range(count):
                owner = f"{self._name}/{tier}/{index}"
                batch = self._settings.fast_batch if fast else 1
                pulse = Pulse(self._settings.data, f"{tier}/{index}")
                tally = roster.enter(owner, tier)
                worker = TierWorker(
                    service,
                    tier,
                    owner,
                    batch=batch,
                    only=tally.card.runs(),
                    pulse=pulse.beat,
                    count=tally.add,
                )
                tally.alive = self._begin(worker, owner).is_alive
                tallies.append(tally)
        self._begin(roster, f"{self._name}/heartbeat")
        self._begin(Metering(service), f"{self._name}/metering")
        log.info("draining %s", tiers_told(tallies))

    def _begin(self, part: Stoppable, name: str) -> threading.Thread:
        thread = threading.Thread(target=part.run, name=name, daemon=True)
        self._parts.append(part)
        self._threads.append(thread)
        thread.start()
        return thread

    def stop(self) -> None:
        """Give running work back without an attempt spent, and end."""
        end_within()
        for part in self._parts:
            part.stop()
        for thread in self._threads:
            thread.join(STOP_S)
        self._dispatcher.close()
        if self._service is not None:
            Metering(self._service).flush()
            self._service.tracer.close()
            self._service.store.close()


def _application() -> Celery:
    settings = Settings()
    if settings.broker_url is None:
        raise CannotWork(NO_BROKER)
    app = celery_app(settings.broker_url)
    app.conf.worker_pool = "threads"
    app.conf.worker_concurrency = 1
    dispatcher = CeleryDispatcher(app)
    crew = Crew(settings, dispatcher)

    @app.task(name=WAKE_TASK, ignore_result=True)  # type: ignore[untyped-decorator]
    def wake(tier: str) -> None:
        dispatcher.deliver(Tier(tier))

    @signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
    def set_up_logging(**_: Any) -> None:
        configure_logging(settings.log_level, as_json=settings.log_json)
        for talkative in ("celery.worker.strategy", "celery.app.trace", "celery.worker.request"):
            logging.getLogger(talkative).setLevel("WARNING")  # a wake is no news

    @signals.worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def begin(sender: Any, **_: Any) -> None:
        queues = sender.app.amqp.queues.consume_from
        try:
            if not isinstance(sender.pool, TaskPool):
                raise CannotWork(WRONG_POOL)
            crew.start(sorted({tier for name in queues if (tier := tier_of(name)) is not None}))
        except Exception:
            log.exception("the worker cannot start")
            raise WorkerTerminate(1) from None  # Celery would go on without us

    @signals.worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def end(**_: Any) -> None:
        crew.stop()

    return app


app = _application()
