"""Webhooks of a real server to real receivers: everything arrives, once, whatever happens between."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.databases import PostgresServer, postgres_server
from tests.support.receivers import Received, Receiver, receiver
from tests.support.server import JUDGED, Server, act, fresh, identity, patience, submit

SETTINGS = {
    "webhook_http": "true",
    "webhook_allow": "127.0.0.1",
    "webhook_timeout_s": "1",
    "webhook_schedule_s": "0.2, 0.4, 0.8, 1.6, 3.2, 6.4",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that retries within seconds."""
    with server.running(tmp_path_factory.mktemp("webhooks"), **SETTINGS) as running:
        yield running


@pytest.fixture
def client(running: Server) -> Iterator[httpx.Client]:
    with running.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        yield client
        for webhook in client.get("/v1/webhooks").json()["webhooks"]:
            client.delete(f"/v1/webhooks/{webhook['id']}").raise_for_status()


def register(client: httpx.Client, taker: Receiver, **wanted: Any) -> str:
    """Its id; the receiver verifies with the secret from now on."""
    answer = client.post("/v1/webhooks", json={"url": taker.url, **wanted})
    assert answer.status_code == 201, answer.text
    taker.secrets.append(answer.json()["secret"])
    name: str = answer.json()["webhook"]["id"]
    return name


def molecules(client: httpx.Client, run: str, count: int) -> None:
    submit(client, run, *(identity("CCO") for _ in range(count)), until="fast")


