"""Errors as pages in plain words, with what to do next; as plain text for scripts."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import cast
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from verifier_service.dashboard.cookies import HOME, safe_next
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import FormRefused, NotUtf8, SignInNeeded, office_of, visit_of
from verifier_service.dashboard.sizes import TooMuch
from verifier_service.domain.accounts import Viewer
from verifier_service.domain.errors import (
    Conflict,
    Contended,
    Forbidden,
    InvalidInput,
    LockedOut,
    NotFound,
    Unauthenticated,
    Unavailable,
    VerificationError,
)

log = logging.getLogger(__name__)

STATUSES: Mapping[type[VerificationError], HTTPStatus] = {
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    LockedOut: HTTPStatus.TOO_MANY_REQUESTS,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Contended: HTTPStatus.SERVICE_UNAVAILABLE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    VerificationError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
NEXT_STEPS: Mapping[type[VerificationError], str] = {
    FormRefused: "Go back, reload the page and send the form again.",
    InvalidInput: "Go back and correct it; what you filled in is still there.",
    LockedOut: "Wait, or ask an admin for a link to set a new password.",
    Forbidden: "Ask an admin for another role if you need it.",
    NotFound: "It may have been removed. Check the address, or go to the start.",
    Conflict: "Somebody may have been quicker. Go back, reload the page and look again.",
    Contended: "Try again in a moment.",
    Unavailable: "Try again in a moment. If it goes on, tell whoever runs this service.",
}


def install(app: FastAPI) -> None:
    """Answer every error below ``/ui`` as a page."""
    app.add_exception_handler(SignInNeeded, _sign_in)
    app.add_exception_handler(VerificationError, _of_domain)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(ClientDisconnect, _nobody_there)
    app.add_exception_handler(Exception, _unexpected)


def status_of(error: VerificationError) -> int:
    """The HTTP status of a domain error on a page."""
    return int(next(found for kind, found in STATUSES.items() if isinstance(error, kind)))


def from_script(request: Request) -> bool:
    """Whether htmx or ``fetch`` asks, not somebody who follows a link or sends a form."""
    mode = request.headers.get("Sec-Fetch-Mode", "navigate")
    return "HX-Request" in request.headers or mode != "navigate"


async def _sign_in(request: Request, error: Exception) -> Response:
    raised = cast(SignInNeeded, error)
    if from_script(request):
        return PlainTextResponse(raised.message, status_code=int(HTTPStatus.UNAUTHORIZED))
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    wanted = safe_next(where) if request.method == "GET" else HOME
    suffix = "" if wanted == HOME else f"?next={quote(wanted, safe='')}"
    return RedirectResponse(f"/ui/login{suffix}", status_code=303)


async def _nobody_there(_request: Request, _error: Exception) -> Response:
    """The browser left before its form was here; nobody reads this."""
    return Response(status_code=int(HTTPStatus.BAD_REQUEST))


async def _of_domain(request: Request, error: Exception) -> Response:
    raised = cast(VerificationError, error)
    step = next((text for kind, text in NEXT_STEPS.items() if isinstance(raised, kind)), "")
    field = f"{raised.field}: " if raised.field else ""
    response = _page(request, status_of(raised), field + raised.message, step)
    if isinstance(raised, LockedOut):
        response.headers["Retry-After"] = str(raised.retry_after_s)
    return response


async def _bad_request(request: Request, error: Exception) -> Response:
    first = cast(RequestValidationError, error).errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    return _page(request, 422, f"{name}: {first['msg']}", NEXT_STEPS[InvalidInput])


async def _of_framework(request: Request, error: Exception) -> Response:
    raised = cast(HTTPException, error)
    status = raised.status_code
    if isinstance(error, TooMuch):
        message, step = error.detail, "Nothing was stored. Send less."
    elif isinstance(error, NotUtf8):
        message, step = error.detail, "Send it from the page itself."
    elif status == HTTPStatus.NOT_FOUND:
        message, step = "there is no such page", NEXT_STEPS[NotFound]
    else:
        message, step = HTTPStatus(status).phrase.lower(), "Go back and try again."
    if request.method == "GET" and not hasattr(request.state, "visit"):
        await run_in_threadpool(visit_of, request, office_of(request))
    response = _page(request, status, message, step)
    response.headers.update(raised.headers or {})
    return response


async def _unexpected(request: Request, _error: Exception) -> Response:
    """The server logs the traceback; the page shows nothing of the inside."""
    error_id = secrets.token_hex(6)
    log.error("error %s on %s %s", error_id, request.method, request.url.path)
    step = f"Try again. If it goes on, tell whoever runs this service the number {error_id}."
    return _page(request, 500, "something failed on our side", step)


def _page(request: Request, status: int, message: str, step: str) -> Response:
    if from_script(request):
        return PlainTextResponse(f"{message}. {step}", status_code=status)
    visit = getattr(request.state, "visit", None)
    viewer = None if visit is None else Viewer.of(visit.user)
    return render(request, "error.html", viewer, status=status, code=status, message=message, step=step)
