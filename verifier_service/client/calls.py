"""One call as data: what to send, how to read the answer, whether sending twice is safe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from verifier_service.client.errors import UnexpectedAnswer
from verifier_service.domain.wire import ProblemDetail

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[T]):
    """A request. ``wait_s`` is how long the server may think before it answers; ``repeatable`` is
    false where a second delivery would do a second thing."""

    method: Method
    path: str
    read: Callable[[bytes], T]
    params: Mapping[str, str | int | float] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait_s: float = 0.0
    repeatable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came back."""

    status: int
    content: bytes
    retry_after: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """No answer came. ``delivered``: the server may have acted on the request all the same."""

    cause: str
    delivered: bool


def path(*parts: str) -> str:
    """``/v1/...`` with every part quoted: ids may contain slashes."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def as_json(value: object) -> bytes:
    """JSON bytes of plain values or records. Raises ``ValueError`` for NaN, ``TypeError`` for objects."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def reading(model: type[M]) -> Callable[[bytes], M]:
    """A reader that ignores fields it does not know, at every depth, even inside request records."""

    def read(content: bytes) -> M:
        try:
            return model.model_validate_json(content, strict=False, extra="ignore")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UnexpectedAnswer(f"not a {model.__name__}: {place}: {first['msg']}") from error

    return read


def problem_of(answer: Answer) -> ProblemDetail:
    """The problem body of a refusal; a body of another kind (a proxy's page) becomes the detail."""
    try:
        body: Any = json.loads(answer.content)
        problem = ProblemDetail.model_validate(body)
    except (ValueError, RecursionError):
        text = answer.content[:300].decode("utf-8", "replace").strip()
        return ProblemDetail(status=answer.status, code="http_error", detail=text or "no details given")
    return problem.model_copy(update={"status": answer.status})