def feed(client: httpx.Client, run: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = client.get(f"/v1/runs/{run}/rewards", params={"limit": 1_000}).json()[
        "records"
    ]
    return records


def await_feed(client: httpx.Client, taker: Receiver, *runs: str, seconds: float = 40.0) -> None:
    """Returns when every record of the runs' feeds has come, and nothing else has."""
    expected = {(run, one["seq"]) for run in runs for one in feed(client, run)}
    assert expected
    found = taker.await_records(len(expected), patience(seconds))
    assert set(found.values()) == expected


def deliveries(client: httpx.Client, webhook: str, **only: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(
        f"/v1/webhooks/{webhook}/deliveries", params={"limit": 1_000, **only}
    ).json()["deliveries"]
    return found


def soon(found: Callable[[], Any], seconds: float = 30.0) -> Any:
    until = time.monotonic() + patience(seconds)
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value


def shown(client: httpx.Client, webhook: str) -> dict[str, Any]:
    read: dict[str, Any] = client.get(f"/v1/webhooks/{webhook}").json()
    return read


def test_every_record_of_every_revision_comes_once_and_verifies(client: httpx.Client) -> None:
    run, other = fresh(), fresh()
    with receiver() as taker:
        webhook = register(client, taker)
        submit(client, run, *(identity("CCO") for _ in range(40)), act("ok"), act("raise_permanent"))
        molecules(client, other, 5)
        await_feed(client, taker, run, other)
        assert taker.forged == 0
        assert set(taker.events().values()) == {1}
        records = {(run, one["seq"]): one for one in feed(client, run)}
        for one in taker.requests:
            data = one.body["data"]
            assert one.body["type"] == f"reward.{data['status']}"
            assert one.body["timestamp"] == data["issued_at"]
            assert data == records.get((data["run"], data["seq"]), data)
            assert one.headers["content-type"] == "application/json"
        assert {one.body["data"]["status"] for one in taker.requests} == {"final", "unscored"}
        soon(lambda: not deliveries(client, webhook, state="pending"))
        sent = {(one["run"], one["seq"]): one for one in deliveries(client, webhook)}
        assert {one["event"] for one in sent.values()} == set(taker.events())
        assert {(one["attempts"], one["status"], one["error"]) for one in sent.values()} == {(1, 204, None)}


def test_only_what_was_asked_for_comes(client: httpx.Client) -> None:
    run, other = fresh(), fresh()
    with receiver() as everything, receiver() as of_run, receiver() as unscored:
        register(client, everything)
        register(client, of_run, run=run)
        register(client, unscored, statuses=["unscored"])
        submit(client, run, act("ok"), act("raise_permanent"))
        submit(client, other, act("raise_permanent"))
        await_feed(client, everything, run, other)
        await_feed(client, of_run, run)
        found = unscored.await_records(2)
        assert {place[0] for place in found.values()} == {run, other}
        assert {one.body["type"] for one in unscored.requests} == {"reward.unscored"}


def test_a_receiver_that_was_down_gets_all_with_the_same_ids(client: httpx.Client) -> None:
    run = fresh()
    taker = Receiver()
    taker.start()
    webhook = register(client, taker)
    taker.stop()
    molecules(client, run, 10)
    failed = soon(lambda: [one for one in deliveries(client, webhook) if one["attempts"]])
    assert failed[0]["state"] == "pending"
    assert failed[0]["error"].startswith("connection: ConnectError")
    assert failed[0]["next_at"] is not None
    announced = {one["event"] for one in deliveries(client, webhook)}
    assert shown(client, webhook)["failing_since"] is not None
    taker.start()
    try:
        await_feed(client, taker, run)
        assert announced <= set(taker.events())
        soon(lambda: shown(client, webhook)["failing_since"] is None)
    finally:
        taker.stop()


def test_refused_records_are_tried_again_and_then_given_up(client: httpx.Client) -> None:
    """One record is refused for ever, one three times; neither holds the others up."""
    run = fresh()
    refused: list[str] = []

    def decide(one: Received) -> int | None:
        seq = one.body["data"]["seq"]
        if seq == 2 or (seq == 3 and refused.count(one.event) < 3):
            refused.append(one.event)
            return 422
        return None

    with receiver(decide=decide) as taker:
        webhook = register(client, taker)
        molecules(client, run, 12)
        assert len(feed(client, run)) == 12
        taker.await_records(10, patience(20))
        taker.await_records(11, patience(30))
        [failed] = soon(lambda: deliveries(client, webhook, state="failed"), 60)
        assert (failed["seq"], failed["attempts"], failed["status"]) == (2, 7, 422)
        assert failed["error"] == "http_status: 422"
        assert refused.count(failed["event"]) == 7
        [other] = [one for one in deliveries(client, webhook) if one["seq"] == 3]
        assert (other["state"], other["attempts"]) == ("delivered", 4)
        taker.decide = lambda _: None
        replayed = client.post(f"/v1/webhooks/{webhook}/replay", json={"run": run, "failed_only": True})
        assert replayed.json()["replayed"] == 1
        await_feed(client, taker, run)
        assert failed["event"] in taker.events()


def test_an_endpoint_that_hangs_is_slow_for_itself_only(client: httpx.Client) -> None:
    run = fresh()
    hung = threading.Event()

    def hang(_: Received) -> int | None:
        hung.set()
        time.sleep(1.5)
        return None

    with receiver(decide=hang) as slow, receiver() as quick:
        slow_id = register(client, slow)
        register(client, quick)
        molecules(client, run, 60)
        assert hung.wait(patience(20))
        await_feed(client, quick, run)
        assert not slow.requests or len(slow.requests) < 60
        assert any(
            (one["error"] or "").startswith("timeout") for one in deliveries(client, slow_id)
        ) or soon(lambda: shown(client, slow_id)["streak"] > 0)


def test_an_endpoint_that_says_gone_is_disabled_and_goes_on_when_enabled(client: httpx.Client) -> None:
    run = fresh()
    with receiver(status=410) as taker:
        webhook = register(client, taker)
        molecules(client, run, 8)
        soon(lambda: not shown(client, webhook)["enabled"])
        assert shown(client, webhook)["disabled_reason"] == "gone"
        connections = taker.connections
        molecules(client, run, 3)
        time.sleep(1.5)
        assert taker.connections == connections
        taker.status = 200
        enabled = client.patch(f"/v1/webhooks/{webhook}", json={"enabled": True})
        assert (enabled.json()["enabled"], enabled.json()["disabled_reason"]) == (True, None)
        await_feed(client, taker, run)


def test_an_endpoint_that_fails_for_long_is_disabled(tmp_path: Path) -> None:
    with (
        server.running(tmp_path, **SETTINGS, webhook_disable_after_s="1") as running,
        running.client() as client,
        receiver(status=500) as taker,
    ):
        webhook = register(client, taker)
        molecules(client, fresh(), 2)
        soon(lambda: not shown(client, webhook)["enabled"])
        assert shown(client, webhook)["disabled_reason"] == "failing"


def test_a_redirect_is_a_failure_and_its_target_is_not_called(client: httpx.Client) -> None:
    run = fresh()
    with receiver() as inner, receiver(status=307, headers={"Location": inner.url}) as taker:
        webhook = register(client, taker)
        molecules(client, run, 1)
        tried = soon(lambda: [one for one in deliveries(client, webhook) if one["attempts"]])
        assert (tried[0]["status"], tried[0]["error"]) == (307, "http_status: 307")
        assert inner.connections == 0


def test_rotation_signs_with_both_secrets_for_a_while(client: httpx.Client) -> None:
    run = fresh()
    with receiver() as old, receiver() as new:
        webhook = register(client, old)
        rotated = client.post(f"/v1/webhooks/{webhook}/rotate").json()
        assert rotated["secret"] not in old.secrets
        molecules(client, run, 3)
        await_feed(client, old, run)
        assert all(len(one.headers["webhook-signature"].split()) == 2 for one in old.requests)
        new.secrets = [rotated["secret"]]
        moved = client.patch(f"/v1/webhooks/{webhook}", json={"url": new.url})
        assert moved.json()["url"] == new.url
        molecules(client, run, 2)
        assert len(new.await_records(2)) == 2
        assert (old.forged, new.forged) == (0, 0)


def test_replay_sends_all_again_with_the_same_ids(client: httpx.Client) -> None:
    run = fresh()
    molecules(client, run, 4)
    with receiver() as taker:
        webhook = register(client, taker)
        molecules(client, run, 6)
        taker.await_records(6)
        before = taker.events()
        soon(lambda: not deliveries(client, webhook, state="pending"))
        replayed = client.post(f"/v1/webhooks/{webhook}/replay", json={"run": run}).json()
        assert replayed == {"replayed": 10, "cursor": 10, "complete": True}
        await_feed(client, taker, run)
        soon(lambda: sum(taker.events().values()) >= 16)
        assert {taker.events()[event] for event in before} == {2}
        assert taker.forged == 0


def test_delivered_ones_are_pruned_and_failed_ones_kept(tmp_path: Path) -> None:
    run = fresh()
    settings = SETTINGS | {"webhook_schedule_s": "", "webhook_keep_s": "0"}
    with (
        server.running(tmp_path, **settings) as running,
        running.client() as client,
        receiver(decide=lambda one: 400 if one.body["data"]["seq"] == 1 else None) as taker,
    ):
        webhook = register(client, taker)
        molecules(client, run, 5)
        taker.await_records(4)
        left = soon(lambda: (now := deliveries(client, webhook)) and len(now) == 1 and now)
        assert (left[0]["seq"], left[0]["state"], left[0]["attempts"]) == (1, "failed", 1)


def test_a_killed_server_loses_nothing_and_mixes_nothing_up(tmp_path: Path) -> None:
    """Killed in the middle of sending; what was under way comes again with its id."""
    run = fresh()
    with receiver(delay_s=0.05) as taker:
        first = server.start(tmp_path, **SETTINGS)
        try:
            with first.client() as client:
                register(client, taker)
                molecules(client, run, 80)
            taker.await_records(10)
            first.kill()
            cut = len(taker.records())
            assert cut < 80
        finally:
            first.close()
        with server.running(tmp_path, **SETTINGS) as second, second.client() as client:
            await_feed(client, taker, run, seconds=60)
        repeated = sum(count - 1 for count in taker.events().values())
        assert repeated <= 64
        assert taker.forged == 0


def test_two_servers_on_one_database_send_once(postgres: PostgresServer, tmp_path: Path) -> None:
    """Also after the one that sends is killed."""
    run, later = fresh(), fresh()

    def fill(running: Server) -> None:
        with running.client() as client:
            molecules(client, run, 60)

    settings = SETTINGS | {"database_url": postgres.empty()}
    with (
        server.running(tmp_path / "a", **settings) as one,
        server.running(tmp_path / "b", **settings) as two,
        receiver() as taker,
    ):
        with one.client() as client:
            register(client, taker)
        halves = [threading.Thread(target=fill, args=(each,)) for each in (one, two)]
        for half in halves:
            half.start()
        for half in halves:
            half.join()
        with two.client() as client:
            await_feed(client, taker, run)
            assert set(taker.events().values()) == {1}
            one.kill()
            molecules(client, later, 20)
            await_feed(client, taker, run, later)
            assert taker.forged == 0


def test_a_database_that_restarts_loses_nothing(tmp_path: Path) -> None:
    run = fresh()
    with postgres_server() as postgres, receiver(delay_s=0.03) as taker:
        assert postgres.process is not None, "TEST_PG_URL is not ours to restart"
        settings = SETTINGS | {"database_url": postgres.empty()}
        with server.running(tmp_path, **settings) as running, running.client() as client:
            register(client, taker)
            molecules(client, run, 80)
            taker.await_records(5)
            postgres.process.restart(pause_s=1.0)
            soon(lambda: client.get("/v1/runs").status_code == 200)
            await_feed(client, taker, run, seconds=60)


def test_the_log_and_the_api_never_show_a_secret(running: Server, client: httpx.Client) -> None:
    with receiver(status=500) as taker:
        webhook = register(client, taker)
        molecules(client, fresh(), 2)
        soon(lambda: shown(client, webhook)["streak"] > 0)
        texts = [client.get(path).text for path in ("/v1/webhooks", f"/v1/webhooks/{webhook}")]
        texts += [client.get(f"/v1/webhooks/{webhook}/deliveries").text, running.log()]
        assert not any("whsec_" in text or taker.secrets[0][6:] in text for text in texts)


def test_what_an_endpoint_answers_is_shown_to_nobody(running: Server, client: httpx.Client) -> None:
    with receiver(status=500, answer=b"inner-secret-page") as taker:
        webhook = register(client, taker)
        tested = client.post(f"/v1/webhooks/{webhook}/test")
        assert tested.json() | {"event": ""} == {
            "event": "", "delivered": False, "status": 500, "error": "http_status: 500",
        }  # fmt: skip
        molecules(client, fresh(), 1)
        soon(lambda: shown(client, webhook)["streak"] > 0)
        seen = client.get(f"/v1/webhooks/{webhook}/deliveries").text + running.log() + tested.text
        assert "inner-secret-page" not in seen


def test_bodies_are_json_of_the_wire_form(client: httpx.Client) -> None:
    from verifier_service.domain.rewards import RewardRecord

    with receiver() as taker:
        register(client, taker)
        molecules(client, fresh(), 1)
        taker.await_records(1)
        assert RewardRecord.model_validate_json(json.dumps(taker.requests[0].body["data"])).reward == 1.0
