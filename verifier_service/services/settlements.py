"""Checks that wait for events: begin to wait, and be told what became of the event.

Storing a settlement and telling checks of it are two things. The first is one short transaction of whoever
knows; the second follows in bounded steps, and begins again where it was left: each check knows the version
that it was told. So a process may die anywhere, and an event settles once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import Claim, Completion
from verifier_service.domain.errors import Contended, TaskError
from verifier_service.domain.evidence import Evidence, Failure
from verifier_service.domain.forecasts import EventSpec, event_of
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import REGISTERED_LATE
from verifier_service.domain.settlements import (
    Actual,
    Behind,
    Due,
    Settlement,
    evidence_of,
    misfit,
    too_late,
    unreadable,
)
from verifier_service.domain.states import CheckState
from verifier_service.domain.verifiers import CheckInput

log = logging.getLogger(__name__)

CHECKS_AT_ONCE = 200
TRAJECTORIES_AT_ONCE = 500  # of one step, unless a single check concerns more


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a step did: trajectories that go on, and cases whose evidence was amended, of open runs or ones
    that still drain, and of closed ones. ``done``: no check of the event is behind."""

    done: bool
    pks: tuple[int, ...] = ()
    amended: tuple[Case, ...] = ()
    closed: tuple[Case, ...] = ()


def wait(tx: Transaction, owner: str, claim: Claim) -> list[int]:
    """Let a claimed check wait for its event; a task without one fails it. Returns the trajectories
    concerned."""
    try:
        event = event_of(CheckInput.model_validate_json(claim.item).inputs)
    except TaskError as error:
        failure = Failure(kind="task_error", code=error.code, message=error.message)
        tx.demands.lock([claim.pk])
        ended = Completion(pk=claim.pk, fence=claim.fence, state=CheckState.FAILED, failure=failure)
        return tx.demands.satisfy(sorted(tx.checks.complete(owner, [ended])))
    if tx.checks.wait_external(owner, claim.pk, claim.fence):
        source = claim.params.get("source")
        tx.settlements.wait(
            claim.project,
            claim.pk,
            event.id,
            event.question,
            source=source if isinstance(source, str) else None,
            not_before=event.close.timestamp(),
        )
    return []


def polled(tx: Transaction, project: str, source: str, actual: Actual) -> str | None:
    """Store what a source says, unless the event is settled; why it was not stored, or ``None``.

    Raises ``Contended`` when somebody else stored a version meanwhile.
    """
    if tx.settlements.latest(project, [actual.event]):
        return None
    questions = tx.settlements.questions(project, [actual.event]).get(actual.event, [])
    if questions and all(misfit(actual, one) is not None for one in questions):
        return "actual_mismatch"
    if not tx.settlements.add(project, {actual.event: (1, actual)}, source=source):
        raise Contended("settlement_contended", "another settlement of the event was stored meanwhile")
    tx.tell("event settled", level=logging.INFO, project=project)
    return None


def tell(tx: Transaction, catalog: Catalog, due: Due, limit: int = CHECKS_AT_ONCE) -> Told:
    """Tell some of the checks that are behind what became of their event.

    Those that waited get evidence, and those that a former version had answered get another. A trajectory
    that was registered too late is given none. Raises ``Contended`` when a check moved meanwhile.
    """
    settlement = tx.settlements.latest(due.project, [due.event]).get(due.event)
    behind = (
        []
        if settlement is None
        else tx.settlements.behind(due.project, due.event, settlement.version, limit)
    )
    if settlement is None or not behind:
        tx.settlements.done(due)
        return Told(done=True)
    behind = _bounded(tx, behind)
    waiting = [one for one in behind if one.state == CheckState.WAITING_EXTERNAL]
    answered = [one for one in behind if one.state == CheckState.SUCCEEDED and not one.retracted]
    runs, amended = _share(tx, due.project, [one.check for one in answered])
    tx.demands.lock([one.check for one in waiting])
    tx.trajectories.cases(sorted(amended), lock=True)
    pks = _answer(tx, catalog, due, settlement, waiting)
    _amend(tx, catalog, settlement, answered)
    tx.settlements.told([one.check for one in behind], settlement.version)
    cases = tx.trajectories.cases(sorted(amended))
    closed = [case for case in cases if runs[case.standing.run] is not RunState.OPEN and not case.live()]
    kept = {case.standing.pk for case in closed}
    return Told(
        done=False,
        pks=tuple(pks),
        amended=tuple(case for case in cases if case.standing.pk not in kept),
        closed=tuple(closed),
    )


def _bounded(tx: Transaction, behind: Sequence[Behind]) -> list[Behind]:
    """As many of the first checks as concern no more trajectories than one transaction should."""
    checks = [one.check for one in behind]
    concerned = Counter(one.check for one in tx.settlements.wanting(checks))
    concerned.update(check for check, _, _ in tx.lab_results.having(checks))
    kept: list[Behind] = []
    room = TRAJECTORIES_AT_ONCE
    for one in behind:
        room -= concerned[one.check]
        if kept and room < 0:
            break
        kept.append(one)
    return kept


def _share(
    tx: Transaction, project: str, checks: Collection[int]
) -> tuple[Mapping[str, RunState], set[int]]:
    """Runs that have the evidence of these checks, which neither close nor go meanwhile, and the
    trajectories."""
    having = tx.lab_results.having(checks) if checks else []
    runs = {run: tx.runs.share(project, run).state for run in sorted({run for _, run, _ in having})}
    return runs, {pk for _, _, pk in having}


def _answer(
    tx: Transaction, catalog: Catalog, due: Due, settlement: Settlement, waiting: Sequence[Behind]
) -> list[int]:
    """Give checks that wait their evidence, and take away the demands of those who are too late before
    they have it: whoever asks for a check meanwhile waits for its row."""
    if not waiting:
        return []
    since = tx.settlements.known_since(due.project, [due.event])[due.event]
    found = _evidence(catalog, settlement, waiting)
    if len(tx.checks.answer(found)) < len(found):
        raise Contended("check_moved", "a check was answered or taken back meanwhile")
    events = {one.check: _event(one) for one in waiting}
    late = {
        one.demand: one.trajectory
        for one in tx.settlements.wanting(list(found))
        if (event := events[one.check]) is not None and too_late(one.registered_at, event, since)
    }
    tx.demands.withdraw(sorted(late), reason=REGISTERED_LATE)
    return sorted({*late.values(), *tx.demands.satisfy(sorted(found))})


def _amend(tx: Transaction, catalog: Catalog, settlement: Settlement, answered: Sequence[Behind]) -> None:
    found = _evidence(catalog, settlement, answered)
    if found and len(tx.checks.amend(found)) < len(found):
        raise Contended("check_moved", "a check was taken back meanwhile")


def _evidence(catalog: Catalog, settlement: Settlement, checks: Sequence[Behind]) -> dict[int, Evidence]:
    """One check that cannot be told keeps nothing from the others: it ends without a score."""
    found: dict[int, Evidence] = {}
    for one in checks:
        info = catalog.verifier(one.verifier)
        try:
            found[one.check] = evidence_of(one, info, settlement)
        except (ValueError, ArithmeticError, RecursionError):
            log.exception("check %s cannot be told of its event; the others are", one.key)
            found[one.check] = unreadable(one, info, settlement)
    return found


def _event(one: Behind) -> EventSpec | None:
    try:
        return event_of(CheckInput.model_validate_json(one.item).inputs)
    except (TaskError, ValueError):
        return None
