"""Find what was left between steps and bring it on: the part of the story that survives every crash."""

from __future__ import annotations

from dataclasses import dataclass

from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import LIVE_DEMANDS, DemandState

REAP_LIMIT = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """Trajectories that must be advanced and settled."""

    pks: tuple[int, ...]


def reap(tx: Transaction) -> Left:
    """Requeue checks whose lease has expired; end those that have no attempt left."""
    moved = tx.checks.reap(REAP_LIMIT)
    return Left(pks=tuple(tx.demands.satisfy(moved)) if moved else ())


def reclaim(tx: Transaction, owner_prefix: str) -> Left:
    """At start-up of a single-process service: take back what the dead predecessor held."""
    moved = tx.checks.reclaim(owner_prefix)
    return Left(pks=tuple(tx.demands.satisfy(moved)) if moved else ())


def unfinished(tx: Transaction) -> Left:
    """Cases whose check has ended while nobody advanced them."""
    pks = tx.demands.unadvanced(REAP_LIMIT)
    if not pks:
        return Left(pks=())
    checks = {
        demand.check.pk
        for case in tx.trajectories.cases(pks)
        for demand in case.demands
        if demand.check is not None
    }
    tx.demands.satisfy(sorted(checks))
    return Left(pks=tuple(pks))


def begin_close(tx: Transaction, project: str, run: str) -> None:
    """Stop taking trajectories and decisions; ``close_step`` does the rest. Raises ``NotFound``."""
    if tx.runs.lock(project, run).state is RunState.OPEN:
        tx.runs.set_state(project, run, RunState.CLOSING)


def close_step(tx: Transaction, project: str, run: str, limit: int = 500) -> tuple[Left, bool]:
    """One step of a closing run: withdraw what is held, and (``settle``) what has not started.

    Returns the cases to be finalised and whether the run is done. A ``drain`` close lets requested
    checks end; ``settle`` cancels them. Raises ``NotFound``.
    """
    stored = tx.runs.lock(project, run)
    pks = tx.trajectories.unsettled(project, run, limit)
    if not pks:
        tx.runs.set_state(project, run, RunState.CLOSED)
        return Left(pks=()), True
    ready: list[int] = []
    for case in tx.trajectories.cases(pks, lock=True):
        drain = stored.spec.on_close == "drain"
        ending = [
            demand.pk
            for demand in case.demands
            if demand.state in LIVE_DEMANDS and (demand.state is DemandState.HELD or not drain)
        ]
        if ending:
            tx.checks.withdraw(tx.demands.withdraw(ending, reason="run_closed"))
        if not drain or not case.live():
            ready.append(case.standing.pk)
    tx.trajectories.set_needs_decision(ready, False)
    return Left(pks=tuple(ready)), False
