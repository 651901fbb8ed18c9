"""Remove a closed run, in short steps that may stop and go on at any time."""

from __future__ import annotations

from verifier_service.domain.errors import Conflict
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState

CASES_PER_STEP = 500
ROWS_PER_STEP = 5_000
PAGES_PER_STEP = 500


def begin_purge(tx: Transaction, project: str, run: str) -> None:
    """From now on nothing of the run is read; ``purge_step`` removes it (idempotent).

    Raises ``NotFound``, and ``Conflict`` for a run that is not closed.
    """
    stored = tx.runs.lock(project, run)
    if stored.state in (RunState.PURGING, RunState.PURGED):
        return
    if stored.state is not RunState.CLOSED:
        raise Conflict("run_open", f"run {run!r} is {stored.state}: close it before it is purged")
    tx.retention.begin(project, run)


def purge_step(tx: Transaction, project: str, run: str) -> bool:
    """Remove some of a run that is being purged; True when nothing but its row is left.

    Evidence that other runs cite stays, and so do the totals of the run's ledger. Raises ``NotFound``.
    """
    if tx.runs.lock(project, run).state is not RunState.PURGING:
        return True
    if tx.retention.drop_deliveries(project, run, ROWS_PER_STEP):
        return False
    if tx.retention.drop_rewards(project, run, ROWS_PER_STEP):
        return False
    if tx.retention.drop_cases(project, run, CASES_PER_STEP):
        return False
    if tx.retention.give_back(PAGES_PER_STEP):
        return False
    tx.retention.finish(project, run)
    return True
