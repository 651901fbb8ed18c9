"""The reward rules. The first one: a verification that did not happen is never a number."""

from __future__ import annotations

import pytest

from tests.support.cases import GAP, case, demand, evidence, live
from verifier_service.domain.cases import Case
from verifier_service.domain.decisions import Estimate
from verifier_service.domain.evidence import Failure, Tier, Verdict
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.scoring import MET_FINAL, MET_NOTHING, met_rank, score
from verifier_service.domain.states import DemandState, RewardStatus

FAST, SIM, HIGH, LAB = Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY, Tier.LAB
PASSED = demand("fast/0", "hard_gate", FAST, found=evidence("molecule.validity", FAST))
REFUSED = demand(
    "fast/0",
    "hard_gate",
    FAST,
    found=evidence("molecule.validity", FAST, verdict=Verdict.REJECT, code="empty_structure"),
)
IMPLAUSIBLE = demand(
    "fast/1",
    "soft_gate",
    FAST,
    found=evidence("molecule.plausibility", FAST, verdict=Verdict.REJECT, code="implausible"),
)
DFT = demand("high_fidelity/0", "measure", HIGH, found=evidence("pyscf.gap", HIGH, gap=(GAP, 4.5, None)))


def estimate(tier: Tier = SIM, outcome: float = 0.7) -> Estimate:
    return Estimate(
        tier=tier,
        mean=4.0,
        variance=0.1,
        outcome=outcome,
        outcome_variance=0.02,
        low=0.4,
        high=0.9,
    )


def failed(kind: str, code: str, *, retryable: bool = False) -> Failure:
    return Failure.model_validate({"kind": kind, "code": code, "message": code, "retryable": retryable})


def test_passed_gates_are_not_a_score() -> None:
    draft = score(case(PASSED, needs_decision=True), None)
    assert (draft.status, draft.reward) == (RewardStatus.UNSCORED, None)
    assert draft.reason is not None
    assert draft.reason.code is RewardCode.PENDING


def test_hard_gate_is_final_zero_with_the_named_refusal() -> None:
    draft = score(case(REFUSED), None)
    assert (draft.status, draft.reward, draft.outcome) == (RewardStatus.FINAL, 0.0, 0.0)
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail) == (RewardCode.REJECTED, "empty_structure")


def test_hard_gate_waits_for_the_process_checks_before_it_is_final() -> None:
    draft = score(case(REFUSED, live("process/0@2", "process", FAST), n_turns=2), None)
    assert draft.status is RewardStatus.PROVISIONAL


def test_a_hard_gate_that_did_not_run_lets_nothing_through() -> None:
    broken = demand("fast/0", "hard_gate", FAST, failure=failed("transient", "worker_lost"))
    draft = score(case(broken, DFT), estimate(HIGH, 1.0))
    assert (draft.status, draft.reward) == (RewardStatus.UNSCORED, None)
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail) == (RewardCode.INFRASTRUCTURE, "worker_lost")
    assert score(case(DFT), estimate(HIGH, 1.0)).reward is None


def test_soft_gate_is_provisional_zero_until_a_model_replaces_it() -> None:
    assert score(case(PASSED, IMPLAUSIBLE), None).status is RewardStatus.PROVISIONAL
    assert score(case(PASSED, IMPLAUSIBLE), None).reward == 0.0
    assert score(case(PASSED, IMPLAUSIBLE), estimate()).reward == 0.7


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("permanent", "not_converged", RewardCode.UNVERIFIABLE),
        ("transient", "worker_lost", RewardCode.INFRASTRUCTURE),
        ("resource", "memory_limit", RewardCode.INFRASTRUCTURE),
        ("timed_out", "time_limit", RewardCode.UNVERIFIABLE),
        ("task_error", "bad_reference", RewardCode.TASK_ERROR),
    ],
)
def test_failures_are_null_with_a_typed_reason(kind: str, code: str, expected: RewardCode) -> None:
    broken = demand("high_fidelity/0", "measure", HIGH, failure=failed(kind, code))
    draft = score(case(PASSED, broken), None)
    assert (draft.status, draft.reward, draft.variance) == (RewardStatus.UNSCORED, None, None)
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail) == (expected, code)


def test_exhausted_budget_is_named() -> None:
    unpaid = demand("simulation/0", "measure", SIM, state=DemandState.WITHDRAWN, reason="budget_exhausted")
    reason = score(case(PASSED, unpaid), None).reason
    assert reason is not None
    assert reason.code is RewardCode.BUDGET_EXHAUSTED


