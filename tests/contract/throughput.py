"""CPU time per row of the bulk calls: ``python -m tests.contract.throughput [sqlite|postgres] [rounds]``.

The shape is that of the fast path: 256 trajectories of about 3 kB with five checks and five demands each.
CPU is that of this process; on Postgres the server's own is not in it, so wall time is shown as well.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract.samples import (
    PROJECT,
    RUN,
    check,
    demand,
    evidence,
    prepare,
    record,
    reservation,
    success,
    trajectory,
)
from tests.support.databases import SqliteFiles, postgres_server
from verifier_service.domain.checks import Claim
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.ports.runs import StandingUpdate
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.states import RewardStatus
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

BATCH, PER_CASE = 256, 5
TURNS = json.dumps([{"message": "m" * 500, "calls": [], "observations": []}] * 5)
PARAMS: dict[str, object] = {"functional": "r2scan", "basis": "def2-svp"}


class Meter:
    """Collects seconds of CPU and of the clock, and rows, per named step."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    @contextmanager
    def step(self, name: str, rows: int) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        entry = self.spent[name]
        entry[0] += time.process_time() - cpu
        entry[1] += time.perf_counter() - wall
        entry[2] += rows

    def lines(self) -> Iterator[str]:
        yield f"{'step':22}{'rows':>8}{'cpu us/row':>12}{'wall us/row':>12}"
        for name, (cpu, wall, rows) in self.spent.items():
            yield f"{name:22}{int(rows):>8}{cpu / rows * 1e6:>12.1f}{wall / rows * 1e6:>12.1f}"


def measure(store: SqlStore, rounds: int) -> Meter:
    """Run the fast path ``rounds`` times after one round that is not counted."""
    prepare(store, compute=1e9)
    for round_ in range(rounds + 1):
        if round_ <= 1:
            meter = Meter()
        _round(store, meter, round_)
    return meter


def _round(store: SqlStore, meter: Meter, round_: int) -> None:
    items = [trajectory(f"t{round_}-{i}", group=f"g{i // 8}", turns=TURNS) for i in range(BATCH)]
    checks = [
        check(f"{round_}-{i}-{place}".ljust(40, "x"), params=PARAMS)
        for i in range(BATCH)
        for place in range(PER_CASE)
    ]
    wide = BATCH * PER_CASE
    with meter.step("intake commit", BATCH), store.begin() as tx:
        with meter.step("trajectories.insert", BATCH):
            pks = list(tx.trajectories.insert(PROJECT, RUN, items).values())
        with meter.step("checks.ensure", wide):
            refs = tx.checks.ensure(PROJECT, RUN, checks)
        with meter.step("demands.insert", wide):
            tx.demands.insert(
                [
                    demand(pks[i // PER_CASE], ref.pk, path=f"fast/{i % PER_CASE}")
                    for i, ref in enumerate(refs)
                ]
            )
        with meter.step("ensure again", wide):
            tx.checks.ensure(PROJECT, RUN, checks)
    for _ in range(PER_CASE):
        with meter.step("work commit", BATCH), store.begin() as tx:
            claims = _claim(tx, meter)
            _complete(tx, meter, claims)
    with meter.step("settle commit", BATCH), store.begin() as tx:
        _settle(tx, meter, pks, round_)
    with store.read() as tx:
        with meter.step("bodies", BATCH):
            tx.trajectories.bodies(pks)
        with meter.step("feed", BATCH):
            tx.rewards.feed(PROJECT, RUN, round_ * BATCH, BATCH)
        with meter.step("latest", BATCH):
            tx.rewards.latest(PROJECT, RUN, [one.id for one in items])


def _claim(tx: Transaction, meter: Meter) -> list[Claim]:
    with meter.step("checks.claim", BATCH):
        claims = tx.checks.claim(Tier.FAST, BATCH, "w", 60.0)
    with meter.step("ledger.reserve", BATCH):
        tx.ledger.reserve([reservation(one.pk, 0.001) for one in claims])
    with meter.step("checks.beat", BATCH):
        tx.checks.beat("w", {one.pk: one.fence for one in claims}, 60.0)
    return claims


def _complete(tx: Transaction, meter: Meter, claims: list[Claim]) -> None:
    done = [
        success(one, 0.0005, evidence=evidence(one.key, one.pk / 1e9), cost=Cost(cpu_s=0.01))
        for one in claims
    ]
    with meter.step("checks.complete", BATCH):
        tx.checks.complete("w", done)
    with meter.step("demands.satisfy", BATCH):
        pks = tx.demands.satisfy([one.pk for one in claims])
    with meter.step("cases (5 demands)", len(pks)):
        tx.trajectories.cases(pks, lock=True)


def _settle(tx: Transaction, meter: Meter, pks: list[int], round_: int) -> None:
    records = [record(f"t{round_}-{i}") for i in range(BATCH)]
    with meter.step("rewards.append", BATCH):
        stored = tx.rewards.append(PROJECT, RUN, records)
    updates = [
        StandingUpdate(
            pk=pk,
            status=RewardStatus.PROVISIONAL,
            reward=0.5,
            revision=1,
            seq=one.seq,
            fingerprint="f" * 40,
            met=2,
        )
        for pk, one in zip(pks, stored, strict=True)
    ]
    with meter.step("trajectories.settle", BATCH):
        tx.trajectories.settle(updates)


def main(kind: str = "sqlite", rounds: str = "8") -> None:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            _print(SqliteFiles(Path(folder)).migrated(), int(rounds))
    else:
        with postgres_server() as server:
            _print(server.migrated(), int(rounds))


def _print(url: str, rounds: int) -> None:
    store = create_store(url)
    for line in measure(store, rounds).lines():
        sys.stdout.write(f"{line}\n")
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
