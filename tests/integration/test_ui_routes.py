"""Who gets where, over the application's own table of routes: one that is new is tried by itself, and one
that asks for nothing must be written down here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fastapi import APIRouter, FastAPI

from tests.support import server, surfing
from tests.support.route_table import Served, table
from tests.support.server import PLUGINS, Server
from tests.support.surfing import Surfer, surfer
from verifier_service import bootstrap
from verifier_service.api.auth import caller, leading_caller, plain_caller
from verifier_service.app import create_app
from verifier_service.dashboard.headers import POLICY
from verifier_service.dashboard.sessions import PUBLIC, guard
from verifier_service.domain.accounts import GRANTS, ROLES, Right, Role
from verifier_service.settings import Settings

# What needs neither a key nor a session.
OPEN = {
    ("*", "/ui/static/"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    *((method, "/ui") for method in ("GET", "HEAD")),
    *((method, "/") for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
    *((method, path) for method in ("GET", "HEAD") for path in ("/openapi.json", "/docs")),
}
OWN = ("/ui/", "/ui/logout", "/ui/account", "/ui/drawings/")  # of whoever is signed in, with any role


@dataclass(frozen=True)
class Table:
    """The routes of the application, by what they ask for."""

    everything: list[Served]

    @property
    def pages(self) -> list[Served]:
        return [one for one in self.everything if one.path.startswith("/ui/") and guard in one.calls]

    @property
    def calls(self) -> list[Served]:
        return [one for one in self.everything if {caller, leading_caller, plain_caller} & {*one.calls}]


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    service = bootstrap.build(Settings(data=tmp_path_factory.mktemp("table"), plugins=PLUGINS))
    try:
        yield Table(table(create_app(service)))
    finally:
        service.drawer.close()
        service.store.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("routes")) as running:
        yield running


@pytest.fixture(scope="module")
def people(site: Server) -> dict[Role, Surfer]:
    """One of each role, signed in; nothing in this module changes them."""
    return {role: surfer(site, role.value) for role in ROLES}


def right_of(one: Served) -> Right | None:
    return next((found for call in one.calls if (found := getattr(call, "right", None)) is not None), None)


def address(path: str) -> str:
    """A path to things that are not there."""
    return re.sub(r"\{[^}]+\}", "absent", path)


def asked(who: Surfer, one: Served) -> tuple[int, str]:
    """The status of a call with a session, and the right token where one is needed."""
    url = address(one.path)
    if one.method in ("GET", "HEAD"):
        return (answer := who.http.request(one.method, url)).status_code, answer.text
    sent = {"Origin": who.url, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": who.token()}
    return (answer := who.http.request(one.method, url, headers=sent)).status_code, answer.text


def test_every_route_stands_behind_a_key_or_a_session_or_is_known_to_be_open(routes: Table) -> None:
    assert len(routes.pages) > 50
    assert len(routes.calls) > 50
    behind = {(one.method, one.path) for one in (*routes.pages, *routes.calls)}
    assert {(one.method, one.path) for one in routes.everything} - behind == OPEN


def test_the_list_of_routes_loads_nothing_from_elsewhere(site: Server) -> None:
    who = Surfer(site.url)
    page = who.get("/docs")
    assert (page.status_code, page.headers["content-security-policy"]) == (200, POLICY)
    assert page.headers["x-frame-options"] == "DENY"
    assert "<script" not in page.text
    assert "//" not in page.text.replace("<!doctype html>", "").partition("<main")[0]
    described = who.get("/openapi.json").json()["paths"]
    assert {path for path in described if f"<code>{path}</code>" not in page.text} == set()
    assert [who.get(path).status_code for path in ("/redoc", "/docs/oauth2-redirect")] == [404, 404]


def test_a_route_without_a_guard_is_found() -> None:
    app = FastAPI()
    app.include_router(APIRouter(prefix="/ui"))
    router = APIRouter()
    router.add_api_route("/forgotten", lambda: "", methods=["POST"])
    app.include_router(router, prefix="/ui")
    assert ("POST", "/ui/forgotten") in {(one.method, one.path) for one in table(app)}
    assert Table(table(app)).pages == []


def test_every_page_asks_for_a_right_or_is_anybodys_own(routes: Table) -> None:
    free = {one.path for one in routes.pages if right_of(one) is None} - PUBLIC
    assert [path for path in free if path != "/ui/" and not path.startswith(OWN[1:])] == []
    known = {(method, path) for method, path, _ in surfing.routes()}
    assert {(one.method, one.path) for one in routes.pages} == known, "what the other attacks are tried on"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_what_its_rights_open_and_nothing_else(
    role: Role, routes: Table, people: dict[Role, Surfer]
) -> None:
    wrong, refused = [], 0
    for one in routes.pages:
        right = right_of(one)
        if right is None:
            continue
        status, text = asked(people[role], one)
        opened = status != 403
        refused += not opened
        if opened is not (right in GRANTS[role]) or status in (401, 500):
            wrong.append((one.method, one.path, status))
        if not opened and "does not open this page" not in text:
            wrong.append((one.method, one.path, text[:200]))
    assert wrong == []
    assert (refused == 0) is (GRANTS[role] == frozenset(Right))


@pytest.mark.parametrize("role", ROLES)
def test_a_session_of_no_role_opens_the_api(role: Role, routes: Table, people: dict[Role, Surfer]) -> None:
    who = people[role]
    answers = {
        (one.method, one.path): who.http.request(one.method, address(one.path)).status_code
        for one in routes.calls
    }
    assert {place: status for place, status in answers.items() if status != 401} == {}
    assert who.get("/ui/account").status_code == 200, "the session that was tried is alive"
