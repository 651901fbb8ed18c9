"""Edges of the desk: deadlines, units and the pay of those who decide."""

from __future__ import annotations

import time

import pytest

from tests.support.story import LADDER, PROJECT, Story, claim
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.reviews import ReviewDecision, ReviewMeasurement
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.states import RewardStatus
from verifier_service.services import desk

TURN = {"message": "look", "calls": [], "observations": []}
GOOD = "CCCCCCCCCC"
GOLD = {"reference": {"smiles": "CCO"}}


def test_a_decision_before_the_deadline_counts_although_its_grace_ends_after_it(told: Story) -> None:
    told.put_ladder(LADDER | {"deadline_s": 5.0})
    told.submit("r", {"id": "t", "answer": GOOD})
    told.rest()
    review = claim(told)
    with told.service.store.begin() as tx:
        decision = ReviewDecision(reviewer="ann", verdict="reject", reason="explosive")
        desk.decide_review(tx, PROJECT, review, decision, grace_s=6.0)
    time.sleep(5.2)
    told.rest()
    assert told.latest("r", "t").status is RewardStatus.PROVISIONAL
    told.until(lambda: told.standing("r", "t").met == MET_FINAL)
    assert (told.latest("r", "t").reward, told.latest("r", "t").tier) == (0.0, Tier.LAB)


def test_a_number_in_another_unit_is_refused_at_the_desk(told: Story) -> None:
    told.submit("r", {"id": "t", "answer": GOOD})
    told.rest()
    review = claim(told)
    measured = ReviewMeasurement(quantity="carbons@test", value=0.3, unit="furlong")
    decision = ReviewDecision(reviewer="ann", verdict="accept", measurements=(measured,))
    with told.service.store.begin() as tx, pytest.raises(InvalidInput, match="measured in"):
        desk.decide_review(tx, PROJECT, review, decision, grace_s=0.0)


def test_the_last_who_asks_sets_the_deadline_of_a_shared_review(told: Story) -> None:
    told.put_ladder(LADDER | {"deadline_s": 10.0})
    told.submit("r", {"id": "t", "answer": GOOD})
    told.rest()
    time.sleep(5.0)
    told.submit("q", {"id": "t", "answer": GOOD})
    told.rest()
    with told.service.store.read() as tx:
        assert len(desk.listed(tx, PROJECT, queue=None, state="open", limit=10)) == 1
    time.sleep(5.3)
    told.rest()
    assert told.latest("q", "t").status is RewardStatus.PROVISIONAL
    assert claim(told)


def test_every_required_approval_is_paid(told: Story) -> None:
    two = {**LADDER["tiers"], "lab": [{"use": "review", "params": {"queue": "chemists", "approvals": 2}}]}
    told.put_ladder(LADDER | {"tiers": two})
    told.submit("r", {"id": "t", "answer": GOOD})
    told.rest()
    for reviewer in ("ann", "bob"):
        review = claim(told, reviewer)
        with told.service.store.begin() as tx:
            desk.decide_review(
                tx, PROJECT, review, ReviewDecision(reviewer=reviewer, verdict="accept"), 0.0
            )
    told.until(lambda: told.latest("r", "t").tier is Tier.LAB)
    human = next(account for account in told.run("r").accounts if account.kind == "human")
    assert (human.spent, human.reserved) == (pytest.approx(30.0), 0.0)
