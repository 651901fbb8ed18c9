"""Real Celery workers: who gets which work, what an operator sees of them, and what befalls long work."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from tests.support import placed
from tests.support.cluster import Cluster, Worker, engines
from tests.support.server import JUDGED, PLUGINS, Server, act, fresh, patience, running
from verifier_service.client import Client, Wait
from verifier_service.domain.history import Attempt, AttemptEnd
from verifier_service.domain.wire import CheckLine
from verifier_service.domain.workers import Worker as Seen
from verifier_service.domain.workers import WorkerState

BEAT_S = 0.5
SOON_S = 30.0
CANCEL_S = 2.0
PYRENE = "c1cc2ccc3cccc4ccc(c1)c2c34"
DFT: dict[str, Any] = {
    "name": "dft",
    "candidate": {"kind": "molecule", "format": "smiles"},
    "quantity": {"name": "ks_gap@b3lyp/def2-tzvp//gfn2", "unit": "eV"},
    "utility": {"kind": "window", "low": 4.0, "high": 5.0, "softness": 1.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}],
        "high_fidelity": [
            {"use": "pyscf.gap", "params": {"functional": "b3lyp", "basis": "def2-tzvp"}},
        ],
    },
}
T = TypeVar("T")


@dataclass(eq=False)
class Machines(Cluster):
    """A cluster whose installations have verifiers that not every worker runs."""

    def _settings(self) -> dict[str, str]:
        plugins = json.dumps((*PLUGINS, placed.__name__))
        return super()._settings() | {"plugins": plugins, "heartbeat_s": str(BEAT_S)}

    def worker(self, tier: str = "fast", **environment: str) -> Worker:
        """One more, ready, with variables of its own."""
        prefix = ["env", *(f"{name}={value}" for name, value in environment.items())]
        worker = self.work(tier, prefix=prefix)
        worker.await_ready()
        return worker

    def seen(self, worker: Worker) -> Seen:
        """What the service says of a worker."""
        with self.client() as client:
            [one] = [one for one in client.workers() if one.card.pid == worker.process.pid]
        return one


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with engines() as (postgres, redis), tempfile.TemporaryDirectory(prefix="machines-") as folder:
        made = Machines(Path(folder), postgres, redis, postgres.empty())
        try:
            made.serve()
            made.worker(**{placed.VERSION: "2"})
            with made.client() as client:
                for name in ("hostile", "lasting", "placed.tagged", "placed.versioned", "placed.large"):
                    client.put_ladder(name, ladder(name))
                client.put_ladder("dft", DFT)
            yield made
        finally:
            made.close()


@pytest.fixture
def client(machines: Machines) -> Iterator[Client]:
    with machines.client() as opened:
        yield opened


def ladder(verifier: str) -> dict[str, Any]:
    use = [{"use": verifier}]
    return JUDGED | {"name": verifier, "outcome": use[0], "tiers": {"fast": use}}


def handed_in(client: Client, run: str, verifier: str, do: str, **fields: Any) -> str:
    """A trajectory that nobody waits for; its id."""
    [result] = client.submit(run, [act(do, **fields) | {"ladder": verifier}]).results
    assert result.id is not None
    return result.id


def eventually(found: Callable[[], T | None], seconds: float = SOON_S) -> T:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)
    return value


def check_of(client: Client, run: str, id: str) -> CheckLine:
    """The only check of a case above the gates."""
    checks = [one.check for one in client.trajectory(run, id).demands if one.check is not None]
    return checks[-1]


def attempts(client: Client, run: str, id: str) -> tuple[Attempt, ...]:
    return check_of(client, run, id).attempts


def began(client: Client, run: str, id: str) -> Attempt | None:
    """The attempt that runs now."""
    return next((one for one in attempts(client, run, id) if one.end is None), None)


def test_work_goes_to_who_can_do_it_and_the_rest_says_why_it_waits(
    machines: Machines, client: Client
) -> None:
    run = fresh()
    kinds = ("placed.tagged", "placed.versioned", "placed.large", "hostile")
    ids = {kind: handed_in(client, run, kind, "ok") for kind in kinds}
    assert client.query(run, [ids["hostile"]], wait=Wait("final", 30)).complete
    host = socket.gethostname()
    waiting = {kind: client.trajectory(run, id).waiting for kind, id in ids.items()}
    nobody = "is queued, but no living worker of tier fast runs"
    assert waiting["hostile"] == ()
    [tagged], [versioned] = waiting["placed.tagged"], waiting["placed.versioned"]
    assert tagged.endswith(f"{nobody} placed.tagged 1: {host} lacks it: no tag a100")
    assert versioned.endswith(f"{nobody} placed.versioned 1: {host} has version 2")
    assert "of 1073741824 MiB of memory" in waiting["placed.large"][0]
    able = machines.worker(VERIFIER_WORKER_TAGS="a100,other")
    answer = client.query(run, [ids["placed.tagged"], ids["placed.versioned"]], wait=Wait("final", 30))
    assert [record.reward for record in answer.records] == [1.0, 1.0]
    for kind in ("placed.tagged", "placed.versioned"):
        [one] = attempts(client, run, ids[kind])
        assert f"/{able.process.pid}-" in str(one.worker)
        assert (one.host, one.version, one.end) == (host, "1", AttemptEnd.SUCCEEDED)
    assert able.stop() == 0
    assert machines.seen(able).state is WorkerState.STOPPED
    late = handed_in(client, run, "placed.tagged", "ok", n=2)
    [sentence] = client.trajectory(run, late).waiting
    assert "no tag a100 (last seen" in sentence


def test_an_operator_sees_workers(machines: Machines, client: Client) -> None:
    first = machines.workers[0]
    seen = machines.seen(first)
    assert seen.state is WorkerState.ALIVE
    assert (seen.card.tier, seen.card.host, seen.card.refuses) == ("fast", socket.gethostname(), False)
    assert seen.card.resources.cpus <= (os.cpu_count() or 1)
    assert seen.card.resources.memory_mb <= psutil.virtual_memory().total >> 20
    assert seen.card.packages["verifier-service"]
    assert seen.card.packages["rdkit"]
    known = {one.name: one for one in seen.card.verifiers}
    assert known["molecule.validity"].lacking is None
    assert known["placed.tagged"].lacking == "no tag a100"
    assert known["placed.versioned"].version == "2"
    assert known["missing"].lacking == "needs the extra 'chem'"
    assert "pyscf.gap" not in known, "of another tier"


def test_what_a_worker_does_is_counted_and_shown(machines: Machines, client: Client) -> None:
    first, run = machines.workers[0], fresh()
    before = machines.seen(first)
    client.submit(run, [act("ok", n=21), act("ok", n=22), act("raise_permanent")], wait=Wait("final", 30))
    id = handed_in(client, run, "lasting", "sleep", s=4)

    def busy() -> Seen | None:
        now = machines.seen(first)
        return now if now.current and now.done >= before.done + 2 else None

    now = eventually(busy)
    assert [(one.verifier, one.checks) for one in now.current] == [("lasting", 1)]
    assert now.failed == before.failed + 1
    time.sleep(3 * BEAT_S)
    assert machines.seen(first).alive, "busy, not gone"
    assert client.query(run, [id], wait=Wait("final", 30)).complete
    eventually(lambda: machines.seen(first).done == before.done + 3)
    assert machines.seen(first).rejected == before.rejected


def test_a_worker_that_dies_is_lost_and_so_is_its_attempt(machines: Machines, client: Client) -> None:
    run, victim = fresh(), machines.worker(VERIFIER_WORKER_TAGS="a100")
    id = handed_in(client, run, "placed.tagged", "sleep", s=6)
    first = eventually(lambda: began(client, run, id))
    victim.kill()
    eventually(lambda: machines.seen(victim).state is WorkerState.LOST, 10 * BEAT_S)
    other = machines.worker(VERIFIER_WORKER_TAGS="a100")
    assert client.query(run, [id], wait=Wait("final", 60)).complete
    lost, won = attempts(client, run, id)
    assert (lost.number, lost.worker, lost.end) == (first.number, first.worker, AttemptEnd.LOST)
    assert (lost.host, lost.code) == (socket.gethostname(), "worker_lost")
    assert (won.number, won.end) == (2, AttemptEnd.SUCCEEDED)
    assert f"/{other.process.pid}-" in str(won.worker)
    assert won.queued_at == lost.ended_at
    assert won.wall_s is not None
    assert 5.9 < won.wall_s < 60.0
    assert won.peak_memory_mb is not None
    assert 10.0 < won.peak_memory_mb < 1_024.0
    assert other.stop() == 0


def test_work_outlives_its_broker(machines: Machines, client: Client) -> None:
    """A lease of 3 s, 12 s of work, 6 s without a broker in between: one attempt."""
    run = fresh()
    id = handed_in(client, run, "lasting", "sleep", s=12)
    eventually(lambda: began(client, run, id))
    time.sleep(2.0)
    machines.redis.stop()
    time.sleep(6.0)
    machines.redis.start()
    assert client.query(run, [id], wait=Wait("final", 60)).complete
    [one] = attempts(client, run, id)
    assert (one.number, one.end) == (1, AttemptEnd.SUCCEEDED)
    assert machines.sql("SELECT count(*) FROM attempts WHERE ended_as <> 'succeeded' AND wall_s > 11") == [
        (0,)
    ]


def test_heartbeats_outlive_the_database(machines: Machines, client: Client) -> None:
    assert machines.postgres.process is not None
    machines.postgres.process.restart(pause_s=3 * BEAT_S)
    before = eventually(lambda: machines.seen(machines.workers[0]))
    eventually(lambda: machines.seen(machines.workers[0]).beat_at > before.beat_at)
    assert machines.seen(machines.workers[0]).alive


def calculating(family: Callable[[], list[psutil.Process]]) -> psutil.Process | None:
    """A process below that has calculated for a while."""
    for process in family():
        try:
            if process.cpu_times().user > 6.0 and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except psutil.Error:
            continue
    return None


def cancel_in_time(client: Client, run: str, id: str, family: Callable[[], list[psutil.Process]]) -> None:
    """Cancel a calculation that is under way: its process is gone 2 s after the answer."""
    child = eventually(lambda: calculating(family), 120.0)
    assert began(client, run, id) is not None
    client.cancel(run, id)
    child.wait(timeout=patience(CANCEL_S))
    ended = eventually(lambda: [one for one in attempts(client, run, id) if one.cpu_s])
    [one] = ended
    assert one.end is AttemptEnd.CANCELLED
    assert one.cpu_s is not None
    assert one.cpu_s > 3.0
    assert one.peak_memory_mb is not None
    assert one.peak_memory_mb > 100.0
    assert client.trajectory(run, id).cancelled


def dft(client: Client, run: str) -> str:
    [result] = client.submit(run, [{"id": fresh("t"), "ladder": "dft", "answer": PYRENE}]).results
    assert result.id is not None
    return result.id


def test_cancellation_reaches_a_calculation_on_another_machine(machines: Machines, client: Client) -> None:
    worker, run = machines.worker("high_fidelity"), fresh()
    id = dft(client, run)
    cancel_in_time(client, run, id, lambda: psutil.Process(worker.process.pid).children(recursive=True))
    assert worker.stop() == 0


def test_cancellation_reaches_a_calculation_of_a_service_on_one_machine(tmp_path: Path) -> None:
    with running(tmp_path, heartbeat_s=str(BEAT_S)) as server, of(server) as client:
        client.put_ladder("dft", DFT)
        run = fresh()
        id = dft(client, run)
        cancel_in_time(client, run, id, server.children)
        workers = client.workers()
        assert {str(one.card.tier) for one in workers} == {"fast", "simulation", "high_fidelity"}
        assert all(one.alive and one.card.refuses for one in workers)


def of(server: Server) -> Client:
    return Client(server.url, server.key)
