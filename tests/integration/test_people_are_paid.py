"""People's time is paid in full, within the budget, however the item ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.samples import alter
from tests.integration.test_story_people import JUDGED, declare, take, vote
from tests.support.story import PROJECT, Story
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.domain.runs import Account
from verifier_service.services import desk

VOTE = 15.0  # credits: the quarter of an hour that a review declares, at 60 an hour
GOOD = "CCCCCCCCCC"


def human(told: Story) -> Account:
    return next(account for account in told.run("r").accounts if account.kind == "human")


def reserved_and_spent(told: Story) -> list[float]:
    account = human(told)
    return [account.reserved, account.spent]


def asked(told: Story, human_credits: float | None = None, **spec: Any) -> None:
    """One candidate before the queue's people."""
    declare(told, **spec)
    told.put_ladder(JUDGED)
    if human_credits is not None:
        told.put_run("r", human=human_credits)
    told.submit("r", {"id": "t", "answer": GOOD, "ladder": "taste"})
    told.rest()


@pytest.mark.parametrize("approvals", [1, 2, 3])
def test_as_many_votes_as_the_queue_asks_for_are_reserved_and_paid(told: Story, approvals: int) -> None:
    asked(told, approvals=approvals)
    assert reserved_and_spent(told) == pytest.approx([VOTE * approvals, 0.0])
    for at in range(approvals):
        vote(told, f"p{at}", human_s=900.0)
    told.rest()
    assert reserved_and_spent(told) == pytest.approx([0.0, VOTE * approvals])


def test_what_the_budget_does_not_cover_is_not_asked_of_people(told: Story) -> None:
    asked(told, human_credits=2 * VOTE - 1.0, approvals=2)
    assert reserved_and_spent(told) == pytest.approx([0.0, 0.0])
    assert told.latest("r", "t").reward is None
    with told.service.store.read() as tx:
        assert desk.listed(tx, PROJECT, queue=None, state=None, limit=9) == []


def test_who_takes_longer_than_was_reserved_is_paid_as_far_as_the_budget_goes(told: Story) -> None:
    asked(told, minutes=60.0)
    vote(told, "ann", human_s=3_600.0)
    told.rest()
    assert human(told).spent == pytest.approx(60.0)


def test_the_budget_is_never_passed(told: Story) -> None:
    asked(told, human_credits=20.0, minutes=60.0)
    vote(told, "ann", human_s=3_600.0)
    told.rest()
    assert human(told).spent == pytest.approx(20.0)


def test_nobody_worked_for_longer_than_they_can_have(told: Story) -> None:
    asked(told)
    item = take(told, "ann")
    vote(told, "ann", review=item.id, human_s=86_400.0)
    told.rest()
    assert human(told).spent == pytest.approx(2 * VOTE)  # the half hour that a claim lasts


def test_time_counts_from_the_first_look(told: Story) -> None:
    asked(told)
    item = take(told, "ann")
    alter(told.service.store, "UPDATE review_events SET at = at - 7200 WHERE kind = 'claimed'")
    vote(told, "ann", review=item.id, human_s=5_400.0)
    told.rest()
    assert human(told).spent == pytest.approx(90.0)


def test_the_further_person_is_paid(told: Story) -> None:
    asked(told, approvals=2)
    for reviewer, verdict in (("ann", "accept"), ("bob", "reject"), ("eve", "accept")):
        vote(told, reviewer, verdict)
    told.rest()
    assert human(told).spent == pytest.approx(3 * VOTE)


def test_votes_on_an_item_that_expires_are_paid(told: Story) -> None:
    asked(told, approvals=2)
    vote(told, "ann", human_s=1_800.0)
    alter(told.service.store, "UPDATE checks SET deadline = 1.0 WHERE tier = 'lab'")
    told.rest()
    assert reserved_and_spent(told) == pytest.approx([0.0, 2 * VOTE])
    assert told.latest("r", "t").reward is None


def test_votes_on_what_is_cancelled_are_paid(told: Story) -> None:
    asked(told, approvals=2)
    vote(told, "ann")
    told.service.cancel(PROJECT, "r", "t")
    told.rest()
    assert reserved_and_spent(told) == pytest.approx([0.0, VOTE])


def test_a_vote_that_was_undone_costs_nothing(told: Story) -> None:
    asked(told, approvals=2)
    item = take(told, "ann")
    with told.service.store.begin() as tx:
        desk.decide_review(tx, PROJECT, item.id, ReviewDecision(reviewer="ann", verdict="accept"), 60.0)
        desk.release_review(tx, PROJECT, item.id, "ann")
    told.service.cancel(PROJECT, "r", "t")
    told.rest()
    assert human(told).spent == 0.0
