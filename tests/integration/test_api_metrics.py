"""The scrape: queue depths from the database, for operators only."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from tests.support.server import JUDGED, act, fresh, patience, running, shared, submit


def test_queue_depths_and_counters_are_scraped() -> None:
    with shared().client() as client:
        submit(client, fresh(), act("ok"))
        answer = client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        lines = answer.text.splitlines()
        assert 'verifier_checks{state="queued",tier="fast"} 0.0' in lines
        assert any(
            line.startswith('verifier_checks{state="running",tier="high_fidelity"} ') for line in lines
        )
        assert any(line.startswith("verifier_stale_completions_total ") for line in lines)
        assert any(line.startswith("verifier_open_waits ") for line in lines)


def test_counters_of_all_processes_are_scraped(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        waited = submit(client, "r", act("ok"), act("raise"), act("sleep", s=0.2))
        client.post("/v1/runs/r/trajectories", json={"trajectories": [act("ok", n=2)]}).raise_for_status()
        assert len(waited) == 3
        wanted = {
            'verifier_reward_records_total{status="final",tier="fast"}',
            'verifier_reward_records_total{status="unscored",tier=""}',
            'verifier_claims_total{tier="fast"}',
            'verifier_attempts_total{end="succeeded",tier="fast"}',
            'verifier_foreseen_checks_total{end="succeeded",tier="fast"}',
        }
        until = time.monotonic() + patience(10)
        while wanted - set(scraped := samples(client)):
            assert time.monotonic() < until, wanted - set(scraped)
            time.sleep(0.2)
    assert scraped['verifier_reward_records_total{status="final",tier="fast"}'] == 3.0
    assert scraped['verifier_spent_credits_total{account="compute"}'] > 0.0
    assert scraped['verifier_wait_seconds_count{end="met"}'] == 1.0
    assert 0.2 < scraped['verifier_wait_seconds_sum{end="met"}'] < 30.0
    assert scraped['verifier_wait_seconds_count{end="timeout"}'] == 0.0
    assert scraped['verifier_reserved_credits{account="compute"}'] == 0.0
    assert scraped['verifier_workers{tier="fast"}'] == 1.0
    assert scraped['verifier_queue_oldest_seconds{tier="lab"}'] == 0.0
    assert scraped['verifier_webhook_deliveries{state="pending"}'] == 0.0


def samples(client: httpx.Client) -> dict[str, float]:
    """Every sample of a scrape, by its name and labels."""
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_only_operators_scrape() -> None:
    with shared().client() as client:
        made = client.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()
        token = made["token"]
        assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 403
        assert client.get("/metrics", headers={"Authorization": ""}).status_code == 401
