"""Keys: what they are, what they show, and that a revoked one is out within seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import fresh, identity, submit


@pytest.fixture(scope="module")
def admin() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def make_key(admin: httpx.Client, *scopes: str) -> dict[str, Any]:
    answer = admin.post("/v1/keys", json={"name": "of a test", "scopes": list(scopes)})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("token", ["x", "vk_0.secret", "Bearer", "vk_0", "§", "a.b.c"])
def test_a_wrong_token_is_nobody(admin: httpx.Client, token: str) -> None:
    header = {"Authorization": f"Bearer {token}".encode()}
    answer = admin.get("/v1/runs", headers=header)
    assert answer.status_code == 401
    assert answer.json()["code"] in ("no_key", "bad_key")


def test_a_secret_belongs_to_its_key(admin: httpx.Client) -> None:
    first, second = make_key(admin, "read")["token"], make_key(admin, "read")["token"]
    mixed = first.split(".")[0] + "." + second.split(".")[1]
    assert admin.get("/v1/runs", headers=bearing(mixed)).status_code == 401


def test_a_revoked_key_is_refused_at_once(admin: httpx.Client) -> None:
    made = make_key(admin, "read")
    assert admin.get("/v1/runs", headers=bearing(made["token"])).status_code == 200
    revoked = admin.delete(f"/v1/keys/{made['key']['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert admin.get("/v1/runs", headers=bearing(made["token"])).status_code == 401
    assert admin.delete(f"/v1/keys/{made['key']['id']}").status_code == 200


def test_a_key_revoked_by_another_process_is_refused_within_five_seconds(admin: httpx.Client) -> None:
    from verifier_service import bootstrap
    from verifier_service.settings import Settings

    made = make_key(admin, "read")
    assert admin.get("/v1/runs", headers=bearing(made["token"])).status_code == 200
    other = bootstrap.build(Settings(data=server.shared().data))
    other.unit(lambda tx: tx.keys.revoke("default", made["key"]["id"]))
    other.store.close()
    until = time.monotonic() + 5
    while admin.get("/v1/runs", headers=bearing(made["token"])).status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_tokens_are_shown_once_and_hashes_never(admin: httpx.Client) -> None:
    made = make_key(admin, "read", "gold")
    assert set(made["key"]["scopes"]) == {"read", "gold"}
    listed = admin.get("/v1/keys")
    secret = made["token"].split(".")[1]
    assert made["key"]["id"] in {key["id"] for key in listed.json()["keys"]}
    assert secret not in listed.text
    assert "hash" not in listed.text


@pytest.mark.parametrize(
    "body",
    [
        {"name": "n", "scopes": []},
        {"name": "n", "scopes": ["root"]},
        {"name": "n", "scopes": ["other"]},
        {"name": "", "scopes": ["read"]},
        {"name": "n", "scopes": "read"},
        {"name": "n", "scopes": ["read"], "project": "theirs"},
    ],
)
def test_a_strange_key_is_not_made(admin: httpx.Client, body: dict[str, Any]) -> None:
    assert admin.post("/v1/keys", json=body).status_code == 422


def test_the_reference_is_shown_only_with_gold(admin: httpx.Client) -> None:
    run, item = fresh(), identity("CCCC", "C1CCCCC1Cl")
    submit(admin, run, item)
    path = f"/v1/runs/{run}/trajectories/{item['id']}"
    plain = admin.get(path, headers=bearing(make_key(admin, "read")["token"]))
    assert plain.json()["reference_hidden"] is True
    assert "reference" not in plain.json()
    assert "C1CCCCC1Cl" not in plain.text
    golden = admin.get(path, headers=bearing(make_key(admin, "read", "gold")["token"])).json()
    assert golden["reference_hidden"] is False
    assert golden["reference"] == {"smiles": "C1CCCCC1Cl"}
