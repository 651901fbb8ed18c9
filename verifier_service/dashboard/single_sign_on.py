"""Signing in through an OpenID Connect provider."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from verifier_service.dashboard.cookies import OIDC, drop_cookie, read_cookie, safe_next, set_cookie
from verifier_service.dashboard.pages import base_of
from verifier_service.dashboard.sessions import InOffice, InPlace
from verifier_service.dashboard.sign_in import enter
from verifier_service.domain.errors import NotFound, SignInRefused
from verifier_service.oidc import Attempt, OidcProvider

router = APIRouter()

ATTEMPT_S = 600
CALLBACK = "/ui/oidc/callback"


def provider_of(office: InOffice) -> OidcProvider:
    """The provider. Raises ``NotFound`` where there is none."""
    if office.provider is None:
        raise NotFound("no_provider", "single sign-on is not set up here: sign in with a password")
    return office.provider


InProvider = Annotated[OidcProvider, Depends(provider_of)]


@router.get("/oidc")
def go(request: Request, provider: InProvider, next: str | None = None) -> Response:
    """Send the browser to the provider."""
    url, attempt = provider.begin(_back(request), safe_next(next))
    response = RedirectResponse(url, status_code=303)
    kept = base64.urlsafe_b64encode(json.dumps(asdict(attempt)).encode()).decode()
    set_cookie(request, response, OIDC, kept, max_age=ATTEMPT_S)
    return response


@router.get("/oidc/callback")
def come_back(request: Request, provider: InProvider, office: InOffice, place: InPlace) -> Response:
    """Take the provider's answer, and open a session. A user who is new here is made with their role."""
    attempt = _attempt(read_cookie(request, OIDC))
    identity = provider.finish(request.query_params, attempt, _back(request))
    opened = office.accounts.log_in_known(identity, place)
    response = enter(request, opened, safe_next(attempt.next))
    drop_cookie(request, response, OIDC)
    return response


def _back(request: Request) -> str:
    return f"{base_of(request)}{CALLBACK}"


def _attempt(kept: str | None) -> Attempt:
    try:
        return Attempt(**json.loads(base64.urlsafe_b64decode(kept or "")))
    except (ValueError, TypeError) as error:
        raise SignInRefused("oidc_refused", "this sign-in took too long, or began elsewhere") from error
