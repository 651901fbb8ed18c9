"""After every event: what follows for these cases without asking the policy.

Identify comes first, then the process checks and the whole fast tier. Gates end a climb. What is left
is marked for the policy. Calling it again changes nothing, so a process may die after any step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from verifier_service.domain.cases import Body, Case, Standing
from verifier_service.domain.checks import CheckRef, DemandView, NewCheck, NewDemand
from verifier_service.domain.climb import (
    AGAIN_REASON,
    GATE_REJECTED,
    STEP_REASON,
    VERIFIED_AGAIN,
    PlanKey,
    demand_on,
    identified,
    missing,
    plan_key,
    subject_of,
    view_of,
    with_demands,
)
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Tier
from verifier_service.domain.forecasts import event_of
from verifier_service.domain.ladders import Rung
from verifier_service.domain.planning import plan_check, reads_turns, unplannable
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.scoring import REGISTERED_LATE, UNPLANNABLE, unjudged_process
from verifier_service.domain.settlements import awaiting, registered_at, too_late
from verifier_service.domain.states import LIVE_CHECKS, LIVE_DEMANDS, CheckState, DemandState, RewardStatus

MAX_ROUNDS = 4
AGAIN_PRIORITY = 1e9  # above whatever the policy gives


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What the caller has at hand: bodies by trajectory, which need not be read again, and plans that were
    made before, by the trajectory's id, the rung's path and the subject; some have ended, too."""

    bodies: Mapping[int, Body] = field(default_factory=dict)
    plans: Mapping[PlanKey, NewCheck] = field(default_factory=dict)


KNOW_NOTHING = Known()


@dataclass(frozen=True, kw_only=True, slots=True)
class Advanced:
    """Cases as they stand afterwards, and the tiers that have new work."""

    cases: list[Case]
    woken: frozenset[Tier]


def advance(
    tx: Transaction,
    catalog: Catalog,
    pks: Collection[int],
    known: Known = KNOW_NOTHING,
    *,
    again: bool = False,
    reopened: Collection[int] = (),
) -> Advanced:
    """Bring cases as far as they go without a decision. Locks their rows.

    ``again`` asks once more for fast checks that the budget could not pay. Of the ``reopened`` evidence was
    taken back: their records do not end them, even final ones.
    """
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
        asked = _demand_fast(tx, catalog, current, known, again=again)
        woken |= asked.woken
        cases |= asked.grown
        cases |= {case.standing.pk: case for case in tx.trajectories.cases(sorted(asked.outdated))}
        current = [cases[pk] for pk in sorted(asked.outdated | asked.answered)]
        if not current:
            break
        again = False
    cases |= _refuse_late(tx, catalog, list(cases.values()), known, reopened)
    marked = _mark(tx, list(cases.values()), frozenset(reopened))
    return Advanced(cases=marked, woken=frozenset(woken))


def _identify(tx: Transaction, catalog: Catalog, cases: Sequence[Case]) -> list[Case]:
    """Key the other checks from the candidate; on failure the raw digest stands. The cases afterwards."""
    subjects = {
        case.standing.pk: subject for case in cases if (subject := subject_of(catalog, case)) is not None
    }
    if not subjects:
        return list(cases)
    tx.trajectories.identify(subjects)
    return [
        identified(case, subjects[case.standing.pk]) if case.standing.pk in subjects else case
        for case in cases
    ]


