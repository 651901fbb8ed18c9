"""Delivering one call: retries, backoff and the readings of failure, without any I/O.

Everything the client does is a ``Plan``: a generator that yields steps and receives what came of them,
so that the blocking and the asyncio client run the same code.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, TypeVar

from verifier_service.client.calls import Answer, Call, Lost, problem_of
from verifier_service.client.errors import InvalidRequest, VerifierUnavailable, refusal
from verifier_service.domain.wire import MAX_WAIT_S, ProblemDetail

T = TypeVar("T")

BUSY = frozenset({429, 502, 503, 504})
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0
TOO_LONG = "wait_too_long"
TOO_MANY, NOT_NOW = 429, 503
# Codes of a 503 with which the server says that nothing has happened. Any other may come from a proxy, or
# after a commit whose answer was lost.
UNTOUCHED = frozenset(
    {
        "busy_reading",
        "check_moved",
        "checks_contended",
        "database_busy",
        "database_contended",
        "evidence_retracted",
        "import_contended",
        "names_slow",
        "queue_contended",
        "settlement_contended",
        "stopping",
    }
)
SPREAD_S, SPREAD_SHARE = 0.5, 0.1


@dataclass(frozen=True, slots=True)
class Send:
    """Step: deliver this call; the plan is sent an ``Answer`` or a ``Lost``."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Step: sleep; the plan is sent ``None``."""

    seconds: float


Plan: TypeAlias = Generator[Send | Pause, Answer | Lost | None, T]


@dataclass(slots=True)
class Ceiling:
    """The longest wait that the server grants in one request, as far as it is known."""

    seconds: float = MAX_WAIT_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What plans need to know. ``retry_s``: how long a silent or busy server is tried again."""

    url: str
    retry_s: float = 60.0
    ceiling: Ceiling = field(default_factory=Ceiling)
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


@dataclass(slots=True)
class Failures:
    """The failures of a call since it last worked; when to try again, and when not."""

    session: Session
    repeatable: bool = True
    until: float | None = None
    _since: float | None = None
    _attempt: int = 0

    def over(self) -> None:
        """It works."""
        self._since, self._attempt = None, 0

    def pause(self, reply: Answer | Lost | None) -> float:
        """Seconds to wait before it is sent again. Raises ``CallRefused`` for a refusal that stands, and
        ``VerifierUnavailable`` when it may not be sent again or the time is up."""
        now = self.session.clock()
        if isinstance(reply, Answer):
            problem = problem_of(reply)
            if reply.status not in BUSY:
                raise refusal(problem)
            cause, asked = f"{problem.status} {problem.detail or problem.code}", _retry_after(reply)
            again = self.repeatable or _untouched(problem)
        else:
            problem, asked = None, None
            cause = reply.cause if reply is not None else "no reply"
            again = self.repeatable or (reply is not None and not reply.delivered)
        since = self._since = now if self._since is None else self._since
        jitter = self.session.jitter()
        delay = max(backoff(self._attempt, jitter), _spread(asked or 0.0, jitter))
        if not again or not _may_wait(self.session, now, delay, since, self.until):
            raise VerifierUnavailable(self.session.url, now - since, cause, problem)
        self._attempt += 1
        return delay


def deliver(session: Session, call: Call[T], *, until: float | None = None) -> Plan[T]:
    """Send until it is answered.

    Connection trouble, 429, 502, 503 and 504 are retried for ``retry_s`` seconds after the first
    failure, and not beyond ``until`` (on the session's clock); then ``VerifierUnavailable`` is raised.
    A call that is not repeatable is sent again only when no connection was made, or when the server says
    that it did nothing: 429, and a 503 with a code of ``UNTOUCHED``. Any other refusal raises its
    ``CallRefused``.
    """
    failures = Failures(session, call.repeatable, until)
    while True:
        reply = yield Send(call)
        if isinstance(reply, Answer) and 200 <= reply.status < 300:
            return call.read(reply.content)
        yield Pause(failures.pause(reply))


def deliver_waiting(
    session: Session, build: Callable[[float], Call[T]], seconds: float, *, until: float | None = None
) -> Plan[T]:
    """Deliver a call that waits on the server, for as many of ``seconds`` as one request may."""
    try:
        return (yield from deliver(session, build(min(seconds, session.ceiling.seconds)), until=until))
    except InvalidRequest as refused:
        limit = refused.problem.limit
        if refused.code != TOO_LONG or limit is None or not 0 <= limit < session.ceiling.seconds:
            raise
        session.ceiling.seconds = limit
    return (yield from deliver(session, build(min(seconds, limit)), until=until))


def backoff(attempt: int, jitter: float) -> float:
    """Seconds before the next attempt: doubling, capped, spread over [half, whole] by ``jitter``."""
    whole = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(attempt, 30))
    return whole * (0.5 + 0.5 * jitter)


def _may_wait(session: Session, now: float, delay: float, failed_at: float, until: float | None) -> bool:
    ends = failed_at + session.retry_s
    return now + delay <= (ends if until is None else min(ends, until))


def _untouched(problem: ProblemDetail) -> bool:
    """Whether the server says that the call has done nothing."""
    return problem.status == TOO_MANY or (problem.status == NOT_NOW and problem.code in UNTOUCHED)


def _spread(asked_s: float, jitter: float) -> float:
    """What a server asks for and a little more, so that its clients do not all come back at once."""
    return asked_s + jitter * max(SPREAD_S, SPREAD_SHARE * asked_s) if asked_s > 0 else 0.0


def _retry_after(answer: Answer) -> float | None:
    """``Retry-After`` in seconds (RFC 9110, 10.2.3): a number or a date; null where it cannot be read."""
    text = (answer.retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
