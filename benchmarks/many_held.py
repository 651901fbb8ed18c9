"""What a million held and a million queued checks cost those who claim and submit beside them.

    python -m benchmarks.many_held [--held 1000000] [--count 4096]

On Postgres (fsync on, on this machine's disk). One run, whose budget is spent, has as many trajectories
whose dearer rung is not decided, and pays for as many queued checks that nobody works on:

* of the trajectories, two thirds have a held demand, half of them all of one rank, as equal cases have, and
  half of ranks at random; a third have a requested demand on one of the queued checks
* of the checks, half are of the high-fidelity tier and ready, a quarter of it and delayed for an hour (as
  after a failure, or without credits), and a quarter of the fast tier and delayed

Measured before and after they are there:

* ``claim``   the store's claim of the fast tier with some thousand ready checks (one at a time, as a single
              submission needs it, and sixteen), and of the crowded tier
* ``reads``   what is read again and again: by the sweep (what nobody advanced, the kinds and the tiers that
              are ready, the best of the held), by decisions (what is outstanding), by the limit of queues
* ``submit``  trajectories per second into another run through an API server with its workers, in batches
              of 256 that wait for final records
* ``tick``    a tick of the sweep, which revisits what is held every second

Nothing but the outstanding credits of the run that has all of this, which are summed, may grow with it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from benchmarks.distributed import LADDER, PATH, Service, bodies, look
from benchmarks.distributed_load import Load, drive
from tests.support.brokers import broker
from tests.support.databases import PostgresServer, postgres_server
from verifier_service.bootstrap import build
from verifier_service.client import Client
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.store import Store, Transaction
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.domain.workers import Kind
from verifier_service.settings import Settings
from verifier_service.worker.sweep import Sweep

KINDS = frozenset(Kind(f"bench.{name}", "1") for name in ("nobody", "length", "text_equal", "text_present"))
CROWDED = {
    "name": "crowded",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "quantity": {"name": "length@bench", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "bench.text_present", "gate": "hard"}],
        "high_fidelity": [{"use": "bench.length"}],
    },
}
READS: dict[str, Callable[[Transaction], object]] = {
    "ready tiers": lambda tx: tx.checks.ready(),
    "kinds": lambda tx: tx.checks.kinds(),
    "not advanced": lambda tx: tx.demands.unadvanced(500),
    "best 512 of the held": lambda tx: tx.trajectories.held("default", "held", 512),
    "queues up to 20,000": lambda tx: tx.runs.queued(20_000),
    "outstanding, of all of it": lambda tx: tx.demands.outstanding("default", "held"),
    "outstanding, of an idle run": lambda tx: tx.demands.outstanding("default", "idle"),
}
SEED = "(SELECT pk FROM trajectories WHERE id = 'seed-0')"
CLONES = """
INSERT INTO trajectories ({trajectories}) SELECT {of_trajectories}
  FROM trajectories s, generate_series(1, %(count)s) AS n WHERE s.id = 'seed-0';
INSERT INTO bodies ({bodies}) SELECT {of_bodies}
  FROM bodies s, trajectories t WHERE s.trajectory = {seed} AND t.id LIKE 'held-%%';
INSERT INTO demands ({demands}) SELECT {of_demands}
  FROM demands s, trajectories t WHERE s.trajectory = {seed} AND t.id LIKE 'held-%%';
INSERT INTO rewards ({rewards}) SELECT {of_rewards}
  FROM rewards s, trajectories t WHERE s.trajectory = 'seed-0' AND s.revision = t.revision
  AND t.id LIKE 'held-%%';
UPDATE feeds SET seq = (SELECT max(seq) FROM rewards r WHERE r.run = feeds.run)
  WHERE run = (SELECT run FROM trajectories WHERE id = 'seed-0');
