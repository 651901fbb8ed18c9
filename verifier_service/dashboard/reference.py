"""The routes of the API as a plain page at ``/docs``: made here, without scripts of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import Route

from verifier_service.dashboard.headers import SafeHeaders
from verifier_service.dashboard.pages import ENVIRONMENT, static

PATH = "/docs"


def install(app: FastAPI) -> None:
    """Serve the page, with the headers of all pages. It names what ``/openapi.json`` describes."""

    def page(_request: Request) -> HTMLResponse:
        template = ENVIRONMENT.get_template("reference.html")
        return HTMLResponse(template.render(static=static, title=app.title, groups=groups(app.openapi)))

    route = Route(PATH, page, methods=["GET"], include_in_schema=False)
    route.app = SafeHeaders(route.app)
    app.router.routes.append(route)


def groups(describe: Callable[[], dict[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """The operations of a description by their first tag, each with method, path and what it does."""
    found: dict[str, list[dict[str, str]]] = {}
    for path, operations in describe()["paths"].items():
        for method, operation in operations.items():
            line = {"method": method.upper(), "path": path, "text": operation.get("description", "")}
            found.setdefault(operation.get("tags", ["other"])[0], []).append(line)
    return found
