"""Verdicts that a laboratory's file holds, and what people have in hand, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.lab import QUANTITY, approved_by, codes, measured, requested, sent, statuses, wait_at_lab
from tests.support.story import LADDER, Story, claim
from verifier_service.domain.evidence import Tier, Verdict
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.services import desk
from verifier_service.services.desk_quality import agreement


def test_a_verdict_column_is_a_verdict(told: Story) -> None:
    wait_at_lab(told, 2)
    text = "run,trajectory,verdict,reason\nr,t0,reject,insoluble\nr,t1,accept,\n"
    assert statuses(sent(told, text)) == {2: "accepted", 3: "accepted"}
    refused, accepted = told.latest("r", "t0"), told.latest("r", "t1")
    assert (refused.outcome, refused.tier) == (0.0, Tier.LAB)
    assert refused.reason is not None
    assert refused.reason.message == "insoluble"
    assert accepted.tier is Tier.LAB
    assert accepted.outcome not in (None, 0.0)
    sent(told, "run,trajectory,verdict\nr,t0,accept\n")
    assert told.latest("r", "t0").outcome not in (None, 0.0)


def test_a_verdict_by_file_is_doubted_as_one_vote_of_its_queue_is(told: Story) -> None:
    wait_at_lab(told, 2)
    sent(told, f"run,trajectory,verdict,{QUANTITY} [1]\nr,t0,accept,\nr,t1,,4\n")
    with told.service.store.read() as tx:
        doubt = agreement(tx, "default", "chemists").mistaken
        cases = tx.trajectories.cases([told.standing("r", id).pk for id in ("t0", "t1")])
    found = [
        item.evidence.mistaken
        for case in cases
        for item in case.rung_evidence()
        if item.evidence.tier is Tier.LAB
    ]
    assert found == [pytest.approx(doubt), None]
    assert doubt > 0
    sent(told, "run,trajectory,verdict,reason\nr,t0,reject,impure\n")
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t0").pk])
    [amended] = [one.evidence for one in case.rung_evidence() if one.evidence.tier is Tier.LAB]
    assert (amended.verdict, amended.mistaken) == (Verdict.REJECT, pytest.approx(doubt))


def test_an_item_that_several_people_must_approve_takes_no_verdict_of_a_file(told: Story) -> None:
    approved_by(told, 2)
    wait_at_lab(told)
    done = sent(told, "run,trajectory,verdict\nr,t0,accept\n")
    assert codes(done) == {2: [("needs_approvals", None, 2.0)]}


def test_without_a_verdict_the_evidence_has_none(told: Story) -> None:
    wait_at_lab(told)
    sent(told, measured("4"))
    with told.service.store.read() as tx:
        [case] = tx.trajectories.cases([told.standing("r", "t0").pk])
    found = [item.evidence for item in case.rung_evidence() if item.evidence.tier is Tier.LAB]
    assert [item.verdict for item in found] == [Verdict.INCONCLUSIVE]
    assert found[0].provenance.worker == "lab, results.csv"


def _claimed(told: Story) -> None:
    claim(told)


def _decided(told: Story) -> None:
    review = claim(told)
    with told.service.store.begin() as tx:
        decision = ReviewDecision(reviewer="ann", verdict="accept")
        desk.decide_review(tx, "default", review, decision, grace_s=600.0)


def _cancelled(told: Story) -> None:
    told.service.cancel("default", "r", "t0")


@pytest.mark.parametrize(
    ("moves", "code"),
    [(_claimed, "check_claimed"), (_decided, "check_not_waiting"), (_cancelled, "check_not_waiting")],
)
def test_what_people_work_on_is_not_overruled_by_a_file(
    told: Story, moves: Callable[[Story], None], code: str
) -> None:
    reviews = wait_at_lab(told)
    moves(told)
    done = sent(told, f"review,quantity,value,unit\n{reviews['t0']},{QUANTITY},4,1\n")
    assert [error.code for error in done.rows[0].errors] == [code]


def test_a_file_is_no_second_approval(told: Story) -> None:
    two = {**LADDER["tiers"], "lab": [{"use": "review", "params": {"queue": "chemists", "approvals": 2}}]}
    told.put_ladder(LADDER | {"tiers": two})
    wait_at_lab(told)
    assert codes(sent(told, measured("4"))) == {2: [("needs_approvals", None, 2.0)]}
    assert len(requested(told).split("\r\n")) == 2
