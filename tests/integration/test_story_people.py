"""What people decide becomes rewards, with what is known of their errors, and can be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.samples import alter
from tests.support.story import LADDER, PROJECT, Story
from verifier_service.bootstrap import desk as events
from verifier_service.domain.accounts import Role
from verifier_service.domain.evidence import Tier
from verifier_service.domain.gold import NewGold
from verifier_service.domain.review_queues import QueueSpec
from verifier_service.domain.reviews import ClaimRequest, RetractRequest, Review, ReviewDecision
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.runs import Key, Scope
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services import desk, desk_quality, queues, tenants

GOOD = "CCCCCCCCCC"
JUDGED: dict[str, Any] = {
    "name": "taste",
    "candidate": {"kind": "molecule", "format": "smiles"},
    "outcome": {"use": "review"},
    "truth": "lab",
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}],
        "lab": [{"use": "review", "params": {"queue": "chemists"}}],
    },
}


def declare(told: Story, **spec: Any) -> None:
    with told.service.store.begin() as tx:
        made = QueueSpec.model_validate_json(json.dumps({"name": "chemists", **spec}))
        queues.put_queue(tx, PROJECT, made, "lead")


def key(told: Story, owner: str | None = None) -> Key:
    with told.service.store.begin() as tx:
        if owner is not None and owner not in {user.login for user in tx.users.of_project(PROJECT)}:
            tx.users.add(project=PROJECT, login=owner, name=owner, role=Role.LEAD)
        return tenants.create_key(tx, PROJECT, "k", [Scope.REVIEW, Scope.ADMIN], owner).key


def take(told: Story, reviewer: str, review: str | None = None) -> Review:
    with told.service.store.begin() as tx:
        item = desk.claim_review(tx, PROJECT, ClaimRequest(reviewer=reviewer, review=review))
    assert item is not None
    return item


def vote(
    told: Story, reviewer: str, verdict: str = "accept", review: str | None = None, **more: Any
) -> Review:
    item = take(told, reviewer, review)
    reason = "" if verdict == "accept" else "smells"
    said = {"reviewer": reviewer, "verdict": verdict, "reason": reason, **more}
    with told.service.store.begin() as tx:
        desk.decide_review(tx, PROJECT, item.id, ReviewDecision.model_validate(said), 0.0)
    return item


def submitted(told: Story, ladder: str = "carbons", run: str = "r", **item: Any) -> None:
    told.submit(run, {"id": "t", "answer": GOOD, "ladder": ladder} | item)
    told.rest()


@pytest.mark.parametrize(("verdict", "outcome"), [("accept", 0.95), ("reject", 0.05)])
def test_a_verdict_that_may_be_wrong_is_a_probability(told: Story, verdict: str, outcome: float) -> None:
    told.put_ladder(JUDGED)
    submitted(told, "taste")
    vote(told, "ann", verdict)
    told.rest()
    record = told.latest("r", "t")
    assert (record.tier, record.status) == (Tier.LAB, RewardStatus.FINAL)
    assert record.outcome == pytest.approx(outcome)
    assert record.variance == pytest.approx(0.05 * 0.95)
    assert (record.reason is not None) is (verdict == "reject")


def test_two_who_agree_are_surer_than_one(told: Story) -> None:
    declare(told, approvals=2)
    told.put_ladder(JUDGED)
    submitted(told, "taste")
    for reviewer in ("ann", "bob"):
        vote(told, reviewer)
    told.rest()
    assert 0.99 < (told.latest("r", "t").outcome or 0.0) < 1.0


def test_the_queue_says_how_many_votes_unless_the_ladder_does(told: Story) -> None:
    declare(told, approvals=2)
    told.put_ladder(JUDGED)
    submitted(told, "taste")
    assert take(told, "ann").approvals == 2
    submitted(told, run="q")
    with told.service.store.read() as tx:
        found = desk.listed(tx, PROJECT, queue="chemists", state="open", limit=9)
    assert [item.approvals for item in found] == [1]


def test_gold_items_teach_how_often_people_are_wrong(told: Story) -> None:
    declare(told, gold_share=0.5)
    told.put_ladder(JUDGED)
    with told.service.store.begin() as tx:
        for n in range(20):
            known = {
                "queue": "chemists",
                "shown": {"candidate": f"g{n}"},
                "expected": {"verdict": "accept"},
            }
            known["expected"] = {"verdict": "reject" if n % 2 else "accept"}
            queues.add_gold(tx, PROJECT, NewGold.model_validate(known), "lead")
    items = [{"id": f"t{n}", "answer": "C" * (n + 3), "ladder": "taste"} for n in range(12)]
    told.submit("r", *items)
    told.rest()
    shown = [vote(told, "ann") for _ in range(24) if _left(told)]
    gold = [item for item in shown if str(item.candidate).startswith("g")]
    told.rest()
    assert gold, "one in two of a dozen and more"
    with told.service.store.read() as tx:
        [found] = desk_quality.agreement(tx, PROJECT, "chemists").reviewers
    wrong = sum(int(str(item.candidate)[1:]) % 2 for item in gold)
    assert (found.gold, found.gold_wrong) == (len(gold), wrong)
    told.submit("r", {"id": "last", "answer": "CCCCCCCCCCCCCCCCCCCCC", "ladder": "taste"})
    told.rest()
    while told.standing("r", "last").status is not RewardStatus.FINAL:
        vote(told, "ann")
        told.rest()
    doubt = 1.0 - (told.latest("r", "last").outcome or 0.0)
    assert doubt >= found.low


def _left(told: Story) -> bool:
    with told.service.store.read() as tx:
        return bool(desk.listed(tx, PROJECT, queue="chemists", state="open", limit=1))


def test_a_disagreement_is_rejected_when_the_third_says_so(told: Story) -> None:
    declare(told, approvals=2)
    told.put_ladder(JUDGED)
    submitted(told, "taste")
    vote(told, "ann")
    vote(told, "bob", "reject")
    told.rest()
    assert told.latest("r", "t").status is RewardStatus.UNSCORED
    vote(told, "cid", "reject")
    told.rest()
    record = told.latest("r", "t")
    assert (record.tier, record.reason.code if record.reason else None) == (Tier.LAB, RewardCode.REJECTED)
    assert record.outcome == pytest.approx(0.05, abs=0.03)


def test_what_is_withdrawn_leaves_the_reward_of_the_tier_below(told: Story) -> None:
    submitted(told)
    before = told.latest("r", "t")
    with told.service.store.read() as tx:
        [item] = desk.listed(tx, PROJECT, queue=None, state="open", limit=9)
    answer = events.withdraw(told.service, key(told, "lea"), [item.id, "none"], "a flood")
    assert [(one.done, one.code) for one in answer.results] == [(True, None), (False, "review_not_found")]
    told.rest()
    after = told.latest("r", "t")
    assert (after.reward, after.tier) == (before.reward, Tier.HIGH_FIDELITY)
    again = events.withdraw(told.service, key(told, "lea"), [item.id], "a flood")
    assert [one.code for one in again.results] == ["review_not_open"]
    human = next(account for account in told.run("r").accounts if account.kind == "human")
    assert (human.spent, human.reserved) == (0.0, 0.0)


def test_what_only_people_could_judge_is_unscored_when_it_is_sent_back(told: Story) -> None:
    told.put_ladder(JUDGED)
    submitted(told, "taste")
    item = take(told, "ann")
    done = events.skip(told.service, key(told), item.id, "ann", "a mixture", "back")
    assert done.state == "cancelled"
    told.rest()
    record = told.latest("r", "t")
    assert (record.status, record.reward) == (RewardStatus.UNSCORED, None)
    assert record.reason is not None
    assert (record.reason.code, record.reason.detail) == (RewardCode.UNVERIFIABLE, "not_judgeable")
    assert record.reason.message == "a mixture"


@pytest.mark.parametrize("again", [False, True])
def test_a_decision_that_is_taken_back_is_superseded(told: Story, again: bool) -> None:
    submitted(told)
    proxy = told.latest("r", "t").reward
    item = vote(told, "ann", "reject")
    told.rest()
    assert told.latest("r", "t").reward == pytest.approx(0.0)
    mine = key(told, "lea")
    back = events.take_back(told.service, mine, item.id, RetractRequest(reason="wrong batch", again=again))
    assert back.retracted
    told.until(lambda: told.latest("r", "t").reward == proxy)
    with told.service.store.read() as tx:
        waiting = desk.listed(tx, PROJECT, queue=None, state="open", limit=9)
        assert tx.reviews.judged(PROJECT, "chemists", 9) == []
    if again:
        assert len(waiting) == 1
        vote(told, "bob")
        told.rest()
        assert told.latest("r", "t").tier is Tier.LAB


def test_an_item_is_escalated_by_the_sweep(told: Story) -> None:
    declare(told, escalate_after_s=3_600.0)
    submitted(told)
    alter(told.service.store, "UPDATE reviews SET escalate_at = 1.0")  # type: ignore[arg-type]
    told.rest()
    assert take(told, "ann").escalated


def test_a_person_does_not_judge_what_they_submitted(told: Story) -> None:
    parsed = TrajectorySubmission.model_validate({"ladder": "carbons", "id": "t", "answer": GOOD})
    told.service.submit(PROJECT, "r", [parsed], submitter="ann")
    told.rest()
    with told.service.store.begin() as tx:
        assert desk.claim_review(tx, PROJECT, ClaimRequest(reviewer="ann")) is None
    assert take(told, "bob").candidate is not None


def test_measurements_of_people_who_scatter_have_an_error(told: Story) -> None:
    """Pairs of people who differ by 2 in what they measured: from the sixth on their numbers have an error,
    which the reward carries."""
    lab = {"lab": [{"use": "review", "params": {"queue": "chemists", "approvals": 2}}]}
    told.put_ladder(LADDER | {"tiers": LADDER["tiers"] | lab})
    measured = [{"quantity": "carbons@test", "unit": "1"}]
    decanes = [GOOD, *(f"{'C' * n}C(C){'C' * (8 - n)}" for n in range(1, 5)), "CC(C)(C)CCCCCC"]
    told.submit("r", *({"id": f"t{n}", "answer": answer} for n, answer in enumerate(decanes)))
    told.rest()
    with told.service.store.read() as tx:
        items = desk.listed(tx, PROJECT, queue="chemists", state="open", limit=9)
    assert len(items) == 6
    for item in items:
        for reviewer, value in (("ann", 7.0), ("bob", 9.0)):
            vote(told, reviewer, review=item.id, measurements=[{**measured[0], "value": value}])
        told.rest()
    named = {told.standing("r", f"t{n}").canonical: f"t{n}" for n in range(6)}
    first, last = (told.latest("r", named[str(item.candidate)]) for item in (items[0], items[-1]))
    assert (first.tier, last.tier) == (Tier.LAB, Tier.LAB)
    assert first.variance == 0.0, "numbers without an error are taken as they are"
    told_by_people = [one.sigma for one in last.measurements if one.value in (7.0, 9.0)]
    assert told_by_people == [pytest.approx(2**0.5)] * 2
    assert last.variance is not None
    assert last.variance > 0.0
