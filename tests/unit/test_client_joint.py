"""Joined submissions against servers that answer early, go away, or fail for some."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from verifier_service.client import Joint, ServerFailed
from verifier_service.client.calls import Answer, Call, Lost
from verifier_service.client.exchange import Plan, Send, Session
from verifier_service.client.joint import MAX_ITEMS

Reply = Answer | Lost
Handler = Callable[[Call[Any], dict[str, Any]], Reply]
AWAY = Lost(cause="refused", delivered=False)


class Wire:
    """In place of a client: performs plans against a function, and keeps what was asked."""

    def __init__(self, answer: Handler, *, retry_s: float = 60.0) -> None:
        self.session = Session(url="http://verifier", retry_s=retry_s)
        self.asked: list[Call[Any]] = []
        self._answer = answer

    async def perform(self, plan: Plan[Any]) -> Any:
        reply: Reply | None = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                return end.value
            if isinstance(step, Send):
                self.asked.append(step.call)
                await asyncio.sleep(0.001)
                reply = self._answer(step.call, json.loads(step.call.body or b"{}"))
            else:
                await asyncio.sleep(step.seconds)
                reply = None


def taken(body: dict[str, Any], *, met: bool) -> Answer:
    results = [{"id": item["id"], "status": "accepted", "met": met} for item in body["trajectories"]]
    return told({"results": results, "complete": met, "cursor": 0})


def told(body: dict[str, Any]) -> Answer:
    return Answer(status=200, content=json.dumps(body).encode())


def joint(wire: Wire) -> Joint:
    return Joint(wire, "r")  # type: ignore[arg-type]


def items(count: int) -> list[dict[str, Any]]:
    return [{"ladder": "l", "answer": str(number)} for number in range(count)]


def test_a_server_that_answers_early_is_not_asked_in_a_tight_loop() -> None:
    def answer(call: Call[Any], body: dict[str, Any]) -> Reply:
        if "query" in call.path:
            return told({"records": [], "pending": body["ids"], "complete": False})
        return taken(body, met=False)

    async def play() -> int:
        wire = Wire(answer)
        [result] = await joint(wire).submit(items(1), seconds=2.5)
        assert result.reward is None
        return len(wire.asked)

    assert 2 <= asyncio.run(play()) <= 6


@pytest.mark.parametrize("retry_s", [0.3, 60.0])
def test_a_server_that_is_lost_after_the_hand_in_holds_nobody_beyond_the_wait(retry_s: float) -> None:
    def answer(call: Call[Any], body: dict[str, Any]) -> Reply:
        return AWAY if "query" in call.path else taken(body, met=False)

    async def play() -> tuple[list[Any], float]:
        began = time.perf_counter()
        outcomes = await joint(Wire(answer, retry_s=retry_s)).outcomes(items(3), seconds=1.0)
        return outcomes, time.perf_counter() - began

    outcomes, seconds = asyncio.run(play())
    assert seconds < 20.0
    assert len(outcomes) == 3


def test_what_was_taken_is_told_although_another_request_failed() -> None:
    requests = 0

    def answer(_: Call[Any], body: dict[str, Any]) -> Reply:
        nonlocal requests
        requests += 1
        return taken(body, met=True) if requests == 1 else Answer(status=500, content=b"{}")

    async def play() -> tuple[list[Any], Joint]:
        joined = joint(Wire(answer))
        return await joined.outcomes(items(MAX_ITEMS + 10)), joined

    outcomes, _ = asyncio.run(play())
    assert [isinstance(outcome, ServerFailed) for outcome in outcomes] == [False] * MAX_ITEMS + [True] * 10


def test_a_call_that_fails_is_raised_to_who_wants_results() -> None:
    async def play() -> None:
        await joint(Wire(lambda *_: Answer(status=500, content=b"{}"))).submit(items(1))

    with pytest.raises(ServerFailed):
        asyncio.run(play())


def test_closing_cancels_every_caller() -> None:
    async def play() -> None:
        wire = Wire(lambda call, body: taken(body, met=False) if "query" not in call.path else AWAY)
        joined = joint(wire)
        waiting = [asyncio.create_task(joined.submit(items(1), seconds=60)) for _ in range(3)]
        await asyncio.sleep(0.2)
        queued = asyncio.create_task(joined.submit(items(1), seconds=60))
        await asyncio.sleep(0)
        await joined.close()
        ended = await asyncio.gather(*waiting, queued, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 4

    asyncio.run(play())
