"""Find what was left between steps and bring it on: the part of the story that survives every crash."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from verifier_service.domain.evidence import WORKED_TIERS
from verifier_service.domain.planning import here
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import METHOD_CHANGED
from verifier_service.domain.states import LIVE_DEMANDS, DemandState
from verifier_service.domain.workers import Kind, runnable

REAP_LIMIT = 500
KEEP_WORKERS_S = 86_400.0
KEEP_WORKERS = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """Trajectories that must be advanced and settled."""

    pks: tuple[int, ...]


def reap(tx: Transaction) -> Left:
    """Requeue checks whose lease has expired; end those that have no attempt left."""
    moved = tx.checks.reap(REAP_LIMIT)
    for pk in moved:
        lost = tx.checks.view(pk)
        tx.tell(
            "lease expired: its worker is lost",
            level=logging.WARNING,
            run=lost.payer,
            check=lost.key,
            verifier=lost.verifier,
            tier=lost.tier,
            state=lost.state,
        )
    return Left(pks=tuple(tx.demands.satisfy(moved)) if moved else ())


def reclaim(tx: Transaction, owner_prefix: str) -> Left:
    """At start-up of a single-process service: take back what the dead predecessor held."""
    moved = tx.checks.reclaim(owner_prefix)
    return Left(pks=tuple(tx.demands.satisfy(moved)) if moved else ())


def disown(tx: Transaction, owner: str, held: Mapping[int, int]) -> Left:
    """Give back claims of which their owner never heard."""
    moved = tx.checks.disown(owner, held)
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


def outdated(tx: Transaction, catalog: Catalog) -> Left:
    """Checks queued for a version, or for libraries, that were replaced: nobody runs them any more, and
    somebody runs what this installation would ask for today. Their cases ask again for that."""
    touched: set[int] = set()
    for tier, kind in tx.checks.kinds():
        today = _today(catalog, kind) if tier in WORKED_TIERS else kind
        if today in (None, kind):
            continue
        workers = tx.workers.listed(tier, current=False)
        if runnable(kind, workers) or not runnable(today, workers):
            continue
        for pk in tx.checks.queued(tier, kind, REAP_LIMIT):
            wanting = tx.demands.wanting(pk)
            tx.demands.withdraw([demand for demand, _, _ in wanting], reason=METHOD_CHANGED)
            tx.checks.withdraw([pk])
            touched.update(trajectory for _, trajectory, _ in wanting)
    return Left(pks=tuple(sorted(touched)))


def _today(catalog: Catalog, kind: Kind) -> Kind | None:
    mine = here(catalog, kind.verifier)
    return None if mine is None else mine.kind


def prune_workers(tx: Transaction) -> Left:
    """Forget workers that ended long ago."""
    tx.workers.prune(KEEP_WORKERS_S, KEEP_WORKERS)
    return Left(pks=())


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
