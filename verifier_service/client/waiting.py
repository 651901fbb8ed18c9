"""Waits of any length out of server-side waits of at most two minutes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.errors import VerifierUnavailable
from verifier_service.client.exchange import Pause, Plan, Session, deliver, deliver_waiting
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.wire import RewardsAnswer, Until, WaitSpec

IDS_PER_QUERY = 1_000
EARLIEST_ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until every item has been through tier ``until`` (or is ``final``), for at most ``seconds``
    in all. Unlike one request's wait, this may be hours, and it survives a restart of the server."""

    until: Until = "final"
    seconds: float = 600.0


Waiting: TypeAlias = Wait | Until | None


@dataclass(frozen=True, slots=True)
class Deadline:
    """A wait that has begun."""

    until: Until
    ends: float
    linger: float | None = None

    def left(self, now: float) -> float:
        """Seconds that remain."""
        return max(0.0, self.ends - now)

    def spec(self, seconds: float) -> WaitSpec:
        """A server-side piece of it."""
        return WaitSpec(until=self.until, seconds=round(seconds, 3), linger=self.linger)


def begin(session: Session, wait: Waiting) -> Deadline | None:
    """Start the clock. A bare name waits for ten minutes."""
    if wait is None:
        return None
    chosen = wait if isinstance(wait, Wait) else Wait(wait)
    return Deadline(chosen.until, session.clock() + max(0.0, chosen.seconds))


def query_call(run: str, ids: Sequence[str], wait: WaitSpec | None) -> Call[RewardsAnswer]:
    """The latest records of some ids."""
    request: dict[str, object] = {"ids": list(ids)}
    if wait is not None:
        request["wait"] = wait.model_dump(mode="json", exclude_none=True)
    return Call(
        method="POST",
        path=path("runs", run, "rewards", "query"),
        body=as_json(request),
        read=reading(RewardsAnswer),
        wait_s=0.0 if wait is None else wait.seconds,
    )


def query_until(
    session: Session, run: str, ids: Sequence[str], deadline: Deadline | None
) -> Plan[RewardsAnswer]:
    """Ask until the wait is met or its time is up; ids in pieces, answers merged in the order asked."""
    pieces = [ids[at : at + IDS_PER_QUERY] for at in range(0, len(ids), IDS_PER_QUERY)] or [ids]
    answers = []
    for piece in pieces:
        answers.append((yield from _one_query(session, run, piece, deadline)))
    return RewardsAnswer(
        records=tuple(record for answer in answers for record in answer.records),
        unknown=tuple(unknown for answer in answers for unknown in answer.unknown),
        complete=all(answer.complete for answer in answers),
        cursor=min(answer.cursor for answer in answers),
    )


def _one_query(
    session: Session, run: str, ids: Sequence[str], deadline: Deadline | None
) -> Plan[RewardsAnswer]:
    if deadline is None:
        return (yield from deliver(session, query_call(run, ids, None)))
    last: RewardsAnswer | None = None
    while True:
        asked_at = session.clock()
        try:
            last = yield from deliver_waiting(
                session,
                lambda seconds: query_call(run, ids, deadline.spec(seconds)),
                deadline.left(asked_at),
                until=deadline.ends,
            )
        except VerifierUnavailable:
            if last is None or session.clock() < deadline.ends - EARLIEST_ANSWER_S:
                raise
            return last
        now = session.clock()
        if last.complete or now >= deadline.ends:
            return last
        # A server whose longest wait is shorter than what was asked must not be asked in a tight loop.
        early = EARLIEST_ANSWER_S - (now - asked_at)
        if early > 0:
            yield Pause(min(early, deadline.ends - now))


def newest(records: Sequence[RewardRecord]) -> dict[str, RewardRecord]:
    """The latest revision per trajectory."""
    latest: dict[str, RewardRecord] = {}
    for record in records:
        known = latest.get(record.trajectory)
        if known is None or record.revision > known.revision:
            latest[record.trajectory] = record
    return latest
