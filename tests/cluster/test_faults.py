"""Postgres, Redis and Celery workers under faults: the rewards are those of an undisturbed run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.support.brokers import Broker
from tests.support.cluster import LEASE_S, Cluster, cluster, engines
from tests.support.databases import PostgresServer
from tests.support.receivers import Receiver
from tests.support.receivers import receiver as receiving
from verifier_service.client import Client, Wait
from verifier_service.persistence.leads import SILENT_S

COUNT = 300
# What is learned depends on the order in which results come: a reward must not, to be compared.
HOOKS = {"webhook_http": "true", "webhook_allow": "127.0.0.1/32", "learning": "false"}
MOLECULES = 120
LADDER: dict[str, Any] = {
    "name": "carbons",
    "candidate": {"kind": "text", "format": "text"},
    "quantity": {"name": "carbons@test", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 40.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "test.gate", "gate": "hard"}],
        "simulation": [{"use": "test.slow_rough", "params": {"sigma": 8.0}}],
        "high_fidelity": [{"use": "test.slow_exact"}],
    },
}
Told = dict[str, tuple[str, str | None, float | None, str | None]]


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[PostgresServer, Broker]]:
    with engines() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(machines: tuple[PostgresServer, Broker]) -> Told:
    with cluster(*machines, **HOOKS) as service:
        told = play(service, lambda: None)
    assert {status for status, *_ in told.values()} == {"final"}
    assert {tier for _, tier, *_ in told.values()} == {"fast", "high_fidelity"}
    assert len({reward for *_, reward, _ in told.values()}) > 20
    return told


def batch() -> list[dict[str, Any]]:
    """Texts that many trajectories share; every seventh is refused at the gate."""
    items = []
    for number in range(COUNT):
        which = number % MOLECULES
        text = ("N" if which % 7 == 3 else "") + "C" * (which % 40 + 1) + "O" * (which // 40)
        items.append({"id": f"t{number}", "ladder": "carbons", "answer": text})
    return items


def play(service: Cluster, disturb: Callable[[], object], *, repeats: bool = False, api: int = 0) -> Told:
    """Submit, disturb, wait until all is settled: what every trajectory got. The books are checked, and
    that an endpoint was told of every record: once, unless a sender that is killed ``repeats`` itself."""
    with receiving() as receiver, service.client(api) as client:
        client.put_ladder("carbons", LADDER)
        client.add_webhook(receiver.url)
        handed = client.submit("r", batch())
        assert {str(result.status) for result in handed.results} == {"accepted"}
        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        told = settled(client)
        disturbing.join()
        # What came late must change nothing.
        assert settled(client) == told
        audit_webhooks(service, receiver, repeats=repeats)
    audit(service)
    return told


def audit_webhooks(service: Cluster, receiver: Receiver, *, repeats: bool) -> None:
    """One event per record, and one record per event."""
    issued = {int(seq) for (seq,) in service.sql("SELECT seq FROM rewards")}  # type: ignore[call-overload]
    told = receiver.await_records(len(issued), 60)
    assert sorted(told.values()) == [("r", seq) for seq in sorted(issued)]
    if not repeats:
        assert set(receiver.events().values()) == {1}
    # What a killed sender had under way is sent again when its lease of 80 s has expired.
    assert eventually(lambda: states(service) == {"delivered": len(issued)}, 120), states(service)


def states(service: Cluster) -> dict[object, object]:
    return dict(service.sql("SELECT state, count(*) FROM deliveries GROUP BY state"))


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.25)
    return True


def settled(client: Client) -> Told:
    ids = [f"t{number}" for number in range(COUNT)]
    answer = client.query("r", ids, wait=Wait("final", 150))
    assert answer.complete
    return {
        record.trajectory: (
            str(record.status),
            record.tier and str(record.tier),
            record.reward,
            record.reason and record.reason.detail,
        )
        for record in answer.records
    }


def audit(service: Cluster) -> None:
    """One accepted evidence per check, nothing left over, and the books balance."""
    judged = service.sql("SELECT key, count(*) FROM checks WHERE evidence IS NOT NULL GROUP BY key")
    assert judged
    assert {count for _, count in judged} == {1}
    assert service.sql("SELECT count(*) FROM checks WHERE state NOT IN ('succeeded')") == [(0,)]
    [(reserved, spent)] = service.sql("SELECT reserved, spent FROM accounts WHERE kind = 'compute'")
    [(charged,)] = service.sql("SELECT sum(spent) FROM checks")
    assert reserved == pytest.approx(0, abs=1e-9)
    assert spent == pytest.approx(charged, rel=1e-9)
    audit_attempts(service)


def audit_attempts(service: Cluster) -> None:
    """Every claim is one attempt in the history, every check succeeded once, nothing is charged beside."""
    fences = dict(service.sql("SELECT pk, fence FROM checks"))
    counted = dict(service.sql("SELECT check_pk, count(*) FROM attempts GROUP BY check_pk"))
    assert counted == {pk: fence for pk, fence in fences.items() if fence}
    won = service.sql(
        "SELECT check_pk, count(*) FROM attempts WHERE ended_as = 'succeeded' GROUP BY check_pk"
    )
    assert dict(won) == dict.fromkeys(fences, 1)
    [(told,)] = service.sql("SELECT sum(credits) FROM attempts")
    [(charged,)] = service.sql("SELECT sum(spent) FROM checks")
    assert told == pytest.approx(charged, rel=1e-9)


def assert_same(disturbed: Told, undisturbed: Told) -> None:
    assert disturbed.keys() == undisturbed.keys()
    for name, (status, tier, reward, detail) in undisturbed.items():
        assert disturbed[name][:2] == (status, tier), name
        assert disturbed[name][2] == pytest.approx(reward, abs=1e-9), name
        assert disturbed[name][3] == detail, name


@pytest.mark.parametrize("point", ["claimed", "worked", "committed"])
def test_a_worker_dies_at_a_point_of_the_story(
    machines: tuple[PostgresServer, Broker], undisturbed: Told, point: str
) -> None:
    with cluster(*machines, tiers=("fast", "high_fidelity"), **HOOKS) as service:
        sign = service.folder / "sign"
        service.work("simulation", "tests.support.crashing", point, str(sign)).await_ready()

        def disturb() -> None:
            service.workers[-1].process.wait(60)
            service.work("simulation").await_ready()

        told = play(service, disturb)
        assert sign.exists()
        assert service.workers[2].process.returncode == -signal.SIGKILL
    assert_same(told, undisturbed)


def test_workers_are_killed_while_they_work(
    machines: tuple[PostgresServer, Broker], undisturbed: Told
) -> None:
    with cluster(*machines, **HOOKS) as service:

        def disturb() -> None:
            for tier in ("simulation", "high_fidelity", "fast"):
                time.sleep(0.7)
                victim = next(w for w in service.workers if w.tier == tier and w.process.poll() is None)
                victim.kill()
                service.work(tier).await_ready()

        told = play(service, disturb)
    assert_same(told, undisturbed)


def test_a_worker_hangs_beyond_its_lease(
    machines: tuple[PostgresServer, Broker], undisturbed: Told
) -> None:
    with cluster(*machines, **HOOKS) as service:
        second = service.work("simulation")

        def disturb() -> None:
            frozen = service.workers[1]
            frozen.freeze()
            second.await_ready()
            time.sleep(LEASE_S * 2 + 2)
            frozen.thaw()
            time.sleep(2)

        told = play(service, disturb)
    assert_same(told, undisturbed)


def test_the_broker_is_away_and_comes_back(
    machines: tuple[PostgresServer, Broker], undisturbed: Told
) -> None:
    redis = machines[1]
    with cluster(*machines, **HOOKS) as service:

        def disturb() -> None:
            redis.stop()
            time.sleep(30)
            redis.start()
            redis.flush()

        told = play(service, disturb)
    assert_same(told, undisturbed)


def test_postgres_restarts(machines: tuple[PostgresServer, Broker], undisturbed: Told) -> None:
    postgres = machines[0].process
    assert postgres is not None
    with cluster(*machines, **HOOKS) as service:

        def disturb() -> None:
            for _ in range(2):
                time.sleep(1)
                postgres.restart(pause_s=1)

        told = play(service, disturb, repeats=True)
    assert_same(told, undisturbed)


def test_an_api_process_is_killed_while_somebody_waits(
    machines: tuple[PostgresServer, Broker], undisturbed: Told
) -> None:
    with cluster(*machines, **HOOKS) as service:
        service.serve()

        def disturb() -> None:
            """The first server, which holds the sweep, goes; whoever waited asks the second."""
            waiting = httpx.Client(base_url=service.apis[0].url, headers=service.apis[0].headers)
            body = {"ids": ["t0"], "wait": {"until": "final", "seconds": 60}}
            killer = threading.Timer(1.0, service.apis[0].kill)
            killer.start()
            with waiting, pytest.raises(httpx.TransportError):
                waiting.post("/v1/runs/r/rewards/query", json=body | {"ids": [f"t{COUNT - 1}"]}, timeout=90)
            killer.join()

        with receiving() as receiver, service.client(1) as client:
            client.put_ladder("carbons", LADDER)
            client.add_webhook(receiver.url)
            client.submit("r", batch())
            disturb()
            told = settled(client)
            audit_webhooks(service, receiver, repeats=True)
        audit(service)
    assert_same(told, undisturbed)


def test_wakes_come_twice_or_never(machines: tuple[PostgresServer, Broker], undisturbed: Told) -> None:
    redis = machines[1]
    with cluster(*machines, **HOOKS) as service:

        def disturb() -> None:
            from verifier_service.dispatch.celery import WAKE_TASK, celery_app

            app = celery_app(redis.url)
            for turn in range(40):
                if turn % 2:
                    redis.flush()
                for tier in ("fast", "simulation", "high_fidelity"):
                    for _ in range(3):
                        app.send_task(WAKE_TASK, args=(tier,), queue=tier, expires=5)
                time.sleep(0.1)
            app.close()

        told = play(service, disturb)
    assert_same(told, undisturbed)


def test_the_server_that_sweeps_hangs(machines: tuple[PostgresServer, Broker], undisturbed: Told) -> None:
    """Its kernel answers for it: only its silence tells. The second server takes over."""
    with cluster(*machines, **HOOKS) as service:
        service.serve()
        first = psutil.Process(service.apis[0].process.pid)

        def disturb() -> None:
            first.suspend()
            time.sleep(SILENT_S * 2)
            first.resume()
            time.sleep(2)

        told = play(service, disturb, repeats=True, api=1)
    assert_same(told, undisturbed)


def test_two_sweeps_at_once(machines: tuple[PostgresServer, Broker], undisturbed: Told) -> None:
    with cluster(*machines, **HOOKS) as service:
        for _ in range(2):
            service.serve("tests.support.leading")
        told = play(service, lambda: None)
        assert service.sql("SELECT count(*) FROM checks WHERE attempt > 1") == [(0,)]
    assert_same(told, undisturbed)


def test_a_worker_whose_clock_is_wrong(machines: tuple[PostgresServer, Broker], undisturbed: Told) -> None:
    faketime = faketime_library()
    with cluster(*machines, tiers=("fast", "high_fidelity"), **HOOKS) as service:
        prefix = ("env", f"LD_PRELOAD={faketime}", "FAKETIME=+1h", "DONT_FAKE_MONOTONIC=1")
        service.work("simulation", prefix=prefix).await_ready()
        told = play(service, lambda: None)
    assert_same(told, undisturbed)


def faketime_library() -> str:
    """The library; installed by apt when we are root and it is not there."""
    places = [
        f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/faketime/libfaketime.so.1",
    ]
    for attempt in range(2):
        for place in places:
            if os.path.exists(place):  # noqa: PTH110
                return place
        if attempt == 0 and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True)
            subprocess.run(
                ["apt-get", "install", "-y", "-qq", "libfaketime"], check=True, capture_output=True
            )
    raise RuntimeError("no libfaketime: install the package libfaketime")
