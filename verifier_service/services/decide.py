"""Ask the policy about one run's cases, under the run's lock, and write down what it says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import DemandView, NewDemand
from verifier_service.domain.decisions import BudgetView, Decision, PolicyCase, TierOption
from verifier_service.domain.evidence import TIERS, Cost, Tier
from verifier_service.domain.ladders import Ladder, Rung
from verifier_service.domain.planning import plan_check
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.policy import Beliefs, Policy, Tariff
from verifier_service.domain.ports.runs import Decided
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import DEADLINE
from verifier_service.domain.states import CheckState, DemandState


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """Cases that were decided, to be settled, and the tiers that have new work."""

    pks: tuple[int, ...]
    woken: frozenset[Tier]


@dataclass(frozen=True, slots=True)
class Minds:
    """The scheduler's three ports."""

    policy: Policy
    beliefs: Beliefs
    tariff: Tariff


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
    asked = [_policy_case(catalog, minds, case, now) for case in cases]
    budgets = _budgets(tx, project, run)
    rng = random.Random(f"{stored.seed}/{stored.feed}")  # noqa: S311 - a replayable draw, not a secret
    decisions = minds.policy.decide(stored.spec, asked, budgets, rng)
    woken: set[Tier] = set()
    decided: list[Decided] = []
    for case, decision in zip(cases, decisions, strict=True):
        withdrawn = _apply(tx, catalog, minds.tariff, case, decision, woken)
        decided.append(
            Decided(
                pk=case.standing.pk,
                on=case.ended() + withdrawn,
                decision=f"{decision.code}: {decision.reason}",
            )
        )
    tx.trajectories.decided(decided)
    return Decisions(pks=tuple(case.standing.pk for case in cases), woken=frozenset(woken))


def _policy_case(catalog: Catalog, minds: Minds, case: Case, now: float) -> PolicyCase:
    return PolicyCase(
        trajectory=case.standing.pk,
        group=case.standing.group,
        multiplicity=case.standing.multiplicity,
        ladder=case.ladder,
        estimate=minds.beliefs.estimate(case.ladder, case.rung_evidence()),
        observed=frozenset(
            demand.tier
            for demand in case.of_role("measure", "outcome", "review")
            if case.evidence(demand) is not None
        ),
        failed=frozenset(_failed(catalog, case)),
        soft_rejected=case.gate_rejection("soft_gate") is not None,
        options=tuple(_options(catalog, minds.tariff, case.ladder)),
        age_s=now - case.standing.created_at,
    )


def _failed(catalog: Catalog, case: Case) -> Iterator[Tier]:
    """Tiers that were tried in vain, or that nothing here can run."""
    for demand in case.of_candidate():
        ended = demand.state is DemandState.SATISFIED and demand.check is not None
        if ended and case.evidence(demand) is None:
            yield demand.tier
        if demand.state is DemandState.WITHDRAWN and demand.reason == DEADLINE:
            yield demand.tier
    for tier in TIERS:
        rungs = case.ladder.rungs_of(tier)
        if rungs and all(catalog.availability(rung.use.use) is not None for rung in rungs):
            yield tier


def _options(catalog: Catalog, tariff: Tariff, ladder: Ladder) -> Iterator[TierOption]:
    """Every tier above the fast one, with the quote for all of its rungs."""
    for tier in TIERS:
        rungs = ladder.rungs_of(tier)
        if tier is not Tier.FAST and rungs:
            yield TierOption(
                tier=tier,
                account="human" if tier is Tier.LAB else "compute",
                credits=sum(quote(catalog, tariff, rung) for rung in rungs),
            )


def quote(catalog: Catalog, tariff: Tariff, rung: Rung) -> float:
    """Expected price of one check of a rung, from its verifier's declared typical cost."""
    info = catalog.verifier(rung.use.use)
    return tariff.credits(Cost(cpu_s=info.typical_cpu_s, human_s=info.typical_human_s))


def _budgets(tx: Transaction, project: str, run: str) -> BudgetView:
    left = {account.kind: account.available for account in tx.ledger.accounts(project, run)}
    return BudgetView(compute=left.get("compute", float("inf")), human=left.get("human", float("inf")))


def _apply(
    tx: Transaction, catalog: Catalog, tariff: Tariff, case: Case, decision: Decision, woken: set[Tier]
) -> int:
    """Write one decision as demands; returns how many held demands it withdrew."""
    held = [demand for demand in case.demands if demand.state is DemandState.HELD]
    stale = [demand for demand in held if decision.action == "stop" or demand.tier is not decision.tier]
    if stale:
        tx.demands.withdraw([demand.pk for demand in stale], reason=decision.code)
    if decision.tier is not None:
        for rung in case.ladder.rungs_of(decision.tier):
            standing = next((demand for demand in held if demand.path == rung.path), None)
            if decision.action == "hold":
                _hold(tx, catalog, tariff, case, rung, decision, standing)
            else:
                _request(tx, catalog, tariff, case, rung, decision, standing)
                woken.add(decision.tier)
    return len(stale)


def _hold(
    tx: Transaction,
    catalog: Catalog,
    tariff: Tariff,
    case: Case,
    rung: Rung,
    decision: Decision,
    standing: DemandView | None,
) -> None:
    reason = f"{decision.code}: {decision.reason}"
    if standing is not None:
        tx.demands.hold(standing.pk, reason=reason, rank=decision.rank)
        return
    price = quote(catalog, tariff, rung)
    tx.demands.insert([_demand(case, rung, decision, price, DemandState.HELD, None)])


def _request(
    tx: Transaction,
    catalog: Catalog,
    tariff: Tariff,
    case: Case,
    rung: Rung,
    decision: Decision,
    standing: DemandView | None,
) -> None:
    body = tx.trajectories.bodies([case.standing.pk])[case.standing.pk]
    deadline = case.standing.created_at + case.ladder.spec.deadline_s
    check = plan_check(
        catalog,
        case.standing,
        rung,
        body,
        priority=decision.priority,
        deadline=deadline if rung.tier is Tier.LAB else None,
    )
    [ref] = tx.checks.ensure(case.standing.project, case.standing.run, [check])
    shared = ref.state is CheckState.SUCCEEDED
    price = 0.0 if shared else quote(catalog, tariff, rung)
    if standing is not None:
        reason = f"{decision.code}: {decision.reason}"
        tx.demands.request(standing.pk, ref.pk, reason=reason, quote=price)
    else:
        tx.demands.insert([_demand(case, rung, decision, price, DemandState.REQUESTED, ref.pk)])


def _demand(
    case: Case, rung: Rung, decision: Decision, price: float, state: DemandState, check: int | None
) -> NewDemand:
    return NewDemand(
        trajectory=case.standing.pk,
        path=rung.path,
        role=rung.role,
        tier=rung.tier,
        state=state,
        check=check,
        reason=f"{decision.code}: {decision.reason}",
        quote=price,
        rank=decision.rank,
        propensity=decision.propensity,
    )