def test_truth_is_final_only_when_nothing_is_live_held_or_undecided() -> None:
    measured = estimate(HIGH)
    assert score(case(PASSED, DFT), measured).status is RewardStatus.FINAL
    waiting = case(PASSED, DFT, live("lab/0", "review", LAB))
    assert score(waiting, measured).status is RewardStatus.PROVISIONAL
    held = case(PASSED, DFT, demand("lab/0", "review", LAB, state=DemandState.HELD))
    assert score(held, measured).status is RewardStatus.PROVISIONAL
    assert score(case(PASSED, DFT, needs_decision=True), measured).status is RewardStatus.PROVISIONAL


def test_below_the_truth_it_stays_provisional_until_the_close() -> None:
    assert score(case(PASSED), estimate(SIM)).status is RewardStatus.PROVISIONAL
    assert score(case(PASSED), estimate(SIM), closing=True).status is RewardStatus.FINAL


def test_close_does_not_invent_a_number() -> None:
    assert score(case(PASSED), None, closing=True).status is RewardStatus.UNSCORED


def test_people_override_the_calculation() -> None:
    refused = demand(
        "lab/0",
        "review",
        LAB,
        found=evidence("review", LAB, verdict=Verdict.REJECT, code="reviewer_rejected"),
    )
    draft = score(case(PASSED, DFT, refused), estimate(HIGH, 1.0))
    assert (draft.reward, draft.status, draft.tier) == (0.0, RewardStatus.FINAL, LAB)
    confirmed = demand("lab/0", "review", LAB, found=evidence("review", LAB))
    draft = score(case(PASSED, DFT, confirmed), estimate(HIGH, 1.0))
    assert (draft.reward, draft.status, draft.tier) == (1.0, RewardStatus.FINAL, LAB)


def with_process(*rows: tuple[float | None, ...]) -> Case:
    demands = [
        demand(
            f"process/{index}@{len(row)}",
            "process",
            FAST,
            found=evidence(f"turns.{index}", FAST, per_turn=row),
        )
        for index, row in enumerate(rows)
    ]
    return case(PASSED, *demands, n_turns=max(len(row) for row in rows))


def test_process_rewards_are_means_over_checks_then_over_judged_turns() -> None:
    draft = score(with_process((1.0, 0.0, None), (0.5, None, None)), estimate())
    assert draft.process == (0.75, 0.0, None)
    assert draft.reward == pytest.approx(0.7 + 0.2 * (0.75 + 0.0) / 2)


def test_a_process_check_that_did_not_run_leaves_no_number() -> None:
    broken = demand("process/0@2", "process", FAST, failure=failed("transient", "worker_lost"))
    draft = score(case(PASSED, broken, n_turns=2), estimate())
    assert (draft.status, draft.reward) == (RewardStatus.UNSCORED, None)
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail) == (RewardCode.INFRASTRUCTURE, "worker_lost")
    unpaid = demand("process/0@2", "process", FAST, state=DemandState.WITHDRAWN, reason="budget_exhausted")
    reason = score(case(REFUSED, unpaid, n_turns=2), None).reason
    assert reason is not None
    assert reason.code is RewardCode.BUDGET_EXHAUSTED


def test_a_close_that_cuts_a_process_check_short_says_so() -> None:
    cut = demand("process/0@2", "process", FAST, state=DemandState.WITHDRAWN, reason="run_closed")
    draft = score(case(REFUSED, cut, n_turns=2), None, closing=True)
    assert draft.reward is None
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail) == (RewardCode.CANCELLED, "run_closed")


def test_no_judged_turn_adds_nothing() -> None:
    assert score(with_process((None, None)), estimate()).reward == 0.7


def test_the_longest_judged_prefix_counts() -> None:
    short = demand("process/0@1", "process", FAST, found=evidence("t", FAST, per_turn=(0.0,)))
    long = demand("process/0@2", "process", FAST, found=evidence("t", FAST, per_turn=(1.0, 1.0)))
    draft = score(case(PASSED, short, long, n_turns=3), estimate())
    assert draft.process == (1.0, 1.0, None)


def test_waits_are_met_tier_by_tier() -> None:
    assert met_rank(case(live("fast/0", "hard_gate", FAST)), None) == MET_NOTHING
    assert met_rank(case(PASSED, needs_decision=True), None) == MET_NOTHING
    assert met_rank(case(PASSED, live("simulation/0", "measure", SIM)), None) == FAST.rank
    assert met_rank(case(PASSED, DFT, live("lab/0", "review", LAB)), None) == HIGH.rank
    held = case(PASSED, demand("simulation/0", "measure", SIM, state=DemandState.HELD))
    assert met_rank(held, None) == LAB.rank
    assert met_rank(case(PASSED), RewardStatus.PROVISIONAL) == MET_FINAL


def test_only_checks_this_run_paid_for_are_its_cost() -> None:
    shared = demand("fast/0", "hard_gate", FAST, found=evidence("v", FAST), payer="other-run")
    draft = score(case(shared, DFT), estimate(HIGH))
    assert (draft.credits, draft.cost.cpu_s) == (0.5, 2.0)
