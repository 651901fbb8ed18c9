"""Keys that are made and revoked on the page *Access*: whose they are, and that revoked ones are out."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import Server, fresh
from tests.support.surfing import Surfer, newcomer, surfer


@pytest.fixture(scope="module")
def site() -> Server:
    return server.shared()


@pytest.fixture(scope="module")
def admin(site: Server) -> Surfer:
    return surfer(site, "admin")


def test_a_key_is_shown_once_and_revoked(site: Server, admin: Surfer) -> None:
    assert admin.post("/ui/access/keys", {"key_name": "k"}).status_code == 422
    assert admin.post("/ui/access/keys", {"key_name": "k", "scopes": ["root"]}).status_code == 422
    made = admin.post("/ui/access/keys", {"key_name": "a trainer", "scopes": ["submit", "read"]})
    token = re.search(r"vk_[0-9a-f]+\.[A-Za-z0-9_-]+", made.text)
    assert token is not None
    assert made.headers["cache-control"] == "no-store"
    bearing = {"Authorization": f"Bearer {token[0]}"}
    assert httpx.get(f"{site.url}/v1/runs", headers=bearing).status_code == 200
    key = token[0].partition(".")[0]
    assert key in admin.get("/ui/access").text
    assert token[0].partition(".")[2] not in admin.get("/ui/access").text
    assert admin.post("/ui/access/keys/revoke", {"key": key}).status_code == 303
    assert admin.post("/ui/access/keys/revoke", {"key": "vk_none"}).status_code == 404


def key_of(admin: Surfer, *scopes: str, **form: str) -> str:
    """The token of a new key, made on the page."""
    made = admin.post("/ui/access/keys", {"key_name": fresh("key"), "scopes": scopes, **form})
    token = re.search(r"vk_[0-9a-f]+\.[A-Za-z0-9_-]+", made.text)
    assert token is not None, made.text
    return token[0]


def test_a_key_has_the_owner_that_was_chosen(site: Server, admin: Surfer) -> None:
    owner, other = newcomer(site, "reviewer"), newcomer(site, "reviewer")
    token = key_of(admin, "submit", "read", "review", owner=owner)
    listed = admin.get("/ui/access").text
    row = listed.partition(f"<code>{token.partition('.')[0]}</code>")[2].partition("</tr>")[0]
    assert f"<td>{owner}</td>" in row
    assert f"submit, of {owner}" in listed
    queue = fresh("q")
    ladder = {**server.REVIEWED, "name": queue, "tiers": {"lab": [lab_of(queue)]}, "truth": "lab"}
    ladder["outcome"] = {"use": "review"}
    bearing = {"Authorization": f"Bearer {token}"}
    with (
        site.client() as client,
        httpx.Client(base_url=site.url, headers=bearing, timeout=60.0) as owned,
    ):
        client.put(f"/v1/ladders/{queue}", json=ladder).raise_for_status()
        server.submit(owned, fresh(), {"id": "t", "ladder": queue, "answer": "CCO"}, until="fast")
        end = time.monotonic() + server.patience(30.0)
        while not (found := client.get("/v1/reviews", params={"queue": queue}).json()["reviews"]):
            assert time.monotonic() < end
            time.sleep(0.1)
        wanted = {"review": found[0]["id"]}
        own = owned.post("/v1/reviews/claim", json={"reviewer": owner, **wanted})
        foreign = owned.post("/v1/reviews/claim", json={"reviewer": other, **wanted})
        assert (own.json()["code"], foreign.json()["code"]) == ("own_submission", "not_your_name")
        borrowed = client.post("/v1/reviews/claim", json={"reviewer": other, **wanted})
        assert (borrowed.status_code, borrowed.json()["code"]) == (403, "not_your_name")
        free = {"reviewer": fresh("nobody"), **wanted}
        assert client.post("/v1/reviews/claim", json=free).status_code == 200


def lab_of(queue: str) -> dict[str, Any]:
    return {"use": "review", "params": {"queue": queue}}


def test_a_key_of_nobody_known_is_not_made(site: Server, admin: Surfer) -> None:
    gone = newcomer(site, "reviewer")
    admin.post("/ui/access/users/change", {"login": gone, "state": "disabled"})
    for owner in ("nobody-here", gone, "Not A Login"):
        made = admin.post("/ui/access/keys", {"key_name": "k", "scopes": ["read"], "owner": owner})
        assert (made.status_code, "vk_" in made.text.partition("Make a key")[2][:400]) == (422, False)


def test_what_is_revoked_on_a_page_is_refused_at_once(site: Server, admin: Surfer) -> None:
    token = key_of(admin, "read")
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/v1/runs").status_code == 200
        key = token.partition(".")[0]
        assert admin.post("/ui/access/keys/revoke", {"key": key}).status_code == 303
        assert client.get("/v1/runs").status_code == 401
    who = surfer(site, "reviewer")
    assert who.get("/ui/account").status_code == 200
    admin.post("/ui/access/users/change", {"login": who.login, "state": "disabled"})
    assert who.get("/ui/account").status_code == 303
