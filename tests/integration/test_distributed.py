"""A distributed service in short: a server, a worker of another process, Postgres and Redis between them.

What becomes of it when any of them dies is in ``tests/cluster``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import Broker, broker
from tests.support.cluster import Cluster, cluster
from tests.support.collectors import Collector, collecting
from tests.support.databases import PostgresServer
from tests.support.server import JUDGED, act, patience
from verifier_service import bootstrap
from verifier_service.client import Wait
from verifier_service.domain.errors import InvalidInput
from verifier_service.settings import Settings


@pytest.fixture(scope="module")
def redis() -> Iterator[Broker]:
    with broker() as running:
        yield running


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def service(postgres: PostgresServer, redis: Broker, collector: Collector) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with cluster(postgres, redis, tiers=("fast",), tracing="true") as running:
            yield running


def test_a_worker_of_another_process_judges(service: Cluster) -> None:
    with service.client() as client:
        client.put_ladder(JUDGED["name"], JUDGED)
        answer = client.submit("r", [act("ok"), act("raise")], wait=Wait("final", 60))
    first, second = (result.reward for result in answer.results)
    assert first is not None
    assert first.reward == 1.0
    assert second is not None
    assert second.reward is None
    owners = service.sql("SELECT DISTINCT evidence::json -> 'provenance' ->> 'worker' FROM checks")
    assert any(str(service.workers[0].process.pid) in str(owner) for (owner,) in owners)


def test_the_trace_of_a_client_leads_through_api_and_worker(service: Cluster, collector: Collector) -> None:
    trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    body = {"trajectories": [act("ok", n=7)], "wait": {"until": "final", "seconds": 60}}
    with service.apis[0].client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        traced = {"traceparent": f"00-{trace}-{caller}-01"}
        client.post("/v1/runs/traced/trajectories", json=body, headers=traced).raise_for_status()
    until = time.monotonic() + patience(20)
    while {span.service for span in collector.of(trace)} != {"verifier-api", "verifier-worker"}:
        assert time.monotonic() < until, collector.of(trace)
        time.sleep(0.1)
    by_service = {span.service: span for span in collector.of(trace)}
    request, attempt = by_service["verifier-api"], by_service["verifier-worker"]
    assert request.parent == caller
    assert request.name == "POST /v1/runs/{run}/trajectories"
    assert (attempt.name, attempt.parent) == ("verify hostile", request.id)
    assert attempt.attributes["verifier.run"] == "traced"
    assert attempt.attributes["verifier.verdict"] == "accept"


def test_a_worker_ends_in_order(service: Cluster) -> None:
    second = service.work("fast")
    second.await_ready()
    assert second.stop() == 0


def test_a_broker_needs_a_database_that_is_shared(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        bootstrap.build(Settings(data=tmp_path, broker_url="redis://127.0.0.1:1/0"))
    assert refused.value.field == "VERIFIER_BROKER_URL"


@pytest.mark.parametrize(
    ("tier", "words"),
    [("lab", "choose from fast, simulation, high_fidelity"), ("fast", "VERIFIER_BROKER_URL")],
)
def test_a_worker_that_cannot_work_says_what_to_do(tier: str, words: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERIFIER_")}
    command = [sys.executable, "-m", "verifier_service.cli", "worker", "--tier", tier]
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert words in done.stderr
