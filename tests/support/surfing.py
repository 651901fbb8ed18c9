"""A browser without scripts: cookies, forms with their tokens, and the headers that browsers send."""

from __future__ import annotations

import re
import subprocess
import sys
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute
from sqlalchemy import text

from tests.support.server import ROOT, Server, fresh
from verifier_service.dashboard.site import ROUTERS
from verifier_service.domain.accounts import Right
from verifier_service.persistence.engine import create_store

PASSWORD = "a quiet lake at dusk"
NEW = "four herons on a weir"
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
SESSION = "verifier-session"


@dataclass
class Surfer:
    """Somebody with a browser."""

    url: str
    login: str = ""
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, timeout=60.0)
        weakref.finalize(self, self.http.close)

    @property
    def session(self) -> str | None:
        """The session's token."""
        return self.http.cookies.get(SESSION)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Look at a page."""
        return self.http.get(path, headers={"Accept": "text/html", **headers})

    def token(self, page: str = "/ui/account") -> str:
        """The token that forms of a page carry."""
        found = _TOKEN.search(self.get(page).text)
        assert found is not None, page
        return found[1]

    def post(
        self, path: str, data: dict[str, Any] | None = None, *, page: str = "/ui/account", **headers: str
    ) -> httpx.Response:
        """Send a form as a browser does from a page of the service."""
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **headers}
        return self.http.post(path, data={"csrf": self.token(page), **(data or {})}, headers=sent)

    def sign_in(self, login: str, password: str = PASSWORD, next: str | None = None) -> httpx.Response:
        """Through the form."""
        self.login = login
        form = {"login": login, "password": password, **({"next": next} if next is not None else {})}
        return self.post("/ui/login", form, page="/ui/login")


def newcomer(server: Server, role: str, **fields: Any) -> str:
    """The login of somebody new with a role."""
    body = {"login": fresh(role), "name": f"Some {role}", "role": role, "password": PASSWORD, **fields}
    with server.client() as client:
        client.post("/v1/users", json=body).raise_for_status()
    return str(body["login"])


def surfer(server: Server, role: str | None = None) -> Surfer:
    """Somebody, signed in where a role is given."""
    made = Surfer(server.url)
    if role is not None:
        answer = made.sign_in(newcomer(server, role))
        assert answer.status_code == 303, answer.text
    return made


def setup_link(server: Server) -> str:
    """The link that a server without an admin prints after its URL."""
    assert server.process.stdout is not None
    assert "no admin yet" in server.process.stdout.readline()
    return server.process.stdout.readline().strip()


def change_rows(data: Path, statement: str) -> None:
    """Make time pass, behind the server's back."""
    store = create_store(f"sqlite:///{data / 'verifier.db'}")
    with store.begin() as tx:
        tx._database.connection.execute(text(statement))
    store.close()


def verifier(
    *arguments: str, data: Path, stdin: str = "", url: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command line on the machine of the server."""
    environment = {"PATH": "/usr/bin:/bin", "VERIFIER_DATA": str(data), "VERIFIER_URL": url}
    command = [sys.executable, "-m", "verifier_service.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, input=stdin, capture_output=True, text=True)


def routes() -> list[tuple[str, str, Right | None]]:
    """Every route of the dashboard: method, path, and the right it asks for."""
    return [
        (method, f"/ui{route.path}", _right(route))
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]


def _right(route: APIRoute) -> Right | None:
    asked = [getattr(one.call, "right", None) for one in route.dependant.dependencies]
    return next((right for right in asked if right is not None), None)
