"""Single sign-on against a provider over HTTP: who comes in, and every token that must not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import oidc_provider, server
from tests.support.oidc_provider import CLIENT, SECRET, Provider
from tests.support.server import Server, fresh
from tests.support.surfing import Surfer, newcomer

BACK = "/ui/oidc/callback"


@pytest.fixture(scope="module")
def listening() -> Iterator[Provider]:
    with oidc_provider.running() as provider:
        yield provider


@pytest.fixture
def provider(listening: Provider) -> Provider:
    listening.claims = {
        "sub": fresh(),
        "preferred_username": fresh("ann"),
        "name": "Ann",
        "roles": ["chem"],
    }
    listening.algorithm = "RS256"
    return listening


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, listening: Provider) -> Iterator[Server]:
    settings = {
        "oidc_issuer": listening.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_roles": "boss=lead, chem=reviewer,ops=operator",
    }
    with server.running(tmp_path_factory.mktemp("oidc"), **settings) as running:
        yield running


def come_back(who: Surfer, provider: Provider, next: str = "/ui/", **changed: str) -> Any:
    """To the provider and back, with what the provider says changed on the way."""
    sent = who.get(f"/ui/oidc?next={next}")
    assert sent.status_code == 303, sent.text
    answer = provider.authorize(sent.headers["location"])
    return who.http.get(BACK, params={**answer, **changed})


def users(site: Server) -> dict[str, Any]:
    with site.client() as client:
        return {one["login"]: one for one in client.get("/v1/users").json()["users"]}


def test_somebody_with_a_mapped_role_is_made_and_found_again(site: Server, provider: Provider) -> None:
    who = Surfer(site.url)
    assert "Use single sign-on" in who.get("/ui/login").text
    answer = come_back(who, provider, next="/ui/account")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/account")
    assert "Ann" in who.get("/ui/account").text
    login = provider.claims["preferred_username"]
    made = users(site)[login]
    assert (made["role"], made["issuer"], made["has_password"]) == ("reviewer", provider.url, False)
    provider.claims |= {"roles": ["chem", "boss"], "preferred_username": "renamed"}
    assert come_back(Surfer(site.url), provider).status_code == 303
    assert users(site)[login]["role"] == "lead"
    assert who.get("/ui/account").status_code == 303, "a new role ends the sessions of the old one"
    assert Surfer(site.url).sign_in(login, "").status_code in (401, 422)


def test_a_namesake_with_a_password_is_somebody_else(site: Server, provider: Provider) -> None:
    login = newcomer(site, "admin")
    provider.claims["preferred_username"] = login
    who = Surfer(site.url)
    assert come_back(who, provider).status_code == 303
    assert who.get("/ui/access").status_code == 403
    assert users(site)[login]["issuer"] is None


@pytest.mark.parametrize(
    ("claims", "algorithm"),
    [
        ({"nonce": "of another attempt"}, "RS256"),
        ({"nonce": None}, "RS256"),
        ({"aud": "another"}, "RS256"),
        ({"aud": ["another", CLIENT], "azp": "another"}, "RS256"),
        ({"aud": None}, "RS256"),
        ({"iss": "https://another.example"}, "RS256"),
        ({"exp": int(time.time()) - 600}, "RS256"),
        ({"exp": None}, "RS256"),
        ({"sub": None}, "RS256"),
        ({"iat": int(time.time()) + 90_000}, "RS256"),
        ({}, "none"),
        ({}, "HS256"),
    ],
    ids=lambda one: one if isinstance(one, str) else "-".join(one) or "good",
)
def test_a_token_that_is_not_good_is_refused(
    site: Server, provider: Provider, claims: dict[str, Any], algorithm: str
) -> None:
    provider.claims |= claims
    provider.algorithm = algorithm
    who = Surfer(site.url)
    answer = come_back(who, provider)
    assert (answer.status_code, "not good" in answer.text) == (401, True)
    assert who.session is None


def test_an_answer_to_another_attempt_is_refused(site: Server, provider: Provider) -> None:
    who = Surfer(site.url)
    for changed in ({"state": "x"}, {"state": ""}, {"iss": "https://another.example"}, {"code": "made-up"}):
        answer = come_back(who, provider, **changed)
        assert answer.status_code == 401, changed
        assert who.session is None
    good = provider.authorize(Surfer(site.url).get("/ui/oidc").headers["location"])
    assert Surfer(site.url).http.get(BACK, params=good).status_code == 401, "a browser that did not begin"
    failed = who.http.get(BACK, params={"error": "access_denied<script>", "state": "x"})
    assert (failed.status_code, "<script>" in failed.text.replace("<script src", "")) == (401, False)


def test_a_code_is_good_for_one_sign_in(site: Server, provider: Provider) -> None:
    who = Surfer(site.url)
    answer = provider.authorize(who.get("/ui/oidc").headers["location"])
    kept = dict(who.http.cookies)
    assert who.http.get(BACK, params=answer).status_code == 303
    again = Surfer(site.url)
    again.http.cookies.update(kept)
    assert again.http.get(BACK, params=answer).status_code == 401


@pytest.mark.parametrize("roles", [["nobody"], [], None, "none", {"chem": 1}, 7])
def test_somebody_without_a_role_here_is_refused(site: Server, provider: Provider, roles: Any) -> None:
    provider.claims["roles"] = roles
    answer = come_back(Surfer(site.url), provider)
    assert (answer.status_code, "no role here" in answer.text) == (403, True)
    assert provider.claims["preferred_username"] not in users(site)


def test_a_disabled_user_stays_out(site: Server, provider: Provider) -> None:
    assert come_back(Surfer(site.url), provider).status_code == 303
    with site.client() as client:
        path = f"/v1/users/{provider.claims['preferred_username']}"
        client.patch(path, json={"disabled": True}).raise_for_status()
    assert come_back(Surfer(site.url), provider).status_code == 401


def test_a_new_key_of_the_provider_is_looked_up(site: Server, provider: Provider) -> None:
    assert come_back(Surfer(site.url), provider).status_code == 303
    provider.renew_key()
    assert come_back(Surfer(site.url), provider).status_code == 303


def test_signing_on_never_leads_elsewhere(site: Server, provider: Provider) -> None:
    answer = come_back(Surfer(site.url), provider, next="//evil.example")
    assert answer.headers["location"] == "/ui/"


def test_a_service_without_a_provider_says_so() -> None:
    answer = Surfer(server.shared().url).get("/ui/oidc")
    assert (answer.status_code, "not set up" in answer.text) == (404, True)