"""
CHANGED = {
    "trajectories": {"id": "'held-' || n", "seq": "s.seq + n"},
    "bodies": {"trajectory": "t.pk"},
    "demands": {"trajectory": "t.pk", "rank": "CASE WHEN t.pk %% 2 = 0 THEN 0.25 ELSE random() END"},
    "rewards": {"trajectory": "t.id", "seq": "t.seq"},
}
QUEUE = """
INSERT INTO checks ({check_columns})
SELECT {check_values} FROM checks c, generate_series(1, %(count)s) AS n
WHERE c.pk = (SELECT min(pk) FROM checks WHERE verifier = 'bench.text_present')
"""

WANTED = """
UPDATE demands d SET state = 'requested', check_pk = c.pk, rank = NULL FROM trajectories t, checks c
WHERE d.trajectory = t.pk AND d.state = 'held' AND t.id LIKE 'held-%'
AND c.key = 'queued-' || substr(t.id, 6) AND substr(t.id, 6)::bigint % 3 = 0
"""


def columns(connection: psycopg.Connection, table: str) -> list[str]:
    """Every column that the database does not number by itself."""
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_name <> 'pk'"
        " ORDER BY ordinal_position",
        (table,),
    ).fetchall()
    return [name for (name,) in found]


def fill(url: str, count: int) -> None:
    """Clone one held case and queue one check as often."""
    with psycopg.connect(url, autocommit=True) as connection:
        names: dict[str, str] = {"seed": SEED}
        for table, changed in CHANGED.items():
            listed = columns(connection, table)
            names[table] = ", ".join(listed)
            names[f"of_{table}"] = ", ".join(changed.get(one, f"s.{one}") for one in listed)
        for statement in CLONES.format(**names).split(";")[:-1]:
            connection.execute(statement.encode(), {"count": count})
        checks = columns(connection, "checks")
        changed = {
            "key": "'queued-' || n",
            "verifier": "'bench.length'",
            "tier": "CASE WHEN n %% 4 = 1 THEN 'fast' ELSE 'high_fidelity' END",
            "not_before": "CASE WHEN n %% 4 < 2 THEN extract(epoch FROM clock_timestamp()) + 3600 END",
            "state": "'queued'",
            "payer": f"(SELECT run FROM trajectories WHERE pk = {SEED})",
            "precedence": "random()",
            "evidence": "NULL",
            "ended_at": "NULL",
        }
        queue = QUEUE.format(
            check_columns=", ".join(checks),
            check_values=", ".join(changed.get(one, f"c.{one}") for one in checks),
        )
        connection.execute(queue.encode(), {"count": count})
        connection.execute(WANTED)
        connection.execute("ANALYZE")


def timed(name: str, call: Callable[[], object], times: int) -> None:
    """One line of latencies."""
    latencies = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        latencies.append(time.perf_counter() - began)
    load = Load(latencies, sum(latencies))
    print(f"  {name:28}" + "".join(f"{load.at(share):>9.1f}" for share in (0.5, 0.99, 1.0)), flush=True)


def measure(url: str, made: Service, count: int, tag: str) -> None:
    """Claims, submissions and ticks as the database is now."""
    with tempfile.TemporaryDirectory() as folder:
        plugins = ("benchmarks.one_check",)
        service = build(Settings(data=Path(folder), database_url=url, plugins=plugins))
        print(f"{tag}: load {os.getloadavg()[0]:.1f}")
        print(f"  {'':28}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
        ready(url, 4_000, tag)
        for limit in (1, 16):
            timed(
                f"claim {limit:2} of the fast tier",
                lambda limit=limit: claim(service.store, Tier.FAST, limit),  # type: ignore[misc]
                200,
            )
        if tag == "full":
            timed("claim 1 of the crowded tier", lambda: claim(service.store, Tier.HIGH_FIDELITY, 1), 200)
        clear(url)
        for name, read in READS.items():
            timed(name, lambda read=read: reading(service.store, read), 20)  # type: ignore[misc]
        sweep = Sweep(service, "bench")

        def tick() -> None:
            sweep._slow_due = 0.0
            sweep.tick()

        timed("tick of the sweep", tick, 10)
        service.store.close()
    warm = bodies(1_024, 256, f"{tag}-warm", wait=True)
    asyncio.run(drive(made.urls, made.key, PATH, warm, 2, look))
    rates = []
    for turn in range(3):
        load = asyncio.run(
            drive(made.urls, made.key, PATH, bodies(count, 256, f"{tag}-{turn}", wait=True), 2, look)
        )
        rates.append(count / load.wall)
    print(f"  submit per s: {sorted(rates)[1]:.0f} (of {', '.join(f'{rate:.0f}' for rate in rates)})")


def reading(store: Store, read: Callable[[Transaction], object]) -> None:
    """A read in a transaction of its own, as the sweep does it."""
    with store.begin() as tx:
        read(tx)


def claim(store: object, tier: Tier, limit: int) -> None:
    """A claim, committed."""
    with store.begin() as tx:  # type: ignore[attr-defined]
        if len(tx.checks.claim(tier, limit, "bench", 3_600.0, only=KINDS)) != limit:
            raise SystemExit("there was nothing to claim")


def ready(url: str, count: int, tag: str) -> None:
    """Checks of the fast tier that nobody else claims: of a verifier no worker has."""
    with psycopg.connect(url, autocommit=True) as connection:
        checks = columns(connection, "checks")
        changed = {
            "key": f"'{tag}-ready-' || n",
            "verifier": "'bench.nobody'",
            "state": "'queued'",
            "evidence": "NULL",
            "ended_at": "NULL",
        }
        connection.execute(
            QUEUE.format(
                check_columns=", ".join(checks),
                check_values=", ".join(changed.get(one, f"c.{one}") for one in checks),
            ).encode(),
            {"count": count},
        )


def clear(url: str) -> None:
    """Away with what was made to be claimed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM checks WHERE verifier = 'bench.nobody'")
        connection.execute(
            "UPDATE checks SET state = 'queued', lease_owner = NULL, lease_until = NULL"
            " WHERE lease_owner = 'bench'"
        )


def run(postgres: PostgresServer, folder: Path, redis_url: object, held: int, count: int) -> None:
    """The two measurements on one database."""
    made = Service(postgres, redis_url, folder, foresight="true")  # type: ignore[arg-type]
    url = made.database_url
    try:
        with Client(made.urls[0], made.key) as client:
            client.put_ladder(str(LADDER["name"]), LADDER)
            client.put_ladder(str(CROWDED["name"]), CROWDED)
            client.put_run("held", RunSpec(budgets=Budgets(compute=1e-6)))
            client.put_run("idle", RunSpec(budgets=Budgets(compute=1.0)))
            seed = {"id": "seed-0", "ladder": "crowded", "problem": {"prompt": "p"}, "answer": "aaa"}
            client.submit("held", [seed], wait="fast")
        time.sleep(3)
        measure(url, made, count, "empty")
        began = time.perf_counter()
        fill(url, held)
        print(f"filled in {time.perf_counter() - began:.0f} s")
        measure(url, made, count, "full")
    finally:
        made.stop()


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held", type=int, default=1_000_000)
    parser.add_argument("--count", type=int, default=4_096)
    arguments = parser.parse_args()
    with (
        postgres_server(durable=True) as postgres,
        broker() as redis,
        tempfile.TemporaryDirectory() as folder,
    ):
        run(postgres, Path(folder), redis, arguments.held, arguments.count)


if __name__ == "__main__":
    main()
