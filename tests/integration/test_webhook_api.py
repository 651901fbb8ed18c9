"""Webhooks over HTTP, through both clients, and from the command line."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.support import server
from tests.support.receivers import Receiver, receiver
from tests.support.server import Server, fresh, identity, submit
from verifier_service import bootstrap
from verifier_service.cli.application import app
from verifier_service.client import AsyncClient, CallRefused, Client, Conflict, NotFound
from verifier_service.domain.errors import InvalidInput
from verifier_service.services import tenants
from verifier_service.settings import Settings

LIMIT = 6
SETTINGS = {
    "webhook_http": "true",
    "webhook_allow": "127.0.0.1",
    "webhook_timeout_s": "2",
    "max_webhooks": str(LIMIT),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("webhooks-api"), **SETTINGS) as running:
        yield running


@pytest.fixture
def client(running: Server) -> Iterator[httpx.Client]:
    """The administrator's; webhooks are removed afterwards."""
    with running.client() as client:
        yield client
        for webhook in client.get("/v1/webhooks").json()["webhooks"]:
            client.delete(f"/v1/webhooks/{webhook['id']}").raise_for_status()


@pytest.fixture
def taker() -> Iterator[Receiver]:
    with receiver() as taker:
        yield taker


def made(client: httpx.Client, url: str, **wanted: Any) -> dict[str, Any]:
    answer = client.post("/v1/webhooks", json={"url": url, **wanted})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_an_endpoint_is_registered_shown_changed_and_removed(client: httpx.Client, taker: Receiver) -> None:
    created = made(client, taker.url, run="r", statuses=["final", "final"], description="for ann")
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", created["secret"])
    webhook = created["webhook"]
    assert webhook | {"created_at": None, "id": None} == {
        "id": None,
        "url": taker.url,
        "run": "r",
        "statuses": ["final"],
        "description": "for ann",
        "enabled": True,
        "disabled_reason": None,
        "streak": 0,
        "failing_since": None,
        "paused_until": None,
        "created_at": None,
    }
    path = f"/v1/webhooks/{webhook['id']}"
    assert client.get(path).json() == webhook
    assert client.get("/v1/webhooks").json() == {"webhooks": [webhook]}
    off = client.patch(path, json={"enabled": False}).json()
    assert (off["enabled"], off["disabled_reason"]) == (False, "operator")
    assert client.patch(path, json={}).json() == off
    on = client.patch(path, json={"enabled": True, "url": taker.url + "/2"}).json()
    assert (on["enabled"], on["url"]) == (True, taker.url + "/2")
    assert client.delete(path).json()["id"] == webhook["id"]
    for method, route in (
        ("GET", path),
        ("DELETE", path),
        ("PATCH", path),
        ("POST", path + "/rotate"),
        ("POST", path + "/test"),
        ("GET", path + "/deliveries"),
        ("POST", path + "/replay"),
    ):
        body = {"run": "r"} if route.endswith("replay") else {} if method == "PATCH" else None
        answer = client.request(method, route, json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "webhook_not_found"), (method, route)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "url"),
        ({"url": 5}, None, "url"),
        ({"url": ""}, "too_short", "url"),
        ({"url": "https://example.com/" + "a" * 2_048}, "too_long", "url"),
        ({"url": "http://10.0.0.5/"}, "blocked_address", "url"),
        ({"url": "http://127.1/"}, "url_host", "url"),
        ({"url": "ftp://127.0.0.1/"}, "url_scheme", "url"),
        ({"url": "http://a:b@127.0.0.1/"}, "url_credentials", "url"),
        ({"url": "http://no-such-name.invalid/"}, "url_unresolvable", "url"),
        ({"url": "http://127.0.0.1/", "statuses": []}, "too_short", "statuses"),
        ({"url": "http://127.0.0.1/", "statuses": ["done"]}, "not_one_of", "statuses.0"),
        ({"url": "http://127.0.0.1/", "run": "a b"}, "bad_format", "run"),
        ({"url": "http://127.0.0.1/", "description": "d" * 201}, "too_long", "description"),
        ({"url": "http://127.0.0.1/", "secret": "whsec_AAAA"}, "unknown_field", "secret"),
    ],
)
def test_what_is_wrong_is_named(client: httpx.Client, body: Any, code: str | None, field: str) -> None:
    answer = client.post("/v1/webhooks", json=body)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["field"] == field
    assert code is None or problem["code"] == code
    assert client.get("/v1/webhooks").json() == {"webhooks": []}


def test_a_changed_url_is_checked_too(client: httpx.Client, taker: Receiver) -> None:
    webhook = made(client, taker.url)["webhook"]
    answer = client.patch(f"/v1/webhooks/{webhook['id']}", json={"url": "http://169.254.169.254/"})
    assert (answer.status_code, answer.json()["code"]) == (422, "blocked_address")
    assert client.get(f"/v1/webhooks/{webhook['id']}").json() == webhook


