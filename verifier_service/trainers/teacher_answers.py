"""Reading a teacher's answer: the log-probabilities of exactly the tokens asked about, or an error.

Two dialects of ``/v1/completions``. ``echo``: ``logprobs.tokens`` and ``logprobs.token_logprobs`` of the
echoed prompt (OpenAI, and servers after it). ``prompt_logprobs``: per position of the prompt an object
from token id to ``{"logprob", "rank", "decoded_token"}`` (vLLM). In both the first token has null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from numbers import Integral
from typing import Any, Literal, NamedTuple

from verifier_service.trainers.numeric import Floats, np

Dialect = Literal["echo", "prompt_logprobs"]
ID_PREFIX = "token_id:"
ROUNDING = 1e-4
LOWEST = 1e9  # below it, or NaN, is no log-probability of any model


class TeacherError(Exception):
    """There are no log-probabilities. ``code`` is stable; ``retryable``: the same request may succeed."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retryable = code, message, retryable


class TeacherUnavailable(TeacherError):
    """No answer: ``unreachable``, ``timeout``, or ``http_429``, ``http_5xx`` after all attempts."""


class TeacherRefused(TeacherError):
    """The endpoint refused the request: ``http_4xx``, ``http_3xx``."""


class UnusableAnswer(TeacherError):
    """An answer without usable numbers: ``too_large``, ``not_json``, ``no_logprobs``, ``wrong_length``,
    ``missing_logprob``, ``not_finite``, ``not_a_logprob``."""


class Misaligned(TeacherError):
    """Teacher and student do not cut the text into the same tokens. ``position`` counts the completion's
    tokens from 0."""

    def __init__(self, position: int, expected: object, found: object) -> None:
        message = f"token {position} of the completion is {expected!r}, and {found!r} for the teacher"
        super().__init__("misaligned", message)
        self.position, self.expected, self.found = position, expected, found


@dataclass(frozen=True, slots=True)
class Continuation:
    """What the teacher reads: a prompt, and the student's own completion token by token.

    Either both as token ids (the teacher must have the student's vocabulary), or the prompt as text and
    the completion as the texts of the student's tokens. The prompt must not be empty: the first token of
    a sequence has no log-probability.
    """

    prompt: Sequence[int] | str
    completion: Sequence[int] | Sequence[str]

    def __post_init__(self) -> None:
        if not len(self.prompt) or not len(self.completion):
            raise ValueError("prompt and completion must not be empty")
        kind = str if isinstance(self.prompt, str) else Integral
        if not all(isinstance(token, kind) for token in (*self.prompt, *self.completion)):
            raise TypeError("prompt and completion must both be token ids, or both be texts")

    @property
    def as_text(self) -> bool:
        """Whether this is text."""
        return isinstance(self.prompt, str)

    def sent(self) -> str | list[int]:
        """The ``prompt`` member of the request."""
        if isinstance(self.prompt, str):
            return self.prompt + "".join(str(token) for token in self.completion)
        return [int(token) for token in (*self.prompt, *self.completion)]


class _Told(NamedTuple):
    """What was said about one position: the token by id or text, where told, and its log-probability."""

    token: object
    logprob: object


def logprobs_of(content: bytes, asked: Continuation, dialect: Dialect, generated: int) -> Floats:
    """(len(completion),) log-probabilities in nats, from the body of an answer.

    ``generated``: how many tokens beyond the prompt the endpoint may have added. Raises ``UnusableAnswer``
    and ``Misaligned``.
    """
    choice = _choice(content)
    told = _echoed(choice, asked, generated) if dialect == "echo" else _prompted(choice, asked)
    return np.array([_number(one.logprob, place) for place, one in enumerate(told)], dtype=np.float64)


