"""Whatever happens in whatever order, the store's invariants hold on both databases.

A machine submits, demands, claims, reserves, beats, expires, completes (fresh and stale), fails, hands to
people, withdraws and closes; after every step it reads the tables and checks what must always be true.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
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
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.domain.checks import Claim
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.states import LIVE_CHECKS, CheckState, DemandState
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

RUNS = (RUN, OTHER_RUN)
KEYS = [f"k{index}" for index in range(5)]
OWNERS = ["w1", "w2"]
LIMIT = 3.0
MAX_ATTEMPTS = 2

runs = st.sampled_from(RUNS)
keys = st.sampled_from(KEYS)
owners = st.sampled_from(OWNERS)
amounts = st.sampled_from([0.0, 0.1, 0.7, 1.3])


class StoreMachine(RuleBasedStateMachine):
    """Drives one store; ``databases`` is set by the test."""

    databases: PostgresServer | SqliteFiles

    def __init__(self) -> None:
        super().__init__()
        self.store: SqlStore = create_store(self.databases.migrated())
        prepare(self.store, *RUNS, compute=LIMIT, human=LIMIT)
        self.held: list[tuple[str, Claim]] = []
        self.names = 0
        self.ended: dict[int, tuple[str, str | None]] = {}
        self.fences: dict[int, int] = {}
        self.accepted: dict[int, int] = {}

    def teardown(self) -> None:
        self.store.close()

    @rule(
        run=runs, wanted=st.lists(keys, min_size=1, max_size=3), external=st.booleans(), force=st.booleans()
    )
    def submit(self, run: str, wanted: list[str], external: bool, force: bool) -> None:
        self.names += 1
        name = f"t{self.names}"
        made = [
            check(
                f"{key}/{external}", external=external, max_attempts=MAX_ATTEMPTS, priority=self.names % 3
            )
            for key in wanted
        ]
        with self.store.begin() as tx:
            pk = tx.trajectories.insert(PROJECT, run, [trajectory(name)])[name]
            refs = tx.checks.ensure(PROJECT, run, made, force=force)
            tx.demands.insert([demand(pk, ref.pk, path=f"fast/{i}") for i, ref in enumerate(refs)])
            tx.demands.insert([demand(pk, None, path="lab/0", tier=Tier.LAB)])
        assert all(ref.state in LIVE_CHECKS or ref.state is CheckState.SUCCEEDED for ref in refs)

    @rule(run=runs, key=keys)
    def request_held(self, run: str, key: str) -> None:
        with self.store.begin() as tx:
            for case in tx.trajectories.cases(tx.trajectories.held(PROJECT, run, 1), lock=True):
                [ref] = tx.checks.ensure(PROJECT, run, [check(f"{key}/True", external=True)])
                [held] = [one for one in case.demands if one.state is DemandState.HELD]
                tx.demands.request(held.pk, ref.pk, reason="now", quote=1.0)

    @rule(owner=owners, limit=st.integers(1, 3), wanted=amounts, least=amounts)
    def claim(self, owner: str, limit: int, wanted: float, least: float) -> None:
        with self.store.begin() as tx:
            claims = tx.checks.claim(Tier.FAST, limit, owner, 60.0)
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

    @rule(data=st.data(), credits=amounts, how=st.sampled_from(["success", "retry", "fail", "release"]))
    def complete(self, data: Any, credits: float, how: str) -> None:
        if not self.held:
            return
        owner, one = data.draw(st.sampled_from(self.held))
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
        if accepted and how == "success":
            self.accepted[one.pk] = self.accepted.get(one.pk, 0) + 1

    @rule(owner=owners)
    def beat(self, owner: str) -> None:
        mine = {one.pk: one.fence for who, one in self.held if who == owner}
        expected = {one.pk for who, one in self.held if who == owner and self._holds(owner, one)}
        with self.store.begin() as tx:
            assert tx.checks.beat(owner, mine, 60.0) == expected

    @rule()
    def lose_leases(self) -> None:
        expire_leases(self.store)
        with self.store.begin() as tx:
            tx.demands.satisfy(tx.checks.reap(2))

    @rule(owner=owners)
    def restart(self, owner: str) -> None:
        with self.store.begin() as tx:
            tx.checks.reclaim(owner)

    @rule(data=st.data())
    def hand_to_people(self, data: Any) -> None:
        if not self.held:
            return
        owner, one = data.draw(st.sampled_from(self.held))
        current = self._holds(owner, one)
        with self.store.begin() as tx:
            assert tx.checks.wait_external(owner, one.pk, one.fence) == current

    @rule(credits=amounts, good=st.booleans())
    def people_decide(self, credits: float, good: bool) -> None:
        for pk in self._pks("waiting_external")[:1]:
            proof = evidence("by hand") if good else None
            state = CheckState.SUCCEEDED if good else CheckState.FAILED
            with self.store.begin() as tx:
                assert tx.checks.finish_external(
                    pk, state, evidence=proof, cost=Cost(human_s=1.0), credits=credits
                )
                tx.demands.satisfy([pk])
            self.accepted[pk] = self.accepted.get(pk, 0) + good

    @rule(run=runs, data=st.data())
    def withdraw(self, run: str, data: Any) -> None:
        live = sorted(pk for state in LIVE_CHECKS for pk in self._pks(state.value))
        if not live:
            return
        pks = data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=3))
        with self.store.begin() as tx:
            demands = {
                demand for pk in pks for demand, _, wanting in tx.demands.wanting(pk) if wanting == run
            }
            cancelled = tx.checks.withdraw(tx.demands.withdraw(demands, reason="enough"))
            for pk in cancelled:
                assert tx.demands.wanting(pk) == []

    @invariant()
    def money_adds_up(self) -> None:
        rows = self._rows(
            "SELECT a.run, a.kind, a.credit_limit, a.reserved, a.spent,"
            " (SELECT coalesce(sum(c.reserved), 0) FROM checks c WHERE c.payer = a.run AND c.account = a.kind) AS promised FROM accounts a"
        )
        for row in rows:
            assert row.reserved >= 0
            assert row.reserved + row.spent <= row.credit_limit + 1e-9
            assert row.reserved == pytest.approx(row.promised, abs=1e-9)
        [[spent]] = self._rows("SELECT coalesce(sum(spent), 0) FROM checks")
        assert sum(row.spent for row in rows) == pytest.approx(spent, abs=1e-9)

    @invariant()
    def checks_are_sound(self) -> None:
        live: set[tuple[str, str]] = set()
        for row in self._rows("SELECT * FROM checks ORDER BY pk"):
            assert row.fence >= self.fences.get(row.pk, 0)
            self.fences[row.pk] = row.fence
            assert row.attempt <= MAX_ATTEMPTS or row.max_attempts > MAX_ATTEMPTS
            if row.state in LIVE_CHECKS:
                assert (row.project, row.key) not in live
                live.add((row.project, row.key))
                assert row.pk not in self.ended
                continue
            assert self.ended.setdefault(row.pk, (row.state, row.evidence)) == (row.state, row.evidence)
            assert row.reserved == 0
            assert self.accepted.get(row.pk, 0) == (row.state == "succeeded")

    @invariant()
    def no_wish_is_lost(self) -> None:
        """A requested demand points at live work, or the sweep finds it."""
        with self.store.read() as tx:
            left = set(tx.demands.unadvanced(1_000))
        rows = self._rows(
            "SELECT d.trajectory, c.state, c.payer, d.run, d.check_pk FROM demands d"
            " JOIN checks c ON c.pk = d.check_pk WHERE d.state = 'requested'"
        )
        assert left == {row.trajectory for row in rows if row.state not in LIVE_CHECKS}
        assert all(row.state != "cancelled" for row in rows)

    def _holds(self, owner: str, one: Claim) -> bool:
        [row] = self._rows(f"SELECT state, lease_owner, fence FROM checks WHERE pk = {one.pk}")
        return (row.state, row.lease_owner, row.fence) == ("running", owner, one.fence)

    def _pks(self, state: str) -> list[int]:
        return [row.pk for row in self._rows(f"SELECT pk FROM checks WHERE state = '{state}' ORDER BY pk")]

    def _rows(self, statement: str) -> list[Any]:
        with self.store.read() as tx:
            return list(tx._database.connection.execute(text(statement)))


@pytest.fixture
def machine(databases: PostgresServer | SqliteFiles) -> type[StoreMachine]:
    return type("Machine", (StoreMachine,), {"databases": databases})


def test_invariants_hold_in_every_interleaving(machine: type[StoreMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
