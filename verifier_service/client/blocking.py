"""The blocking client."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from verifier_service.client import (
    archives,
    desk,
    desk_lead,
    hindsight,
    lab,
    markets,
    operating,
    taking_back,
    tenancy,
    trajectories,
    transport,
    webhooks,
)
from verifier_service.client.archives import ArchiveRow, Reading
from verifier_service.client.calls import Answer, Lost
from verifier_service.client.exchange import Plan, Send, Session
from verifier_service.client.location import locate
from verifier_service.client.streams import CUT, OPEN, Listening
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import MAX_WAIT_S

P = ParamSpec("P")
T = TypeVar("T")


def _verb(plan: Callable[Concatenate[Session, P], Plan[T]]) -> Callable[Concatenate[Client, P], T]:
    """A plan as a method: same parameters, same documentation."""

    @functools.wraps(plan)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.perform(plan(self.session, *args, **kwargs))

    return method


class Client:
    """A verification service, from a thread. Safe to share between threads.

    ``url`` and ``key`` default to ``$VERIFIER_URL`` and ``$VERIFIER_API_KEY``, then to the server of
    this machine. ``timeout`` bounds one request without the server's own waiting; ``retry_s`` is how
    long an unreachable or busy server is tried again before ``VerifierUnavailable``.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
        *,
        retry_s: float = 60.0,
        connections: int = 64,
    ) -> None:
        location = locate(url, key)
        self.session = Session(url=location.url, retry_s=retry_s)
        self._timeout = timeout
        self._http = httpx.Client(**transport.settings(location, connections))

    submit = _verb(trajectories.submit)
    query = _verb(trajectories.query)
    rewards = _verb(trajectories.rewards)
    trajectory = _verb(trajectories.trajectory)
    grow = _verb(trajectories.grow)
    cancel = _verb(trajectories.cancel)
    group = _verb(trajectories.group)
    hindsight = _verb(hindsight.hindsight)
    runs = _verb(tenancy.runs)
    run = _verb(tenancy.run)
    put_run = _verb(tenancy.put_run)
    close_run = _verb(tenancy.close_run)
    purge_run = _verb(tenancy.purge_run)
    ladders = _verb(tenancy.ladders)
    ladder = _verb(tenancy.ladder)
    put_ladder = _verb(tenancy.put_ladder)
    verifiers = _verb(tenancy.verifiers)
    workers = _verb(tenancy.workers)
    keys = _verb(tenancy.keys)
    create_key = _verb(tenancy.create_key)
    revoke_key = _verb(tenancy.revoke_key)
    users = _verb(tenancy.users)
    add_user = _verb(tenancy.add_user)
    change_user = _verb(tenancy.change_user)
    reviews = _verb(desk.reviews)
    review = _verb(desk.review)
    claim = _verb(desk.claim)
    decide = _verb(desk.decide)
    release = _verb(desk.release)
    renew = _verb(desk.renew)
    skip = _verb(desk.skip)
    review_queues = _verb(desk_lead.queues)
    review_queue = _verb(desk_lead.queue)
    put_review_queue = _verb(desk_lead.put_queue)
    reassign = _verb(desk_lead.reassign)
    withdraw_reviews = _verb(desk_lead.withdraw_reviews)
    retract_review = _verb(desk_lead.retract_review)
    add_gold = _verb(desk_lead.add_gold)
    gold = _verb(desk_lead.gold)
    retire_gold = _verb(desk_lead.retire_gold)
    agreement = _verb(desk_lead.agreement)
    trail = _verb(desk_lead.trail)
    import_lab_results = _verb(lab.import_lab_results)
    lab_import = _verb(lab.lab_import)
    lab_versions = _verb(lab.lab_versions)
    lab_requests = _verb(lab.lab_requests)
    trajectories = _verb(operating.trajectories)
    distribution = _verb(operating.distribution)
    spending = _verb(operating.spending)
    queues = _verb(operating.queues)
    stuck_checks = _verb(operating.stuck_checks)
    failed_checks = _verb(operating.failed_checks)
    retry_checks = _verb(operating.retry_checks)
    cancel_checks = _verb(operating.cancel_checks)
    cancel_trajectories = _verb(operating.cancel_trajectories)
    settlements = _verb(markets.settlements)
    retract = _verb(taking_back.retract)
    retraction = _verb(taking_back.retraction)
    reverify = _verb(taking_back.reverify)
    retractions = _verb(taking_back.retractions)
    webhook = _verb(webhooks.webhook)
    add_webhook = _verb(webhooks.add_webhook)
    change_webhook = _verb(webhooks.change_webhook)
    remove_webhook = _verb(webhooks.remove_webhook)
    rotate_webhook = _verb(webhooks.rotate_webhook)
    test_webhook = _verb(webhooks.test_webhook)
    deliveries = _verb(webhooks.deliveries)
    replay_webhook = _verb(webhooks.replay_webhook)
    webhooks = _verb(webhooks.webhooks)

    def follow(
        self, run: str, *, after: int = 0, idle_s: float | None = None, status: RewardStatus | None = None
    ) -> Iterator[RewardRecord]:
        """Every record of the run's feed after a cursor, in commit order, as they come.

        To resume, pass the ``seq`` of the last record that was handled. Ends after ``idle_s`` seconds
        without a record; endless without it. Restarts of the server are waited out for ``retry_s``.
        """
        while True:
            wait_s = MAX_WAIT_S if idle_s is None else idle_s
            page = self.rewards(run, after=after, wait_s=wait_s, status=status)
            yield from page.records
            if not page.records and idle_s is not None:
                return
            after = max(after, page.cursor)

    def stream(
        self, run: str, *, after: int = 0, status: RewardStatus | None = None
    ) -> Iterator[RewardRecord]:
        """As ``follow``, over one connection that stays open: server-sent events.

        Ends when the run is closed and all its records have come. A connection that breaks is made again
        from the last record on, for ``retry_s`` seconds; then ``VerifierUnavailable`` is raised.
        """
        listening = Listening(self.session, run, status, after)
        while not listening.ended:
            try:
                with self._http.stream(**transport.request(listening.connect(), self._timeout)) as response:
                    if response.status_code == OPEN:
                        for chunk in response.iter_bytes():
                            yield from listening.take(chunk)
                        reply: Answer | Lost = CUT
                    else:
                        response.read()
                        reply = transport.answer(response)
            except transport.TROUBLE as error:
                reply = transport.lost(error)
            if not listening.ended:
                time.sleep(listening.broken(reply))

    def archive(self, run: str, *, references: bool = True) -> Iterator[ArchiveRow]:
        """Everything that is stored of a closed run, row by row; the first is the head.

        A server that is busy or away is tried again for ``retry_s`` until the archive begins. Raises
        ``VerifierUnavailable`` when the connection breaks later: begin again, what came is not whole.
        References come only to keys with the scope ``gold``.
        """
        asked = transport.request(archives.call(run, references=references), self._timeout)
        reading = Reading(self.session)
        while True:
            try:
                with self._http.stream(**asked) as response:
                    if response.status_code == OPEN:
                        for chunk in response.iter_bytes():
                            yield from reading.take(chunk)
                        reading.finish()
                        return
                    response.read()
                    reply: Answer | Lost = transport.answer(response)
            except transport.TROUBLE as error:
                reply = transport.lost(error)
            time.sleep(reading.broken(reply))

    def perform(self, plan: Plan[T]) -> T:
        """Run a plan to its end."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Send):
                reply = self._send(step)
            else:
                time.sleep(step.seconds)
                reply = None

    def _send(self, step: Send) -> Answer | Lost:
        try:
            return transport.answer(self._http.request(**transport.request(step.call, self._timeout)))
        except transport.TROUBLE as error:
            return transport.lost(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
