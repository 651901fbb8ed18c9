"""The dashboard as an application of its own below ``/ui``: pages for people, beside the API."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from verifier_service.bootstrap import Service
from verifier_service.bootstrap.accounts import Accounts
from verifier_service.dashboard import (
    access,
    account,
    cases,
    desk,
    desk_all,
    desk_item,
    desk_trail,
    drawings,
    errors,
    lab,
    links,
    operations,
    runs,
    sign_in,
    single_sign_on,
    trust,
    webhooks,
)
from verifier_service.dashboard.cookies import HOME
from verifier_service.dashboard.headers import SafeHeaders
from verifier_service.dashboard.navigation import first_page
from verifier_service.dashboard.pages import STATIC
from verifier_service.dashboard.sessions import Office, Visiting, guard
from verifier_service.dashboard.sizes import Bounded
from verifier_service.domain.accounts import Viewer
from verifier_service.oidc import OidcProvider

ROOT = "/ui"
FOREVER = "public, max-age=31536000, immutable"
ANY_METHOD = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

start = APIRouter()
# A new page adds its router here and its entry to ``navigation.ENTRIES``.
ROUTERS: tuple[APIRouter, ...] = (
    start,
    sign_in.router,
    links.router,
    single_sign_on.router,
    account.router,
    access.router,
    desk.router,
    desk_all.router,
    desk_item.router,
    desk_trail.router,
    lab.router,
    runs.router,
    cases.router,
    trust.router,
    operations.router,
    webhooks.router,
    drawings.router,
)


@start.get("/")
def home(visit: Visiting) -> Response:
    """Go to the first page that is open to the viewer."""
    return RedirectResponse(first_page(Viewer.of(visit.user)), status_code=303)


class KeptFiles(StaticFiles):
    """Static files: those asked for by their content's hash never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, with how long it may be kept."""
        response = await super().get_response(path, scope)
        named = scope["query_string"].startswith(b"v=")
        response.headers["Cache-Control"] = FOREVER if named else "no-cache"
        return response


def install(app: FastAPI, service: Service, accounts: Accounts) -> None:
    """Serve the dashboard from ``app`` below ``/ui``, and send browsers that ask for ``/`` there.

    ``accounts`` are those of the API: what is revoked on a page is forgotten there at once.

    Raises ``InvalidInput`` for a sign-on provider that cannot be used as it is set.
    """
    site = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"metrics": False, "logs": False, "operation_spans": False, "tracing": False},
    )
    site.state.office = Office(service, accounts, OidcProvider.of(service.settings))
    errors.install(site)
    for router in ROUTERS:
        site.include_router(router, dependencies=[Depends(guard)])
    site.mount("/static", KeptFiles(directory=STATIC))
    app.add_route("/", _to_pages, methods=ANY_METHOD, include_in_schema=False)
    app.add_route(ROOT, _to_pages, methods=["GET", "HEAD"], include_in_schema=False)
    # Around the whole of it, so that a page about an error of ours has the headers, too.
    app.mount(ROOT, SafeHeaders(Bounded(site)))


async def _to_pages(request: Request) -> Response:
    """For programs there is nothing here, as before."""
    wants_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
    if request.url.path == "/" and not wants_page:
        raise HTTPException(404)
    return RedirectResponse(HOME, status_code=303)
