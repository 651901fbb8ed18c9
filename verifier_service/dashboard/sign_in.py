"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from verifier_service.dashboard.cookies import (
    DEVICES,
    DEVICES_S,
    FORM,
    SESSION,
    drop_cookie,
    read_cookie,
    safe_next,
    set_cookie,
)
from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import InOffice, InPlace, MaybeVisit, Office, Visiting
from verifier_service.domain.accounts import Password
from verifier_service.domain.errors import InvalidInput, LockedOut, Unauthenticated, VerificationError
from verifier_service.domain.records import Request as Form
from verifier_service.services.sign_in import Opened

router = APIRouter()


class SignIn(Form):
    """What the sign-in form holds."""

    login: Annotated[str, Field(max_length=64, description="your login")]
    password: Password
    next: str | None = None


@router.get("/login")
def login_page(request: Request, visit: MaybeVisit, office: InOffice, next: str | None = None) -> Response:
    """The form; who is signed in already goes on."""
    if visit is not None:
        return redirect(request, safe_next(next))
    return _form(request, office, safe_next(next))


@router.post("/login")
def sign_in(
    request: Request,
    sent: Annotated[Filled[SignIn], Depends(form_of(SignIn))],
    office: InOffice,
    place: InPlace,
) -> Response:
    """Open a session and go on to the page that was asked for."""
    wanted = safe_next(str(sent.raw.get("next", "")))
    try:
        form = sent.read()
        opened = office.accounts.log_in(form.login.strip().lower(), form.password, place)
    except (InvalidInput, Unauthenticated) as error:
        return _form(request, office, wanted, str(sent.raw.get("login", ""))[:64], error)
    return enter(request, opened, wanted)


@router.post("/logout")
def sign_out(request: Request, office: InOffice, _visit: Visiting) -> Response:
    """End the session."""
    office.accounts.log_out(read_cookie(request, SESSION) or "")
    response = redirect(request, "/ui/login", "You are signed out.")
    drop_cookie(request, response, SESSION)
    return response


def enter(request: Request, opened: Opened, path: str, notice: str | None = None) -> Response:
    """Give the browser its new session and go on."""
    response = redirect(request, path, notice)
    session = opened.session
    lasts = int((session.expires_at - session.created_at).total_seconds())
    set_cookie(request, response, SESSION, opened.token, max_age=lasts)
    set_cookie(request, response, DEVICES, opened.devices, max_age=DEVICES_S)
    drop_cookie(request, response, FORM)
    return response


def _form(
    request: Request, office: Office, wanted: str, login: str = "", problem: VerificationError | None = None
) -> Response:
    page = {"next": wanted, "login": login, "problem": problem, "sso": office.provider is not None}
    status = 200 if problem is None else status_of(problem)
    response = render(request, "login.html", None, status=status, **page)
    if isinstance(problem, LockedOut):
        response.headers["Retry-After"] = str(problem.retry_after_s)
    return response
