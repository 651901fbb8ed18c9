"""One reader for all who wait: for rewards, for news of a run, for its close.

Waiters sleep on futures in the event loop and hold neither a thread nor a connection. Announcements of
commits wake the reader at once; a poll catches what was not announced (another process, a lost wake). One
cycle of the reader is one read transaction for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import Request

from verifier_service.api.problems import ClientGone
from verifier_service.api.threads import in_thread
from verifier_service.bootstrap import Service
from verifier_service.domain.cases import Standing
from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Run

log = logging.getLogger(__name__)

POLL_S = 0.5
MIN_PAUSE_S = 0.005
MAX_PAUSE_S = 0.25

T = TypeVar("T")
RunKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the reader saw when a wait ended: whether it was met, the latest records by id, and the pks for
    which it was not met."""

    met: bool
    records: dict[str, RewardRecord]
    left: frozenset[int] = frozenset()


@dataclass(eq=False, kw_only=True, slots=True)
class _Wait:
    key: RunKey
    rank: int = 0
    beyond: int = 0
    pending: frozenset[int] = frozenset()
    ids: tuple[str, ...] = ()
    condition: Callable[[Run], bool] | None = None
    deadline: float = 0.0
    linger: float | None = None
    future: asyncio.Future[Seen] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class _Ask:
    """A wait as the reading thread sees it."""

    wait: _Wait
    pending: frozenset[int]
    due: bool


@dataclass(frozen=True, slots=True)
class _Look:
    left: frozenset[int]
    met: bool
    records: dict[str, RewardRecord] = field(default_factory=dict)


