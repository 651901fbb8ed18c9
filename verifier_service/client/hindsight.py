"""The plan that reads a run's hindsight."""

from __future__ import annotations

from functools import partial

from verifier_service.client.calls import Call, path, reading
from verifier_service.client.exchange import Pause, Plan, Session, deliver_waiting
from verifier_service.client.waiting import EARLIEST_ANSWER_S
from verifier_service.domain.hindsight import HindsightPage


def hindsight(
    session: Session, run: str, *, after: int = 0, limit: int = 100, wait_s: float = 0.0
) -> Plan[HindsightPage]:
    """One piece of the run's hindsight after a cursor: trajectories up to their first mistake, with hints.

    Waits up to ``wait_s`` seconds for a first one. An empty page means that there was none by then, up to
    the end of the feed. ``limit`` is at most 500.
    """
    ends = session.clock() + wait_s
    while True:
        asked_at = session.clock()
        page = yield from deliver_waiting(
            session, partial(_call, run, after, limit), max(0.0, ends - asked_at)
        )
        now = session.clock()
        if page.records or page.withdrawn or (now >= ends and not page.more):
            return page
        after = max(after, page.cursor)
        early = EARLIEST_ANSWER_S - (now - asked_at)
        if not page.more and early > 0:
            yield Pause(min(early, ends - now))


def _call(run: str, after: int, limit: int, seconds: float) -> Call[HindsightPage]:
    return Call(
        method="GET",
        path=path("runs", run, "hindsight"),
        params={"after": after, "limit": limit, "wait": round(seconds, 3)},
        read=reading(HindsightPage),
        wait_s=seconds,
    )
