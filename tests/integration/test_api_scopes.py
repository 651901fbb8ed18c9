"""Who may call what: every route of the description, with every kind of key."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from tests.support import server
from verifier_service.api.routes import ROUTERS
from verifier_service.domain.runs import Scope

SCOPES = tuple(str(scope) for scope in Scope if scope is not Scope.OTHER)
PUBLIC = {("GET", "/healthz"), ("GET", "/readyz")}
GARBAGE = ("x", "vk_0.secret", "vk_0", "a.b.c", "Bearer")


@dataclass(frozen=True)
class Route:
    """An operation as the description has it: the ways to send a key, and the scope it needs."""

    method: str
    path: str
    ways: frozenset[str]
    scope: str
    description: str

    @property
    def url(self) -> str:
        """A path of the route to things that are not there."""
        return "/".join("absent" if part.startswith("{") else part for part in self.path.split("/"))


@pytest.fixture(scope="module")
def admin() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


@pytest.fixture(scope="module")
def document(admin: httpx.Client) -> dict[str, Any]:
    read: dict[str, Any] = admin.get("/openapi.json").json()
    return read


@pytest.fixture(scope="module")
def routes(document: dict[str, Any]) -> list[Route]:
    return [
        _route(method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if (method.upper(), path) not in PUBLIC
    ]


@pytest.fixture(scope="module")
def tokens(admin: httpx.Client) -> dict[str, str]:
    """For every scope a key that holds it alone, and one that held all and is revoked."""
    made = {scope: _key(admin, scope)["token"] for scope in SCOPES}
    revoked = _key(admin, *SCOPES)
    admin.delete(f"/v1/keys/{revoked['key']['id']}").raise_for_status()
    return made | {"revoked": revoked["token"]}


def test_every_route_names_one_scope_and_says_so(routes: list[Route]) -> None:
    assert len(routes) > 20
    for route in routes:
        assert route.scope in SCOPES, route
        assert re.search(rf"[Ss]cope:? `{route.scope}`", route.description), route


def test_exactly_the_scope_that_is_named_opens_a_route(
    admin: httpx.Client, routes: list[Route], tokens: dict[str, str]
) -> None:
    wrong = []
    for route in routes:
        for way in sorted(route.ways):
            for scope in SCOPES:
                answer = _call(admin, route, way, tokens[scope])
                told = answer.status_code, _code(answer)
                opened = told != (403, "missing_scope") and told[0] not in (401, 403)
                if opened is not (scope == route.scope) or (not opened and told[0] != 403):
                    wrong.append((route.method, route.path, way, scope, told))
    assert wrong == []


def test_nobody_comes_in_without_a_living_key(
    admin: httpx.Client, routes: list[Route], tokens: dict[str, str]
) -> None:
    wrong = []
    for route in routes:
        answers = [(None, admin.request(route.method, route.url, headers={"Authorization": ""}))]
        for way in sorted(route.ways):
            answers += [(token, _call(admin, route, way, token)) for token in (*GARBAGE, tokens["revoked"])]
        for token, answer in answers:
            told = answer.status_code, _code(answer)
            challenged = answer.headers.get("www-authenticate", "").startswith("Bearer")
            if told not in ((401, "no_key"), (401, "bad_key")) or not challenged:
                wrong.append((route.method, route.path, token, told))
    assert wrong == []


def test_a_key_in_the_url_opens_only_what_says_so(
    admin: httpx.Client, routes: list[Route], tokens: dict[str, str]
) -> None:
    plain = [route for route in routes if "HTTPBasic" in route.ways]
    assert {route.path for route in plain} == {"/v1/score/{run}/{ladder}"}
    for route in routes:
        if route not in plain:
            assert _call(admin, route, "HTTPBasic", tokens[route.scope]).status_code == 401, route


def test_what_needs_no_key_is_known(admin: httpx.Client, document: dict[str, Any]) -> None:
    for method, path in PUBLIC:
        assert "security" not in document["paths"][path][method.lower()]
        assert admin.request(method, path, headers={"Authorization": ""}).status_code in (200, 503)


def test_every_route_is_described(document: dict[str, Any]) -> None:
    described = {
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    }
    served = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert served == described


def _route(method: str, path: str, operation: dict[str, Any]) -> Route:
    ways = operation.get("security", [])
    scopes = {scope for way in ways for named in way.values() for scope in named}
    assert len(scopes) == 1, f"{method} {path} needs a key with one scope, or a place in PUBLIC"
    return Route(
        method,
        path,
        frozenset(name for way in ways for name in way),
        scopes.pop(),
        operation["description"],
    )


def _key(admin: httpx.Client, *scopes: str) -> dict[str, Any]:
    made: dict[str, Any] = admin.post("/v1/keys", json={"name": "of a test", "scopes": scopes}).json()
    return made


def _call(admin: httpx.Client, route: Route, way: str, token: str) -> httpx.Response:
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()
    sent = f"Basic {basic}" if way == "HTTPBasic" else f"Bearer {token}"
    return admin.request(route.method, route.url, headers={"Authorization": sent})


def _code(answer: httpx.Response) -> Any:
    kind = answer.headers.get("content-type", "")
    return answer.json().get("code") if kind == "application/problem+json" else None
