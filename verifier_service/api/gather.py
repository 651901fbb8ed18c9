"""Concurrent submissions share a transaction: one commit, one fsync, for all that came within a window.

A request that breaks the shared transaction does not take the others with it: domain errors of one run
roll back to a savepoint, and after any other error every request is tried in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import anyio
import anyio.to_thread

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended, InvalidInput, VerificationError
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services.intake import Intake

log = logging.getLogger(__name__)

MAX_REQUESTS = 256
MAX_ITEMS = 1_024

Item = TrajectorySubmission | InvalidInput


@dataclass(eq=False, slots=True)
class _Request:
    project: str
    run: str
    items: Sequence[Item]
    future: asyncio.Future[Intake]

    @property
    def key(self) -> tuple[str, str]:
        return self.project, self.run


class Gatherer:
    """Takes submissions of one event loop and commits them together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._window_s = service.settings.gather_ms / 1000
        self._queue: list[_Request] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._lane: anyio.CapacityLimiter | None = None

    async def submit(self, project: str, run: str, items: Sequence[Item]) -> Intake:
        """Store the items and ask for their fast checks. Raises what ``Service.submit`` raises."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A lane of its own: readers that fill the thread pool cannot keep submissions waiting.
            self._loop, self._task, self._lane = loop, None, anyio.CapacityLimiter(1)
        request = _Request(project, run, items, loop.create_future())
        self._queue.append(request)
        if self._task is None:
            self._task = loop.create_task(self._drain())
        return await request.future

    async def _drain(self) -> None:
        await asyncio.sleep(self._window_s)
        while self._queue:
            together = self._next()
            outcomes = await anyio.to_thread.run_sync(self._commit, together, limiter=self._lane)
            for request, outcome in zip(together, outcomes, strict=True):
                if request.future.done():
                    continue
                if isinstance(outcome, Exception):
                    request.future.set_exception(outcome)
                else:
                    request.future.set_result(outcome)
        self._task = None

    def _next(self) -> list[_Request]:
        """The oldest requests, at least one, within the limits of one transaction; runs side by side."""
        size = 0
        count = 0
        for request in self._queue[:MAX_REQUESTS]:
            size += len(request.items)
            if count and size > MAX_ITEMS:
                break
            count += 1
        together, self._queue = self._queue[:count], self._queue[count:]
        return sorted(together, key=lambda request: request.key)

    def _commit(self, together: Sequence[_Request]) -> list[Intake | Exception]:
        """In a thread: one transaction for all, or one for each when that fails."""
        try:
            outcomes = self._service.unit(lambda tx: list(self._in_one(tx, together)))
        except Contended as error:
            return [error] * len(together)
        except Exception as error:  # noqa: BLE001 - found again, and logged, by the request that caused it
            log.warning("a shared submission failed and is split: %s", error)
            outcomes = [self._alone(request) for request in together]
        service = self._service
        service.dispatcher.wake([Tier.FAST])
        for project, run in {request.key for request in together}:
            service.dispatcher.announce(project, run)
        return outcomes

    def _in_one(self, tx: Transaction, together: Sequence[_Request]) -> Iterator[Intake | Exception]:
        for (project, run), group in groupby(together, key=lambda request: request.key):
            yield from self._of_run(tx, project, run, list(group))

    def _of_run(
        self, tx: Transaction, project: str, run: str, group: Sequence[_Request]
    ) -> list[Intake | Exception]:
        items = [item for request in group for item in request.items]
        try:
            with tx.savepoint():
                taken = self._service.submit_in(tx, project, run, items)
        except Contended:
            raise
        except VerificationError as error:
            return [error] * len(group)
        return list(_shares(taken, group))

    def _alone(self, request: _Request) -> Intake | Exception:
        try:
            return self._service.submit(request.project, request.run, request.items)
        except Exception as error:  # noqa: BLE001 - it is raised to the request that caused it
            return error


def _shares(taken: Intake, group: Sequence[_Request]) -> Iterator[Intake]:
    at = 0
    for request in group:
        yield Intake(results=taken.results[at : at + len(request.items)], created={}, cursor=taken.cursor)
        at += len(request.items)
