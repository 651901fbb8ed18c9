"""Concurrent submissions of one event loop travel together.

A trainer that scores each rollout by itself has hundreds of submissions in flight. Sent one by one they
cost a request each; here what comes within a few milliseconds goes as one batch, every item is answered as
soon as its own wait is met, and all that are still waiting are asked about by one request at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from verifier_service.client import batches
from verifier_service.client.batches import Packed, Submission
from verifier_service.client.exchange import deliver_waiting
from verifier_service.client.trajectories import TAKEN, hand_in
from verifier_service.client.waiting import IDS_PER_QUERY, Deadline, newest, query_call
from verifier_service.domain.wire import SubmitResponse, SubmitResult, Until, WaitSpec

if TYPE_CHECKING:
    from verifier_service.client.concurrent import AsyncClient

GATHER_S = 0.005
LINGER_S = 0.02
FIRST_WAIT_S = 5.0  # long enough for the server to judge fast checks before it stores them
NEXT_WAIT_S = 2.0  # how long an item may stand behind a query that began before it had to be asked about
MAX_ITEMS = 256
MAX_HELD = 16  # requests of this many batches may wait on the server; more are handed in without a wait


@dataclass(eq=False, slots=True)
class _Item:
    packed: Packed
    ends: float
    future: asyncio.Future[SubmitResult] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    result: SubmitResult | None = None

    def settle(self) -> None:
        """Answer with what is known."""
        if self.result is not None and not self.future.done():
            self.future.set_result(self.result)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Joint:
    """Submissions to one run, joined. Use it from the event loop in which it was made.

    ``until`` is how far each submission waits; ``gather_s`` how long the first of a batch waits for
    company. An item that cannot be accepted is ``invalid`` in its place and disturbs no other.
    """

    def __init__(
        self, client: AsyncClient, run: str, *, until: Until = "final", gather_s: float = GATHER_S
    ) -> None:
        self._client = client
        self._run = run
        self._until: Until = until
        self._gather_s = gather_s
        self._loop = asyncio.get_running_loop()
        self._queue: list[_Item] = []
        self._pending: dict[str, list[_Item]] = {}
        self._asking = False
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(
        self, trajectories: Iterable[Submission], *, seconds: float = 60.0
    ) -> list[SubmitResult]:
        """Results in the order given, each once its wait is met or ``seconds`` are over.

        Raises what the call raises: ``VerifierUnavailable`` when the server stays away, ``NotAllowed``
        and other refusals of the whole call.
        """
        packed, refused = batches.pack(trajectories)
        ends = self._loop.time() + max(0.0, seconds)
        items = {one.place: _Item(one, ends) for one in packed}
        if items:
            self._enqueue(items.values())
            await asyncio.gather(*(item.future for item in items.values()))
        found = refused | {place: item.future.result() for place, item in items.items()}
        return [found[place] for place in sorted(found)]

    async def close(self) -> None:
        """Give up on what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _enqueue(self, items: Iterable[_Item]) -> None:
        if not self._queue:
            self._loop.call_later(self._gather_s, self._flush)
        self._queue.extend(items)
        if len(self._queue) >= MAX_ITEMS:
            self._flush()

    def _flush(self) -> None:
        """Send what has gathered and whose caller has not gone."""
        waiting = [item for item in self._queue if not item.future.done()]
        self._queue = []
        at = 0
        for piece in batches.chunks([item.packed for item in waiting], MAX_ITEMS):
            self._spawn(self._carry(waiting[at : at + len(piece)]))
            at += len(piece)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, items: Sequence[_Item]) -> None:
        """Hand one batch in and answer what is met; the rest is asked about later."""
        with _failing(items):
            response = await self._hand_in(items)
            now = self._loop.time()
            for item, result in zip(items, response.results, strict=True):
                item.result = result
                met = response.complete if result.met is None else result.met
                if met or result.status not in TAKEN or result.id is None or item.ends <= now:
                    item.settle()
                else:
                    self._pending.setdefault(result.id, []).append(item)
        if self._pending and not self._asking:
            self._asking = True
            self._spawn(self._ask_on())

    async def _hand_in(self, items: Sequence[_Item]) -> SubmitResponse:
        """One request. It waits on the server unless enough others do already."""
        session = self._client.session
        packed = [item.packed for item in items]
        seconds = min(FIRST_WAIT_S, max(item.ends for item in items) - self._loop.time())
        if self._held >= MAX_HELD or seconds <= 0:
            return await self._client.perform(hand_in(session, self._run, packed, None))
        deadline = Deadline(self._until, session.clock() + seconds, LINGER_S)
        self._held += 1
        try:
            return await self._client.perform(hand_in(session, self._run, packed, deadline))
        finally:
            self._held -= 1

    async def _ask_on(self) -> None:
        """Ask about everything that waits, until nothing does."""
        try:
            while self._pending:
                asked = {name: self._pending[name] for name in list(self._pending)[:IDS_PER_QUERY]}
                with _failing([item for items in asked.values() for item in items]) as attempt:
                    await self._ask(asked)
                if attempt.failed:
                    self._forget(asked)
        finally:
            self._asking = False

    async def _ask(self, asked: Mapping[str, Sequence[_Item]]) -> None:
        """One query: whoever is met or out of time is answered, the others go to the end of the line."""
        now = self._loop.time()
        earliest = min(item.ends for items in asked.values() for item in items)
        wait = WaitSpec(
            until=self._until, seconds=max(0.0, min(NEXT_WAIT_S, earliest - now)), linger=LINGER_S
        )
        plan = deliver_waiting(
            self._client.session,
            lambda seconds: query_call(
                self._run, tuple(asked), wait.model_copy(update={"seconds": round(seconds, 3)})
            ),
            wait.seconds,
        )
        answer = await self._client.perform(plan)
        unmet = set(answer.pending if answer.pending is not None else () if answer.complete else asked)
        latest = newest(answer.records)
        now = self._loop.time()
        for name in asked:
            left = []
            for item in self._pending.pop(name):
                if item.result is not None and name in latest:
                    item.result = item.result.model_copy(update={"reward": latest[name]})
                if name in unmet and item.ends > now and not item.future.done():
                    left.append(item)
                else:
                    item.settle()
            if left:
                self._pending[name] = left

    def _forget(self, asked: Iterable[str]) -> None:
        for name in asked:
            self._pending.pop(name, None)


@dataclass(slots=True)
class _Attempt:
    failed: bool = False


@contextmanager
def _failing(items: Iterable[_Item]) -> Iterator[_Attempt]:
    """An error of a shared request is each caller's, and ends nothing else."""
    attempt = _Attempt()
    try:
        yield attempt
    except BaseException as error:
        attempt.failed = True
        for item in items:
            item.fail(error)
        if not isinstance(error, Exception):
            raise
