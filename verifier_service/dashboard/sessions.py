"""Who looks at a page, and whether a form came from a page of ours.

``guard`` stands before every route below ``/ui``: what is not ``PUBLIC`` needs a session, and what is
posted needs the token of the session and the right origin. Routes add the right they ask for.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from verifier_service.bootstrap import Service
from verifier_service.bootstrap.accounts import Accounts, Place
from verifier_service.dashboard.cookies import DEVICES, FORM, SESSION, read_cookie
from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.errors import Forbidden, Unauthenticated
from verifier_service.domain.ports.accounts import Visit
from verifier_service.oidc import OidcProvider

PUBLIC = frozenset({"/ui/login", "/ui/setup", "/ui/password", "/ui/oidc", "/ui/oidc/callback"})
SAFE_METHODS = ("GET", "HEAD")
TOKEN_FIELD, TOKEN_HEADER = "csrf", "X-CSRF-Token"
LIMITS = {"max_fields": 500, "max_files": 8, "max_part_size": 262_144}
OF_STRANGERS = {"max_fields": 20, "max_files": 0, "max_part_size": 8_192}


@dataclass(frozen=True, slots=True)
class Office:
    """What the pages share."""

    service: Service
    accounts: Accounts
    provider: OidcProvider | None = None


class SignInNeeded(Unauthenticated):
    """Nobody is signed in, or the session has ended."""

    def __init__(self) -> None:
        super().__init__("sign_in", "sign in to go on; your session may have ended")


class FormRefused(Forbidden):
    """A form that did not come from a page of ours, or came from an old one."""

    def __init__(self, detail: str) -> None:
        super().__init__("form_refused", detail)


class NotUtf8(HTTPException):
    """A form that says that it is written in something else than UTF-8. Codecs beside those of texts, which
    Python has as well, fail in ways that no parser of forms expects."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, "the form is not written in UTF-8")


def office_of(request: Request) -> Office:
    """The parts behind the pages."""
    office: Office = request.app.state.office
    return office


InOffice = Annotated[Office, Depends(office_of)]


def service_of(office: InOffice) -> Service:
    """The service behind the pages."""
    return office.service


InService = Annotated[Service, Depends(service_of)]


def visit_of(request: Request, office: InOffice) -> Visit | None:
    """The living session of the browser, if it has one; kept for the page that is rendered."""
    token = read_cookie(request, SESSION)
    visit = office.accounts.visit(token) if token else None
    request.state.visit = visit
    return visit


MaybeVisit = Annotated[Visit | None, Depends(visit_of)]


async def guard(request: Request, visit: MaybeVisit) -> None:
    """Raise ``SignInNeeded`` without a session, ``FormRefused`` for what a foreign page may have sent."""
    public = request.url.path in PUBLIC
    if request.method not in SAFE_METHODS:
        _require_own_origin(request)
    if visit is None and not public:
        raise SignInNeeded
    if request.method in SAFE_METHODS:
        return
    expected = [] if visit is None else [visit.csrf]
    if public and (anonymous := read_cookie(request, FORM)):
        expected.append(anonymous)
    sent = request.headers.get(TOKEN_HEADER) or await _token_field(request)
    if not any(hmac.compare_digest(one.encode(), sent.encode()) for one in expected):
        raise FormRefused("this form is out of date: reload the page and try again")


def visiting(visit: MaybeVisit) -> Visit:
    """The session of whoever is signed in, with any role. Raises ``SignInNeeded``."""
    if visit is None:
        raise SignInNeeded
    return visit


Visiting = Annotated[Visit, Depends(visiting)]


@dataclass(frozen=True, slots=True)
class _Needs:
    """A dependency; tests find by it which right a route asks for."""

    right: Right

    def __call__(self, visit: Visiting) -> Viewer:
        who = Viewer.of(visit.user)
        if not who.may(self.right):
            raise Forbidden("missing_right", f"your role, {who.role}, does not open this page")
        return who


def viewer(right: Right) -> Callable[[Visit], Viewer]:
    """A dependency: the viewer, who has the right. Raises ``SignInNeeded``, ``Forbidden``."""
    return _Needs(right)


Reviewing = Annotated[Viewer, Depends(viewer(Right.REVIEW))]
Leading = Annotated[Viewer, Depends(viewer(Right.LEAD))]
Observing = Annotated[Viewer, Depends(viewer(Right.OBSERVE))]
Operating = Annotated[Viewer, Depends(viewer(Right.OPERATE))]
Administering = Annotated[Viewer, Depends(viewer(Right.ADMINISTER))]


def place_of(request: Request) -> Place:
    """From where somebody signs in: the address that the server vouches for, never one from a header that
    it does not trust."""
    address = request.client.host if request.client is not None else "unknown"
    agent = request.headers.get("User-Agent", "")
    return Place(address, agent, read_cookie(request, SESSION), read_cookie(request, DEVICES) or "")


InPlace = Annotated[Place, Depends(place_of)]


def _require_own_origin(request: Request) -> None:
    """Browsers say where a post comes from (Fetch Metadata, RFC 6454); others than browsers have no
    cookies to abuse, and still need the token."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site != "same-origin":
        raise FormRefused("this was sent from another site")
    origin = request.headers.get("Origin")
    if origin is None:
        return
    public = office_of(request).service.settings.public_url or ""
    known = {request.headers.get("Host", "").lower(), urlsplit(public).netloc.lower()}
    if urlsplit(origin).netloc.lower() not in known - {""}:
        raise FormRefused("this was sent from another site")


async def read_form(request: Request) -> FormData:
    """The form as it was sent, under the limits of its page. Raises ``NotUtf8``."""
    _, given = parse_options_header(request.headers.get("Content-Type", ""))
    if given.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise NotUtf8
    return await request.form(**(OF_STRANGERS if request.url.path in PUBLIC else LIMITS))


async def _token_field(request: Request) -> str:
    value = (await read_form(request)).get(TOKEN_FIELD)
    return value if isinstance(value, str) else ""