class Hub:
    """Serves every wait of this process. Use it from one event loop at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waits: set[_Wait] = set()
        self._dirty: set[RunKey] = set()
        self._heard: set[RunKey] = set()
        self._hearing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closing = False
        self._unsubscribe = service.dispatcher.subscribe(self._announced)

    @property
    def open_waits(self) -> int:
        """How many requests wait at this moment."""
        return len(self._waits)

    async def rewards(
        self,
        project: str,
        run: str,
        pks: Mapping[int, str],
        *,
        rank: int,
        seconds: float,
        linger: float | None = None,
        beyond: int = 0,
    ) -> Seen:
        """Wait until every trajectory (pk -> id) has come as far as ``rank``, at most ``seconds``, and at
        most ``linger`` seconds after the first has.

        Only records after the feed position ``beyond`` count.
        """
        return await self._enter(
            _Wait(
                key=(project, run),
                rank=rank,
                linger=linger,
                beyond=beyond,
                pending=frozenset(pks),
                ids=tuple(pks.values()),
            ),
            seconds,
        )

    async def run(
        self, project: str, run: str, condition: Callable[[Run], bool], *, seconds: float
    ) -> bool:
        """Wait until ``condition`` holds for an existing run, at most ``seconds``."""
        seen = await self._enter(_Wait(key=(project, run), condition=condition), seconds)
        return seen.met

    def close(self) -> None:
        """End every wait with what there is, and all later ones at once (idempotent)."""
        if not self._closing:
            self._unsubscribe()
        self._closing = True
        for wait in self._waits:
            wait.deadline = 0.0
        self._wake.set()

    async def _enter(self, wait: _Wait, seconds: float) -> Seen:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._wake, self._reader = loop, asyncio.Event(), None
        wait.deadline = 0.0 if self._closing else loop.time() + seconds
        self._waits.add(wait)
        if self._reader is None:
            self._reader = loop.create_task(self._read_on())
        self._wake.set()
        try:
            return await wait.future
        finally:
            self._waits.discard(wait)

    def _announced(self, project: str, run: str) -> None:
        """Called on the committing thread: note the run, and tell the loop unless that is under way."""
        loop = self._loop
        if loop is None or not self._waits or loop.is_closed():
            return
        with self._hearing:
            told = bool(self._heard)
            self._heard.add((project, run))
        if not told:
            loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        with self._hearing:
            self._dirty |= self._heard
            self._heard.clear()
        self._wake.set()

    async def _read_on(self) -> None:
        """The reader's life: cycles as long as anybody waits."""
        loop = asyncio.get_running_loop()
        polled = loop.time()
        while self._waits:
            await self._pause(polled + POLL_S)
            now = loop.time()
            everybody = now >= polled + POLL_S
            if everybody:
                polled = now
            dirty, self._dirty = self._dirty, set()
            asks = [
                _Ask(wait, wait.pending, wait.deadline <= now)
                for wait in self._waits
                if everybody or wait.fresh or wait.deadline <= now or wait.key in dirty
            ]
            await self._cycle(asks)
            # Reading takes at most a quarter of the time, however many wait and however often work commits.
            await asyncio.sleep(min(MAX_PAUSE_S, max(MIN_PAUSE_S, 3 * (loop.time() - now))))
        self._reader = None

    async def _pause(self, poll_at: float) -> None:
        """Sleep until an announcement, a new wait, a deadline or the next poll."""
        until = min([poll_at, *(wait.deadline for wait in self._waits)])
        timeout = until - asyncio.get_running_loop().time()
        if timeout > 0 and not any(wait.fresh for wait in self._waits):
            try:
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                return
        self._wake.clear()

    async def _cycle(self, asks: Sequence[_Ask]) -> None:
        if not asks:
            return
        try:
            looks = await in_thread(self._look, asks)
        except (Contended, Unavailable) as error:
            log.warning("waits are read again: %s", error)
            for ask in asks:
                ask.wait.fresh = False  # it is read with the next poll
            _fail([ask for ask in asks if ask.due], error)
            return
        except Exception as error:
            log.exception("the reader of waits failed")
            _fail(asks, error)
            return
        for ask, look in zip(asks, looks, strict=True):
            wait = ask.wait
            wait.fresh = False
            if wait.linger is not None and len(look.left) < len(wait.pending):
                wait.deadline = min(wait.deadline, asyncio.get_running_loop().time() + wait.linger)
                wait.linger = None
            wait.pending = look.left
            if (look.met or ask.due) and not wait.future.done():
                wait.future.set_result(Seen(look.met, look.records, look.left))

    def _look(self, asks: Sequence[_Ask]) -> list[_Look]:
        """In a thread: one snapshot for all. What was met once stays met for its waiter."""
        with self._service.store.read() as tx:
            pks = frozenset[int]().union(*(ask.pending for ask in asks))
            standings = tx.trajectories.standings(pks) if pks else {}
            runs = {key: tx.runs.get(*key) for key in {a.wait.key for a in asks if a.wait.condition}}
            looks: list[_Look] = []
            wanted: dict[RunKey, set[str]] = {}
            for ask in asks:
                wait = ask.wait
                left = frozenset(
                    pk for pk in ask.pending if pk in standings and not _is_met(standings[pk], wait)
                )
                met = not left and (wait.condition is None or wait.condition(runs[wait.key]))
                looks.append(_Look(left, met))
                if (met or ask.due) and wait.ids:
                    wanted.setdefault(wait.key, set()).update(wait.ids)
            latest = {key: tx.rewards.latest(*key, sorted(ids)) for key, ids in wanted.items()}
        return [
            _Look(look.left, look.met, _of(latest.get(ask.wait.key, {}), ask.wait.ids))
            if look.met or ask.due
            else look
            for ask, look in zip(asks, looks, strict=True)
        ]


def _fail(asks: Sequence[_Ask], error: Exception) -> None:
    for ask in asks:
        if not ask.wait.future.done():
            ask.wait.future.set_exception(error)


def _is_met(standing: Standing, wait: _Wait) -> bool:
    """Whether one trajectory has come that far. Before its first record nothing has been looked at."""
    return standing.seq is not None and standing.seq > wait.beyond and standing.met >= wait.rank


def _of(records: Mapping[str, RewardRecord], ids: Sequence[str]) -> dict[str, RewardRecord]:
    return {name: records[name] for name in ids if name in records}


async def attended(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, as long as the client stays; raises ``ClientGone`` when it leaves.

    Waits on the connection itself: asking ``is_disconnected`` now and then misses clients that left.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
