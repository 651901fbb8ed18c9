"""One-time links: the first admin of a new service, and passwords that are set or lost."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from verifier_service.dashboard.cookies import HOME
from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.pages import base_of, render
from verifier_service.dashboard.sessions import InOffice, InPlace, office_of
from verifier_service.dashboard.sign_in import enter
from verifier_service.domain.accounts import Login, Name, Password, TicketKind
from verifier_service.domain.errors import Conflict, InvalidInput, LinkRefused
from verifier_service.domain.records import Request as Form

router = APIRouter()

Token = Annotated[str, Field(max_length=200, repr=False)]
FORWARDING = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "X-Forwarded-Host", "Via")


class FirstAdmin(Form):
    """The form of the first admin."""

    token: Token
    login: Login
    name: Name
    password: Password
    again: Password


class NewPassword(Form):
    """The form of a link to set a password."""

    token: Token
    password: Password
    again: Password


def from_this_machine(request: Request) -> None:
    """Raise ``LinkRefused`` unless the connection itself comes from this machine: what a proxy passes on
    does not, whatever its headers say. Nor does a page whose name was made to lead here (DNS rebinding):
    the host asked for is this machine, or the one that the server was told to serve on."""
    peer = request.client.host if request.client is not None else ""
    asked = _name_of(request.headers.get("Host", ""))
    bound = office_of(request).service.settings.host.lower()
    local = _is_loopback(peer) and (asked in ("localhost", bound) or _is_loopback(asked))
    if not local or any(name in request.headers for name in FORWARDING):
        raise LinkRefused("not_local", "this link opens only in a browser on the machine of the server")


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@router.get("/setup", dependencies=[Depends(from_this_machine)])
def setup_page(request: Request, office: InOffice, token: str = "") -> Response:
    """The form of the first admin; looking at it does not use the link up."""
    office.accounts.look_at_link(TicketKind.SETUP, token)
    return render(request, "setup.html", None, token=token, filled={}, problem=None)


@router.post("/setup", dependencies=[Depends(from_this_machine)])
def set_up(
    request: Request,
    sent: Annotated[Filled[FirstAdmin], Depends(form_of(FirstAdmin))],
    office: InOffice,
    place: InPlace,
) -> Response:
    """Make the first admin and sign in."""
    try:
        form = sent.read()
        require_same(form.password, form.again)
        opened = office.accounts.set_up(form.token, form.login, form.name, form.password, place)
    except (InvalidInput, Conflict) as error:
        token, status = str(sent.raw.get("token", "")), status_of(error)
        page = {"token": token, "filled": sent.raw, "problem": error}
        return render(request, "setup.html", None, status=status, **page)
    return enter(request, opened, HOME, "The first admin is made, and you are signed in.")


@router.get("/password")
def password_page(request: Request, office: InOffice, token: str = "") -> Response:
    """The form for a new password."""
    login = office.accounts.look_at_link(TicketKind.PASSWORD, token)
    return render(request, "password.html", None, token=token, login=login, problem=None)


@router.post("/password")
def set_password(
    request: Request,
    sent: Annotated[Filled[NewPassword], Depends(form_of(NewPassword))],
    office: InOffice,
    place: InPlace,
) -> Response:
    """Set the password and sign in."""
    try:
        form = sent.read()
        require_same(form.password, form.again)
        opened = office.accounts.set_password(form.token, form.password, place)
    except InvalidInput as error:
        token = str(sent.raw.get("token", ""))
        login = office.accounts.look_at_link(TicketKind.PASSWORD, token)
        page = {"token": token, "login": login, "problem": error}
        return render(request, "password.html", None, status=status_of(error), **page)
    return enter(request, opened, HOME, "Your password is set, and you are signed in.")


def link_to(request: Request, page: str, token: str) -> str:
    """The address of a one-time link, as browsers elsewhere reach this service."""
    return f"{base_of(request)}/ui/{page}?token={token}"


def require_same(password: str, again: str) -> None:
    """Raise ``InvalidInput`` when a password was not typed the same way twice."""
    if password != again:
        raise InvalidInput("not_the_same", "the two passwords differ", field="again")
