"""After every event: what follows for these cases without asking the policy.

Identify comes first, then the process checks and the whole fast tier. Gates end a climb. What is left
is marked for the policy. Calling it again changes nothing, so a process may die after any step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from verifier_service.domain.cases import Body, Case
from verifier_service.domain.checks import CheckRef, CheckView, DemandView, NewCheck, NewDemand
from verifier_service.domain.digests import candidate_digest
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.ladders import Rung
from verifier_service.domain.planning import (
    IDENTIFY_PATH,
    identify_rung,
    plan_check,
    reads_turns,
    unplannable,
)
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.scoring import (
    BUDGET_EXHAUSTED,
    METHOD_CHANGED,
    UNPLANNABLE,
    unjudged_process,
)
from verifier_service.domain.states import LIVE_CHECKS, LIVE_DEMANDS, CheckState, DemandState, RewardStatus

STEP_REASON = "every trajectory gets the fast tier"
MAX_ROUNDS = 4
UNLOADED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Advanced:
    """Cases as they stand afterwards, and the tiers that have new work."""

    cases: list[Case]
    woken: frozenset[Tier]


def advance(
    tx: Transaction,
    catalog: Catalog,
    pks: Collection[int],
    known: Mapping[int, Body] | None = None,
    *,
    again: bool = False,
) -> Advanced:
    """Bring cases as far as they go without a decision. Locks their rows.

    ``known`` are bodies that the caller has at hand; others are read when they are needed. ``again``
    asks once more for fast checks that the budget could not pay.
    """
    known = known or {}
    cases = {case.standing.pk: case for case in tx.trajectories.cases(sorted(set(pks)), lock=True)}
    woken: set[Tier] = set()
    current = list(cases.values())
    for _ in range(MAX_ROUNDS):
        current = _identify(tx, catalog, current)
        cases |= {case.standing.pk: case for case in current}
        changed = _end_climbs(tx, current)
        if changed:
            cases |= {case.standing.pk: case for case in tx.trajectories.cases(sorted(changed))}
            current = [cases[case.standing.pk] for case in current]
        grown, ended = _demand_fast(tx, catalog, current, known, woken, again=again)
        cases |= grown
        if not ended:
            break
        again = False
        current = tx.trajectories.cases(sorted(ended))
        cases |= {case.standing.pk: case for case in current}
    return Advanced(cases=_mark(tx, list(cases.values())), woken=frozenset(woken))


def _identify(tx: Transaction, catalog: Catalog, cases: Sequence[Case]) -> list[Case]:
    """Key the other checks from the candidate; on failure the raw digest stands. The cases afterwards."""
    subjects: dict[int, tuple[str, str | None]] = {}
    for case in cases:
        standing = case.standing
        if standing.identified or not standing.finished:
            continue
        if catalog.identifier(case.ladder.spec.candidate.kind) is None:
            subjects[standing.pk] = (standing.subject, None)
            continue
        demand = case.at(IDENTIFY_PATH)
        if demand is None or demand.state is not DemandState.SATISFIED:
            continue
        evidence = case.evidence(demand)
        found = evidence.identity if evidence is not None else None
        subjects[standing.pk] = (
            (candidate_digest(found.kind, found.canonical, found.toolkit), found.canonical)
            if found is not None
            else (standing.subject, None)
        )
    if not subjects:
        return list(cases)
    tx.trajectories.identify(subjects)
    return [_identified(case, subjects.get(case.standing.pk)) for case in cases]


def _identified(case: Case, found: tuple[str, str | None] | None) -> Case:
    if found is None:
        return case
    subject, canonical = found
    named = replace(case.standing, subject=subject, canonical=canonical, identified=True)
    return replace(case, standing=named)


def _end_climbs(tx: Transaction, cases: Sequence[Case]) -> set[int]:
    """A rejecting hard gate, or a cancellation, withdraws what is still wanted."""
    changed: set[int] = set()
    for case in cases:
        rejected = case.gate_rejection("hard_gate") is not None
        if not rejected and not case.standing.cancelled:
            continue
        reason = "cancelled" if case.standing.cancelled else "a hard gate rejected the candidate"
        ending = [
            demand.pk
            for demand in case.demands
            if demand.state in LIVE_DEMANDS and (case.standing.cancelled or demand.role != "process")
        ]
        if ending:
            tx.checks.withdraw(tx.demands.withdraw(ending, reason=reason))
            changed.add(case.standing.pk)
    return changed


def _demand_fast(
    tx: Transaction,
    catalog: Catalog,
    cases: Sequence[Case],
    known: Mapping[int, Body],
    woken: set[Tier],
    *,
    again: bool,
) -> tuple[dict[int, Case], set[int]]:
    """Ask for what is missing.

    Returns the cases with their new demands, and the pks of those that a cached check has answered.
    """
    missing = [(case, rung) for case in cases for rung in _missing(catalog, case, again=again)]
    impossible = {rung.use.use for _, rung in missing if unplannable(catalog, rung) is not None}
    ended: set[int] = set()
    if impossible:
        ended = {case.standing.pk for case, rung in missing if rung.use.use in impossible}
        _give_up(tx, [(case, rung) for case, rung in missing if rung.use.use in impossible])
        missing = [(case, rung) for case, rung in missing if rung.use.use not in impossible]
    if not missing:
        return {}, ended
    bodies = _bodies(tx, catalog, missing, known)
    wanted: dict[tuple[str, str], list[tuple[Case, Rung, NewCheck]]] = {}
    secrets = {name: tx.projects.secret(name) for name in {case.standing.project for case, _ in missing}}
    for case, rung in missing:
        secret = secrets[case.standing.project]
        source, body = case.ladder.spec.candidate, bodies[case.standing.pk]
        check = plan_check(catalog, case.standing, rung, body, source=source, secret=secret)
        wanted.setdefault((case.standing.project, case.standing.run), []).append((case, rung, check))
    grown: dict[int, Case] = {}
    for (project, run), group in wanted.items():
        refs = tx.checks.ensure(project, run, [check for _, _, check in group])
        demands = []
        for (case, rung, check), ref in zip(group, refs, strict=True):
            pk = case.standing.pk
            demands.append(_demand(pk, rung, ref.pk))
            if ref.state is CheckState.QUEUED:
                woken.add(check.tier)
            if ref.state not in LIVE_CHECKS:
                ended.add(pk)
            before = grown.get(pk, case)
            grown[pk] = replace(before, demands=(*before.demands, _view(rung, check, ref)))
        tx.demands.insert(demands)
    return grown, ended


def _give_up(tx: Transaction, missing: Sequence[tuple[Case, Rung]]) -> None:
    """Write down that a rung cannot be asked for here, so that its record says so."""
    tx.demands.insert(
        [
            NewDemand(
                trajectory=case.standing.pk,
                path=rung.path,
                role=rung.role,
                tier=rung.tier,
                state=DemandState.WITHDRAWN,
                check=None,
                reason=UNPLANNABLE,
            )
            for case, rung in missing
        ]
    )


def _bodies(
    tx: Transaction,
    catalog: Catalog,
    missing: Sequence[tuple[Case, Rung]],
    known: Mapping[int, Body],
) -> Mapping[int, Body]:
    """Bodies of the cases, with their turns only where a check needs them."""
    wanted = {case.standing.pk for case, _ in missing} - known.keys()
    if not wanted:
        return known
    turns = any(reads_turns(catalog, case.ladder, rung) for case, rung in missing)
    return {**known, **tx.trajectories.bodies(wanted, turns=turns)}


def _demand(trajectory: int, rung: Rung, check: int) -> NewDemand:
    return NewDemand(
        trajectory=trajectory,
        path=rung.path,
        role=rung.role,
        tier=rung.tier,
        state=DemandState.REQUESTED,
        check=check,
        reason=STEP_REASON,
    )


def _view(rung: Rung, check: NewCheck, ref: CheckRef) -> DemandView:
    """The demand just stored, as a later load of the case would show it while its check is live."""
    return DemandView(
        pk=UNLOADED,
        path=rung.path,
        role=rung.role,
        tier=rung.tier,
        state=DemandState.REQUESTED,
        reason=STEP_REASON,
        quote=0.0,
        rank=None,
        propensity=None,
        check=CheckView(
            pk=ref.pk,
            key=ref.key,
            verifier=check.verifier,
            tier=check.tier,
            state=ref.state,
            attempt=0,
            payer=None,
            credits=0.0,
            cost=Cost(),
            evidence=None,
            failure=None,
        ),
    )


def _missing(catalog: Catalog, case: Case, *, again: bool) -> Iterator[Rung]:
    """Fast rungs that the case should have by now and does not."""
    forgiven = {METHOD_CHANGED, BUDGET_EXHAUSTED} if again else {METHOD_CHANGED}
    standing = case.standing
    if standing.cancelled:
        return
    had = {
        demand.path
        for demand in case.demands
        if demand.state is not DemandState.WITHDRAWN or demand.reason not in forgiven
    }
    if standing.n_turns:
        for rung in case.ladder.rungs:
            if rung.role == "process" and process_path(rung.path, standing.n_turns) not in had:
                yield rung.model_copy(update={"path": process_path(rung.path, standing.n_turns)})
    if not standing.finished or case.gate_rejection("hard_gate") is not None:
        return
    identifier = catalog.identifier(case.ladder.spec.candidate.kind)
    if identifier is not None and not standing.identified:
        if IDENTIFY_PATH not in had:
            yield identify_rung(identifier)
        return
    for rung in case.ladder.rungs_of(Tier.FAST):
        if rung.path not in had:
            yield rung


def process_path(path: str, n_turns: int) -> str:
    """Process checks are asked once per prefix: their demands carry its length."""
    return f"{path}@{n_turns}"


def _mark(tx: Transaction, cases: Sequence[Case]) -> list[Case]:
    """Flag the cases that the policy must look at again; returns all cases, as they now stand."""
    changed: dict[bool, list[int]] = {True: [], False: []}
    marked: list[Case] = []
    for case in cases:
        needs = _needs_decision(case)
        if needs != case.standing.needs_decision:
            changed[needs].append(case.standing.pk)
            case = replace(case, standing=replace(case.standing, needs_decision=needs))
        marked.append(case)
    for needs, pks in changed.items():
        if pks:
            tx.trajectories.set_needs_decision(pks, needs)
    return marked


def _needs_decision(case: Case) -> bool:
    """Whether the case rests and something has ended that the policy has not seen."""
    standing = case.standing
    if standing.cancelled or not standing.finished or not standing.identified:
        return False
    if standing.status is RewardStatus.FINAL:
        return False
    if not case.passed(up_to=Tier.FAST) or case.gate_broken():
        return False
    if unjudged_process(case) is not None:
        return False  # whatever was bought, there would be no number
    if not any(tier is not Tier.FAST for tier in case.ladder.spec.tiers):
        return False  # nothing above could be bought
    if any(demand.state is DemandState.REQUESTED for demand in case.of_candidate()):
        return False
    return case.ended() != standing.decided_on
