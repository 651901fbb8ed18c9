"""The policy with budgets: what is worth its price, audits by lot, and the pace."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.audit import uniform
from scheduler.chain import Chain
from scheduler.escalation import ROUND, EscalationPolicy
from scheduler.ladder_model import LadderModel
from scheduler.observations import Declared, DeclaredLine, Observations
from tests.support.cases import ladder
from verifier_service.domain.decisions import (
    BudgetView,
    Decision,
    Estimate,
    FittedModel,
    PolicyCase,
    RunView,
    Sibling,
    TierOption,
)
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.evidence import Tier
from verifier_service.domain.runs import Budgets, Horizon, RunSpec

FAST, SIM, HIGH, LAB = Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY, Tier.LAB
GATED = {
    "name": "gated",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "quantity": {"name": "q", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 1.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "a.gate", "gate": "hard"}],
        "simulation": [{"use": "b.gate", "gate": "hard"}, {"use": "b.rough"}],
        "high_fidelity": [{"use": "c.exact"}],
    },
}


def case(pk: int, mean: float = 0.5, sd: float = 0.2, **changes: object) -> PolicyCase:
    """A case whose outcome was estimated from its simulation, in a ladder with a linear utility."""
    values: dict[str, object] = {
        "trajectory": pk,
        "id": f"t{pk}",
        "group": f"g{pk // 4}",
        "multiplicity": 1,
        "ladder": ladder(GATED),
        "estimate": estimate(mean, sd),
        "observed": frozenset({SIM}),
        "failed": frozenset(),
        "soft_rejected": False,
        "options": options(),
        "model": FittedModel(number=1, labels=50, body="{}"),
    }
    return PolicyCase(**(values | changes))  # type: ignore[arg-type]


def estimate(mean: float, sd: float, tier: Tier = SIM) -> Estimate:
    return Estimate(
        tier=tier, mean=mean, variance=sd**2, outcome=mean, outcome_variance=sd**2, low=0.0, high=1.0
    )


def options(simulation: float = 0.1, truth: float = 1.0) -> tuple[TierOption, ...]:
    return (
        TierOption(tier=SIM, account="compute", credits=simulation),
        TierOption(tier=HIGH, account="compute", credits=truth),
    )


def view(compute: float | None = 10.0, left: float | None = None, **spec: object) -> RunView:
    budget = math.inf if compute is None else compute if left is None else left
    return RunView(
        spec=RunSpec(budgets=Budgets(compute=compute), **spec),  # type: ignore[arg-type]
        seed=7,
        budgets=BudgetView(compute=budget, human=math.inf),
    )


def decide(run: RunView, *cases: PolicyCase) -> list[Decision]:
    return EscalationPolicy().decide(run, cases).decisions


def bought(decisions: list[Decision]) -> dict[int, Tier | None]:
    return {one.trajectory: one.tier for one in decisions if one.action == "request"}


def test_the_most_uncertain_of_a_group_goes_first() -> None:
    made = decide(view(1.0), case(0, sd=0.05), case(1, sd=0.3), case(2, sd=0.1), case(3, sd=0.02))
    assert bought(made) == {1: HIGH}
    assert {one.code for one in made if one.trajectory in (0, 2)} == {"budget"}
    assert made[1].utility is not None
    assert made[1].utility > 0


def test_discovery_prefers_the_edge_of_the_best_and_advantage_does_not_care() -> None:
    crowd = [case(pk, mean=0.1 + 0.01 * pk, sd=0.05) for pk in range(16)]
    edge, far = case(16, mean=0.30, sd=0.1), case(17, mean=0.05, sd=0.11)
    [first] = bought(decide(view(1.0, objective="discovery"), *crowd, edge, far))
    assert first == 16


def test_what_is_certain_is_not_bought_however_much_is_left() -> None:
    [made] = decide(view(1e6), case(0, sd=0.001))
    assert (made.action, made.code) == ("stop", "certain")


def test_an_ungrouped_case_is_worth_its_variance() -> None:
    [made] = decide(view(5.0), case(0, group=None))
    assert (made.action, made.tier, made.code) == ("request", HIGH, "worth_its_price")


def test_tiers_are_skipped_but_no_hard_gate() -> None:
    from_fast = {"estimate": estimate(0.5, 0.3, FAST), "observed": frozenset()}
    cheap = options(simulation=0.9, truth=1.0)
    [gated] = decide(view(9.0), case(0, group=None, options=cheap, **from_fast))
    assert gated.tier is SIM
    open_ = {**GATED, "tiers": GATED["tiers"] | {"simulation": [{"use": "b.rough"}]}}  # type: ignore[operator]
    [skipped] = decide(view(9.0), case(0, group=None, options=cheap, ladder=ladder(open_), **from_fast))
    assert skipped.tier is HIGH


def test_siblings_that_are_known_make_a_group() -> None:
    """A group whose other members are far apart gains less from one more truth than one that is not."""

    def worth(*rewards: float) -> float:
        others = tuple(Sibling(100 + at, "g0", value, 0.0, 1) for at, value in enumerate(rewards))
        [made] = decide(replace(view(5.0), siblings=others), case(0))
        assert made.utility is not None
        return made.utility

    assert worth(0.0, 1.0, 0.2) < worth(0.49, 0.5, 0.51)


def test_without_a_horizon_nothing_is_kept_back_and_with_one_a_round_ahead_is_released() -> None:
    many = [case(pk, sd=0.2 + pk / 1e4, group=None) for pk in range(20)]
    assert len(bought(decide(view(20.0), *many))) == 20
    paced = view(20.0, horizon=Horizon(trajectories=20 * ROUND))
    assert len(bought(decide(paced, *many))) == 1


def test_the_pace_goes_on_from_what_was_noted() -> None:
    """What comes later is released as the run goes on, in any division into batches."""
    run = view(10.0, horizon=Horizon(trajectories=1_000))
    spent, pacing = 0.0, None
    for start in range(0, 1_000, 50):
        now = replace(run, pacing=pacing, budgets=BudgetView(compute=10.0 - spent, human=math.inf))
        batch = [case(pk, sd=0.1 + (pk % 7) / 50) for pk in range(start, start + 50)]
        made, pacing = EscalationPolicy().decide(now, batch)
        spent += sum(one.quote for one in made if one.action == "request")
        released = 10.0 * (start + 50 + ROUND) / 1_000
        assert spent <= released + 1e-9
    assert spent >= 9.0


def test_an_audit_is_drawn_by_name_and_bought_whatever_it_is_worth() -> None:
    run = view(1_000.0, audit_share=0.1)
    dull = [case(pk, sd=0.005, group=None) for pk in range(400)]
    made = decide(run, *dull)
    drawn = {one.trajectory for one in made if one.audited}
    assert 20 <= len(drawn) <= 62, "binomial, 400 times 0.1"
    assert all(one.tier is HIGH and one.action == "request" for one in made if one.audited)
    chances = {one.propensity for one in made if one.trajectory in drawn}
    assert chances == {0.1}
    alone = [decision for one in dull for decision in decide(run, one)]
    assert {one.trajectory for one in alone if one.draw is not None and one.draw < 0.1} >= drawn
    assert [one.draw for one in alone] == [one.draw for one in made], "the batch does not matter"


def test_half_of_the_audits_go_to_the_top() -> None:
    """From the second batch on, when it is known what the top is; the share stays what was asked for."""
    run = view(1e6, audit_share=0.2)
    means = [0.3 + 0.4 * (pk % 97) / 97 for pk in range(2_000)]
    cases = [case(pk, mean=mean, sd=0.005, group=None) for pk, mean in enumerate(means)]
    _, pacing = EscalationPolicy().decide(run, cases[:200])
    made = EscalationPolicy().decide(replace(run, pacing=pacing), cases[200:]).decisions
    top = [one for one, mean in zip(made, means[200:], strict=True) if mean > 0.6]
    rest = [one for one, mean in zip(made, means[200:], strict=True) if mean < 0.55]
    [low], [high] = ({one.propensity for one in part} for part in (rest, top))
    assert low == pytest.approx(0.1)
    assert high == pytest.approx(0.43, abs=0.03)
    assert sum(one.audited for one in made) / len(made) == pytest.approx(0.2, abs=0.03)


def test_who_goes_to_the_truth_anyhow_has_probability_one_whatever_was_drawn() -> None:
    run = view(1_000.0, audit_share=0.5)
    made = decide(run, *(case(pk, sd=0.3, group=None) for pk in range(40)))
    assert {(one.propensity, one.audited, one.tier) for one in made} == {(1.0, False, HIGH)}
    assert any(one.draw is not None and one.draw < 0.5 for one in made)


def test_an_audit_that_cannot_be_paid_waits_before_all_others() -> None:
    run = view(10.0, left=0.5, audit_share=1.0)
    [made] = decide(run, case(0, sd=0.005))
    assert (made.action, made.audited, made.code) == ("hold", True, "budget")
    assert made.rank == math.inf
    again = case(0, sd=0.005, first=False, audited=True, propensity=1.0)
    [later] = decide(view(10.0, left=5.0, audit_share=1.0), again)
    assert (later.action, later.tier, later.code) == ("request", HIGH, "audit")
    assert later.draw is None, "it is drawn once"


def test_without_an_audit_no_propensity_is_invented() -> None:
    assert {one.propensity for one in decide(view(50.0), *(case(pk) for pk in range(8)))} == {None}


def test_the_first_of_a_ladder_are_explored_up_to_a_fifth_of_the_budget() -> None:
    """Only those that were measured below the truth: both values are needed to learn from one the other."""
    new = [case(pk, sd=0.3, model=None) for pk in range(60)]
    made = decide(view(20.0, horizon=Horizon(trajectories=10**6)), *new)
    explored = [one for one in made if one.code == "cold_start"]
    assert 0 < len(explored) <= 4
    assert all(one.tier is HIGH and one.action == "request" for one in explored)
    unmeasured = [case(pk, estimate=None, observed=frozenset(), model=None) for pk in range(60)]
    assert {one.code for one in decide(view(20.0), *unmeasured)} == {"no_estimate"}


def test_an_audit_waits_until_the_case_would_rest() -> None:
    """So that the belief which it tests is the one that the reward would have stayed with."""
    run = view(50.0, audit_share=1.0)
    [on_its_way] = decide(run, case(0, estimate=None, observed=frozenset()))
    assert (on_its_way.tier, on_its_way.propensity, on_its_way.audited) == (SIM, None, False)
    assert on_its_way.draw is not None
    [at_rest] = decide(run, case(0, sd=0.005))
    assert (at_rest.tier, at_rest.propensity, at_rest.audited) == (HIGH, 1.0, True)
    assert at_rest.draw == on_its_way.draw


def test_a_refused_candidate_is_audited_now_and_then() -> None:
    run = view(1_000.0, audit_share=0.5)
    refused = [
        case(pk, estimate=None, observed=frozenset(), soft_rejected=True, group=None) for pk in range(500)
    ]
    made = decide(run, *refused)
    audited = [one for one in made if one.audited]
    assert 2 <= len(audited) <= 25
    assert {one.propensity for one in made} == {0.02}
    assert {(one.action, one.code) for one in made if not one.audited} == {("stop", "soft_rejected")}


def test_a_run_without_a_limit_climbs_by_thresholds() -> None:
    [made] = decide(view(None), case(0, mean=0.5, sd=0.2))
    assert made.code == "uncertain_and_valuable"


def test_while_an_alarm_stands_nothing_rests_as_certain() -> None:
    """Neither without a limit, nor with one; a level that no alarm concerns goes on as before."""
    model = doubted("simulation")
    [free] = decide(view(None), case(0, sd=0.001, model=model))
    assert (free.action, free.tier, free.code) == ("request", HIGH, "alarm")
    [worthless] = decide(view(None), case(0, mean=0.05, sd=0.001, model=model))
    assert (worthless.action, worthless.code) == ("request", "alarm")
    [limited] = decide(view(10.0), case(0, sd=0.001, model=model))
    assert (limited.action, limited.tier) == ("request", HIGH)
    [other] = decide(view(10.0), case(0, sd=0.001, model=doubted("fast")))
    assert (other.action, other.code) == ("stop", "certain")


def doubted(level: str) -> FittedModel:
    """A model on one of whose levels an alarm stands."""
    chain = Chain.fit(
        Observations.of(np.zeros((0, 0)), np.zeros((0, 2))),
        Declared(0.5, 1.0, (DeclaredLine(0.0, 1.0, 0.2),)),
    )
    body = LadderModel((SIM, HIGH), (), (), chain, widen={level: 2.0}).as_json()
    return FittedModel(number=1, labels=50, body=canonical_json(body))


JUDGING = {
    "name": "judging",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "a.judge"},
    "truth": "high_fidelity",
    "tiers": {"fast": [{"use": "a.judge"}], "high_fidelity": [{"use": "a.judge"}]},
}


def test_of_verdicts_the_least_certain_are_checked_first() -> None:
    def judged(pk: int, p: float) -> PolicyCase:
        believed = Estimate(
            tier=FAST,
            mean=None,
            variance=None,
            outcome=p,
            outcome_variance=p * (1 - p),
            low=0.0,
            high=1.0,
        )
        offered = (TierOption(tier=HIGH, account="compute", credits=1.0),)
        return case(
            pk,
            ladder=ladder(JUDGING),
            estimate=believed,
            observed=frozenset({FAST}),
            options=offered,
            model=None,
        )

    cases = [judged(0, 0.98), judged(1, 0.6), judged(2, 0.9), judged(3, 1.0)]
    made = decide(view(1.0, objective="value"), *cases)
    explored = {one.trajectory for one in made if one.code == "cold_start"}
    assert bought([one for one in made if one.trajectory not in explored]) == {1: HIGH}
    assert made[3].action == "stop"


@settings(max_examples=60, deadline=None)
@given(
    sds=st.lists(st.floats(0.0, 0.6), min_size=1, max_size=16),
    left=st.floats(0.0, 12.0),
    cost=st.floats(0.2, 3.0),
    audit=st.sampled_from([0.0, 0.2, 1.0]),
    objective=st.sampled_from(["advantage", "discovery", "value"]),
)
def test_never_more_than_is_left_and_always_the_same(
    sds: list[float], left: float, cost: float, audit: float, objective: str
) -> None:
    run = view(12.0, left=left, audit_share=audit, objective=objective)
    cases = [case(pk, sd=sd, options=options(truth=cost)) for pk, sd in enumerate(sds)]
    made = EscalationPolicy().decide(run, cases)
    asked = sum(one.quote for one in made.decisions if one.action == "request")
    assert asked <= left + 1e-9
    assert EscalationPolicy().decide(run, cases) == made
    assert [one.trajectory for one in made.decisions] == list(range(len(sds)))


@settings(max_examples=40, deadline=None)
@given(
    sds=st.lists(st.floats(0.01, 0.6), min_size=4, max_size=4),
    dearer=st.floats(1.0, 5.0),
    which=st.integers(0, 3),
)
def test_dearer_is_never_bought_instead(sds: list[float], dearer: float, which: int) -> None:
    def choice(factor: float) -> dict[int, Tier | None]:
        prices = [1.0 if pk != which else factor for pk in range(4)]
        return bought(
            decide(
                view(2.0),
                *(case(pk, sd=sd, options=options(truth=prices[pk])) for pk, sd in enumerate(sds)),
            )
        )

    if which not in choice(1.0):
        assert which not in choice(dearer)


@settings(max_examples=40, deadline=None)
@given(sds=st.lists(st.floats(0.01, 0.6), min_size=8, max_size=8))
def test_another_group_changes_nothing_while_the_budget_does_not_bind(sds: list[float]) -> None:
    cases = [case(pk, sd=sd) for pk, sd in enumerate(sds)]
    both, alone = decide(view(100.0), *cases), decide(view(100.0), *cases[:4])
    assert [(one.action, one.tier, one.utility) for one in both[:4]] == [
        (one.action, one.tier, one.utility) for one in alone
    ]


def test_the_number_of_a_lot_is_uniform() -> None:
    drawn = [uniform(3, f"t{pk}", "audit") for pk in range(4_000)]
    assert sum(drawn) / 4_000 == pytest.approx(0.5, abs=0.02)
    assert sum(one < 0.1 for one in drawn) / 4_000 == pytest.approx(0.1, abs=0.02)
    assert len(set(drawn)) == 4_000
