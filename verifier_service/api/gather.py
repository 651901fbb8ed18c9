"""Concurrent submissions share a transaction: one commit, one fsync, for all that came within a window.

A request that breaks the shared transaction does not take the others with it: after a domain error the
requests of its run are tried one by one, each in a savepoint of its own, and after any other error all are,
each in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias, TypeVar

import anyio
import anyio.to_thread

from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Contended, InvalidInput, VerificationError
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services.foresee import NOTHING, Foreseen
from verifier_service.services.intake import Intake

log = logging.getLogger(__name__)

MAX_REQUESTS = 256
MAX_ITEMS = 1_024
OWNER = "intake"
FORESIGHT_S = 2.0
REST_S = 2.0  # after an item that did not end: where there is one there are more, and a child has to start

T = TypeVar("T")
Sight: TypeAlias = Mapping[tuple[str, str], Foreseen]

Item = TrajectorySubmission | InvalidInput


@dataclass(eq=False, slots=True)
class _Request:
    project: str
    run: str
    items: Sequence[Item]
    eager: bool
    future: asyncio.Future[Intake]
    trace: str | None
    submitter: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.project, self.run


class Gatherer:
    """Takes submissions of one event loop and commits them together.

    With ``foresight`` the fast checks of those who wait for their rewards run first, in a child of its own,
    and are committed with their trajectories; meanwhile the submissions before them are committed.
    """

    def __init__(self, service: Service, *, foresight: bool = False) -> None:
        self._service = service
        self._window_s = service.settings.gather_ms / 1000
        self._queue: list[_Request] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._commits: asyncio.Task[None] | None = None
        self._lane: anyio.CapacityLimiter | None = None
        self._harness = service.quick_harness() if foresight else None
        self._rests_until = 0.0

    async def submit(
        self,
        project: str,
        run: str,
        items: Sequence[Item],
        *,
        eager: bool = False,
        submitter: str | None = None,
    ) -> Intake:
        """Store the items and ask for their fast checks; ``eager`` when somebody waits for their rewards,
        ``submitter`` where the key is a person's.

        Raises what ``Service.submit`` raises.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A lane of its own: readers that fill the thread pool cannot keep submissions waiting.
            self._loop, self._task, self._commits = loop, None, None
            self._lane = anyio.CapacityLimiter(2)
        eager = eager and self._harness is not None
        trace = self._service.tracer.current()
        request = _Request(project, run, items, eager, loop.create_future(), trace, submitter)
        self._queue.append(request)
        if self._task is None:
            self._task = loop.create_task(self._drain())
        return await request.future

    def close(self) -> None:
        """End the children; what they were running goes through the queue."""
        if self._harness is not None:
            self._harness.close()

    async def _drain(self) -> None:
        await asyncio.sleep(self._window_s)
        while self._queue:
            if not self._queue[0].eager:
                await self._committed()  # meanwhile more come, and share the next transaction
            together = self._next()
            foreseen = await self._in_lane(self._foresee, together) if together[0].eager else {}
            await self._committed()
            self._commits = asyncio.create_task(self._finish(together, foreseen))
        self._task = None

    async def _committed(self) -> None:
        """Wait for the transaction before: one at a time."""
        if self._commits is not None:
            await self._commits

    async def _finish(self, together: Sequence[_Request], foreseen: Sight) -> None:
        outcomes: Sequence[Intake | Exception]
        try:
            outcomes = await self._in_lane(self._commit, together, foreseen)
        except Exception as error:  # noqa: BLE001 - raised to every request; the next batch must go on
            outcomes = [error] * len(together)
        for request, outcome in zip(together, outcomes, strict=True):
            if request.future.done():
                continue
            if isinstance(outcome, Exception):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)

    async def _in_lane(self, call: Callable[..., T], *args: object) -> T:
        return await anyio.to_thread.run_sync(call, *args, limiter=self._lane)

    def _foresee(self, together: Sequence[_Request]) -> Sight:
        """In a thread: how the fast checks of these requests end, as far as that can be said at once."""
        harness = self._harness
        found: dict[tuple[str, str], Foreseen] = {}
        if harness is None or time.monotonic() < self._rests_until:
            return found
        until = time.monotonic() + FORESIGHT_S
        for (project, run), group in groupby(together, key=lambda request: request.key):
            items = [item for request in group for item in request.items]
            sound = {at: item for at, item in enumerate(items) if isinstance(item, TrajectorySubmission)}
            try:
                seen = self._service.foresee(harness, OWNER, project, run, sound, until)
            except Exception:
                log.exception("the fast checks of a submission are left to the queue")
                continue
            found[project, run] = seen
            if seen.gave_up:
                self._rests_until = time.monotonic() + REST_S
                break
        return found

    def _next(self) -> list[_Request]:
        """The oldest requests, at least one, of one kind and within the limits of one transaction; runs
        side by side."""
        size = 0
        together: list[_Request] = []
        for request in self._queue[:MAX_REQUESTS]:
            size += len(request.items)
            if together and (size > MAX_ITEMS or request.eager is not together[0].eager):
                break
            together.append(request)
        self._queue = self._queue[len(together) :]
        return sorted(together, key=lambda request: request.key)

    def _commit(self, together: Sequence[_Request], foreseen: Sight) -> list[Intake | Exception]:
        """In a thread: one transaction for all, or one for each when that fails."""
        try:
            outcomes = self._service.unit(lambda tx: list(self._in_one(tx, together, foreseen)))
        except Contended as error:
            return [error] * len(together)
        except Exception as error:  # noqa: BLE001 - found again, and logged, by the request that caused it
            log.warning("a shared submission failed and is split: %s", error)
            outcomes = [self._alone(request) for request in together]
        service = self._service
        service.dispatcher.wake({tier for one in outcomes if isinstance(one, Intake) for tier in one.woken})
        for project, run in {request.key for request in together}:
            service.dispatcher.announce(project, run)
        return outcomes

    def _in_one(
        self, tx: Transaction, together: Sequence[_Request], foreseen: Sight
    ) -> Iterator[Intake | Exception]:
        for (project, run), group in groupby(together, key=lambda request: request.key):
            known = foreseen.get((project, run), NOTHING)
            yield from self._of_run(tx, project, run, list(group), known)

    def _of_run(
        self, tx: Transaction, project: str, run: str, group: Sequence[_Request], foreseen: Foreseen
    ) -> list[Intake | Exception]:
        items = [item for request in group for item in request.items]
        traces = [request.trace for request in group for _ in request.items]
        try:
            with tx.savepoint():
                taken = self._service.submit_in(tx, project, run, items, foreseen, traces, **_people(group))
        except Contended:
            raise
        except VerificationError as error:
            if len(group) == 1:
                return [error]
            # Positions of rows are those of the whole group.
            each = replace(foreseen, rows={})
            return [one for request in group for one in self._of_run(tx, project, run, [request], each)]
        return list(_shares(taken, group))

    def _alone(self, request: _Request) -> Intake | Exception:
        try:
            return self._service.submit(
                request.project, request.run, request.items, submitter=request.submitter
            )
        except Exception as error:  # noqa: BLE001 - it is raised to the request that caused it
            return error


def _people(group: Sequence[_Request]) -> dict[str, Sequence[str | None]]:
    """Who submitted each item, where anybody did: nothing is written for programs."""
    if not any(request.submitter for request in group):
        return {}
    return {"submitters": [request.submitter for request in group for _ in request.items]}


def _shares(taken: Intake, group: Sequence[_Request]) -> Iterator[Intake]:
    at = 0
    for request in group:
        results = taken.results[at : at + len(request.items)]
        yield replace(taken, results=results, created={})
        at += len(request.items)
