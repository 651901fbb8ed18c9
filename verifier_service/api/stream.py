"""The reward feed as server-sent events (WHATWG HTML, section 9.2).

A stream that has nothing to send sleeps in the hub with all others who wait: it holds no thread and no
connection of the database. What it sends is read a page at a time, when the client has taken the page
before; streams at the same place of a feed share the reading.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.sse import format_sse_event
from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from verifier_service.api.auth import Reader
from verifier_service.api.context import Context, InContext
from verifier_service.api.keyed_stream import KeyedStream
from verifier_service.api.pages import FeedPlace, Page
from verifier_service.api.paths import RunId
from verifier_service.api.problems import NOTHING_MORE, documented
from verifier_service.api.rewards import MAX_CURSOR, Status
from verifier_service.domain.errors import Conflict, VerificationError
from verifier_service.domain.ports.runs import RunMark
from verifier_service.domain.runs import Key, RunState
from verifier_service.domain.states import RewardStatus

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/runs/{run}/rewards", tags=["rewards"])

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0
RETRY_MS = 1_000
MAX_STREAM_S = 86_400.0
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_STREAM: dict[str, Any] = {
    "description": "`reward` events, whose `data` is a RewardRecord in JSON and whose `id` is its `seq`;"
    " and `end` once the run is closed and all was sent",
    "content": {MEDIA_TYPE: {}},
}
_OVER = {"description": "The run is closed and all of its feed was sent before: do not come again"}


@router.get(
    "/stream",
    response_class=Response,
    responses={
        200: _STREAM,
        NOTHING_MORE: {
            "description": "The run is closed and all of its feed was sent before: do not come again"
        },
        **documented(404, 409, 410),
    },
)
async def stream(
    run: RunId,
    caller: Reader,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=MAX_CURSOR, description="Position after which to read.")] = 0,
    status: Annotated[Status | None, Query(description="Only records of this status.")] = None,
    wait: Annotated[
        float | None,
        Query(
            ge=0, le=MAX_STREAM_S, description="Seconds after which the stream ends; else it stays open."
        ),
    ] = None,
    last_event_id: Annotated[
        Annotated[int, Field(ge=0, le=MAX_CURSOR)] | SkipJsonSchema[None],
        BeforeValidator(lambda sent: sent or None),
        Header(
            alias="Last-Event-ID",
            description="The `id` of the last event that came; counts in place of `after`.",
        ),
    ] = None,
) -> Response:
    """The run's records in commit order, as they are issued: server-sent events. Scope: `read`.

    Whoever comes again with the last `id` misses none and sees none twice; 409 (`feed_lost`) when the feed
    does not reach so far, as after a restore from an older backup. A comment comes every 15 seconds when
    nothing else does.
    """
    only = RewardStatus(status) if status is not None else None
    after = after if last_event_id is None else last_event_id
    place = FeedPlace(caller.project, run, after, only)
    first = await context.pages.read(place)
    if last_event_id is not None:
        _require_event(first, last_event_id)
        if first.is_end and not first.events:
            return Response(status_code=NOTHING_MORE)
    until = None if wait is None else time.monotonic() + wait
    events = _Stream(context, caller, place, until).events(first)
    return KeyedStream(events, context.revoked, caller.id, media_type=MEDIA_TYPE, headers=HEADERS)


def _require_event(page: Page, last: int) -> None:
    """Raise ``Conflict`` where the feed does not reach an event that it has sent."""
    if last > page.head:
        message = f"event {last} came from this run, and its feed ends at {page.head}"
        raise Conflict("feed_lost", message, field="Last-Event-ID")


@dataclass(slots=True)
class _Stream:
    """One client's way along a feed; ``until`` is on the monotonic clock."""

    context: Context
    caller: Key
    place: FeedPlace
    until: float | None

    async def events(self, page: Page) -> AsyncIterator[bytes]:
        """What is sent, from the first page on."""
        try:
            async for sent in self._send(page):
                yield sent
        except VerificationError as error:  # the status is sent: the client comes again and is told
            log.info("a stream of run %r ends: %s", self.place.run, error)

    async def _send(self, page: Page) -> AsyncIterator[bytes]:
        told, sent_at = self.place.after, time.monotonic()
        yield format_sse_event(retry=RETRY_MS)
        while True:
            now = time.monotonic()
            if page.events:
                told, sent_at = page.last, now
                yield page.events
            elif now >= sent_at + HEARTBEAT_S:
                sent_at = now
                yield _heartbeat(told, page.cursor)
                told = page.cursor
            if page.is_end:
                yield _end(page.cursor)
                return
            if self.context.hub.closing or (self.until is not None and now >= self.until and not page.more):
                return
            if not page.more:
                await self._news(page.cursor, sent_at + HEARTBEAT_S)
            self.place = self.place.at(page.cursor)
            page = await self.context.pages.read(self.place)

    async def _news(self, cursor: int, until: float) -> None:
        """Wait until the feed goes on or the run is closed, or a heartbeat or the end is due."""
        until = until if self.until is None else min(until, self.until)

        def is_news(mark: RunMark) -> bool:
            return mark.feed > cursor or mark.state is RunState.CLOSED

        await self.context.hub.run(
            self.place.project,
            self.place.run,
            is_news,
            seconds=max(0.0, until - time.monotonic()),
            caller=self.caller.id,
        )


def _heartbeat(told: int, cursor: int) -> bytes:
    """A comment; with the position, where a filter left out what came since."""
    return format_sse_event(comment="ping", id=str(cursor) if cursor > told else None)


def _end(cursor: int) -> bytes:
    return format_sse_event(event="end", data_str=json.dumps({"cursor": cursor}), id=str(cursor))