def _end_climbs(tx: Transaction, cases: Sequence[Case]) -> set[int]:
    """A rejecting hard gate, or a cancellation, withdraws what is still wanted."""
    changed: set[int] = set()
    for case in cases:
        rejected = case.gate_rejection("hard_gate") is not None
        if not rejected and not case.standing.cancelled:
            continue
        reason = "cancelled" if case.standing.cancelled else GATE_REJECTED
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
    tx: Transaction, catalog: Catalog, cases: Sequence[Case], known: Known, *, again: bool
) -> _Asked:
    """Ask for what is missing."""
    wanted = [(case, rung) for case in cases for rung in missing(catalog, case, again=again)]
    impossible = {rung.use.use for _, rung in wanted if unplannable(catalog, rung) is not None}
    asked = _Asked()
    if impossible:
        asked.outdated |= {case.standing.pk for case, rung in wanted if rung.use.use in impossible}
        _give_up(tx, [(case, rung) for case, rung in wanted if rung.use.use in impossible])
        wanted = [(case, rung) for case, rung in wanted if rung.use.use not in impossible]
    if not wanted:
        return asked
    bodies = _bodies(tx, catalog, wanted, known.bodies)
    of_run: dict[tuple[str, str], list[tuple[Case, Rung, NewCheck]]] = {}
    secrets = {name: tx.projects.secret(name) for name in {case.standing.project for case, _ in wanted}}
    for case, rung in wanted:
        standing = case.standing
        check = known.plans.get(plan_key(standing, rung.path))
        if check is None:
            secret = secrets[standing.project]
            source, body = case.ladder.spec.candidate, bodies[standing.pk]
            check = plan_check(catalog, standing, rung, body, source=source, secret=secret)
            if rung.tier is not Tier.FAST:
                check = _urgent(tx, case, rung, check)
        of_run.setdefault((standing.project, standing.run), []).append((case, rung, check))
    for (project, run), group in of_run.items():
        refs = tx.checks.ensure(project, run, [check for _, _, check in group])
        tx.demands.insert(
            [_demand(case, rung, ref) for (case, rung, _), ref in zip(group, refs, strict=True)]
        )
        for (case, rung, check), ref in zip(group, refs, strict=True):
            asked.note(case, rung, check, ref)
    asked.grow(cases)
    return asked


@dataclass(slots=True)
class _Asked:
    """What came of asking.

    ``grown`` are the cases with their new demands. Where something was answered at once, the case goes on:
    as it is (``answered``) when this transaction made all that is new about it, else loaded again
    (``outdated``).
    """

    grown: dict[int, Case] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    outdated: set[int] = field(default_factory=set)
    woken: set[Tier] = field(default_factory=set)
    _waiting: set[int] = field(default_factory=set)
    _views: dict[int, list[DemandView]] = field(default_factory=dict)

    def note(self, case: Case, rung: Rung, check: NewCheck, ref: CheckRef) -> None:
        """One check that was asked for."""
        pk = case.standing.pk
        if ref.state is CheckState.QUEUED:
            self.woken.add(check.tier)
        if ref.state in LIVE_CHECKS:
            self._waiting.add(pk)
        elif ref.created:
            self.answered.add(pk)
        else:
            self.outdated.add(pk)
        if pk in self.answered and pk in self._waiting:
            self.outdated.add(pk)  # a demand that waits has no primary key here, to withdraw it by
        if pk in self.outdated:
            self.answered.discard(pk)
        view = demand_on(rung, view_of(check, ref, case.standing.run))
        self._views.setdefault(pk, []).append(view)

    def grow(self, cases: Sequence[Case]) -> None:
        """Add the new demands to their cases."""
        for case in cases:
            views = self._views.get(case.standing.pk)
            if views:
                self.grown[case.standing.pk] = with_demands(case, views)


def _give_up(tx: Transaction, wanted: Sequence[tuple[Case, Rung]], reason: str = UNPLANNABLE) -> None:
    """Write down that a rung is not asked for, and why, so that its record says so."""
    tx.demands.insert(
        [
            NewDemand(
                trajectory=case.standing.pk,
                path=rung.path,
                role=rung.role,
                tier=rung.tier,
                state=DemandState.WITHDRAWN,
                check=None,
                reason=reason,
            )
            for case, rung in wanted
        ]
    )


