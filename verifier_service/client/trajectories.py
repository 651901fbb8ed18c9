"""Plans about trajectories and their rewards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from verifier_service.client import batches
from verifier_service.client.batches import Packed, Submission
from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.errors import TooLarge, UnexpectedAnswer
from verifier_service.client.exchange import Pause, Plan, Session, deliver, deliver_waiting
from verifier_service.client.waiting import (
    EARLIEST_ANSWER_S,
    Deadline,
    Waiting,
    begin,
    newest,
    query_until,
)
from verifier_service.domain.records import JsonObject
from verifier_service.domain.rewards import GroupAdvantages
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Turn
from verifier_service.domain.wire import (
    CancelResponse,
    CaseView,
    Estimator,
    GrowResponse,
    RewardsAnswer,
    RewardsPage,
    SubmitResponse,
    SubmitResult,
    SubmitStatus,
)

TAKEN = (SubmitStatus.ACCEPTED, SubmitStatus.DUPLICATE)


def submit(
    session: Session, run: str, trajectories: Iterable[Submission], *, wait: Waiting = None
) -> Plan[SubmitResponse]:
    """Submit trajectories and return their fates in the order given.

    Items without an id get one, so every retry is safe: what was taken once is a duplicate. Big batches
    travel in pieces. With ``wait``, the newest rewards come along when the wait is met or its time is
    up (``complete`` tells which); a restart of the server during the wait only delays it. An item that
    cannot be accepted is ``invalid`` in its place and its neighbours go on.
    """
    deadline = begin(session, wait)
    packed, results = batches.pack(trajectories)
    pieces = batches.chunks(packed)
    cursors: list[int] = []
    complete = True
    for piece in pieces:
        # Only a batch of one piece waits while it is handed in; several are handed in first.
        response = yield from hand_in(session, run, piece, deadline if len(pieces) == 1 else None)
        cursors.append(response.cursor)
        results.update(zip((item.place for item in piece), response.results, strict=True))
        complete = complete and response.complete
    if deadline is not None and pieces and (len(pieces) > 1 or not complete):
        complete = yield from _await_rewards(session, run, results, deadline)
    ordered = tuple(results[place] for place in sorted(results))
    return SubmitResponse(results=ordered, complete=complete, cursor=min(cursors, default=0))


def hand_in(
    session: Session, run: str, items: Sequence[Packed], wait: Deadline | None
) -> Plan[SubmitResponse]:
    """One request; a body that is too large goes again in halves, down to single items."""

    def call(seconds: float) -> Call[SubmitResponse]:
        return Call(
            method="POST",
            path=path("runs", run, "trajectories"),
            body=batches.body(items, None if wait is None else wait.spec(seconds)),
            read=reading(SubmitResponse),
            wait_s=seconds,
        )

    try:
        left = 0.0 if wait is None else wait.left(session.clock())
        response = yield from deliver_waiting(session, call, left)
    except TooLarge:
        if len(items) == 1:
            return SubmitResponse(results=(batches.too_large(items[0]),), complete=True, cursor=0)
        half = len(items) // 2
        first = yield from hand_in(session, run, items[:half], None)
        second = yield from hand_in(session, run, items[half:], None)
        return SubmitResponse(
            results=first.results + second.results,
            complete=wait is None and first.complete and second.complete,
            cursor=min(first.cursor, second.cursor),
        )
    _check(items, response)
    return response


def _check(items: Sequence[Packed], response: SubmitResponse) -> None:
    """Results belong to items by id; a server that answers otherwise is not understood."""
    if len(response.results) != len(items):
        raise UnexpectedAnswer(
            f"{len(items)} items were sent and {len(response.results)} results came back"
        )
    for item, result in zip(items, response.results, strict=True):
        if result.id is not None and item.id is not None and result.id != item.id:
            raise UnexpectedAnswer(f"the result for {item.id!r} is named {result.id!r}")


def _await_rewards(
    session: Session, run: str, results: dict[int, SubmitResult], deadline: Deadline
) -> Plan[bool]:
    """Wait for everything that was taken and put the newest rewards into the results."""
    ids = list(dict.fromkeys(r.id for r in results.values() if r.id is not None and r.status in TAKEN))
    if not ids:
        return True
    answer = yield from query_until(session, run, ids, deadline)
    latest = newest(answer.records)
    for place, result in results.items():
        record = latest.get(result.id) if result.id is not None and result.status in TAKEN else None
        if record is not None:
            results[place] = result.model_copy(update={"reward": record})
    return answer.complete


def query(session: Session, run: str, ids: Sequence[str], *, wait: Waiting = None) -> Plan[RewardsAnswer]:
    """The newest record of each id, without uploading anything again; with ``wait``, once it is met."""
    return (yield from query_until(session, run, ids, begin(session, wait)))


def rewards(
    session: Session,
    run: str,
    *,
    after: int = 0,
    limit: int = 500,
    wait_s: float = 0.0,
    status: RewardStatus | None = None,
) -> Plan[RewardsPage]:
    """One piece of the run's feed after a cursor, waiting up to ``wait_s`` seconds for a first record."""
    ends = session.clock() + wait_s
    while True:
        asked_at = session.clock()
        page = yield from deliver_waiting(
            session, partial(_page_call, run, after, limit, status), max(0.0, ends - asked_at)
        )
        now = session.clock()
        if page.records or now >= ends:
            return page
        after = max(after, page.cursor)
        early = EARLIEST_ANSWER_S - (now - asked_at)
        if early > 0:
            yield Pause(min(early, ends - now))


