"""Small valid records for tests of the stores, and threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import text

from verifier_service.domain.cases import Case, NewTrajectory
from verifier_service.domain.checks import CheckRef, Claim, Completion, NewCheck, NewDemand, Reservation
from verifier_service.domain.errors import Contended
from verifier_service.domain.evidence import Cost, Evidence, Failure, Provenance, Tier, Verdict
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.persistence.store import SqlStore

PROJECT, RUN, OTHER_RUN, LADDER = "p", "r", "r2", "ladder"
ISSUED = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = Failure(kind="transient", code="broken", message="it broke", retryable=True)
T = TypeVar("T")


def ladder_spec(name: str = LADDER, **changes: Any) -> LadderSpec:
    return LadderSpec.model_validate(
        {
            "name": name,
            "candidate": {"kind": "molecule"},
            "outcome": {"use": "a.b"},
            "truth": Tier.FAST,
            "tiers": {Tier.FAST: ({"use": "a.b"},)},
            **changes,
        }
    )


def trajectory(name: str, **changes: Any) -> NewTrajectory:
    values: dict[str, Any] = {
        "id": name,
        "content": f"content of {name}",
        "group": None,
        "group_size": None,
        "policy_version": None,
        "ladder": LADDER,
        "ladder_version": 1,
        "subject": f"raw {name}",
        "turns_digest": "turns",
        "n_turns": 0,
        "finished": True,
        "body": '{"answer":"CCO"}',
    }
    return NewTrajectory(**(values | changes))


def check(key: str, **changes: Any) -> NewCheck:
    values: dict[str, Any] = {
        "key": key,
        "verifier": "a.b",
        "version": "1",
        "tier": Tier.FAST,
        "params": {},
        "item": '{"candidate":"CCO"}',
    }
    return NewCheck(**(values | changes))


def demand(trajectory: int, check: int | None, **changes: Any) -> NewDemand:
    values: dict[str, Any] = {
        "trajectory": trajectory,
        "path": "fast/0",
        "role": "outcome",
        "tier": Tier.FAST,
        "state": DemandState.HELD if check is None else DemandState.REQUESTED,
        "check": check,
        "reason": "because",
    }
    return NewDemand(**(values | changes))


def evidence(key: str, score: float = 1.0) -> Evidence:
    return Evidence(
        check=key,
        tier=Tier.FAST,
        verdict=Verdict.ACCEPT,
        score=score,
        provenance=Provenance(verifier="a.b", version="1"),
    )


def success(claim: Claim, credits: float = 0.0, **changes: Any) -> Completion:
    values: dict[str, Any] = {"evidence": evidence(claim.key), "cost": Cost(cpu_s=1.0), "credits": credits}
    return Completion(pk=claim.pk, fence=claim.fence, state=CheckState.SUCCEEDED, **(values | changes))


def failure(claim: Claim, state: CheckState = CheckState.QUEUED, **changes: Any) -> Completion:
    values: dict[str, Any] = {"failure": BROKEN, "cost": Cost(cpu_s=1.0)}
    return Completion(pk=claim.pk, fence=claim.fence, state=state, **(values | changes))


def reservation(pk: int, wanted: float, least: float = 0.0, **changes: Any) -> Reservation:
    values: dict[str, Any] = {"project": PROJECT, "run": RUN, "account": "compute"}
    return Reservation(pk=pk, wanted=wanted, least=least, **(values | changes))


def record(name: str, revision: int = 1, **changes: Any) -> RewardRecord:
    values: dict[str, Any] = {
        "seq": 0,
        "run": RUN,
        "trajectory": name,
        "ladder": LADDER,
        "ladder_version": 1,
        "revision": revision,
        "status": RewardStatus.PROVISIONAL,
        "reward": 0.5,
        "issued_at": ISSUED,
    }
    return RewardRecord(**(values | changes))


def prepare(store: SqlStore, *runs: str, compute: float | None = None, human: float | None = None) -> None:
    """A project with a ladder and runs (``RUN`` unless named), every run with the same budgets."""
    spec = RunSpec(budgets=Budgets(compute=compute, human=human))
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        tx.ladders.put(PROJECT, ladder_spec(), "digest")
        for run in runs or (RUN,):
            tx.runs.ensure(PROJECT, run, spec, seed=1)


def ensure(store: SqlStore, *wanted: NewCheck, run: str = RUN, force: bool = False) -> list[CheckRef]:
    with store.begin() as tx:
        return tx.checks.ensure(PROJECT, run, wanted, force=force)


def demanded(
    store: SqlStore, name: str, *keys: str, run: str = RUN, **changes: Any
) -> tuple[int, list[int]]:
    """A trajectory with one requested demand per key; returns its pk and the check pks."""
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, run, [trajectory(name)])[name]
        refs = tx.checks.ensure(PROJECT, run, [check(key, **changes) for key in keys])
        tx.demands.insert([demand(pk, ref.pk, path=f"fast/{i}") for i, ref in enumerate(refs)])
    return pk, [ref.pk for ref in refs]


def claim(store: SqlStore, limit: int = 10, owner: str = "w", tier: Tier = Tier.FAST) -> list[Claim]:
    with store.begin() as tx:
        return tx.checks.claim(tier, limit, owner, 60.0)


def complete(store: SqlStore, *completions: Completion, owner: str = "w") -> set[int]:
    with store.begin() as tx:
        return tx.checks.complete(owner, completions)


def case_of(store: SqlStore, pk: int) -> Case:
    with store.read() as tx:
        [case] = tx.trajectories.cases([pk])
    return case


def money(store: SqlStore, run: str = RUN, kind: str = "compute") -> tuple[float, float]:
    """(reserved, spent) of one account."""
    with store.read() as tx:
        [account] = [one for one in tx.ledger.accounts(PROJECT, run) if one.kind == kind]
    return account.reserved, account.spent


def expire_leases(store: SqlStore) -> None:
    """Move every lease into the past; only tests do this."""
    alter(store, "UPDATE checks SET lease_until = 1.0 WHERE state = 'running'")


def alter(store: SqlStore, statement: str, **values: object) -> None:
    """Change rows behind the ports' back, to make time pass."""
    with store.begin() as tx:
        tx._database.connection.execute(text(statement), values)


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Run ``work(0..count-1)`` on threads that start at the same moment; raises what they raise."""
    barrier = threading.Barrier(count)

    def start(index: int) -> T:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def again(work: Callable[[], T], times: int = 50) -> T:
    """Run a transaction until it is not contended, as the service's callers do."""
    for _ in range(times):
        try:
            return work()
        except Contended:
            continue
    raise AssertionError("contended without end")


@contextmanager
def other_transaction(store: SqlStore) -> Any:
    """A transaction on another thread, driven step by step from this one."""
    pool = ThreadPoolExecutor(1)
    scope = store.begin()
    tx: Transaction = pool.submit(scope.__enter__).result()

    def step(work: Callable[[Transaction], T]) -> T:
        return pool.submit(work, tx).result()

    try:
        yield step
    finally:
        pool.submit(scope.__exit__, None, None, None).result()
        pool.shutdown()


def ids(records: Sequence[RewardRecord]) -> list[tuple[int, str]]:
    return [(one.seq, one.trajectory) for one in records]