def test_a_project_has_so_many_and_no_more(client: httpx.Client, taker: Receiver) -> None:
    first, *_ = [made(client, taker.url)["webhook"]["id"] for _ in range(LIMIT)]
    answer = client.post("/v1/webhooks", json={"url": taker.url})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_webhooks")
    client.delete(f"/v1/webhooks/{first}")
    made(client, taker.url)


def test_a_replay_names_a_run_that_there_is_and_that_is_the_endpoint_s(
    client: httpx.Client, taker: Receiver
) -> None:
    run = fresh()
    submit(client, run, identity("CCO"))
    everything, other = made(client, taker.url)["webhook"]["id"], made(client, taker.url, run="other")
    unknown = client.post(f"/v1/webhooks/{everything}/replay", json={"run": "unknown"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "run_not_found")
    answer = client.post(f"/v1/webhooks/{other['webhook']['id']}/replay", json={"run": run})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "other_run", "run")
    wrong = client.post(f"/v1/webhooks/{everything}/replay", json={"run": run, "after": -1})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "after")


def test_another_project_sees_and_changes_nothing(
    running: Server, client: httpx.Client, taker: Receiver
) -> None:
    webhook = made(client, taker.url)["webhook"]
    service = bootstrap.build(Settings(data=running.data))
    try:
        service.unit(lambda tx: tenants.create_project(tx, service.catalog, "neighbours"))
        key = service.unit(lambda tx: tenants.create_key(tx, "neighbours", "n", tenants.EVERY_SCOPE))
    finally:
        service.store.close()
    headers = {"Authorization": f"Bearer {key.token}"}
    with (
        httpx.Client(base_url=running.url, headers=headers, timeout=60) as neighbour,
        receiver() as their_taker,
    ):
        assert neighbour.get("/v1/webhooks").json() == {"webhooks": []}
        path = f"/v1/webhooks/{webhook['id']}"
        for method, route in (("GET", path), ("DELETE", path), ("POST", path + "/rotate")):
            assert neighbour.request(method, route).status_code == 404
        theirs = made(neighbour, their_taker.url)
        submit(neighbour, "shared-name", identity("CCO"))
        submit(client, "shared-name", identity("CCO"), identity("CC"))
        taker.await_records(2)
        their_taker.await_records(1)
        mine = client.get(path + "/deliveries").json()["deliveries"]
        other = neighbour.get(f"/v1/webhooks/{theirs['webhook']['id']}/deliveries").json()["deliveries"]
        assert (len(mine), len(other)) == (2, 1)
        neighbour.delete(f"/v1/webhooks/{theirs['webhook']['id']}").raise_for_status()
    assert client.get(path).json() == webhook


def test_both_clients_have_every_verb(running: Server, client: httpx.Client, taker: Receiver) -> None:
    run = fresh()
    with Client(running.url, running.key) as blocking:
        created = blocking.add_webhook(taker.url, run=run, statuses={"final"}, description="d")
        taker.secrets.append(created.secret)
        assert created.secret not in repr(created)
        name = created.webhook.id
        assert blocking.webhooks() == (created.webhook,)
        assert blocking.webhook(name) == created.webhook
        assert blocking.test_webhook(name).delivered
        submit(client, run, identity("CCO"), identity("CC"))
        taker.await_records(2)
        assert blocking.change_webhook(name, enabled=False).enabled is False
        assert blocking.change_webhook(name, enabled=True, url=taker.url).enabled
        assert blocking.replay_webhook(name, run=run) == 2
        assert blocking.replay_webhook(name, run=run, failed_only=True) == 0
        page = blocking.deliveries(name, run=run, limit=1)
        older = blocking.deliveries(name, run=run, before=page.cursor)
        assert [one.seq for one in (*page.deliveries, *older.deliveries)] == [2, 1]
        assert blocking.rotate_webhook(name).secret != created.secret
        with pytest.raises(Conflict) as running_one:
            blocking.rotate_webhook(name)
        assert running_one.value.code == "rotation_running"
        taker.secrets[:] = [blocking.rotate_webhook(name, force=True).secret]
        assert blocking.test_webhook(name).delivered
        assert blocking.remove_webhook(name).id == name
        with pytest.raises(NotFound):
            blocking.webhook(name)
        with pytest.raises(CallRefused) as refused:
            blocking.add_webhook("http://10.0.0.5/")
        assert (refused.value.code, refused.value.problem.field) == ("blocked_address", "url")

    async def verbs() -> list[str]:
        async with AsyncClient(running.url, running.key) as concurrent:
            made_one = await concurrent.add_webhook(taker.url)
            await concurrent.replay_webhook(made_one.webhook.id, run=run)
            await concurrent.deliveries(made_one.webhook.id)
            return [one.id for one in await concurrent.webhooks()]

    assert len(asyncio.run(verbs())) == 1


def test_a_forced_rotation_is_asked_for_plainly(client: httpx.Client, taker: Receiver) -> None:
    path = f"/v1/webhooks/{made(client, taker.url)['webhook']['id']}/rotate"
    assert client.post(path, json={}).status_code == 200
    answer = client.post(path)
    assert (answer.status_code, answer.json()["code"]) == (409, "rotation_running")
    assert client.post(path, json={"force": False}).status_code == 409
    assert client.post(path, json={"force": "yes"}).status_code == 422
    assert client.post(path, json={"force": True}).status_code == 200


