"""RFC 9457 problem bodies: the only place that knows which error is which HTTP status."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from verifier_service.api.envelopes import Problem
from verifier_service.api.parsing import invalid_value
from verifier_service.domain.errors import (
    BudgetExhausted,
    Conflict,
    Contended,
    Forbidden,
    Gone,
    InvalidInput,
    LimitExceeded,
    NotFound,
    Unauthenticated,
    Unavailable,
    VerificationError,
    VerifierFailure,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:verifier-service:problem:"
MAX_TEXT = 2_000
RETRY_AFTER_S = "1"
CLIENT_GONE = 499
NOTHING_MORE = int(HTTPStatus.NO_CONTENT)  # on which event sources do not come again
PARTS_OF_A_REQUEST = ("body", "query", "path", "header", "cookie")


class ClientGone(Exception):
    """The client closed the connection before its answer was ready."""


class BodyTooLarge(HTTPException):
    """A body grew beyond the limit while it arrived. Frameworks let this class pass unchanged."""

    def __init__(self, limit: int) -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self.limit = limit


class Overloaded(VerificationError):
    """More was sent than is taken now: nothing of it was stored, and after ``retry_after_s`` seconds there
    will be room."""

    retryable = True

    def __init__(
        self, code: str, message: str, *, limit: float, retry_after_s: int, field: str | None = None
    ) -> None:
        super().__init__(code, message, field=field)
        self.limit = limit
        self.retry_after_s = retry_after_s


STATUSES: Mapping[type[VerificationError], HTTPStatus] = {
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    Gone: HTTPStatus.GONE,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    BudgetExhausted: HTTPStatus.PAYMENT_REQUIRED,
    Overloaded: HTTPStatus.TOO_MANY_REQUESTS,
    Contended: HTTPStatus.SERVICE_UNAVAILABLE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    VerifierFailure: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def after_wait(met: bool) -> int:
    """The status of an answer that may have been waited for: 200, or 202 where more is to come."""
    return int(HTTPStatus.OK if met else HTTPStatus.ACCEPTED)


def after_put(created: bool) -> int:
    """201 for what is new, 200 for what was there."""
    return int(HTTPStatus.CREATED if created else HTTPStatus.OK)


def of_readiness(ready: bool) -> int:
    """200, or 503 while something is missing."""
    return int(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)


def problem(status: int, code: str, detail: str, **extra: Any) -> Response:
    """A problem response. Its body is JSON that every reader takes, whatever ``detail`` quotes."""
    members = {name: value for name, value in extra.items() if value is not None and name != "headers"}
    body = Problem(
        type=TYPE_PREFIX + code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_safe(detail),
        code=code,
        **{name: _safe(value) if isinstance(value, str) else value for name, value in members.items()},
    )
    content = json.dumps(body.model_dump(), allow_nan=False).encode()
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=extra.get("headers"))


def body_too_slow() -> bytes:
    """The whole answer, as it goes over a connection that ends with it."""
    status = HTTPStatus.REQUEST_TIMEOUT
    made = problem(status, "body_too_slow", "the body of the request came too slowly")
    headers = [*made.raw_headers, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {status} {status.phrase}".encode(), *(b": ".join(header) for header in headers)]
    return b"\r\n".join((*lines, b"", bytes(made.body)))


def of_error(error: VerificationError) -> Response:
    """The response to a domain error."""
    status = next(found for kind, found in STATUSES.items() if isinstance(error, kind))
    headers: dict[str, str] | None = None
    if isinstance(error, Unauthenticated):
        headers = {"WWW-Authenticate": 'Bearer realm="verifier"'}
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers = {"Retry-After": RETRY_AFTER_S}
    elif isinstance(error, Overloaded):
        headers = {"Retry-After": str(error.retry_after_s)}
    limit = error.limit if isinstance(error, LimitExceeded | Overloaded) else None
    return problem(
        status,
        error.code,
        error.message,
        field=error.field,
        limit=limit,
        retryable=error.retryable,
        headers=headers,
    )


def body_too_large(limit: int) -> Response:
    """413 with the limit named; the connection closes, because the rest of the body is not read."""
    return problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"the body exceeds the limit of {limit} bytes",
        limit=limit,
        headers={"Connection": "close"},
    )


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem responses of a route for its OpenAPI description, with those every route can give."""
    return {status: _described(status) for status in sorted({401, 403, 422, 429, 503, *statuses})}


def too_large() -> dict[str, Any]:
    """The problem response of every operation with a body, as the OpenAPI document has it."""
    status = int(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return {str(status): _described(status)}


def _described(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem body."""
    app.add_exception_handler(VerificationError, _domain)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientGone, _gone)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def _domain(_: Request, error: Exception) -> Response:
    return of_error(cast(VerificationError, error))


async def _validation(_: Request, error: Exception) -> Response:
    """Path and query parameters; bodies are read by ``parsing``."""
    first = cast(RequestValidationError, error).errors()[0]
    path = [part for part in first["loc"] if part not in PARTS_OF_A_REQUEST]
    named = invalid_value(first["type"], first["msg"], (), None)
    return of_error(InvalidInput(named.code, named.message, field=".".join(map(str, path)) or None))


async def _http(request: Request, error: Exception) -> Response:
    if isinstance(error, BodyTooLarge):
        return body_too_large(error.limit)
    raised = cast(HTTPException, error)
    code = HTTPStatus(raised.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    headers = dict(raised.headers or {})
    if raised.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed(request))
    return problem(raised.status_code, code, str(raised.detail), headers=headers)


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


async def _unexpected(request: Request, _error: Exception) -> Response:
    """The server logs the traceback; the body says nothing about the inside."""
    error_id = secrets.token_hex(6)
    log.error("error %s on %s %s", error_id, request.method, request.url.path)
    return problem(500, "internal_error", "the server failed; its log has the details", error_id=error_id)


def _allowed(request: Request) -> list[str]:
    """The methods of the path, over all its routes: the framework names those of one route only."""
    parts = request.scope["path"].split("/")
    found: dict[int, list[str]] = {}
    for path, operations in request.app.openapi()["paths"].items():
        template = path.split("/")
        variable = [part.startswith("{") for part in template]
        if len(template) == len(parts) and all(map(_fits, template, parts)):
            found[sum(variable)] = sorted(method.upper() for method in operations)
    return found[min(found)] if found else []


def _fits(template: str, part: str) -> bool:
    return template == part or (template.startswith("{") and part != "")


def _safe(text: str) -> str:
    """Text that every JSON reader takes: no lone surrogates, no NUL, not endless."""
    cut = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
    return cut.encode("utf-8", "replace").decode().replace("\x00", "�")