def _page_call(
    run: str, after: int, limit: int, status: RewardStatus | None, seconds: float
) -> Call[RewardsPage]:
    params: dict[str, str | int | float] = {"after": after, "limit": limit, "wait": round(seconds, 3)}
    if status is not None:
        params["status"] = str(status)
    return Call(
        method="GET",
        path=path("runs", run, "rewards"),
        params=params,
        read=reading(RewardsPage),
        wait_s=seconds,
    )


def trajectory(session: Session, run: str, id: str) -> Plan[CaseView]:
    """The whole case: turns, checks, evidence, decisions with reasons, every revision."""
    call = Call(method="GET", path=path("runs", run, "trajectories", id), read=reading(CaseView))
    return (yield from deliver(session, call))


def grow(
    session: Session,
    run: str,
    id: str,
    *,
    index: int,
    turns: Iterable[Turn | Mapping[str, Any]] = (),
    answer: str | JsonObject | None = None,
    finished: bool = False,
    wait_s: float | None = None,
) -> Plan[GrowResponse]:
    """Put turns at position ``index`` of an unfinished trajectory; safe to repeat.

    The answer waits for the process rewards of these turns: up to ``wait_s`` seconds, or a few that the
    server chooses.
    """
    request: dict[str, Any] = {
        "index": index,
        "turns": [
            turn.model_dump(mode="json", exclude_unset=True) if isinstance(turn, Turn) else dict(turn)
            for turn in turns
        ],
        "finished": finished,
    }
    if answer is not None:
        request["answer"] = answer
    if wait_s is not None:
        request["wait"] = {"until": "fast", "seconds": min(wait_s, session.ceiling.seconds)}
    call = Call(
        method="POST",
        path=path("runs", run, "trajectories", id, "turns"),
        body=as_json(request),
        read=reading(GrowResponse),
        wait_s=wait_s or 0.0,
    )
    return (yield from deliver(session, call))


def cancel(session: Session, run: str, id: str) -> Plan[CancelResponse]:
    """Give up on a trajectory: what only it wanted is withdrawn."""
    call = Call(
        method="POST", path=path("runs", run, "trajectories", id, "cancel"), read=reading(CancelResponse)
    )
    return (yield from deliver(session, call))


def group(
    session: Session, run: str, group: str, *, estimator: Estimator = "grpo", ddof: int = 0
) -> Plan[GroupAdvantages]:
    """Advantages of a group as the rewards stand."""
    call = Call(
        method="GET",
        path=path("runs", run, "groups", group),
        params={"estimator": estimator, "ddof": ddof},
        read=reading(GroupAdvantages),
    )
    return (yield from deliver(session, call))
