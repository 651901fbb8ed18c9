"""Wakes and announcements between processes, over Celery's broker.

A Celery message says "this tier has work" and nothing else: the database is the queue of record, so that a
lost message costs at most a worker's idle poll, and a repeated one nothing. Announcements ("this run has
news") go to every process by a fanout exchange of the same broker. Nothing here waits for the broker: both
are handed to a thread that drops what it cannot send.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from celery import Celery
from kombu import Connection, Consumer, Exchange, Message, Queue
from kombu.exceptions import OperationalError
from kombu.mixins import ConsumerMixin

from verifier_service.dispatch.embedded import EmbeddedDispatcher
from verifier_service.domain.evidence import WORKED_TIERS, Tier

log = logging.getLogger(__name__)

WAKE_TASK = "verifier.wake"
PREFIX = "verifier:"
WAKE_EVERY_S = 0.02  # at most so many wakes of one tier are sent by one process
WAKE_EXPIRES_S = 2.0  # and none is worth more than a worker's own poll
SEND_TIMEOUT_S = 5
QUIET_AFTER_FAILURE_S = 1.0
NEWS = Exchange("verifier.news", type="fanout", durable=False, delivery_mode="transient")


def queue_of(tier: Tier) -> str:
    """The name of a tier's queue, as ``celery worker -Q`` takes it."""
    return tier.value


def tier_of(queue: str) -> Tier | None:
    """The tier whose queue this is."""
    return next((tier for tier in WORKED_TIERS if queue_of(tier) == queue), None)


def celery_app(broker_url: str) -> Celery:
    """The Celery application: one queue per tier, acknowledged early, no results.

    Options as measured for Redis: the lease redelivers work, not the broker.
    """
    app = Celery("verifier", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        result_backend=None,
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        task_serializer="json",
        accept_content=["json"],
        task_queues=[Queue(queue_of(tier)) for tier in WORKED_TIERS],
        task_default_queue=queue_of(Tier.FAST),
        task_create_missing_queues=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_transport_options=_transport(broker_url),
    )
    return app


def _transport(broker_url: str) -> dict[str, Any]:
    if not broker_url.startswith(("redis", "valkey")):
        return {}
    return {
        "visibility_timeout": 3_600,
        "socket_timeout": 30,
        "socket_connect_timeout": SEND_TIMEOUT_S,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "global_keyprefix": PREFIX,
    }


class CeleryDispatcher:
    """``Dispatcher`` between processes. ``deliver`` is called by the worker when a wake has come."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._here = EmbeddedDispatcher()
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._outbox = _Outbox(app, self._name)
        self._listener: _Listener | None = None
        self._starting = threading.Lock()

    def wake(self, tiers: Collection[Tier]) -> None:
        """Hand wakes to the sending thread; tiers on which people work are not woken."""
        self._outbox.wake([tier for tier in tiers if tier in WORKED_TIERS])

    def deliver(self, tier: Tier) -> None:
        """A wake has come from the broker: pass it on to the worker of this process."""
        self._here.wake([tier])

    def wait(self, tier: Tier, timeout_s: float) -> bool:
        """As ``EmbeddedDispatcher.wait``."""
        return self._here.wait(tier, timeout_s)

    def announce(self, project: str, run: str) -> None:
        """Tell this process at once, and the others through the broker."""
        self._here.announce(project, run)
        self._outbox.announce(project, run)

    def subscribe(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Hear announcements of this and, as long as the broker is there, of other processes."""
        with self._starting:
            if self._listener is None:
                self._listener = _Listener(self._app.connection_for_read(), self._name, self._here.announce)
                self._listener.start()
        return self._here.subscribe(listener)

    def close(self) -> None:
        """End the threads."""
        self._outbox.close()
        with self._starting:
            if self._listener is not None:
                self._listener.stop()


class _Outbox:
    """Sends what was handed in, repeated hints once; drops it when the broker is away."""

    def __init__(self, app: Celery, name: str) -> None:
        self._app = app
        self._name = name
        self._tiers: set[Tier] = set()
        self._news: set[tuple[str, str]] = set()
        self._sent: dict[Tier, float] = {}
        self._something = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def wake(self, tiers: Collection[Tier]) -> None:
        self._put(self._tiers, tiers)

    def announce(self, project: str, run: str) -> None:
        self._put(self._news, [(project, run)])

    def close(self) -> None:
        with self._something:
            self._closed = True
            self._something.notify()
        if self._thread is not None:
            self._thread.join(SEND_TIMEOUT_S)

    def _put(self, pending: set[Any], items: Collection[Any]) -> None:
        if not items:
            return
        with self._something:
            pending.update(items)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="verifier-outbox", daemon=True)
                self._thread.start()
            self._something.notify()

    def _run(self) -> None:
        while not self._closed:
            try:
                with self._app.connection_for_write() as connection:
                    connection.ensure_connection(max_retries=1, timeout=SEND_TIMEOUT_S)
                    self._send_on(connection)
            except (OperationalError, OSError) as error:
                log.warning("the broker is away, workers poll meanwhile: %s", error)
                time.sleep(QUIET_AFTER_FAILURE_S)

    def _send_on(self, connection: Connection) -> None:
        with connection.Producer(serializer="json") as producer:
            while not self._closed:
                tiers, news = self._take()
                for tier in tiers:
                    self._app.send_task(
                        WAKE_TASK,
                        args=(tier.value,),
                        queue=queue_of(tier),
                        producer=producer,
                        expires=WAKE_EXPIRES_S,
                        retry=False,
                    )
                if news:
                    told = {"from": self._name, "runs": sorted(news)}
                    producer.publish(told, exchange=NEWS, routing_key="", declare=[NEWS], retry=False)

    def _take(self) -> tuple[set[Tier], set[tuple[str, str]]]:
        """What is due now: a tier that was woken a moment ago is woken again a moment later."""
        with self._something:
            while not self._closed:
                now = time.monotonic()
                due = {tier for tier in self._tiers if now - self._sent.get(tier, 0.0) >= WAKE_EVERY_S}
                if due or self._news:
                    break
                self._something.wait(WAKE_EVERY_S if self._tiers else None)
            self._tiers -= due
            self._sent.update(dict.fromkeys(due, now))
            news, self._news = self._news, set()
            return due, news


class _Listener(ConsumerMixin):  # type: ignore[misc]
    """Hears the news of other processes; reconnects by itself."""

    connect_max_retries = None

    def __init__(self, connection: Connection, name: str, announce: Callable[[str, str], None]) -> None:
        self.connection = connection
        self._name = name
        self._announce = announce
        self._thread = threading.Thread(target=self.run, name="verifier-news", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.should_stop = True
        self._thread.join(SEND_TIMEOUT_S)

    def get_consumers(self, consumer: type[Consumer], channel: Any) -> list[Consumer]:
        """A queue of this process alone, gone with it."""
        queue = Queue("", NEWS, exclusive=True, auto_delete=True, durable=False, channel=channel)
        return [consumer([queue], callbacks=[self._heard], no_ack=True, accept=["json"])]

    def _heard(self, body: Any, message: Message) -> None:
        del message
        try:
            if body["from"] == self._name:
                return
            runs = [(str(project), str(run)) for project, run in body["runs"]]
        except (TypeError, KeyError, ValueError):
            log.warning("the broker delivered news that are none")
            return
        for project, run in runs:
            self._announce(project, run)

    def on_connection_error(self, exc: BaseException, interval: float) -> None:
        """Waiters fall back on their poll."""
        log.warning("no news of other processes for %.0f s: %s", interval, exc)
