"""One reader for all who wait: for rewards, for news of a run, for its close.

Waiters sleep on futures in the event loop and hold neither a thread nor a connection. Announcements of
commits wake the reader at once; a poll catches what was not announced (another process, a lost wake). One
cycle of the reader is one read transaction for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from fastapi import Request

from verifier_service.api.problems import ClientGone
from verifier_service.api.threads import in_thread
from verifier_service.api.wait_times import WaitTimes
from verifier_service.bootstrap import Service
from verifier_service.domain.cases import Standing
from verifier_service.domain.errors import (
    Contended,
    NotFound,
    Unauthenticated,
    Unavailable,
    VerificationError,
)
from verifier_service.domain.ports.runs import RunMark
from verifier_service.domain.rewards import Issued, RewardRecord

log = logging.getLogger(__name__)

NOTHING_ISSUED: Mapping[int, Issued] = MappingProxyType({})
POLL_S = 0.5
KEYS_EVERY_S = 3.0  # as long as a revoked key may still call, see key_cache
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
    condition: Callable[[RunMark], bool] | None = None
    caller: str | None = None
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
    refused: VerificationError | None = None


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
        self.times = WaitTimes()
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
        caller: str | None = None,
        came_at: float | None = None,
        issued: Mapping[int, Issued] = NOTHING_ISSUED,
    ) -> Seen:
        """Wait until every trajectory (pk -> id) has come as far as ``rank``, at most ``seconds``, and at
        most ``linger`` seconds after the first has.

        Only records after the feed position ``beyond`` count. Raises ``Unauthenticated`` once the key
        ``caller`` is revoked. ``came_at``, on the loop's clock: since when the client waits, if not since
        now. ``issued``: records that the caller knows to be committed; where they are enough, nothing is
        read.
        """
        known = _known(pks, issued, rank, beyond)
        if known is not None:
            if seconds > 0:
                now = asyncio.get_running_loop().time()
                self.times.ended(0.0 if came_at is None else now - came_at, met=True)
            return known
        wait = _Wait(key=(project, run), rank=rank, linger=linger, beyond=beyond, caller=caller)
        wait.pending, wait.ids = frozenset(pks), tuple(pks.values())
        return await self._enter(wait, seconds, came_at)

    async def run(
        self,
        project: str,
        run: str,
        condition: Callable[[RunMark], bool],
        *,
        seconds: float,
        caller: str | None = None,
    ) -> bool:
        """Wait until ``condition`` holds for an existing run, at most ``seconds``.

        Raises ``NotFound`` when there is no such run (any more), ``Unauthenticated`` as ``rewards`` does.
        """
        wait = _Wait(key=(project, run), condition=condition, caller=caller)
        return (await self._enter(wait, seconds)).met

    @property
    def closing(self) -> bool:
        """Whether this process stops, so that nothing is waited for any more."""
        return self._closing

    def close(self) -> None:
        """End every wait with what there is, and all later ones at once (idempotent)."""
        if not self._closing:
            self._unsubscribe()
        self._closing = True
        for wait in self._waits:
            wait.deadline = 0.0
        self._wake.set()

    async def _enter(self, wait: _Wait, seconds: float, came_at: float | None = None) -> Seen:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._wake, self._reader = loop, asyncio.Event(), None
        now, met = loop.time(), None
        wait.deadline = 0.0 if self._closing else now + seconds
        self._waits.add(wait)
        if self._reader is None:
            self._reader = loop.create_task(self._read_on())
        self._wake.set()
        try:
            seen = await wait.future
            met = seen.met
            return seen
        finally:
            self._waits.discard(wait)
            if seconds > 0:
                self.times.ended(loop.time() - (now if came_at is None else came_at), met=met)

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
        polled = checked = loop.time()
        while self._waits:
            await self._pause(polled + POLL_S)
            now = loop.time()
            everybody = now >= polled + POLL_S
            keys = everybody and now >= checked + KEYS_EVERY_S
            if everybody:
                polled = now
            if keys:
                checked = now
            dirty, self._dirty = self._dirty, set()
            asks = [
                _Ask(wait, wait.pending, wait.deadline <= now)
                for wait in self._waits
                if everybody or wait.fresh or wait.deadline <= now or wait.key in dirty
            ]
            await self._cycle(asks, keys)
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

    async def _cycle(self, asks: Sequence[_Ask], keys: bool) -> None:
        if not asks:
            return
        try:
            looks = await in_thread(self._look, asks, keys)
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
            if look.refused is not None:
                _fail([ask], look.refused)
            elif (look.met or ask.due) and not wait.future.done():
                wait.future.set_result(Seen(look.met, look.records, look.left))

    def _look(self, asks: Sequence[_Ask], keys: bool) -> list[_Look]:
        """In a thread: one snapshot for all. What was met once stays met for its waiter."""
        with self._service.store.read() as tx:
            pks = frozenset[int]().union(*(ask.pending for ask in asks))
            standings = tx.trajectories.standings(pks) if pks else {}
            places = {ask.wait.key for ask in asks if ask.wait.condition is not None}
            marks = tx.runs.marks(places) if places else {}
            callers = {ask.wait.caller for ask in asks if ask.wait.caller is not None} if keys else set()
            dead = tx.keys.dead(callers) if callers else set()
            looks = [_looked(ask, standings, marks, dead) for ask in asks]
            wanted: dict[RunKey, set[str]] = {}
            for ask, look in zip(asks, looks, strict=True):
                if look.met or ask.due:
                    wanted.setdefault(ask.wait.key, set()).update(ask.wait.ids)
            latest = {key: tx.rewards.latest(*key, sorted(ids)) for key, ids in wanted.items() if ids}
        return [
            replace(look, records=_of(latest.get(ask.wait.key, {}), ask.wait.ids))
            if look.met or ask.due
            else look
            for ask, look in zip(asks, looks, strict=True)
        ]


def _known(pks: Mapping[int, str], issued: Mapping[int, Issued], rank: int, beyond: int) -> Seen | None:
    """What a wait would see, where the records that were just issued meet it."""
    records: dict[str, RewardRecord] = {}
    for pk, name in pks.items():
        one = issued.get(pk)
        if one is None or one.met < rank or one.record.seq <= beyond:
            return None
        records[name] = one.record
    return Seen(True, records)


def _fail(asks: Sequence[_Ask], error: Exception) -> None:
    for ask in asks:
        if not ask.wait.future.done():
            ask.wait.future.set_exception(error)


def _looked(
    ask: _Ask, standings: Mapping[int, Standing], marks: Mapping[RunKey, RunMark], dead: Collection[str]
) -> _Look:
    """How far one wait has come."""
    wait = ask.wait
    if wait.caller in dead:
        return _Look(ask.pending, met=False, refused=revoked())
    left = frozenset(pk for pk in ask.pending if pk in standings and not _is_met(standings[pk], wait))
    if wait.condition is None:
        return _Look(left, met=not left)
    mark = marks.get(wait.key)
    if mark is None:
        return _Look(left, met=False, refused=NotFound("run_not_found", f"no run {wait.key[1]!r}"))
    return _Look(left, met=not left and wait.condition(mark))


def revoked() -> Unauthenticated:
    """The error of a caller whose key was revoked while it waited."""
    return Unauthenticated("bad_key", "the key was revoked")


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
