"""The asyncio client: the same verbs over the same plans."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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
from verifier_service.client.joint import Joint
from verifier_service.client.location import locate
from verifier_service.client.streams import CUT, OPEN, Listening
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import MAX_WAIT_S, Until

POOL = 16

P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    plan: Callable[Concatenate[Session, P], Plan[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A plan as a coroutine method: same parameters, same documentation."""

    @functools.wraps(plan)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.perform(plan(self.session, *args, **kwargs))

    return method


@dataclass(slots=True)
class _Pool:
    """Some of the connections."""

    http: httpx.AsyncClient
    under_way: int = 0


class AsyncClient:
    """A verification service, from an event loop; parameters as for ``Client``.

    Hundreds of concurrent calls share ``connections`` connections and queue for them in this process.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
        *,
        retry_s: float = 60.0,
        connections: int = 256,
    ) -> None:
        location = locate(url, key)
        self.session = Session(url=location.url, retry_s=retry_s)
        self._timeout = timeout
        self._settings = transport.settings(location, min(POOL, connections))
        self._connections = connections
        self._pools: list[_Pool] = []

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

    async def follow(
        self, run: str, *, after: int = 0, idle_s: float | None = None, status: RewardStatus | None = None
    ) -> AsyncIterator[RewardRecord]:
        """As ``Client.follow``."""
        while True:
            wait_s = MAX_WAIT_S if idle_s is None else idle_s
            page = await self.rewards(run, after=after, wait_s=wait_s, status=status)
            for record in page.records:
                yield record
            if not page.records and idle_s is not None:
                return
            after = max(after, page.cursor)

    async def stream(
        self, run: str, *, after: int = 0, status: RewardStatus | None = None
    ) -> AsyncIterator[RewardRecord]:
        """As ``Client.stream``. Left early, ``contextlib.aclosing`` gives its connection back at once."""
        listening = Listening(self.session, run, status, after)
        while not listening.ended:
            pool = self._least_busy()
            pool.under_way += 1
            try:
                settings = transport.request(listening.connect(), self._timeout)
                async with pool.http.stream(**settings) as response:
                    if response.status_code == OPEN:
                        async for chunk in response.aiter_bytes():
                            for record in listening.take(chunk):
                                yield record
                        reply: Answer | Lost = CUT
                    else:
                        await response.aread()
                        reply = transport.answer(response)
            except transport.TROUBLE as error:
                reply = transport.lost(error)
            finally:
                pool.under_way -= 1
            if not listening.ended:
                await asyncio.sleep(listening.broken(reply))

    async def archive(self, run: str, *, references: bool = True) -> AsyncIterator[ArchiveRow]:
        """As ``Client.archive``."""
        asked = transport.request(archives.call(run, references=references), self._timeout)
        reading = Reading(self.session)
        while True:
            pool = self._least_busy()
            pool.under_way += 1
            try:
                async with pool.http.stream(**asked) as response:
                    if response.status_code == OPEN:
                        async for chunk in response.aiter_bytes():
                            for row in reading.take(chunk):
                                yield row
                        reading.finish()
                        return
                    await response.aread()
                    reply: Answer | Lost = transport.answer(response)
            except transport.TROUBLE as error:
                reply = transport.lost(error)
            finally:
                pool.under_way -= 1
            await asyncio.sleep(reading.broken(reply))

    def joint(self, run: str, *, until: Until = "final") -> Joint:
        """A way to submit to one run by which concurrent submissions share requests, see ``Joint``.

        Hundreds of ``submit`` calls for one trajectory each are better made through it.
        """
        return Joint(self, run, until=until)

    async def perform(self, plan: Plan[T]) -> T:
        """Run a plan to its end."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Send):
                reply = await self._send(step)
            else:
                await asyncio.sleep(step.seconds)
                reply = None

    async def _send(self, step: Send) -> Answer | Lost:
        pool = self._least_busy()
        pool.under_way += 1
        try:
            response = await pool.http.request(**transport.request(step.call, self._timeout))
        except transport.TROUBLE as error:
            return transport.lost(error)
        finally:
            pool.under_way -= 1
        return transport.answer(response)

    def _least_busy(self) -> _Pool:
        """httpx walks over a whole pool for every request, so that a large one is slow: several small."""
        found = min(self._pools, key=lambda pool: pool.under_way, default=None)
        if found is not None and found.under_way < POOL:
            return found
        if found is None or len(self._pools) * POOL < self._connections:
            found = _Pool(httpx.AsyncClient(**self._settings))
            self._pools.append(found)
        return found

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
