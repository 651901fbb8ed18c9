"""Concurrent submissions of one event loop travel together.

A trainer that scores each rollout by itself has hundreds of submissions in flight. Sent one by one they
cost a request each; here what comes within a few milliseconds goes as one batch, every item is answered as
soon as its own wait is met, and all that are still waiting are asked about together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from verifier_service.client import batches
from verifier_service.client.batches import Packed, Submission
from verifier_service.client.calls import Call
from verifier_service.client.errors import VerifierError, VerifierUnavailable
from verifier_service.client.exchange import deliver_waiting
from verifier_service.client.trajectories import TAKEN, hand_in
from verifier_service.client.waiting import (
    EARLIEST_ANSWER_S,
    IDS_PER_QUERY,
    Deadline,
    newest,
    query_call,
)
from verifier_service.domain.wire import RewardsAnswer, SubmitResponse, SubmitResult, Until

if TYPE_CHECKING:
    from verifier_service.client.concurrent import AsyncClient

GATHER_S = 0.005
LINGER_S = 0.02
FIRST_WAIT_S = 5.0  # long enough for the server to judge fast checks before it stores them
NEXT_WAIT_S = 2.0  # how long an item may stand behind a query that began before it had to be asked about
MAX_ITEMS = 256
MAX_HELD = 16  # requests of this many batches may wait on the server; more are handed in without a wait

Outcome: TypeAlias = SubmitResult | VerifierError


@dataclass(eq=False, slots=True)
class _Item:
    packed: Packed
    ends: float
    future: asyncio.Future[Outcome] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    result: SubmitResult | None = None

    def settle(self, error: VerifierError | None = None) -> None:
        """Answer with the error, or with what is known."""
        outcome = error or self.result
        if outcome is not None and not self.future.done():
            self.future.set_result(outcome)


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
        self._away_since: float | None = None
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(
        self, trajectories: Iterable[Submission], *, seconds: float = 60.0
    ) -> list[SubmitResult]:
        """Results in the order given, each once its wait is met or ``seconds`` are over.

        Raises what the calls raise: ``VerifierUnavailable`` when the server stays away, ``NotAllowed`` and
        other refusals of a whole call.
        """
        results = []
        for outcome in await self.outcomes(trajectories, seconds=seconds):
            if isinstance(outcome, VerifierError):
                raise outcome
            results.append(outcome)
        return results

    async def outcomes(self, trajectories: Iterable[Submission], *, seconds: float = 60.0) -> list[Outcome]:
        """As ``submit``, with the error in the place of each item whose request failed."""
        packed, refused = batches.pack(trajectories)
        ends = self._loop.time() + max(0.0, seconds)
        items = {one.place: _Item(one, ends) for one in packed}
        if items:
            self._enqueue(items.values())
            await asyncio.gather(*(item.future for item in items.values()))
        found: dict[int, Outcome] = {**refused, **{at: item.future.result() for at, item in items.items()}}
        return [found[place] for place in sorted(found)]

    async def close(self) -> None:
        """Give up on what is under way: its callers are cancelled."""
        left = [item for items in self._pending.values() for item in items] + self._queue
        self._queue, self._pending = [], {}
        for item in left:
            item.future.cancel()
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
        try:
            response = await self._hand_in(items)
        except VerifierError as error:
            for item in items:
                item.settle(error)
            return
        except BaseException:
            _abandon(items)
            raise
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
        """Ask about everything that waits, until nothing does; in no tight loop where a server answers at
        once although nothing has come."""
        try:
            while self._pending:
                began = self._loop.time()
                names = list(self._pending)
                pieces = [names[at : at + IDS_PER_QUERY] for at in range(0, len(names), IDS_PER_QUERY)]
                progress = await asyncio.gather(*(self._ask(piece) for piece in pieces))
                early = EARLIEST_ANSWER_S - (self._loop.time() - began)
                if self._pending and not any(progress) and early > 0:
                    await asyncio.sleep(min(early, max(0.0, self._earliest_end() - self._loop.time())))
        except BaseException:
            pending, self._pending = self._pending, {}
            _abandon([item for items in pending.values() for item in items])
            raise
        finally:
            self._asking = False

    async def _ask(self, names: Sequence[str]) -> bool:
        """One query: whoever is met or out of time is answered. Whether anybody was."""
        session, now = self._client.session, self._loop.time()
        left = max(0.0, min(item.ends for name in names for item in self._pending[name]) - now)
        deadline = Deadline(self._until, session.clock() + left, LINGER_S)

        def call(seconds: float) -> Call[RewardsAnswer]:
            return query_call(self._run, names, deadline.spec(seconds))

        plan = deliver_waiting(session, call, min(NEXT_WAIT_S, left), until=deadline.ends)
        try:
            answer = await self._client.perform(plan)
        except VerifierUnavailable as error:
            return self._go_without(names, error)
        except VerifierError as error:
            self._release(names, error)
            return True
        self._away_since = None
        unmet = set(answer.pending if answer.pending is not None else () if answer.complete else names)
        latest = newest(answer.records)
        for name in names:
            for item in self._pending[name]:
                if item.result is not None and name in latest:
                    item.result = item.result.model_copy(update={"reward": latest[name]})
        done = self._release([name for name in names if name not in unmet])
        return self._release_ended(list(unmet.intersection(names))) or done

    def _go_without(self, names: Sequence[str], error: VerifierUnavailable) -> bool:
        """The server is away: who is out of time is answered with what is known, and all are told once it
        has been away for as long as it is tried again."""
        now = self._loop.time()
        self._away_since = self._away_since if self._away_since is not None else now - error.waited_s
        if now - self._away_since >= self._client.session.retry_s:
            return self._release(names, error)
        return self._release_ended(names)

    def _release_ended(self, names: Sequence[str]) -> bool:
        now = self._loop.time()
        done = False
        for name in names:
            ended = [item for item in self._pending[name] if item.ends <= now or item.future.done()]
            kept = [item for item in self._pending.pop(name) if item not in ended]
            if kept:
                self._pending[name] = kept  # at the end of the line
            for item in ended:
                item.settle()
            done = done or bool(ended)
        return done

    def _release(self, names: Sequence[str], error: VerifierError | None = None) -> bool:
        for name in names:
            for item in self._pending.pop(name):
                item.settle(error)
        return bool(names)

    def _earliest_end(self) -> float:
        return min(item.ends for items in self._pending.values() for item in items)


def _abandon(items: Iterable[_Item]) -> None:
    for item in items:
        item.future.cancel()
