"""The scrape: queue depths from the database, for operators only."""

from __future__ import annotations

from tests.support.server import act, fresh, shared, submit


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


def test_only_operators_scrape() -> None:
    with shared().client() as client:
        made = client.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()
        token = made["token"]
        assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 403
        assert client.get("/metrics", headers={"Authorization": ""}).status_code == 401
