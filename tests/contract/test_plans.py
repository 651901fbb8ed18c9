"""The sweeps and the claim read indexes: what they cost must not grow with what has ended long ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from tests.contract.samples import PROJECT, RUN, check, prepare
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.workers import Kind
from verifier_service.persistence.engine import create_store

KIND = Kind("a.b", "1")
HOT: dict[str, Callable[[Transaction], object]] = {
    "claim": lambda tx: tx.checks.claim(Tier.FAST, 10, "w", 60.0),
    "reap": lambda tx: tx.checks.reap(10),
    "reclaim": lambda tx: tx.checks.reclaim("w"),
    "claim of kinds": lambda tx: tx.checks.claim(Tier.FAST, 10, "w", 60.0, only=[KIND]),
    "kinds": lambda tx: tx.checks.kinds(),
    "queued": lambda tx: tx.checks.queued(Tier.FAST, KIND, 10),
    "histories": lambda tx: tx.checks.histories([1, 2]),
    "runs.queued": lambda tx: tx.runs.queued(10),
    "outstanding": lambda tx: tx.demands.outstanding(PROJECT, RUN),
    "depths": lambda tx: tx.outbox.depths(),
    "of_checks": lambda tx: tx.traces.of_checks([1, 2]),
    "holding": lambda tx: tx.runs.holding(10),
    "ready": lambda tx: tx.checks.ready(),
    "with_passed_deadline": lambda tx: tx.checks.with_passed_deadline(10),
    "ensure": lambda tx: tx.checks.ensure(PROJECT, RUN, [check("k")]),
    "withdraw": lambda tx: tx.checks.withdraw([1, 2]),
    "satisfy": lambda tx: tx.demands.satisfy([1, 2]),
    "lock": lambda tx: tx.demands.lock([1, 2]),
    "unadvanced": lambda tx: tx.demands.unadvanced(10),
    "cases": lambda tx: tx.trajectories.cases([1, 2]),
    "undecided": lambda tx: tx.trajectories.undecided(PROJECT, RUN, 10),
    "held": lambda tx: tx.trajectories.held(PROJECT, RUN, 10),
    "unsettled": lambda tx: tx.trajectories.unsettled(PROJECT, RUN, 10),
    "group": lambda tx: tx.trajectories.group(PROJECT, RUN, "g"),
    "due": lambda tx: tx.reviews.due(10),
    "next": lambda tx: tx.reviews.next(PROJECT, reviewer="ann", queue="q"),
    "next of all": lambda tx: tx.reviews.next(PROJECT, reviewer="ann", queue=None),
    "escalate": lambda tx: tx.reviews.escalate(10),
    **{
        f"all items, {state}{of}": lambda tx, state=state, queue=queue: tx.desk_views.page(
            PROJECT, queue=queue, state=state, after=0, limit=10
        )
        for state in (None, "open", "claimed", "disputed", "decided", "effective", "cancelled")
        for of, queue in (("", None), (" of a queue", "q"))
    },
    "waiting for a laboratory": lambda tx: tx.lab_results.waiting(PROJECT, "q", 10),
    **{
        f"reviews.listed, {state}{of}": lambda tx, state=state, queue=queue: tx.reviews.listed(
            PROJECT, queue=queue, state=state, limit=10
        )
        for state in (None, "open", "claimed", "disputed", "decided", "effective")
        for of, queue in (("", None), (" of a queue", "q"))
    },
    "in hand": lambda tx: tx.reviews.in_hand(PROJECT, "ann"),
    "known reviewer": lambda tx: tx.reviews.known(PROJECT, "ann"),
    "gold seen": lambda tx: tx.gold.seen(PROJECT, "q"),
    "gold unseen": lambda tx: tx.gold.unseen(PROJECT, "q", "ann"),
    "queues of the desk": lambda tx: tx.desk_views.queues(PROJECT),
    "loads": lambda tx: tx.desk_views.loads(PROJECT, "ann"),
    "held by me": lambda tx: tx.desk_views.held(PROJECT, "ann", 10),
    "decided by me": lambda tx: tx.desk_views.decided(PROJECT, "ann", 10),
    "judged": lambda tx: tx.reviews.judged(PROJECT, "q", 10),
    "expire_gold": lambda tx: tx.reviews.expire_gold(),
    "trail": lambda tx: tx.trail.page(PROJECT, after=0, limit=10),
    "feed": lambda tx: tx.rewards.feed(PROJECT, RUN, 0, 10),
    "latest": lambda tx: tx.rewards.latest(PROJECT, RUN, ["a", "b"]),
}
SMALL = (
    "SCAN runs",
    "SCAN CONSTANT",
    "SCAN anon_",
    "SCAN json_each",
    "SCAN payers",
    "SCAN named",
    "SCAN chosen",
    "SCAN waiting",
)
PARTIAL = (
    "ix_checks_ready",
    "ix_checks_ready_kind",
    "ix_checks_lease",
    "ix_demands_requested",
    "ix_demands_held",
    "ix_reviews_due",
    "ix_deliveries_due",
)


@pytest.mark.parametrize("name", HOT)
def test_hot_calls_read_no_whole_table(sqlite: SqliteFiles, name: str) -> None:
    store = create_store(sqlite.migrated())
    prepare(store)
    plans: list[str] = []

    def explain(
        _conn: object, cursor: Any, statement: str, given: Any, _context: object, many: bool
    ) -> None:
        if not many and not statement.startswith("INSERT"):
            plan = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            plans.extend(row[3] for row in plan)

    with store.begin() as tx:
        event.listen(tx._database.connection, "before_cursor_execute", explain)
        HOT[name](tx)
    store.close()
    assert plans
    scans = [one for one in plans if one.startswith("SCAN") and not one.startswith(SMALL)]
    assert [one for one in scans if not one.endswith(PARTIAL)] == []
    assert not any("uq_trajectories_run_id (run=?)" in one for one in plans)


BIG = ("trajectories", "checks", "demands", "deliveries", "attempts", "reviews", "votes", "review_events")


@pytest.mark.parametrize("name", HOT)
def test_on_postgres_an_index_serves_each_of_them(postgres: PostgresServer, name: str) -> None:
    """Walks over tables are forbidden where there is another way: what is left of them no index serves."""
    store = create_store(postgres.migrated())
    prepare(store)
    plans: list[str] = []

    def explain(
        _conn: object, cursor: Any, statement: str, given: Any, _context: object, many: bool
    ) -> None:
        if not many and not statement.startswith(("INSERT", "SET", "SAVEPOINT")):
            plan = cursor.connection.execute(f"EXPLAIN (COSTS OFF) {statement}", given)
            plans.extend(row[0] for row in plan)

    with store.begin() as tx:
        connection = tx._database.connection
        for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort"):
            connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
        event.listen(connection, "before_cursor_execute", explain)
        HOT[name](tx)
    store.close()
    assert plans
    assert [one for one in plans if any(f"Seq Scan on {table}" in one for table in BIG)] == []
    if name == "held":
        assert [one for one in plans if "Sort" in one] == []
        assert any("ix_demands_held" in one for one in plans)
    if name.startswith("claim"):
        assert any("ix_checks_delayed" in one for one in plans)
