"""The threshold policy: gates, thresholds, budget, and independence of the batch."""

from __future__ import annotations

import math

from scheduler.policy import ThresholdPolicy
from tests.support.cases import ladder
from verifier_service.domain.decisions import (
    BudgetView,
    Decision,
    Estimate,
    PolicyCase,
    RunView,
    TierOption,
)
from verifier_service.domain.evidence import Tier
from verifier_service.domain.runs import RunSpec

FAST, SIM, HIGH, LAB = Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY, Tier.LAB
RICH = BudgetView(compute=math.inf, human=math.inf)
OPTIONS = (
    TierOption(tier=SIM, account="compute", credits=0.001),
    TierOption(tier=HIGH, account="compute", credits=0.01),
    TierOption(tier=LAB, account="human", credits=15.0),
)


def belief(tier: Tier, outcome: float, variance: float, high: float) -> Estimate:
    return Estimate(
        tier=tier, mean=4.0, variance=0.1, outcome=outcome, outcome_variance=variance, low=0.0, high=high
    )


def asked(pk: int = 1, **changes: object) -> PolicyCase:
    values: dict[str, object] = {
        "trajectory": pk,
        "id": f"t{pk}",
        "group": None,
        "multiplicity": 1,
        "ladder": ladder(),
        "estimate": None,
        "observed": frozenset(),
        "failed": frozenset(),
        "soft_rejected": False,
        "options": OPTIONS,
    }
    return PolicyCase(**(values | changes))  # type: ignore[arg-type]


def decide(*cases: PolicyCase, budgets: BudgetView = RICH) -> list[Decision]:
    view = RunView(spec=RunSpec(), seed=0, budgets=budgets)
    return ThresholdPolicy().decide(view, cases).decisions


def test_without_an_estimate_it_buys_the_cheapest_tier_that_can_say_something() -> None:
    [decision] = decide(asked())
    assert (decision.action, decision.tier, decision.code) == ("request", SIM, "no_estimate")


def test_a_failed_tier_is_skipped() -> None:
    [decision] = decide(asked(failed=frozenset({SIM})))
    assert (decision.action, decision.tier) == ("request", HIGH)
    [decision] = decide(asked(failed=frozenset({SIM, HIGH})))
    assert (decision.action, decision.code) == ("stop", "nothing_left")


def test_uncertain_and_valuable_goes_up() -> None:
    [decision] = decide(asked(estimate=belief(SIM, 0.5, 0.04, 0.9), observed=frozenset({SIM})))
    assert (decision.action, decision.tier, decision.code) == ("request", HIGH, "uncertain_and_valuable")


def test_certain_or_worthless_stops() -> None:
    [decision] = decide(asked(estimate=belief(SIM, 0.5, 1e-6, 0.5), observed=frozenset({SIM})))
    assert (decision.action, decision.code) == ("stop", "certain")
    [decision] = decide(asked(estimate=belief(SIM, 0.05, 0.04, 0.1), observed=frozenset({SIM})))
    assert (decision.action, decision.code) == ("stop", "not_valuable")


def test_people_see_only_what_the_truth_found_good() -> None:
    seen = frozenset({SIM, HIGH})
    [good] = decide(asked(estimate=belief(HIGH, 1.0, 0.0, 1.0), observed=seen))
    assert (good.action, good.tier, good.code) == ("request", LAB, "worth_a_look")
    [poor] = decide(asked(estimate=belief(HIGH, 0.5, 0.0, 0.5), observed=seen))
    assert (poor.action, poor.code) == ("stop", "truth_known")
    [again] = decide(asked(estimate=belief(HIGH, 1.0, 0.0, 1.0), observed=seen | {LAB}))
    assert again.action == "stop"


def test_a_soft_rejection_is_not_bought_blind() -> None:
    [decision] = decide(asked(soft_rejected=True))
    assert (decision.action, decision.code) == ("stop", "soft_rejected")


def test_the_budget_holds_the_least_valuable_and_ranks_it() -> None:
    seen = frozenset({SIM})
    cases = [
        asked(pk, estimate=belief(SIM, 0.5, variance, 0.9), observed=seen)
        for pk, variance in ((1, 0.01), (2, 0.09), (3, 0.04))
    ]
    decisions = decide(*cases, budgets=BudgetView(compute=0.021, human=0.0))
    assert [(d.trajectory, d.action) for d in decisions] == [(1, "hold"), (2, "request"), (3, "request")]
    assert decisions[0].code == "budget"
    assert decisions[0].rank is not None


def test_the_rank_of_a_held_case_rises_with_its_value() -> None:
    seen = frozenset({SIM})
    cases = [
        asked(pk, estimate=belief(SIM, 0.5, variance, 0.9), observed=seen)
        for pk, variance in ((1, 0.01), (2, 0.09), (3, 0.04))
    ]
    ranks = [
        decision.rank or 0.0 for decision in decide(*cases, budgets=BudgetView(compute=0.0, human=0.0))
    ]
    assert ranks[1] > ranks[2] > ranks[0]


def test_requests_never_exceed_what_is_left() -> None:
    cases = [asked(pk) for pk in range(50)]
    decisions = decide(*cases, budgets=BudgetView(compute=0.0135, human=0.0))
    bought = sum(decision.quote for decision in decisions if decision.action == "request")
    assert bought <= 0.0135
    assert sum(decision.action == "request" for decision in decisions) == 13


def test_with_a_free_budget_the_batch_does_not_matter() -> None:
    cases = [
        asked(pk, estimate=belief(SIM, 0.5, pk / 100, 0.9), observed=frozenset({SIM})) for pk in range(1, 9)
    ]
    together = decide(*cases)
    alone = [decide(case)[0] for case in cases]
    assert [(d.action, d.tier, d.code) for d in together] == [(d.action, d.tier, d.code) for d in alone]


def test_repeats_weigh_more() -> None:
    seen = frozenset({SIM})
    once = asked(1, estimate=belief(SIM, 0.5, 0.04, 0.9), observed=seen)
    often = asked(2, estimate=belief(SIM, 0.5, 0.04, 0.9), observed=seen, multiplicity=10)
    decisions = decide(once, often, budgets=BudgetView(compute=0.01, human=0.0))
    assert [d.action for d in decisions] == ["hold", "request"]
