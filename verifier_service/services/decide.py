"""Ask the policy about one run's cases, under the run's lock, and write down what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import DemandView, NewDemand
from verifier_service.domain.decisions import (
    BudgetView,
    Decision,
    DecisionAction,
    PolicyCase,
    RunView,
    TierOption,
)
from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.ladders import Rung
from verifier_service.domain.models import ladder_of
from verifier_service.domain.planning import plan_check, reads_turns, unplannable
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.costs import CostModel
from verifier_service.domain.ports.models import NewDecision
from verifier_service.domain.ports.policy import Beliefs, Policy, Tariff
from verifier_service.domain.ports.runs import Decided
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.pricing import Pricing, Quotes
from verifier_service.domain.runs import Run, RunState
from verifier_service.domain.scoring import PASSED_OVER, REGISTERED_LATE, contested, counting, process_bonus
from verifier_service.domain.states import CheckState, DemandState

SIBLINGS = 8_192  # scored members of groups that the policy is told of


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """Cases that were decided, to be settled, and the tiers that have new work."""

    pks: tuple[int, ...]
    woken: frozenset[Tier]


@dataclass(frozen=True, slots=True)
class Minds:
    """The scheduler's ports. ``elsewhere``: verifiers run in other processes, which may have what
    this one lacks."""

    policy: Policy
    beliefs: Beliefs
    tariff: Tariff
    costs: CostModel
    elsewhere: bool = False


class Answer(NamedTuple):
    """A case, what the policy was asked about it, and what it said."""

    case: Case
    asked: PolicyCase
    decision: Decision


class Wanted(NamedTuple):
    """One rung that a decision names, and the held demand that already stands for it."""

    case: Case
    decision: Decision
    rung: Rung
    held: DemandView | None


def decide(
    tx: Transaction,
    catalog: Catalog,
    minds: Minds,
    *,
    project: str,
    run: str,
    limit: int = 512,
    revisit_held: bool = False,
) -> Decisions:
    """Decide what is undecided (and, with ``revisit_held``, what was held) of one run."""
    stored = tx.runs.lock(project, run)
    if stored.state is not RunState.OPEN:
        return Decisions(pks=(), woken=frozenset())
    pks = tx.trajectories.undecided(project, run, limit)
    if revisit_held:
        pks = sorted({*pks, *tx.trajectories.held(project, run, limit)})
    cases = [case for case in tx.trajectories.cases(sorted(pks), lock=True) if not case.standing.cancelled]
    if not cases:
        return Decisions(pks=(), woken=frozenset())
    now = tx.now()
    quotes = _quotes(tx, catalog, minds, stored, cases)
    asked = [_policy_case(tx, catalog, minds, quotes, case, now) for case in cases]
    verdicts = minds.policy.decide(_view(tx, stored, cases, now), asked)
    if verdicts.pacing != stored.pacing:
        tx.runs.pace(project, run, verdicts.pacing)
    answers = [Answer(*one) for one in zip(cases, asked, verdicts.decisions, strict=True)]
    new = [NewDecision(one.decision, one.asked.estimate) for one in answers if _is_new(one)]
    tx.decisions.add(project, run, new)
    woken = _carry_out(tx, catalog, quotes, project, run, answers)
    _tell(tx, project, run, answers)
    return Decisions(pks=tuple(case.standing.pk for case in cases), woken=frozenset(woken))


def _carry_out(
    tx: Transaction, catalog: Catalog, quotes: Quotes, project: str, run: str, answers: Sequence[Answer]
) -> set[Tier]:
    """Withdraw, hold and request as was decided; the tiers that have new work."""
    withdrawn = _withdraw(tx, answers)
    _hold(tx, quotes, answers)
    woken = _request(tx, catalog, quotes, project, run, answers)
    tx.trajectories.decided(
        [
            _decided(answer, answer.case.ended() + withdrawn.get(answer.case.standing.pk, 0))
            for answer in answers
        ]
    )
    return woken


def _decided(answer: Answer, ended: int) -> Decided:
    """What was believed when the case came to rest stays with it, whatever is decided later."""
    standing, decision, estimate = answer.case.standing, answer.decision, answer.asked.estimate
    drawn = standing.propensity is None and decision.propensity is not None
    believed = estimate.outcome if estimate is not None else 0.0 if answer.asked.soft_rejected else None
    return Decided(
        pk=standing.pk,
        on=ended,
        decision=_words(decision),
        propensity=decision.propensity if drawn else standing.propensity,
        audited=decision.audited if drawn else standing.audited,
        predicted=believed if drawn else standing.predicted,
    )


def _is_new(answer: Answer) -> bool:
    """Whether it says anything that the log has not: what is held is looked at again all the time."""
    decision = answer.decision
    before = answer.case.standing.decision
    if decision.action != "hold" or before is None:
        return True
    tiers = {demand.tier for demand in answer.case.demands if demand.state is DemandState.HELD}
    return decision.tier not in tiers


def _tell(tx: Transaction, project: str, run: str, answers: Sequence[Answer]) -> None:
    for case, _, decision in answers:
        tx.count("decisions", decision.tier, decision.action)
        tx.tell(
            f"decided to {decision.action}",
            project=project,
            run=run,
            trajectory=case.standing.id,
            tier=decision.tier,
            code=decision.code,
        )


def _view(tx: Transaction, stored: Run, cases: Sequence[Case], now: float) -> RunView:
    """The run, and the members of its groups that are not decided upon now."""
    here = {case.standing.pk for case in cases}
    groups = {case.standing.group for case in cases if case.standing.group is not None}
    scored = tx.trajectories.siblings(stored.project, stored.id, groups, SIBLINGS) if groups else []
    until = stored.spec.horizon.until
    return RunView(
        spec=stored.spec,
        seed=stored.seed,
        budgets=_budgets(tx, stored.project, stored.id),
        siblings=tuple(one for one in scored if one.trajectory not in here),
        pacing=stored.pacing,
        elapsed_s=now - stored.created_at.timestamp(),
        left_s=None if until is None else until.timestamp() - now,
    )


def _quotes(tx: Transaction, catalog: Catalog, minds: Minds, stored: Run, cases: Sequence[Case]) -> Quotes:
    """Prices for these cases. What they cost depends on their size: bodies are read where nothing else says
    it. Where credits are limited, what is known of a candidate already costs nothing."""
    people = any(case.ladder.rungs_of(Tier.LAB) for case in cases)
    approvals = tx.queues.approvals([stored.project]) if people else {}
    pricing = Pricing(catalog, minds.tariff, minds.costs, tx.costs.fits(), approvals)
    asking = [case for case in cases if pricing.needs_body(case)]
    turns = any(case.ladder.spec.candidate.from_ == "last_turn" for case in asking)
    bodies = tx.trajectories.bodies({case.standing.pk for case in asking}, turns=turns) if asking else {}
    known = _at_hand(tx, catalog, stored.project, cases) if stored.spec.budgets.compute is not None else ()
    return Quotes(pricing, bodies, frozenset(known))


def _at_hand(
    tx: Transaction, catalog: Catalog, project: str, cases: Sequence[Case]
) -> list[tuple[int, str]]:
    """Rungs, as case and path, whose check has succeeded for another trajectory with this candidate."""
    open_ = [
        (case, rung)
        for case in cases
        for tier in (Tier.SIMULATION, Tier.HIGH_FIDELITY)
        for rung in case.ladder.rungs_of(tier)
        if case.evidence_at(rung.path) is None and unplannable(catalog, rung) is None
    ]
    if not open_:
        return []
    turns = any(reads_turns(catalog, case.ladder, rung) for case, rung in open_)
    bodies = tx.trajectories.bodies({case.standing.pk for case, _ in open_}, turns=turns)
    secret = tx.projects.secret(project)
    keys = {
        (case.standing.pk, rung.path): plan_check(
            catalog,
            case.standing,
            rung,
            bodies[case.standing.pk],
            source=case.ladder.spec.candidate,
            secret=secret,
        ).key
        for case, rung in open_
    }
    found = tx.checks.found(project, set(keys.values()))
    return [place for place, key in keys.items() if found.get(key) is not None]


def _policy_case(
    tx: Transaction, catalog: Catalog, minds: Minds, quotes: Quotes, case: Case, now: float
) -> PolicyCase:
    model = tx.models.current(ladder_of(case.standing)) if minds.beliefs.learns(case.ladder) else None
    return PolicyCase(
        trajectory=case.standing.pk,
        id=case.standing.id,
        group=case.standing.group,
        multiplicity=case.standing.multiplicity,
        ladder=case.ladder,
        estimate=counting(case, minds.beliefs.estimate(case.ladder, case.rung_evidence(), model)),
        observed=frozenset(
            demand.tier
            for demand in case.of_role("measure", "outcome", "review")
            if case.evidence(demand) is not None
        ),
        failed=frozenset(_failed(catalog, case, elsewhere=minds.elsewhere)),
        soft_rejected=case.gate_rejection("soft_gate") is not None,
        options=tuple(_options(catalog, quotes, case)),
        age_s=now - case.standing.created_at,
        bonus=process_bonus(case),
        model=model,
        first=case.standing.decided_on < 0,
        propensity=case.standing.propensity,
        audited=case.standing.audited,
    )


def _failed(catalog: Catalog, case: Case, *, elsewhere: bool) -> Iterator[Tier]:
    """Tiers that were tried in vain, or that nothing can run."""
    for demand in case.of_candidate():
        ended = demand.state is DemandState.SATISFIED and demand.check is not None
        if ended and case.evidence(demand) is None:
            yield demand.tier
        if demand.state is DemandState.WITHDRAWN and demand.reason in PASSED_OVER:
            yield demand.tier
    disputed = contested(case)
    for tier in TIERS:
        rungs = case.ladder.rungs_of(tier)
        if any(rung.path in disputed or _unusable(catalog, rung, elsewhere=elsewhere) for rung in rungs):
            yield tier


def _unusable(catalog: Catalog, rung: Rung, *, elsewhere: bool) -> bool:
    if unplannable(catalog, rung) is not None:
        return True
    return not elsewhere and catalog.availability(rung.use.use) is not None


def _options(catalog: Catalog, quotes: Quotes, case: Case) -> Iterator[TierOption]:
    """Every tier above the fast one, with the quote for all of its rungs."""
    for tier in TIERS:
        rungs = case.ladder.rungs_of(tier)
        plannable = all(unplannable(catalog, rung) is None for rung in rungs)
        if tier is not Tier.FAST and rungs and plannable:
            yield TierOption(
                tier=tier,
                account="human" if tier is Tier.LAB else "compute",
                credits=sum(quotes.of(case, rung) for rung in rungs),
            )


def _budgets(tx: Transaction, project: str, run: str) -> BudgetView:
    accounts = tx.ledger.accounts(project, run)
    limited = any(account.limit is not None for account in accounts)
    asked = tx.demands.outstanding(project, run) if limited else {}
    left = {
        account.kind: max(0.0, account.available - asked.get(account.kind, 0.0)) for account in accounts
    }
    return BudgetView(compute=left.get("compute", float("inf")), human=left.get("human", float("inf")))


def _words(decision: Decision) -> str:
    return f"{decision.code}: {decision.reason}"


def _withdraw(tx: Transaction, answers: Sequence[Answer]) -> dict[int, int]:
    """Withdraw held demands that their decision has overtaken; how many, by trajectory."""
    counts: dict[int, int] = {}
    for case, _, decision in answers:
        stale = [
            demand.pk
            for demand in case.demands
            if demand.state is DemandState.HELD
            and (decision.action == "stop" or demand.tier is not decision.tier)
        ]
        if stale:
            tx.demands.withdraw(stale, reason=decision.code)
            counts[case.standing.pk] = len(stale)
    return counts


def _wanted(answers: Sequence[Answer], action: DecisionAction) -> Iterator[Wanted]:
    """Every rung that an action names, with the demand that was held for it, if any."""
    for case, _, decision in answers:
        if decision.action == action and decision.tier is not None:
            late = {demand.path for demand in case.demands if demand.reason == REGISTERED_LATE}
            for rung in case.ladder.rungs_of(decision.tier):
                if rung.path in late:
                    continue
                held = next(
                    (d for d in case.demands if d.state is DemandState.HELD and d.path == rung.path), None
                )
                yield Wanted(case, decision, rung, held)


def _hold(tx: Transaction, quotes: Quotes, answers: Sequence[Answer]) -> None:
    fresh: list[NewDemand] = []
    for want in _wanted(answers, "hold"):
        if want.held is not None and (want.held.reason, want.held.rank) == (
            _words(want.decision),
            want.decision.rank,
        ):
            continue
        if want.held is not None:
            tx.demands.hold(want.held.pk, reason=_words(want.decision), rank=want.decision.rank)
        else:
            fresh.append(_demand(want, quotes.of(want.case, want.rung), DemandState.HELD, None))
    if fresh:
        tx.demands.insert(fresh)


def _request(
    tx: Transaction, catalog: Catalog, quotes: Quotes, project: str, run: str, answers: Sequence[Answer]
) -> set[Tier]:
    """Find or create the checks of all requests, and put the demands on them; the tiers concerned."""
    wants = list(_wanted(answers, "request"))
    if not wants:
        return set()
    turns = any(reads_turns(catalog, want.case.ladder, want.rung) for want in wants)
    bodies = tx.trajectories.bodies({want.case.standing.pk for want in wants}, turns=turns)
    secret = tx.projects.secret(project)
    checks = [
        plan_check(
            catalog,
            want.case.standing,
            want.rung,
            bodies[want.case.standing.pk],
            source=want.case.ladder.spec.candidate,
            secret=secret,
            priority=want.decision.priority,
            deadline=_deadline(want),
        )
        for want in wants
    ]
    fresh: list[NewDemand] = []
    for want, ref in zip(wants, tx.checks.ensure(project, run, checks), strict=True):
        price = 0.0 if ref.state is CheckState.SUCCEEDED else quotes.of(want.case, want.rung)
        if want.held is not None:
            tx.demands.request(want.held.pk, ref.pk, reason=_words(want.decision), quote=price)
        else:
            fresh.append(_demand(want, price, DemandState.REQUESTED, ref.pk))
    if fresh:
        tx.demands.insert(fresh)
    return {want.rung.tier for want in wants}


def _deadline(want: Wanted) -> float | None:
    """When people must have answered, in database time; only they have a deadline."""
    if want.rung.tier is not Tier.LAB:
        return None
    return want.case.standing.created_at + want.case.ladder.spec.deadline_s


def _demand(want: Wanted, price: float, state: DemandState, check: int | None) -> NewDemand:
    return NewDemand(
        trajectory=want.case.standing.pk,
        path=want.rung.path,
        role=want.rung.role,
        tier=want.rung.tier,
        state=state,
        check=check,
        reason=_words(want.decision),
        quote=price,
        rank=want.decision.rank,
        propensity=want.decision.propensity,
    )