def test_few_tests_run_at_a_time(running: Server, client: httpx.Client) -> None:
    """Every test holds a connection: two hundred at once would be two hundred."""
    answers: list[httpx.Response] = []
    busy = threading.Barrier(21)
    with receiver(delay_s=1.5) as slow:
        one, other, third = (made(client, slow.url)["webhook"]["id"] for _ in range(3))

        def test(webhook: str) -> None:
            with running.client() as mine:
                mine.get("/v1/webhooks").raise_for_status()
                busy.wait()
                answers.append(mine.post(f"/v1/webhooks/{webhook}/test"))

        wanted = [one] * 10 + [other] * 10
        threads = [threading.Thread(target=test, args=(webhook,)) for webhook in wanted]
        for thread in threads:
            thread.start()
        busy.wait()
        time.sleep(0.7)
        full = client.post(f"/v1/webhooks/{third}/test")
        for thread in threads:
            thread.join()
        assert slow.connections == 2
        assert (full.status_code, full.json()["code"], full.json()["limit"]) == (429, "tests_running", 2)
        refused = [answer for answer in answers if answer.status_code != 200]
        assert len(answers) - len(refused) == 2
        assert {answer.json()["code"] for answer in refused} == {"test_running"}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)
        assert client.post(f"/v1/webhooks/{one}/test").json()["delivered"]


def test_the_command_line(running: Server, client: httpx.Client, taker: Receiver) -> None:
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})

    def shell(*command: str, code: int = 0) -> str:
        result = runner.invoke(app, ["webhooks", *command])
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result.stdout + (result.stderr if code else "")

    run = fresh()
    created = json.loads(shell("add", taker.url, "--status", "final", "--json"))
    name = created["webhook"]["id"]
    assert shell("add", taker.url, "--run", "x").startswith("whsec_")
    assert name in shell("list")
    assert "not public" in shell("add", "http://192.168.0.1/", code=1)
    assert "choose from" in shell("add", taker.url, "--status", "done", code=2)
    assert "delivered: 204" in shell("test", name)
    submit(client, run, identity("CCO"))
    taker.await_records(1)
    assert "1 records" in shell("replay", name, "--run", run)
    shown = [json.loads(line) for line in shell("deliveries", name, "--json").splitlines()]
    assert [(one["run"], one["seq"]) for one in shown] == [(run, 1)]
    assert run in shell("deliveries", name, "--run", run)
    assert "disabled (operator)" in shell("disable", name)
    assert "enabled" in shell("enable", name)
    assert shell("rotate", name).startswith("whsec_")
    assert "rotation_running" in shell("rotate", name, code=1)
    assert shell("rotate", name, "--force").startswith("whsec_")
    taker.status = 500
    assert "not delivered: http_status: 500" in shell("test", name, code=1)
    assert "removed" in shell("remove", name)
    assert "no webhook" in shell("deliveries", name, code=1)


def test_settings_that_are_no_addresses_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERIFIER_WEBHOOK_ALLOW", "10.0.0.0/8, fd00::/8, hooks.internal")
    monkeypatch.setenv("VERIFIER_WEBHOOK_PORTS", "443,9443")
    monkeypatch.setenv("VERIFIER_WEBHOOK_SCHEDULE_S", "1.5,2")
    chosen = Settings(data=tmp_path)
    assert chosen.webhook_allow == ("10.0.0.0/8", "fd00::/8", "hooks.internal")
    assert chosen.webhook_ports == (443, 9443)
    assert chosen.webhook_schedule_s == (1.5, 2.0)
    for wrong in ("10.0.0.0/99", "http://hooks.internal", "a b", "*"):
        with pytest.raises(InvalidInput) as refused:
            bootstrap.build(Settings(data=tmp_path, webhook_allow=(wrong,)))
        assert (refused.value.field, wrong in refused.value.message) == ("VERIFIER_WEBHOOK_ALLOW", True)


def test_the_page_s_receiver_verifies_what_is_sent(running: Server, client: httpx.Client) -> None:
    """The code of docs/webhooks.md, run as it is."""
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
    [code] = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "def verify" in block]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/webhooks.md", "exec"), names)
    verify = names["verify"]
    accepted = []

    class Checking(Receiver):
        def take(self, headers: dict[str, str], body: bytes, path: str) -> int:
            accepted.append(verify(secret, headers, body))
            assert not verify(secret, headers, body + b" ")
            assert not verify("whsec_AAAA", headers, body)
            old = headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 301)}
            assert not verify(secret, old, body)
            return 204

    checking = Checking()
    checking.start()
    try:
        created = made(client, checking.url)
        secret = created["secret"]
        path = f"/v1/webhooks/{created['webhook']['id']}"
        assert client.post(path + "/test").json()["delivered"]
        client.post(path + "/rotate").raise_for_status()
        assert client.post(path + "/test").json()["delivered"]
    finally:
        checking.stop()
    assert accepted == [True, True]
