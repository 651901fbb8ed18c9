"""Keys that have an owner: they live as long as the account, and do no more than its role allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import Server, fresh, patience
from tests.support.surfing import newcomer
from verifier_service.persistence.engine import create_store

EVERYTHING = ("submit", "read", "review", "operate", "admin", "gold")
# One route for each thing that a role may or may not do.
REVIEWS = ("GET", "/v1/reviews")
LEADS = (
    ("GET", "/v1/reviews/trail"),
    ("GET", "/v1/reviews/agreement"),
    ("POST", "/v1/reviews/reassign"),
    ("POST", "/v1/reviews/withdraw"),
    ("GET", "/v1/reviews/gold"),
    ("PUT", "/v1/review-queues/absent"),
)
OPERATES = ("GET", "/v1/checks/stuck")
ADMINISTERS = (("GET", "/v1/users"), ("GET", "/v1/keys"), ("POST", "/v1/reviews/absent/retract"))
ANYBODY = ("GET", "/v1/runs")
ROUTES = (REVIEWS, *LEADS, OPERATES, *ADMINISTERS, ANYBODY)
OPEN: dict[str, set[tuple[str, str]]] = {
    "reviewer": {ANYBODY, REVIEWS},
    "lead": {ANYBODY, REVIEWS, *LEADS},
    "operator": {ANYBODY, OPERATES},
    "admin": {*ROUTES},
}


@pytest.fixture(scope="module")
def site() -> Server:
    return server.shared()


@pytest.fixture(scope="module")
def admin(site: Server) -> Iterator[httpx.Client]:
    with site.client() as client:
        yield client


def key_of(site: Server, owner: str, *scopes: str) -> httpx.Client:
    with site.client() as client:
        wanted = {"name": fresh("key"), "scopes": scopes, "owner": owner}
        token = client.post("/v1/keys", json=wanted).raise_for_status().json()["token"]
    return httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"}, timeout=60.0)


def told(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json().get("code")


@pytest.mark.parametrize("role", OPEN)
def test_a_key_does_no_more_than_its_owners_role(site: Server, role: str) -> None:
    with key_of(site, newcomer(site, role), *EVERYTHING) as owned:
        answers = {route: owned.request(*route) for route in ROUTES}
        refused = {route for route, answer in answers.items() if told(answer) == (403, "missing_right")}
        assert {*ROUTES} - refused == OPEN[role]
        assert {route for route, answer in answers.items() if answer.status_code in (401, 403)} == refused


def test_the_key_of_a_former_lead_leads_no_more(site: Server, admin: httpx.Client) -> None:
    login = newcomer(site, "lead")
    with key_of(site, login, "review", "operate") as owned:
        assert owned.get("/v1/reviews/trail").status_code == 200
        admin.patch(f"/v1/users/{login}", json={"role": "reviewer"}).raise_for_status()
        assert told(owned.get("/v1/reviews/trail")) == (403, "missing_right"), "at once"
        assert owned.get("/v1/reviews").status_code == 200


def test_the_keys_of_somebody_who_is_disabled_are_refused_at_once(
    site: Server, admin: httpx.Client
) -> None:
    login = newcomer(site, "reviewer")
    with key_of(site, login, "review", "submit", "read") as owned:
        assert owned.post("/v1/reviews/claim", json={"reviewer": login}).status_code == 200
        admin.patch(f"/v1/users/{login}", json={"disabled": True}).raise_for_status()
        claimed = owned.post("/v1/reviews/claim", json={"reviewer": login})
        vote = owned.post("/v1/reviews/absent/decision", json={"reviewer": login, "verdict": "accept"})
        assert told(claimed) == told(vote) == told(owned.get("/v1/runs")) == (401, "owner_disabled")
        admin.patch(f"/v1/users/{login}", json={"disabled": False}).raise_for_status()
        assert owned.get("/v1/runs").status_code == 200


def test_what_another_process_disables_is_refused_soon_and_its_streams_end(site: Server) -> None:
    login, run = newcomer(site, "reviewer"), fresh()
    with site.client() as client:
        client.put(f"/v1/runs/{run}", json={}).raise_for_status()
    with (
        key_of(site, login, "read") as owned,
        owned.stream("GET", f"/v1/runs/{run}/rewards/stream") as feed,
    ):
        assert feed.status_code == 200
        assert owned.get("/v1/runs").status_code == 200
        store = create_store(f"sqlite:///{site.data / 'verifier.db'}")
        with store.begin() as tx:
            found = tx.users.find(login)
            assert found is not None
            tx.users.update(login, name=found.user.name, role=found.user.role, disabled=True)
        store.close()
        end = time.monotonic() + patience(10.0)
        while owned.get("/v1/runs").status_code != 401:
            assert time.monotonic() < end
            time.sleep(0.1)
        for _ in feed.iter_raw():
            assert time.monotonic() < end


@pytest.mark.parametrize("which", ["nobody", "disabled"])
def test_a_key_is_made_for_somebody_who_is_there(site: Server, admin: httpx.Client, which: str) -> None:
    owner = fresh("nobody")
    if which == "disabled":
        owner = newcomer(site, "reviewer")
        admin.patch(f"/v1/users/{owner}", json={"disabled": True}).raise_for_status()
    answer = admin.post("/v1/keys", json={"name": "k", "scopes": ["review"], "owner": owner})
    body = answer.json()
    assert (answer.status_code, body["code"], body["field"]) == (422, "unknown_owner", "owner")
