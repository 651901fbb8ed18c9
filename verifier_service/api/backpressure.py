"""How much is taken in: a rate per key, and a bound on what a run may have in the queue.

Both refuse before anything is stored, and say when there will be room. A batch is taken whole as soon as
there is room for any of it, so that the largest batch passes the smallest limit; what it takes too much is
waited for by the next. A full queue refuses only what would make it longer: repeats, the ends of
trajectories and errors pass. Rates are kept by each process for itself; the queue is the database's,
counted now and then, and whatever came since is added.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from verifier_service.api.envelopes import Growth
from verifier_service.api.problems import Overloaded
from verifier_service.api.threads import in_thread
from verifier_service.bootstrap import Service
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ports.store import Store
from verifier_service.domain.runs import Key
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services.additions import adds_trajectories, adds_turns

BURST_S = 1.0
MAX_KEYS = 4_096
FRESH_S = 0.5  # a count is good for so long
AGAIN_S = 0.05  # and where the queue was full, for so long
SHARE = 20  # but counting takes at most one part in so many of the time
BEYOND = 2  # a queue is counted up to so many times its limit: beyond, it is full whatever it holds
LONGEST_S = 30
UNKNOWN_S = 2
HALF_LIFE_S = 5.0

RunKey = tuple[str, str]
Item: TypeAlias = TrajectorySubmission | InvalidInput


class Admission:
    """What the routes ask before they take something in. Use it from one event loop at a time."""

    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._requests = _rate(settings.rate_requests)
        self._trajectories = _rate(settings.rate_trajectories)
        self._queues = Queues(service.store, settings.max_queued)
        self._service = service

    def request(self, key: Key) -> None:
        """One request of a key. Raises ``Overloaded``."""
        _take(self._requests, key, 1, "requests", "VERIFIER_RATE_REQUESTS")

    async def batch(self, key: Key, run: str, items: Sequence[Item]) -> None:
        """Trajectories for a run. Raises ``Overloaded``, and then none of them counts."""
        if not await self._admit(key, run, len(items), self._adds, items):
            return
        if self._queues.nearly_full((key.project, run)):
            self._queues.add((key.project, run), await in_thread(_checks, items) - len(items))

    async def turns(self, key: Key, run: str, trajectory: str, growth: Growth) -> None:
        """Turns for a trajectory of a run. Raises ``Overloaded``."""
        await self._admit(key, run, 1, self._lengthens, trajectory, growth)

    async def _admit(
        self, key: Key, run: str, items: int, adds: Callable[..., bool], *what: object
    ) -> bool:
        """Whether there was room; without room, ``adds`` has found that none is needed."""
        place, fits = (key.project, run), True
        try:
            await self._queues.require_room(place)
        except Overloaded:
            fits = False
            if await in_thread(adds, place, *what):
                raise
        _take(self._trajectories, key, items, "trajectories", "VERIFIER_RATE_TRAJECTORIES")
        if fits:
            self._queues.add(place, items)
        return fits

    def _adds(self, place: RunKey, items: Sequence[Item]) -> bool:
        """In a thread."""
        if all(isinstance(item, InvalidInput) for item in items):
            return False
        service, (project, run) = self._service, place
        with service.store.read() as tx:
            return adds_trajectories(tx, service.catalog, project=project, run=run, items=items)

    def _lengthens(self, place: RunKey, trajectory: str, growth: Growth) -> bool:
        """In a thread."""
        project, run = place
        with self._service.store.read() as tx:
            return adds_turns(
                tx,
                project=project,
                run=run,
                trajectory=trajectory,
                index=growth.index,
                turns=len(growth.turns),
                finished=growth.finished,
            )


def _checks(items: Sequence[Item]) -> int:
    """How many of the items can have checks of their own: equal ones share them, whatever their names."""
    return len(
        {
            repr((item.ladder, item.problem, item.turns, item.answer))
            for item in items
            if not isinstance(item, InvalidInput)
        }
    )


@dataclass(slots=True)
class Rate:
    """So many per second and key, up to a second's worth at once (GCRA, ITU-T I.371, with debts)."""

    per_s: float
    _due: dict[str, float] = field(default_factory=dict)

    def take(self, key: str, amount: int, now: float) -> float:
        """Take ``amount`` and return 0, or take nothing and return the seconds until that may be tried."""
        due = max(self._due.get(key, now), now)
        early = due - now - BURST_S
        if early > -1e-9:
            return max(early, 1e-3)
        if len(self._due) >= MAX_KEYS:
            self._due = {each: at for each, at in self._due.items() if at > now}
        self._due[key] = due + amount / self.per_s
        return 0.0


