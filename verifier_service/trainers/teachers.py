"""Teachers behind OpenAI-compatible endpoints: log-probabilities of the student's own tokens.

A teacher that did not answer gives no number: every failure is a ``TeacherError`` with a code.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from verifier_service.trainers.numeric import Floats
from verifier_service.trainers.teacher_answers import (
    Continuation,
    Dialect,
    Misaligned,
    TeacherError,
    TeacherRefused,
    TeacherUnavailable,
    UnusableAnswer,
    logprobs_of,
)

__all__ = [
    "Continuation",
    "Misaligned",
    "Teacher",
    "TeacherError",
    "TeacherRefused",
    "TeacherScore",
    "TeacherUnavailable",
    "Teachers",
    "UnusableAnswer",
]

BUSY = frozenset({408, 429})
FIRST_DELAY_S = 0.2
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Teacher:
    """One model behind ``{url}/completions`` (``url`` usually ends in ``/v1``).

    ``dialect``: ``prompt_logprobs`` for vLLM, ``echo`` for others; see ``teacher_answers``. ``generated``:
    how many tokens the endpoint is asked to add; by default the least that the dialect allows, 0 for
    ``echo`` and 1 for ``prompt_logprobs``. ``timeout_s`` bounds one attempt as a whole; lost connections,
    timeouts, 408, 429 and 5xx are tried ``attempts`` times. At most ``concurrency`` requests are under way
    at a time. ``extra``: more members of the request, such as ``add_special_tokens`` (False where the
    prompt is text that a chat template wrote) or vLLM's ``return_tokens_as_token_ids`` (True lets ``echo``
    compare token ids).
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    dialect: Dialect = "prompt_logprobs"
    generated: int | None = None
    timeout_s: float = 120.0
    attempts: int = 3
    concurrency: int = 16
    max_bytes: int = 256 * 1024 * 1024
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be an http or https address, not {self.url!r}")
        if self.attempts < 1 or self.concurrency < 1 or not self.timeout_s > 0 or self.max_bytes < 1:
            raise ValueError("attempts, concurrency, timeout_s and max_bytes must be above 0")

    @property
    def added(self) -> int:
        """How many tokens the endpoint is asked to add."""
        return self.generated if self.generated is not None else int(self.dialect == "prompt_logprobs")

    def request(self, asked: Continuation) -> dict[str, Any]:
        """The body of a request."""
        wanted: dict[str, Any] = {"logprobs": 0, "echo": True} if self.dialect == "echo" else {}
        if self.dialect == "prompt_logprobs":
            wanted = {"prompt_logprobs": 0}
        return {
            "model": self.model,
            "prompt": asked.sent(),
            "max_tokens": self.added,
            "temperature": 1.0,
            **wanted,
            **self.extra,
        }


@dataclass(frozen=True, slots=True)
class TeacherScore:
    """What a teacher says about one completion: ``logprobs`` (its tokens,) in nats, or why there are none.
    Exactly one of the two is null."""

    logprobs: Floats | None
    failure: TeacherError | None


class Teachers:
    """Teachers, from one event loop. Use it as an async context manager; it holds their connections."""

    def __init__(self, *teachers: Teacher) -> None:
        if not teachers:
            raise ValueError("there must be at least one teacher")
        self.teachers = teachers
        self._http = [_client(teacher) for teacher in teachers]
        self._slots = [asyncio.Semaphore(teacher.concurrency) for teacher in teachers]

    async def logprobs(self, asked: Sequence[Continuation], teacher: int = 0) -> list[TeacherScore]:
        """What one teacher says about each completion, in the order given.

        Raises ``Misaligned``, after all others have ended: a teacher with another vocabulary can answer
        nothing. All other failures are in their places.
        """
        scores = await asyncio.gather(*(self._score(one, teacher) for one in asked))
        for score in scores:
            if isinstance(score.failure, Misaligned):
                raise score.failure
        return scores

    async def all_logprobs(self, asked: Sequence[Continuation]) -> list[list[TeacherScore]]:
        """What every teacher says, for teachers that read the same prompt: (teachers, completions)."""
        every = [self.logprobs(asked, place) for place in range(len(self.teachers))]
        return list(await asyncio.gather(*every))

    async def close(self) -> None:
        """Close the connections."""
        for http in self._http:
            await http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _score(self, asked: Continuation, place: int) -> TeacherScore:
        try:
            async with self._slots[place]:
                return TeacherScore(await self._ask(asked, place), None)
        except TeacherError as error:
            return TeacherScore(None, error)

    async def _ask(self, asked: Continuation, place: int) -> Floats:
        teacher = self.teachers[place]
        attempt = 0
        while True:
            try:
                content = await _post(self._http[place], teacher, asked)
                return logprobs_of(content, asked, teacher.dialect, teacher.added)
            except TeacherError as error:
                attempt += 1
                if not error.retryable or attempt >= teacher.attempts:
                    raise
            delay = min(10.0, FIRST_DELAY_S * 2.0**attempt)
            await asyncio.sleep(delay * (0.5 + 0.5 * random.random()))  # noqa: S311 - only spreads retries


async def _post(http: httpx.AsyncClient, teacher: Teacher, asked: Continuation) -> bytes:
    """The body of a good answer, of at most ``max_bytes``."""
    try:
        async with (
            asyncio.timeout(teacher.timeout_s),
            http.stream("POST", "completions", json=teacher.request(asked)) as answer,
        ):
            content = await _read(answer, teacher.max_bytes)
            status = answer.status_code
    except (TimeoutError, httpx.TimeoutException) as error:
        message = f"no answer within {teacher.timeout_s:g} s"
        raise TeacherUnavailable("timeout", message, retryable=True) from error
    except httpx.TransportError as error:
        message = str(error) or type(error).__name__
        raise TeacherUnavailable("unreachable", message, retryable=True) from error
    if status == 200:
        return content
    text = content[:300].decode("utf-8", "replace")
    if status in BUSY or status >= 500:
        raise TeacherUnavailable(f"http_{status}", text, retryable=True)
    raise TeacherRefused(f"http_{status}", text)


async def _read(answer: httpx.Response, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.aiter_bytes():
        size += len(part)
        if size > most:
            raise UnusableAnswer("too_large", f"the answer has more than {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _client(teacher: Teacher) -> httpx.AsyncClient:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if teacher.key is not None:
        headers["Authorization"] = f"Bearer {teacher.key}"
    return httpx.AsyncClient(
        base_url=teacher.url,
        headers=headers,
        limits=httpx.Limits(max_connections=teacher.concurrency),
        timeout=httpx.Timeout(teacher.timeout_s, pool=None),
        trust_env=urlsplit(teacher.url).hostname not in LOCAL,
    )
