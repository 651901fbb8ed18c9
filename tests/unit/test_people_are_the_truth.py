"""What people decided may be wrong: where it is the truth, the reward says so, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.beliefs import TierBeliefs
from scheduler.learned import LearnedBeliefs
from scheduler.levels import values_of
from tests.support.cases import JUDGING, MEASURING, case, demand, evidence, ladder
from tests.unit.test_beliefs import named
from verifier_service.domain.decisions import Estimate, FittedModel, RungEvidence
from verifier_service.domain.evidence import Evidence, Tier, Verdict
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.scoring import score

LAB = {"lab": [{"use": "review"}]}
TASTE = ladder(JUDGING | {"truth": "lab", "tiers": JUDGING["tiers"] | LAB})
ALONE = ladder(JUDGING | {"outcome": {"use": "review"}, "truth": "lab", "tiers": LAB})
CHECKED = ladder(JUDGING | {"tiers": JUDGING["tiers"] | LAB})
MEASURED = ladder(MEASURING | {"truth": "lab"})


def opinion(value: float) -> tuple[str, Evidence]:
    return "fast/0", evidence("molecule.identity", Tier.FAST, score=value)


def people(*, accept: bool = True, wrong: float | None = None) -> tuple[str, Evidence]:
    verdict, code = (Verdict.ACCEPT, None) if accept else (Verdict.REJECT, "reviewer_rejected")
    found = evidence("review", Tier.LAB, verdict=verdict, code=code)
    return "lab/0", found.model_copy(update={"mistaken": wrong})


def believe(on: Ladder, *found: tuple[str, Evidence]) -> Estimate | None:
    return TierBeliefs(named).estimate(on, [RungEvidence(path=path, evidence=one) for path, one in found])


def test_an_acceptance_is_worth_what_people_are() -> None:
    found = believe(TASTE, opinion(0.8), people(wrong=0.1))
    assert found is not None
    assert found.outcome == pytest.approx(0.9 * 0.8)
    assert found.outcome_variance == pytest.approx(0.1 * 0.9 * 0.8**2)
    assert (found.low, found.high) == (0.0, 0.8)
    alone = believe(ALONE, people(wrong=0.1))
    assert alone is not None
    assert (alone.outcome, alone.tier) == (pytest.approx(0.9), Tier.LAB)


@pytest.mark.parametrize("on", [TASTE, ALONE])
def test_without_a_doubt_it_is_as_it_was(on: Ladder) -> None:
    found = believe(on, *([opinion(0.8)] if on is TASTE else []), people())
    assert found is not None
    assert (found.outcome, found.outcome_variance) == (0.8 if on is TASTE else 1.0, 0.0)


def test_people_above_the_truth_only_confirm() -> None:
    found = believe(CHECKED, opinion(0.8), people(wrong=0.1))
    assert found is not None
    assert (found.outcome, found.outcome_variance) == (0.8, 0.0)


@pytest.mark.parametrize(
    ("on", "outcome", "variance"),
    [(TASTE, 0.1, 0.09), (ALONE, 0.1, 0.09), (CHECKED, 0.0, 0.0), (MEASURED, 0.0, 0.0)],
    ids=["judged by people", "by people alone", "people above the truth", "measured"],
)
def test_a_refusal_may_be_wrong_where_it_is_the_truth(on: Ladder, outcome: float, variance: float) -> None:
    path, refusal = people(accept=False, wrong=0.1)
    draft = score(case(demand(path, "review", Tier.LAB, found=refusal), on=on), None)
    assert (draft.outcome, draft.variance) == (pytest.approx(outcome), pytest.approx(variance))
    assert draft.reason is not None
    assert draft.reason.detail == "reviewer_rejected"


def test_models_learn_from_verdicts_with_their_noise() -> None:
    items = [RungEvidence(path=path, evidence=one) for path, one in (opinion(0.8), people(wrong=0.1))]
    found = values_of(TASTE, items, named)[Tier.LAB]
    assert (found.mean, found.variance) == (0.8, pytest.approx(0.09))


def test_no_model_replaces_what_people_said() -> None:
    model: Any = FittedModel(1, 50, '{"format":"ladder-model/3"}')
    items = [RungEvidence(path=path, evidence=one) for path, one in (opinion(0.8), people(wrong=0.1))]
    beliefs = LearnedBeliefs(named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.learned.model_of", lambda _: object())
        found = beliefs.estimate(TASTE, items, model)
    assert found is not None
    assert found.outcome == pytest.approx(0.72)