def _rate(per_s: float | None) -> Rate | None:
    return None if per_s is None else Rate(per_s)


def _take(rate: Rate | None, key: Key, amount: int, what: str, setting: str) -> None:
    if rate is None:
        return
    seconds = math.ceil(rate.take(key.id, amount, time.monotonic()))
    if seconds:
        message = (
            f"this key may send {rate.per_s:g} {what} per second ({setting}); try again in {seconds} s"
        )
        raise Overloaded("rate_limited", message, limit=rate.per_s, retry_after_s=seconds, field=what)


class Drain(NamedTuple):
    """How many checks left a queue in how many seconds."""

    checks: float
    seconds: float


class Queues:
    """How many checks wait for machines, per run: counted in the database and reckoned from there."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._counts: Mapping[RunKey, int] = {}
        self._since: Counter[RunKey] = Counter()
        self._drains: dict[RunKey, Drain] = {}
        self._counted = -math.inf
        self._cost = 0.0
        self._counting: asyncio.Task[None] | None = None

    async def require_room(self, place: RunKey) -> None:
        """Raises ``Overloaded`` when the run's queue is full."""
        if self._older_than(FRESH_S) or (
            self._reckoned(place) >= self._limit and self._older_than(AGAIN_S)
        ):
            await self._count()
        queued = self._reckoned(place)
        if queued < self._limit:
            return
        seconds = self._until_room(place, queued)
        message = (
            f"the run has about {queued} checks in its queue and may have {self._limit}"
            f" (VERIFIER_MAX_QUEUED); try again in {seconds} s"
        )
        raise Overloaded(
            "queue_full", message, limit=self._limit, retry_after_s=seconds, field="trajectories"
        )

    def add(self, place: RunKey, checks: int) -> None:
        """Checks that are about to be asked for, at the least; fewer than none, when they were too many."""
        self._since[place] = max(0, self._since[place] + checks)

    def nearly_full(self, place: RunKey) -> bool:
        """Whether the next for this run may be refused, so that it is worth to reckon closely."""
        return self._reckoned(place) >= self._limit

    def _reckoned(self, place: RunKey) -> int:
        return self._counts.get(place, 0) + self._since[place]

    def _older_than(self, seconds: float) -> bool:
        return time.monotonic() - self._counted > max(seconds, SHARE * self._cost)

    async def _count(self) -> None:
        """Count anew; who asks meanwhile waits for the same count."""
        task = self._counting
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._counting = asyncio.create_task(self._counted_anew())
            task.add_done_callback(self._done)
        await asyncio.shield(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._counting is task:
            self._counting = None
        if not task.cancelled():
            task.exception()  # whoever asked has it; a task whose askers left must not complain

    async def _counted_anew(self) -> None:
        began, before = time.monotonic(), self._since
        self._since = Counter()
        try:
            counts = await in_thread(self._read)
        except BaseException:
            self._since.update(before)
            raise
        now = time.monotonic()
        if self._counted > -math.inf:
            self._learn(counts, before, now - self._counted)
        self._counts, self._counted, self._cost = counts, now, now - began

    def _learn(self, counts: Mapping[RunKey, int], added: Mapping[RunKey, int], seconds: float) -> None:
        """How fast queues shrink, the last seconds counting most; what is long gone is forgotten."""
        fade = 0.5 ** (seconds / HALF_LIFE_S)
        drains: dict[RunKey, Drain] = {}
        for place in {*counts, *self._counts, *added, *self._drains}:
            before = self._counts.get(place, 0) + added.get(place, 0)
            gone = max(0, before - counts.get(place, 0))
            known = self._drains.get(place, Drain(0.0, 0.0))
            drain = Drain(known.checks * fade + gone, known.seconds * fade + (seconds if before else 0.0))
            if drain.checks >= 1.0 or place in counts:
                drains[place] = drain
        self._drains = drains

    def _read(self) -> Mapping[RunKey, int]:
        with self._store.read() as tx:
            return tx.runs.queued(BEYOND * self._limit)

    def _until_room(self, place: RunKey, queued: int) -> int:
        """Seconds until the queue, as fast as it shrank last, is below the limit."""
        drain = self._drains.get(place)
        if drain is None or drain.checks <= 0.0:
            return UNKNOWN_S
        return min(LONGEST_S, math.ceil((queued - self._limit + 1) * drain.seconds / drain.checks))