def _bodies(
    tx: Transaction,
    catalog: Catalog,
    asked: Sequence[tuple[Case, Rung]],
    known: Mapping[int, Body],
) -> Mapping[int, Body]:
    """Bodies of the cases, with their turns only where a verifier reads them."""
    wanted = {case.standing.pk for case, _ in asked} - known.keys()
    if not wanted:
        return known
    turns = any(reads_turns(catalog, case.ladder, rung) for case, rung in asked)
    return {**known, **tx.trajectories.bodies(wanted, turns=turns)}


def _urgent(tx: Transaction, case: Case, rung: Rung, check: NewCheck) -> NewCheck:
    """What replaces evidence goes before what adds some; people have as long as they had the first time."""
    deadline = tx.now() + case.ladder.spec.deadline_s if rung.tier is Tier.LAB else None
    return check._replace(priority=AGAIN_PRIORITY, deadline=deadline)


def _demand(case: Case, rung: Rung, ref: CheckRef) -> NewDemand:
    """The quote of what is verified again is what it cost before, whoever paid."""
    before = [
        max(one.quote, one.check.credits if one.check is not None else 0.0)
        for one in case.demands
        if one.path == rung.path and one.reason in VERIFIED_AGAIN
    ]
    return NewDemand(
        trajectory=case.standing.pk,
        path=rung.path,
        role=rung.role,
        tier=rung.tier,
        state=DemandState.REQUESTED,
        check=ref.pk,
        reason=AGAIN_REASON if before else STEP_REASON,
        quote=max(before, default=0.0),
    )


def _refuse_late(
    tx: Transaction, catalog: Catalog, cases: Sequence[Case], known: Known, reopened: Collection[int]
) -> dict[int, Case]:
    """Write down which forecasts were registered too late to be one, before anything is asked for them.
    The time is the trajectory's: the same forecast of another one may count. Returns those cases."""
    asking = [
        (case, rungs)
        for case in cases
        if (rungs := awaiting(catalog, case.ladder))
        and not {rung.path for rung in rungs} & {demand.path for demand in case.demands}
        and _needs_decision(case, reopened=case.standing.pk in reopened)
    ]
    if not asking:
        return {}
    wanted = {case.standing.pk for case, _ in asking}
    bodies = {**known.bodies, **tx.trajectories.bodies(wanted - known.bodies.keys(), turns=False)}
    late = [pair for pair in asking if _is_late(tx, pair[0].standing, bodies[pair[0].standing.pk])]
    _give_up(tx, [(case, rung) for case, rungs in late for rung in rungs], REGISTERED_LATE)
    return {case.standing.pk: case for case in tx.trajectories.cases([c.standing.pk for c, _ in late])}


def _is_late(tx: Transaction, standing: Standing, body: Body) -> bool:
    try:
        event = event_of(body.inputs)
    except TaskError:
        return False  # the check says so
    since = tx.settlements.known_since(standing.project, [event.id]).get(event.id)
    return too_late(registered_at(standing), event, since)


def _mark(tx: Transaction, cases: Sequence[Case], reopened: Collection[int]) -> list[Case]:
    """Flag the cases that the policy must look at again; returns all cases, as they now stand."""
    changed: dict[bool, list[int]] = {True: [], False: []}
    marked: list[Case] = []
    for case in cases:
        needs = _needs_decision(case, reopened=case.standing.pk in reopened)
        if needs != case.standing.needs_decision:
            changed[needs].append(case.standing.pk)
            case = replace(case, standing=case.standing._replace(needs_decision=needs))
        marked.append(case)
    for needs, pks in changed.items():
        if pks:
            tx.trajectories.set_needs_decision(pks, needs)
    return marked


def _needs_decision(case: Case, *, reopened: bool) -> bool:
    """Whether the case rests and something has ended that the policy has not seen."""
    standing = case.standing
    if standing.cancelled or not standing.finished or not standing.identified:
        return False
    if standing.status is RewardStatus.FINAL and not reopened:
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