def _choice(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnusableAnswer("not_json", "the answer is not JSON") from error
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UnusableAnswer("no_logprobs", "the answer has not one choice")
    usage = body.get("usage")
    return {**choices[0], "usage": usage if isinstance(usage, dict) else {}}


def _echoed(choice: Mapping[str, Any], asked: Continuation, generated: int) -> list[_Told]:
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    values = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not isinstance(values, list):
        raise UnusableAnswer("no_logprobs", "the answer has no logprobs.tokens and logprobs.token_logprobs")
    if len(tokens) != len(values):
        raise UnusableAnswer("wrong_length", f"{len(tokens)} tokens and {len(values)} log-probabilities")
    told = [_Told(token, value) for token, value in zip(tokens, values, strict=True)]
    if asked.as_text:
        extra = choice["usage"].get("completion_tokens", 0)
        if not isinstance(extra, int) or not 0 <= extra <= min(generated, len(told)):
            raise UnusableAnswer(
                "wrong_length", f"{extra!r} tokens were generated, at most {generated} asked"
            )
        return _by_text(told[: len(told) - extra], asked)
    wanted = len(asked.prompt) + len(asked.completion)
    if not wanted <= len(told) <= wanted + generated:
        raise UnusableAnswer("wrong_length", f"{len(told)} tokens came back, {wanted} were sent")
    mine = told[len(asked.prompt) : wanted]
    for place, (one, token) in enumerate(zip(mine, asked.completion, strict=True)):
        if isinstance(one.token, str) and one.token.startswith(ID_PREFIX):
            found = one.token.removeprefix(ID_PREFIX)
            if found != str(token):
                raise Misaligned(place, token, found)
    return mine


def _prompted(choice: Mapping[str, Any], asked: Continuation) -> list[_Told]:
    entries = choice.get("prompt_logprobs")
    if not isinstance(entries, list):
        raise UnusableAnswer("no_logprobs", "the answer has no prompt_logprobs")
    if asked.as_text:
        return _by_text([_own(entry) for entry in entries], asked)
    wanted = len(asked.prompt) + len(asked.completion)
    if len(entries) != wanted:
        raise UnusableAnswer("wrong_length", f"{len(entries)} positions came back, {wanted} were sent")
    told = []
    for place, token in enumerate(asked.completion):
        entry = entries[len(asked.prompt) + place]
        if not isinstance(entry, dict):
            raise UnusableAnswer("missing_logprob", f"there is none for token {place} of the completion")
        found = entry.get(str(token))
        if not isinstance(found, dict):
            raise Misaligned(place, token, next(iter(entry), None))
        told.append(_Told(token, found.get("logprob")))
    return told


def _own(entry: object) -> _Told:
    """The prompt's own token at a position: it is the first of an object."""
    found = next(iter(entry.values()), None) if isinstance(entry, dict) else None
    if not isinstance(found, dict):
        return _Told("", None)
    return _Told(found.get("decoded_token"), found.get("logprob"))


def _by_text(told: Sequence[_Told], asked: Continuation) -> list[_Told]:
    """The last tokens, which must be the student's, text by text."""
    left, start = sum(len(str(token)) for token in asked.completion), len(told)
    while start > 0 and left > 0:
        start -= 1
        left -= len(str(told[start].token))
    if left:
        raise Misaligned(0, asked.completion[0], told[start].token if told else None)
    mine = list(told[start:])
    for place, (one, token) in enumerate(zip_longest(mine, asked.completion)):
        if one is None or one.token != token:
            raise Misaligned(place, token, None if one is None else one.token)
    return mine


def _number(value: object, place: int) -> float:
    if value is None:
        raise UnusableAnswer("missing_logprob", f"there is none for token {place} of the completion")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableAnswer("not_a_logprob", f"token {place} of the completion has {value!r}")
    if not -LOWEST <= value <= LOWEST:
        raise UnusableAnswer("not_finite", f"token {place} of the completion has no finite number")
    if value > ROUNDING:
        raise UnusableAnswer("not_a_logprob", f"token {place} of the completion has {value!r}, above 0")
    return min(0.0, float(value))
