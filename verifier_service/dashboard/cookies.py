"""The cookies of the dashboard, and where it may send a browser next."""

from __future__ import annotations

from urllib.parse import quote, unquote

from fastapi import Request, Response

SESSION, FORM, NOTICE, OIDC, DEVICES = "session", "form", "notice", "oidc", "devices"
DEVICES_S = 365 * 86_400
HOME = "/ui/"
MAX_NEXT = 2_000
MAX_NOTICE = 400
NOTICE_S = 60


def is_secure(request: Request) -> bool:
    """Whether the browser talks https, to us or to the proxy in front of us."""
    public = request.app.state.office.service.settings.public_url or ""
    return request.url.scheme == "https" or public.startswith("https:")


def read_cookie(request: Request, kind: str) -> str | None:
    """The value of one of our cookies."""
    return request.cookies.get(_name(request, kind))


def set_cookie(
    request: Request, response: Response, kind: str, value: str, *, max_age: int, strict: bool = False
) -> None:
    """Set one of our cookies: for this host only, out of reach of scripts.

    ``Lax``, so that links from elsewhere open pages signed in; what changes anything is posted, which
    ``Lax`` does not carry from foreign pages.
    """
    response.set_cookie(
        _name(request, kind),
        value,
        max_age=max_age,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict" if strict else "lax",
    )


def drop_cookie(request: Request, response: Response, kind: str) -> None:
    """Remove one of our cookies."""
    response.delete_cookie(
        _name(request, kind), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def say_later(request: Request, response: Response, text: str) -> None:
    """A message for the next page that is shown."""
    set_cookie(request, response, NOTICE, quote(text[:MAX_NOTICE]), max_age=NOTICE_S)


def said(request: Request) -> str | None:
    """The message that the page before left."""
    value = read_cookie(request, NOTICE)
    return unquote(value)[:MAX_NOTICE] if value else None


def safe_next(target: str | None) -> str:
    """A page of ours to go on with: a plain path below ``/ui/``, else the start.

    A path is looked at as it is and as it reads however often it is decoded: browsers decode dots before
    they walk a path, and who passes it on may have decoded it once more.
    """
    if not target or len(target) > MAX_NEXT or "\\" in target or " " in target:
        return HOME
    path = target.partition("?")[0].partition("#")[0]
    while _is_ours(path):
        decoded = unquote(path)
        if decoded == path:
            return target if target.isascii() and target.isprintable() else HOME
        path = decoded
    return HOME


def _is_ours(path: str) -> bool:
    """Whether this is a path below ``/ui/`` wherever it is walked."""
    walks = any(part in (".", "..") for part in path.split("/"))
    plain = path.isprintable() and not any(sign in path for sign in "\\?#")
    return path.startswith(HOME) and not path.startswith(HOME + "/") and plain and not walks


def _name(request: Request, kind: str) -> str:
    """Browsers let only this host set a ``__Host-`` cookie; they take the prefix over https alone."""
    prefix = "__Host-" if is_secure(request) else ""
    return f"{prefix}verifier-{kind}"
