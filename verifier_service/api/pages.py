"""Pages of the reward feed as they are streamed: read once for all who are at the same place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from fastapi.sse import format_sse_event

from verifier_service.api.threads import in_thread
from verifier_service.domain.ports.store import Store
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import RewardStatus

PAGE = 64


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """A position in a run's feed, and which of the records after it are wanted."""

    project: str
    run: str
    after: int
    status: RewardStatus | None

    def at(self, cursor: int) -> FeedPlace:
        """Further on in the same feed."""
        return replace(self, after=cursor)


@dataclass(frozen=True, slots=True)
class Page:
    """Some records as events. ``last`` is the seq of the last of them, ``head`` that of the feed,
    ``cursor`` how far it was read; ``more`` may follow at once; ``is_end`` when nothing will."""

    events: bytes
    last: int
    head: int
    cursor: int
    more: bool
    is_end: bool


class Pages:
    """Reads pages; who reads at the same place at the same time shares it. Of one event loop at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: dict[FeedPlace, asyncio.Task[Page]] = {}

    async def read(self, place: FeedPlace) -> Page:
        """The page after a place. Raises ``NotFound`` for an unknown run."""
        task = self._reading.get(place)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.create_task(in_thread(self._read, place))
            self._reading[place] = task
            task.add_done_callback(lambda done: self._forget(place, done))
        return await asyncio.shield(task)

    def _forget(self, place: FeedPlace, done: asyncio.Task[Page]) -> None:
        if self._reading.get(place) is done:
            del self._reading[place]
        if not done.cancelled():
            done.exception()  # whoever asked has it; a task whose askers left must not complain

    def _read(self, place: FeedPlace) -> Page:
        """In a thread: one snapshot, so that a closed run's page is its last."""
        here = place.project, place.run
        with self._store.read() as tx:
            head = tx.rewards.head(*here)
            records = tx.rewards.feed(*here, place.after, PAGE, place.status)
            mark = tx.runs.marks([here]).get(here)
        more = len(records) == PAGE
        last = records[-1].seq if records else place.after
        return Page(
            events=b"".join(map(_event, records)),
            last=last,
            head=head,
            cursor=last if more else max(head, place.after),
            more=more,
            is_end=not more and (mark is None or mark.state is RunState.CLOSED),
        )


def _event(record: RewardRecord) -> bytes:
    data = record.model_dump_json(by_alias=True)
    return format_sse_event(event="reward", data_str=data, id=str(record.seq))
