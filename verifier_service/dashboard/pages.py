"""Rendering: Jinja2 with escaping always on and unknown names an error."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from verifier_service.dashboard.cookies import (
    FORM,
    NOTICE,
    drop_cookie,
    read_cookie,
    said,
    say_later,
    set_cookie,
)
from verifier_service.dashboard.desk_words import FILTERS
from verifier_service.dashboard.navigation import OWN_ACCOUNT, entries_for
from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.tokens import new_token

HERE = Path(__file__).parent
STATIC = HERE / "static"
FORM_S = 86_400
COUNTING = "_counting.html"  # a panel that has no figure yet, and asks again


@cache
def static(name: str) -> str:
    """The URL of a static file; it changes with the content, so browsers may keep the file for good."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]
    return f"/ui/static/{name}?v={digest}"


def moment(value: datetime | None) -> str:
    """A time as people read it, in UTC."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def segment(value: str) -> str:
    """An id as one segment of a path: a slash in it is written %2F."""
    return quote(value, safe="")


def case_path(place: tuple[str, str]) -> str:
    """The page of a trajectory, by the ids of its run and of itself."""
    run, trajectory = place
    return f"/ui/runs/{segment(run)}/trajectories/{segment(trajectory)}"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(static=static, Right=Right, own_account=OWN_ACCOUNT)
    made.filters.update(moment=moment, segment=segment, case_path=case_path, **FILTERS)
    return made


ENVIRONMENT = _environment()


def render(
    request: Request, template: str, viewer: Viewer | None, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """A page. Every template knows ``viewer``, ``nav``, ``csrf`` (for its forms), ``notice`` and ``path``.

    A whole page shows the message that the page before left; a fragment (a template whose name begins with
    ``_``) leaves it for the next page.
    """
    visit = getattr(request.state, "visit", None)
    anonymous = read_cookie(request, FORM) or new_token()
    csrf = anonymous if visit is None else visit.csrf
    whole = not template.rpartition("/")[2].startswith("_")
    notice = said(request) if whole else None
    text = ENVIRONMENT.get_template(template).render(
        request=request,
        path=request.url.path,
        viewer=viewer,
        nav=entries_for(viewer),
        csrf=csrf,
        notice=notice,
        **values,
    )
    response = HTMLResponse(text, status_code=status)
    if visit is None:
        set_cookie(request, response, FORM, anonymous, max_age=FORM_S, strict=True)
    if notice is not None:
        drop_cookie(request, response, NOTICE)
    return response


def base_of(request: Request) -> str:
    """The address under which browsers reach this service."""
    public = request.app.state.office.service.settings.public_url
    base: str = public or f"{request.url.scheme}://{request.headers.get('Host', '')}"
    return base.rstrip("/")


def redirect(request: Request, path: str, notice: str | None = None) -> Response:
    """Go on to another page of ours after a form, and say there what was done."""
    response = RedirectResponse(path, status_code=303)
    if notice is not None:
        say_later(request, response, notice)
    return response
