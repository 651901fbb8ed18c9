"""Signing in as somebody with a role, and asking axe-core about a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page

from tests.support.server import Server, fresh

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PASSWORD = "a quiet lake at dusk"
STRICT = ("serious", "critical")
RUN_AXE = "axe.run(document, {resultTypes: ['violations']})"


@dataclass(frozen=True)
class Person:
    """Somebody who can sign in."""

    login: str
    password: str
    role: str


@dataclass
class BrowserServer:
    """A server with people in it."""

    server: Server
    _people: dict[str, Person] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.url

    def client(self) -> httpx.Client:
        """The API with the administrator's key."""
        return self.server.client()

    def person(self, role: str) -> Person:
        """The person of a role, one for all tests."""
        if role not in self._people:
            self._people[role] = self.newcomer(role)
        return self._people[role]

    def newcomer(self, role: str, name: str | None = None) -> Person:
        """Somebody nobody else uses."""
        person = Person(fresh(role), PASSWORD, role)
        body = {"login": person.login, "name": name or f"Robin {role}", "role": role, "password": PASSWORD}
        with self.client() as client:
            client.post("/v1/users", json=body).raise_for_status()
        return person

    def signed_in(self, page: Page, role: str, path: str = "/ui/") -> Person:
        """Sign the page in as the person of a role, through the form, and go to ``path``."""
        person = self.person(role)
        self.sign_in(page, person, path)
        return person

    def sign_in(self, page: Page, person: Person, path: str = "/ui/") -> None:
        """Fill the form in and send it."""
        page.goto(f"{self.url}/ui/login")
        page.get_by_label("Login").fill(person.login)
        page.get_by_label("Password").fill(person.password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Sign out", exact=True).wait_for()
        if path != "/ui/":
            page.goto(f"{self.url}{path}")


@cache
def _axe() -> str:
    return AXE.read_text("utf-8")


def axe(page: Page, theme: str | None = None) -> None:
    """Fail on serious and critical violations of accessibility, in one theme where it is given."""
    if theme is not None:
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    # As the browser's own code, which the page's policy does not concern.
    page.evaluate(_axe())
    found: dict[str, Any] = page.evaluate(RUN_AXE)
    serious = [
        (
            one["id"],
            one["help"],
            [node["html"][:200] + " " + node.get("failureSummary", "") for node in one["nodes"]],
        )
        for one in found["violations"]
        if one["impact"] in STRICT
    ]
    assert serious == [], serious


def axe_in_both_themes(page: Page) -> None:
    """``axe`` in the light and in the dark theme."""
    for theme in ("light", "dark"):
        axe(page, theme)
