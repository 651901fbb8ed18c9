"""A server made of a function and a clock that only pauses and waits move: for the client's plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from verifier_service.client.calls import Answer, Call, Lost
from verifier_service.client.exchange import Pause, Plan, Session

T = TypeVar("T")
Handler = Callable[[Call[Any], dict[str, Any]], Answer | Lost]
WAITED_S = 1.0


class World:
    """Runs plans. ``handler`` answers each call; its second argument is the parsed body or the query."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.now = 1_000.0
        self.sent: list[Call[Any]] = []
        self.pauses: list[float] = []

    @classmethod
    def saying(cls, *replies: Answer | Lost) -> World:
        """Replies in order; the last one for ever."""
        left = list(replies)
        return cls(lambda _call, _body: left.pop(0) if len(left) > 1 else left[0])

    def session(self, retry_s: float = 60.0) -> Session:
        """A session on this clock, without jitter."""
        return Session(url="http://here", retry_s=retry_s, clock=lambda: self.now, jitter=lambda: 1.0)

    def run(self, plan: Plan[T]) -> T:
        """Run a plan to its end. A call that waits takes up to a second of this world's time."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                self.now += step.seconds
                reply = None
            else:
                self.sent.append(step.call)
                reply = self.handler(step.call, body_of(step.call))
                self.now += min(WAITED_S, step.call.wait_s)

    def paths(self) -> list[str]:
        """The last part of the path of every call."""
        return [call.path.rpartition("/")[2] for call in self.sent]


def body_of(call: Call[Any]) -> dict[str, Any]:
    """What a call carries."""
    found: dict[str, Any] = json.loads(call.body) if call.body is not None else dict(call.params)
    return found


def reply(status: int, body: dict[str, Any] | Sequence[Any], retry_after: str | None = None) -> Answer:
    """An answer with a JSON body."""
    return Answer(status=status, content=json.dumps(body).encode(), retry_after=retry_after)
