"""A case that lost evidence: what its record says, and what is asked again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.cases import GAP, JUDGING, MEASURING, case, demand, evidence, ladder, live
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from verifier_service.domain.checks import DemandView
from verifier_service.domain.climb import GATE_REJECTED, missing
from verifier_service.domain.decisions import Estimate
from verifier_service.domain.evidence import Failure, Tier, Verdict
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.retractions import (
    KEPT,
    RETRACTED,
    REVERIFIED,
    Mode,
    NewRetraction,
    Retracted,
    RetractedBy,
)
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.scoring import BUDGET_EXHAUSTED, METHOD_CHANGED, score
from verifier_service.domain.states import DemandState, RewardStatus

FAST, SIM, HIGH, LAB = Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY, Tier.LAB
BY = RetractedBy(key="k", name="ann")
MARK = Retracted(id="one", reason="bad basis", by=BY, at=datetime(2026, 1, 1, tzinfo=UTC))
HAD: dict[str, Any] = {"status": RewardStatus.FINAL, "reward": 0.7, "seq": 3, "revision": 2}
DFT = evidence("pyscf.gap", HIGH, gap=(GAP, 4.5, None))
PASSED = demand("fast/0", "hard_gate", FAST, found=evidence("molecule.validity", FAST))
PLAUSIBLE = demand("fast/1", "soft_gate", FAST, found=evidence("molecule.plausibility", FAST))
BROKEN = Failure(kind="transient", code="broken", message="it broke", retryable=True)


def withdrawn(one: DemandView, reason: str = RETRACTED) -> DemandView:
    assert one.check is not None
    check = one.check._replace(retracted=None if reason == KEPT else MARK)
    return one._replace(state=DemandState.WITHDRAWN, reason=reason, check=check)


TRUTH = demand("high_fidelity/0", "measure", HIGH, found=DFT)
GONE = withdrawn(TRUTH)
AGAIN = withdrawn(TRUTH, REVERIFIED)
KEEPS = withdrawn(TRUTH, KEPT)


def estimate(tier: Tier = SIM) -> Estimate:
    return Estimate(
        tier=tier, mean=4.0, variance=0.1, outcome=0.6, outcome_variance=0.02, low=0.4, high=0.9
    )


def test_a_number_that_nothing_supports_any_more_is_retracted() -> None:
    draft = score(case(PASSED, GONE, **HAD), None)
    assert (draft.status, draft.reward, draft.outcome, draft.tier) == (
        RewardStatus.RETRACTED,
        None,
        None,
        None,
    )
    assert draft.reason is not None
    assert (draft.reason.code, draft.reason.detail, draft.reason.retryable) == (
        RewardCode.RETRACTED,
        None,
        False,
    )
    assert draft.reason.message == "evidence of pyscf.gap was retracted: bad basis"
    assert draft.evidence == ("key-molecule.validity",)
    assert draft.measurements == ()
    assert draft.credits == 1.0, "what it cost is still paid"


def test_a_number_that_something_else_supports_is_one() -> None:
    draft = score(case(PASSED, GONE, **HAD), estimate())
    assert (draft.status, draft.outcome, draft.tier) == (RewardStatus.PROVISIONAL, 0.6, SIM)
    closing = score(case(PASSED, GONE, **HAD), estimate(), closing=True)
    assert closing.status is RewardStatus.FINAL


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ((), {"status": None, "reward": None}),
        ((), {"status": RewardStatus.UNSCORED, "reward": None}),
        ((), {"cancelled": True}),
        ((demand("high_fidelity/0", "measure", HIGH, failure=BROKEN),), {}),
    ],
    ids=["no record", "had none", "cancelled", "failed since"],
)
def test_what_had_no_number_or_ended_anew_is_unscored(
    more: tuple[DemandView, ...], changes: dict[str, Any]
) -> None:
    draft = score(case(PASSED, GONE, *more, **(HAD | changes)), None)
    assert (draft.status, draft.reward) == (RewardStatus.UNSCORED, None)
    assert draft.reason is not None
    assert draft.reason.code is not RewardCode.RETRACTED


def test_it_stays_retracted_until_its_rung_has_ended() -> None:
    silent = HAD | {"status": RewardStatus.RETRACTED, "reward": None}
    asked = live("high_fidelity/0", "measure", HIGH)
    for demands, closing, detail in (
        ((PASSED, AGAIN), False, "reverifying"),
        ((PASSED, AGAIN, asked), False, "reverifying"),
        ((PASSED, AGAIN, asked), True, None),
        ((PASSED, AGAIN, asked._replace(state=DemandState.WITHDRAWN, reason="run_closed")), True, None),
        (
            (PASSED, AGAIN, asked._replace(state=DemandState.WITHDRAWN, reason=BUDGET_EXHAUSTED)),
            False,
            None,
        ),
    ):
        draft = score(case(*demands, **silent), None, closing=closing)
        assert draft.status is RewardStatus.RETRACTED
        assert draft.reason is not None
        assert draft.reason.detail == detail
    new = demand("high_fidelity/0", "measure", HIGH, found=DFT)
    assert score(case(PASSED, AGAIN, new, **silent), estimate(HIGH)).status is RewardStatus.FINAL


def test_without_the_judgement_of_its_turns_there_is_no_number() -> None:
    judged = demand(
        "process/0@2", "process", FAST, found=evidence("turns.tool_calls", FAST, per_turn=(1.0, 1.0))
    )
    other = demand(
        "process/1@2", "process", FAST, found=evidence("turns.errors", FAST, per_turn=(1.0, 1.0))
    )
    asked = live("process/0@2", "process", FAST)
    kept = (PASSED, other, withdrawn(judged, REVERIFIED), asked)
    assert score(case(*kept, n_turns=2, **HAD), estimate()).status is RewardStatus.RETRACTED
    longer = score(case(*kept, judged._replace(path="process/0@3"), n_turns=3, **HAD), estimate())
    assert longer.status is not RewardStatus.RETRACTED, "a shorter prefix is judged by nobody any more"
    weightless = ladder(MEASURING | {"process": {"weight": 0.0, "checks": MEASURING["process"]["checks"]}})
    assert score(case(*kept, on=weightless, n_turns=2, **HAD), estimate()).outcome == 0.6


def test_what_is_kept_counts_until_its_successor_is_there() -> None:
    asked = live("high_fidelity/0", "measure", HIGH)
    failed = demand("high_fidelity/0", "measure", HIGH, failure=BROKEN)
    better = demand(
        "high_fidelity/0", "measure", HIGH, found=evidence("pyscf.gap", HIGH, gap=(GAP, 3.0, None))
    )
    for demands in ((KEEPS,), (KEEPS, asked), (KEEPS, failed)):
        found = case(*demands)
        assert found.evidence(demands[0]) == DFT
        assert [one.evidence for one in found.rung_evidence()] == [DFT]
        assert not found.renewed()
    replaced = case(KEEPS, better)
    assert replaced.evidence(KEEPS) is None
    assert [one.evidence.measurements[0].value for one in replaced.rung_evidence()] == [3.0]
    assert replaced.renewed()


def test_a_gate_that_is_kept_lets_through() -> None:
    gate = withdrawn(PASSED, KEPT)
    asked = live("fast/0", "hard_gate", FAST)
    failed = demand("fast/0", "hard_gate", FAST, failure=BROKEN)
    for demands in ((gate,), (gate, asked), (gate, failed)):
        assert case(*demands).passed(up_to=FAST)
        assert not case(*demands).gate_broken()
    refused = demand(
        "fast/0",
        "hard_gate",
        FAST,
        found=evidence("molecule.validity", FAST, verdict=Verdict.REJECT, code="empty"),
    )
    assert not case(gate, refused).passed(up_to=FAST)
    assert case(withdrawn(PASSED)).gate_broken()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return VerifierCatalog(Sources(()))


def wanted(catalog: Catalog, *demands: DemandView, **changes: Any) -> list[str]:
    found = case(PLAUSIBLE, *demands, **changes)
    return [rung.path for rung in missing(catalog, found, again=False)]


def test_rungs_are_asked_again_for_the_reasons_that_say_so(catalog: Catalog) -> None:
    for reason, paths in (
        (REVERIFIED, ["fast/0"]),
        (KEPT, ["fast/0"]),
        (METHOD_CHANGED, ["fast/0"]),
        (GATE_REJECTED, ["fast/0"]),
        (RETRACTED, []),
        ("run_closed", []),
    ):
        assert wanted(catalog, withdrawn(PASSED, reason)) == paths, reason


def test_above_the_fast_tier_the_gates_come_first(catalog: Catalog) -> None:
    assert wanted(catalog, PASSED, AGAIN) == ["high_fidelity/0"]
    assert wanted(catalog, PASSED, KEEPS) == ["high_fidelity/0"]
    assert wanted(catalog, PASSED, GONE) == []
    assert wanted(catalog, withdrawn(PASSED, REVERIFIED), AGAIN) == ["fast/0"]
    assert wanted(catalog, PASSED, AGAIN, live("high_fidelity/0", "measure", HIGH)) == []
    unpaid = live("high_fidelity/0", "measure", HIGH)._replace(
        state=DemandState.WITHDRAWN, reason=BUDGET_EXHAUSTED
    )
    assert wanted(catalog, PASSED, AGAIN, unpaid) == [], "the policy decides then"
    assert wanted(catalog, PASSED, AGAIN, cancelled=True) == []


def test_a_request_says_what_it_means() -> None:
    plain = NewRetraction(reason="x", verifier="v")
    assert (plain.mode, plain.selection.verifier) == (Mode.RETRACT, "v")
    assert NewRetraction(reason="x", verifier="v", reverify=True).mode is Mode.REVERIFY
    assert NewRetraction(reason="x", verifier="v", reverify=True, keep=True).mode is Mode.REPLACE
    same = NewRetraction(reason="x", verifier="v", id="i", dry_run=True)
    assert same.content == plain.content
    for other in ({"reason": "y"}, {"version": "1"}, {"params": {"a": 1}}, {"reverify": True}):
        assert NewRetraction(**({"reason": "x", "verifier": "v"} | other)).content != plain.content
    with pytest.raises(ValueError, match="since is after until"):
        NewRetraction(
            reason="x",
            verifier="v",
            since=datetime(2026, 2, 1, tzinfo=UTC),
            until=datetime(2026, 1, 1, tzinfo=UTC),
        )


def test_judging_ladders_too() -> None:
    judged = demand("fast/0", "outcome", FAST, found=evidence("molecule.identity", FAST, score=1.0))
    draft = score(case(withdrawn(judged), on=ladder(JUDGING), **HAD), None)
    assert draft.status is RewardStatus.RETRACTED
