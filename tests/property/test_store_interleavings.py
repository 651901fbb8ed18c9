"""Whatever happens in whatever order, the store's invariants hold on both databases.

A seeded machine submits, demands, claims, reserves, beats, expires, completes (fresh and stale), fails,
hands to people and withdraws; after every step it reads the tables and checks what must always be true.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from sqlalchemy import text

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    check,
    demand,
    evidence,
    expire_leases,
    failure,
    prepare,
    reservation,
    success,
    trajectory,
)
from verifier_service.domain.checks import Claim
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.states import LIVE_CHECKS, CheckState, DemandState
from verifier_service.persistence.store import SqlStore, SqlTransaction

RUNS = (RUN, OTHER_RUN)
OWNERS = ("w1", "w2")
AMOUNTS = (0.0, 0.1, 0.7, 1.3)
LIMIT = 2.5
MAX_ATTEMPTS = 2
STEPS = 400
WEIGHTS = {
    "submit": 5,
    "request_held": 2,
    "claim": 5,
    "complete": 7,
    "beat": 2,
    "lose_leases": 1,
    "restart": 1,
    "hand_to_people": 2,
    "people_decide": 2,
    "withdraw": 3,
}


class Machine:
    """Drives one store and remembers what must not change any more."""

    def __init__(self, store: SqlStore, seed: int) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.held: list[tuple[str, Claim]] = []
        self.names = 0
        self.ended: dict[int, tuple[str, str | None]] = {}
        self.fences: dict[int, int] = {}
        self.accepted: Counter[int] = Counter()
        prepare(store, *RUNS, compute=LIMIT, human=LIMIT)

    def run(self, steps: int) -> None:
        for step in range(steps):
            [name] = self.dice.choices([*WEIGHTS], [*WEIGHTS.values()])
            try:
                getattr(self, name)()
                with self.store.read() as tx:
                    self.money_adds_up(tx)
                    self.checks_are_sound(tx)
                    self.no_wish_is_lost(tx)
                    self.attempts_are_accounted(tx)
            except BaseException as error:
                error.add_note(f"at step {step}, {name}")
                raise

    def submit(self) -> None:
        self.names += 1
        name, run, external = f"t{self.names}", self.dice.choice(RUNS), self.dice.random() < 0.3
        made = [
            check(
                f"{key}/{external}", external=external, max_attempts=MAX_ATTEMPTS, priority=self.names % 3
            )
            for key in self.dice.sample(self._keys(), self.dice.randint(1, 3))
        ]
        with self.store.begin() as tx:
            pk = tx.trajectories.insert(PROJECT, run, [trajectory(name)])[name]
            refs = tx.checks.ensure(PROJECT, run, made, force=self.dice.random() < 0.3)
            tx.demands.insert([demand(pk, ref.pk, path=f"fast/{i}") for i, ref in enumerate(refs)])
            tx.demands.insert([demand(pk, None, path="lab/0", tier=Tier.LAB)])
        assert all(ref.state in LIVE_CHECKS or ref.state is CheckState.SUCCEEDED for ref in refs)
        self.happened["shared"] += sum(not ref.created for ref in refs)

    def request_held(self) -> None:
        run = self.dice.choice(RUNS)
        with self.store.begin() as tx:
            for case in tx.trajectories.cases(tx.trajectories.held(PROJECT, run, 1), lock=True):
                wanted = check(
                    f"{self.dice.choice(self._keys())}/True", external=True, max_attempts=MAX_ATTEMPTS
                )
                [ref] = tx.checks.ensure(PROJECT, run, [wanted])
                [held] = [one for one in case.demands if one.state is DemandState.HELD]
                tx.demands.request(held.pk, ref.pk, reason="now", quote=1.0)

    def claim(self) -> None:
        owner, wanted = self.dice.choice(OWNERS), self.dice.choice(AMOUNTS)
        least = self.dice.choice([one for one in AMOUNTS if one <= wanted])
        with self.store.begin() as tx:
            claims = tx.checks.claim(Tier.FAST, self.dice.randint(1, 3), owner, 60.0)
            asked = [
                reservation(
                    one.pk, wanted, least, run=one.payer, account="human" if one.external else "compute"
                )
                for one in claims
            ]
            granted = tx.ledger.reserve(asked)
            assert all(least <= one <= wanted for one in granted.values())
            unpaid = [failure(one, spend_attempt=False) for one in claims if one.pk not in granted]
            assert tx.checks.complete(owner, unpaid) == {one.pk for one in unpaid}
        self.held += [(owner, one) for one in claims if one.pk in granted]
        self.happened["claimed"] += len(granted)
        self.happened["unpaid"] += len(unpaid)
        self.happened["cut"] += sum(one < wanted for one in granted.values())

    def complete(self) -> None:
        if not self.held:
            return
        owner, one = self.dice.choice(self.held[-12:])
        credits, how = self.dice.choice(AMOUNTS), self.dice.choice(["success", "retry", "fail", "release"])
        completion = {
            "success": lambda: success(one, credits),
            "retry": lambda: failure(one, credits=credits),
            "fail": lambda: failure(one, CheckState.FAILED, credits=credits),
            "release": lambda: failure(one, credits=credits, spend_attempt=False),
        }[how]()
        current = self._holds(owner, one)
        with self.store.begin() as tx:
            stale = tx.checks.stale_completions()
            accepted = tx.checks.complete(owner, [completion])
            assert tx.checks.stale_completions() == stale + (not accepted)
            tx.demands.satisfy(accepted)
        assert accepted == ({one.pk} if current else set())
        self.accepted[one.pk] += bool(accepted) and how == "success"
        self.happened[how if accepted else "stale"] += 1

    def beat(self) -> None:
        owner = self.dice.choice(OWNERS)
        mine = {one.pk: one.fence for who, one in self.held if who == owner}
        expected = {one.pk for who, one in self.held if who == owner and self._holds(owner, one)}
        with self.store.begin() as tx:
            assert tx.checks.beat(owner, mine, 60.0) == expected
        self.happened["beaten"] += len(expected)

    def lose_leases(self) -> None:
        expire_leases(self.store)
        with self.store.begin() as tx:
            moved = tx.checks.reap(2)
            tx.demands.satisfy(moved)
        self.happened["reaped"] += len(moved)

    def restart(self) -> None:
        with self.store.begin() as tx:
            self.happened["reclaimed"] += len(tx.checks.reclaim(self.dice.choice(OWNERS)))

    def hand_to_people(self) -> None:
        if not self.held:
            return
        owner, one = self.dice.choice(self.held[-6:])
        current = self._holds(owner, one)
        with self.store.begin() as tx:
            assert tx.checks.wait_external(owner, one.pk, one.fence) == current
        self.happened["handed out"] += current

    def people_decide(self) -> None:
        good, credits = self.dice.random() < 0.5, self.dice.choice(AMOUNTS)
        for pk in self._pks(["waiting_external"])[:1]:
            proof = evidence("by hand") if good else None
            state = CheckState.SUCCEEDED if good else CheckState.FAILED
            with self.store.begin() as tx:
                assert tx.checks.finish_external(
                    pk, state, evidence=proof, cost=Cost(human_s=1.0), credits=credits
                )
                tx.demands.satisfy([pk])
            self.accepted[pk] += good
            self.happened["decided"] += 1

    def withdraw(self) -> None:
        run, live = self.dice.choice(RUNS), self._pks(LIVE_CHECKS)
        pks = self.dice.sample(live, min(len(live), 3))
        payers = self._payers()
        with self.store.begin() as tx:
            demands = {
                demand for pk in pks for demand, _, wanting in tx.demands.wanting(pk) if wanting == run
            }
            cancelled = tx.checks.withdraw(tx.demands.withdraw(demands, reason="enough"))
            assert all(tx.demands.wanting(pk) == [] for pk in cancelled)
        self.happened["cancelled"] += len(cancelled)
        now = self._payers()
        self.happened["passed on"] += sum(now[pk] != payer for pk, payer in payers.items())

    def money_adds_up(self, tx: SqlTransaction) -> None:
        rows = rows_of(
            tx,
            "SELECT a.run, a.kind, a.credit_limit, a.reserved, a.spent, coalesce(p.promised, 0) AS promised"
            " FROM accounts a LEFT JOIN (SELECT payer, account, sum(reserved) AS promised FROM checks"
            " GROUP BY payer, account) p ON p.payer = a.run AND p.account = a.kind",
        )
        for row in rows:
            assert row.reserved >= 0
            assert row.reserved + row.spent <= row.credit_limit + 1e-9
            assert row.reserved == pytest.approx(row.promised, abs=1e-9)
        [[spent]] = rows_of(tx, "SELECT coalesce(sum(spent), 0) FROM checks")
        assert sum(row.spent for row in rows) == pytest.approx(spent, abs=1e-9)

    def checks_are_sound(self, tx: SqlTransaction) -> None:
        live: set[str] = set()
        for row in rows_of(tx, "SELECT pk, key, state, fence, attempt, reserved, evidence FROM checks"):
            assert row.fence >= self.fences.get(row.pk, 0)
            self.fences[row.pk] = row.fence
            assert row.attempt <= MAX_ATTEMPTS
            if row.state in LIVE_CHECKS:
                assert row.key not in live
                live.add(row.key)
                assert row.pk not in self.ended
                continue
            assert self.ended.setdefault(row.pk, (row.state, row.evidence)) == (row.state, row.evidence)
            assert row.reserved == 0
            assert self.accepted[row.pk] == (row.state == "succeeded")

    def attempts_are_accounted(self, tx: SqlTransaction) -> None:
        """Every claim is one attempt: it runs, or it has its row, with all that was paid for it."""
        rows = rows_of(
            tx,
            "SELECT c.fence, c.state, c.spent, count(a.fence) AS ended, max(a.fence) AS last,"
            " coalesce(sum(a.credits), 0) AS paid"
            " FROM checks c LEFT JOIN attempts a ON a.check_pk = c.pk"
            " GROUP BY c.pk, c.fence, c.state, c.spent",
        )
        for row in rows:
            assert row.ended + (row.state in ("running", "waiting_external")) == row.fence
            assert row.last is None or row.last <= row.fence
            assert row.paid == pytest.approx(row.spent, abs=1e-9)

    def no_wish_is_lost(self, tx: SqlTransaction) -> None:
        """A requested demand points at live work, or the sweep finds it."""
        left = set(tx.demands.unadvanced(1_000))
        rows = rows_of(
            tx,
            "SELECT d.trajectory, d.state, c.state AS done FROM demands d JOIN checks c"
            " ON c.pk = d.check_pk",
        )
        requested = [row for row in rows if row.state == "requested"]
        assert left == {row.trajectory for row in requested if row.done not in LIVE_CHECKS}
        assert all(row.done != "cancelled" for row in requested)
        assert all(row.done not in LIVE_CHECKS for row in rows if row.state == "satisfied")

    def _holds(self, owner: str, one: Claim) -> bool:
        [row] = self._rows(f"SELECT state, lease_owner, fence FROM checks WHERE pk = {one.pk}")
        return (row.state, row.lease_owner, row.fence) == ("running", owner, one.fence)

    def _pks(self, states: Collection[str]) -> list[int]:
        return [
            row.pk for row in self._rows("SELECT pk, state FROM checks ORDER BY pk") if row.state in states
        ]

    def _payers(self) -> dict[int, int]:
        return {row.pk: row.payer for row in self._rows("SELECT pk, payer FROM checks")}

    def _rows(self, statement: str) -> list[Any]:
        with self.store.read() as tx:
            return rows_of(tx, statement)

    def _keys(self) -> list[str]:
        """A window that moves on, so that there is always new work and always something to share."""
        return [f"k{self.names // 3 + offset}" for offset in range(4)]


def rows_of(tx: SqlTransaction, statement: str) -> list[Any]:
    return list(tx._database.connection.execute(text(statement)))


EVERYTHING = {
    "shared",
    "claimed",
    "unpaid",
    "cut",
    "success",
    "retry",
    "fail",
    "release",
    "stale",
    "beaten",
    "reaped",
    "reclaimed",
    "handed out",
    "decided",
    "cancelled",
    "passed on",
}


@pytest.mark.parametrize("seed", [3, 5, 11])
def test_invariants_hold_in_every_interleaving(store: SqlStore, seed: int) -> None:
    machine = Machine(store, seed)
    machine.run(STEPS)
    assert {name for name, times in machine.happened.items() if times} == EVERYTHING
