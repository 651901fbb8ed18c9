"""The plan that reads a run's hindsight."""

from __future__ import annotations

from functools import partial

from verifier_service.client.calls import Call, path, reading
from verifier_service.client.exchange import Plan, Session, deliver_waiting
from verifier_service.domain.hindsight import HindsightPage


def hindsight(
    session: Session, run: str, *, after: int = 0, limit: int = 100, wait_s: float = 0.0
) -> Plan[HindsightPage]:
    """One piece of the run's hindsight after a cursor: trajectories up to their first mistake, with hints.

    Waits up to ``wait_s`` seconds for a first record, or as long as one request may. An empty page with
    ``more`` is not the end: ask again from its ``cursor``.
    """
    return (yield from deliver_waiting(session, partial(_call, run, after, limit), max(0.0, wait_s)))


def _call(run: str, after: int, limit: int, seconds: float) -> Call[HindsightPage]:
    return Call(
        method="GET",
        path=path("runs", run, "hindsight"),
        params={"after": after, "limit": limit, "wait": round(seconds, 3)},
        read=reading(HindsightPage),
        wait_s=seconds,
    )
