"""The desk: one claim per item, one vote per reviewer, undo within the grace."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from tests.contract.samples import (
    PROJECT,
    alter,
    check,
    claim,
    demanded,
    ensure,
    evidence,
    prepare,
    together,
)
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState
from verifier_service.persistence.store import SqlStore

SHOWN = {
    "candidate": "CCO",
    "prompt": "design",
    "inputs": {"a": 1},
    "ladder": "ladder",
    "evidence": [json.loads(evidence("k").model_dump_json())],
}


def opened(
    store: SqlStore, key: str, *, approvals: int = 1, queue: str = "q", deadline: float | None = None
) -> tuple[str, int]:
    """An item on the desk for a new waiting check: (review, check pk)."""
    ensure(store, check(key, tier=Tier.LAB, external=True))
    [one] = claim(store, tier=Tier.LAB)
    with store.begin() as tx:
        assert tx.checks.wait_external("w", one.pk, one.fence)
        review = tx.reviews.open(
            PROJECT, one.pk, queue=queue, approvals=approvals, deadline=deadline, shown=json.dumps(SHOWN)
        )
    return review, one.pk


def accept(reviewer: str, **changes: object) -> ReviewDecision:
    return ReviewDecision.model_validate({"reviewer": reviewer, "verdict": "accept", **changes})


def reject(reviewer: str) -> ReviewDecision:
    return ReviewDecision(reviewer=reviewer, verdict="reject", reason="unstable")


def take(
    store: SqlStore, reviewer: str, review: str | None = None, queue: str | None = None
) -> Review | None:
    with store.begin() as tx:
        return tx.reviews.claim(PROJECT, reviewer=reviewer, queue=queue, review=review, minutes=30.0)


def decide(store: SqlStore, review: str, decision: ReviewDecision, grace_s: float = 60.0) -> Review:
    """Take the item, if it can be taken, and vote on it."""
    with store.begin() as tx:
        with suppress(Conflict):
            tx.reviews.claim(PROJECT, reviewer=decision.reviewer, queue=None, review=review, minutes=30.0)
        return tx.reviews.decide(PROJECT, review, decision, grace_s)[0]


def release(store: SqlStore, review: str, reviewer: str) -> Review:
    with store.begin() as tx:
        return tx.reviews.release(PROJECT, review, reviewer)


def due(store: SqlStore) -> list[tuple[str, str, int]]:
    with store.read() as tx:
        return tx.reviews.due(10)


def pass_grace(store: SqlStore) -> None:
    alter(store, "UPDATE reviews SET effective_at = effective_at - 3600")
    alter(store, "UPDATE votes SET effective_at = effective_at - 3600")


def end_claims(store: SqlStore) -> None:
    alter(store, "UPDATE reviews SET claimed_until = 1.0 WHERE claimed_until IS NOT NULL")


def test_an_item_shows_what_the_reviewer_needs(store: SqlStore) -> None:
    prepare(store)
    review, check_pk = opened(store, "k", approvals=2, deadline=9e9)
    with store.begin() as tx:
        same = tx.reviews.open(PROJECT, check_pk, queue="other", approvals=1, deadline=None, shown="{}")
        item = tx.reviews.get(PROJECT, review)
        assert tx.reviews.check_of(PROJECT, review) == check_pk
        for project, name in ((PROJECT, "unknown"), ("other", review)):
            with pytest.raises(NotFound):
                tx.reviews.get(project, name)
            with pytest.raises(NotFound):
                tx.reviews.check_of(project, name)
    assert same == review
    assert (item.id, item.check, item.queue, item.state, item.approvals) == (
        review,
        "k",
        "q",
        ReviewState.OPEN,
        2,
    )
    assert (item.candidate, item.prompt, item.inputs, item.ladder) == ("CCO", "design", {"a": 1}, "ladder")
    assert item.evidence == (evidence("k"),)
    assert item.deadline is not None
    assert item.deadline.timestamp() == 9e9
    assert (item.votes, item.claimed_by, item.claimed_until) == ((), None, None)


def test_ids_cannot_be_guessed(store: SqlStore) -> None:
    prepare(store)
    names = [opened(store, f"k{index}")[0] for index in range(3)]
    assert len(set(names)) == 3
    assert all(len(name) >= 16 for name in names)


def test_lists_are_oldest_first_and_filtered(store: SqlStore) -> None:
    prepare(store)
    names = [opened(store, f"k{index}", queue="ab"[index % 2])[0] for index in range(4)]
    take(store, "ann", names[1])
    take(store, "bob", names[2])
    end_claims(store)
    take(store, "ann", names[1])
    decide(store, names[3], accept("ann"))

    def listed(queue: str | None = None, state: str | None = None, limit: int = 10) -> list[int]:
        with store.read() as tx:
            found = tx.reviews.listed(PROJECT, queue=queue, state=state, limit=limit)
        return [names.index(one.id) for one in found]

    assert listed() == [0, 1, 2, 3]
    assert listed(limit=2) == [0, 1]
    assert listed(queue="b") == [1, 3]
    assert listed(state="open") == [0, 2]
    assert listed(state="claimed") == [1]
    assert listed(state="decided") == [3]
    assert listed(queue="a", state="claimed") == []
    with store.read() as tx:
        assert tx.reviews.listed("other", queue=None, state=None, limit=10) == []


def test_two_reviewers_never_get_one_item(store: SqlStore) -> None:
    prepare(store)
    for index in range(6):
        opened(store, f"k{index}")
    items = together(10, lambda index: take(store, f"reviewer{index}"))
    got = [one.id for one in items if one is not None]
    assert len(got) == len(set(got)) == 6


def test_a_claim_goes_to_the_oldest_free_item_of_the_queue(store: SqlStore) -> None:
    prepare(store)
    first, _ = opened(store, "1", queue="a")
    second, _ = opened(store, "2", queue="b")
    third, _ = opened(store, "3", queue="b")
    opened(store, "4", queue="b", deadline=1.0)
    item = take(store, "ann", queue="b")
    assert item is not None
    assert (item.id, item.state, item.claimed_by) == (second, ReviewState.CLAIMED, "ann")
    assert item.claimed_until is not None
    other = take(store, "ann", queue="b")
    assert other is not None
    assert other.id == third
    # What is left in the queue is past its deadline.
    assert take(store, "ann", queue="b") is None
    assert (last := take(store, "ann")) is not None
    assert last.id == first


def test_an_expired_claim_is_free_again(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "k")
    take(store, "ann", review)
    with pytest.raises(Conflict):
        take(store, "bob", review)
    assert take(store, "bob") is None
    renewed = take(store, "ann", review)
    assert renewed is not None
    end_claims(store)
    with store.read() as tx:
        item = tx.reviews.get(PROJECT, review)
    assert (item.state, item.claimed_by) == (ReviewState.OPEN, None)
    taken = take(store, "bob")
    assert taken is not None
    assert taken.claimed_by == "bob"
    with pytest.raises(Conflict):
        decide(store, review, accept("ann"))


def test_named_items_that_are_not_free_conflict(store: SqlStore) -> None:
    prepare(store)
    decided, _ = opened(store, "1")
    late, _ = opened(store, "2", deadline=1.0)
    decide(store, decided, accept("ann"))
    for name in (decided, late):
        with pytest.raises(Conflict):
            take(store, "bob", name)
    with pytest.raises(NotFound):
        take(store, "bob", "unknown")


def test_a_decision_takes_effect_after_its_grace(store: SqlStore) -> None:
    prepare(store)
    review, check_pk = opened(store, "k")
    decision = accept(
        "ann",
        measurements=[{"quantity": "gap", "value": 1.5, "unit": "eV", "sigma": 0.1}],
        human_s=90.0,
        reason="é fine",
    )
    item = decide(store, review, decision)
    assert item.state is ReviewState.DECIDED
    [vote] = item.votes
    assert (vote.reviewer, vote.verdict, vote.human_s, vote.reason) == ("ann", "accept", 90.0, "é fine")
    assert vote.measurements[0].value == 1.5
    assert (vote.effective_at - vote.decided_at).total_seconds() == pytest.approx(60.0)
    assert due(store) == []
    pass_grace(store)
    assert due(store) == [(PROJECT, review, check_pk)]
    with store.begin() as tx:
        tx.reviews.close(check_pk, "effective")
        tx.reviews.close(check_pk, "cancelled")
        assert tx.reviews.get(PROJECT, review).state is ReviewState.EFFECTIVE
    assert due(store) == []


def test_the_same_decision_again_is_a_no_op(store: SqlStore) -> None:
    prepare(store)
    review, check_pk = opened(store, "k")
    take(store, "ann", review)
    with store.begin() as tx:
        first, created = tx.reviews.decide(PROJECT, review, accept("ann", human_s=1.0), 60.0)
        again, repeated = tx.reviews.decide(PROJECT, review, accept("ann", human_s=1.0), 60.0)
        assert (created, repeated, again) == (True, False, first)
        with pytest.raises(Conflict):
            tx.reviews.decide(PROJECT, review, reject("ann"), 60.0)
    pass_grace(store)
    with store.begin() as tx:
        tx.reviews.close(check_pk, "effective")
        assert tx.reviews.decide(PROJECT, review, accept("ann", human_s=1.0), 60.0)[1] is False
    for decision in (reject("ann"), accept("bob")):
        with pytest.raises(Conflict):
            decide(store, review, decision)


def test_as_many_votes_as_are_asked_for_decide(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "1", approvals=2)
    take(store, "ann", review)
    half = decide(store, review, accept("ann"))
    assert (half.state, half.claimed_by, len(half.votes)) == (ReviewState.OPEN, None, 1)
    assert take(store, "ann") is None
    with pytest.raises(Conflict):
        take(store, "ann", review)
    offered = take(store, "bob")
    assert offered is not None
    assert decide(store, review, accept("bob")).state is ReviewState.DECIDED
    refused, _ = opened(store, "2", approvals=2)
    assert decide(store, refused, reject("ann")).state is ReviewState.OPEN
    assert decide(store, refused, reject("bob")).state is ReviewState.DECIDED
    with pytest.raises(Conflict):
        decide(store, refused, accept("cid"))


def test_simultaneous_votes_are_counted_once_each(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "k", approvals=3)

    def vote(index: int) -> bool:
        try:
            decide(store, review, accept(f"reviewer{index}"))
        except Conflict:
            return False
        return True

    assert sum(together(8, vote)) == 3
    with store.read() as tx:
        item = tx.reviews.get(PROJECT, review)
    assert (item.state, len(item.votes)) == (ReviewState.DECIDED, 3)


def test_a_double_submit_counts_once(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "k", approvals=2)
    take(store, "ann", review)

    def vote(_: int) -> bool:
        with store.begin() as tx:
            return tx.reviews.decide(PROJECT, review, accept("ann"), 60.0)[1]

    assert sum(together(6, vote)) == 1
    with store.read() as tx:
        assert len(tx.reviews.get(PROJECT, review).votes) == 1


def test_release_frees_a_claim(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "k")
    with pytest.raises(Conflict):
        release(store, review, "ann")
    take(store, "ann", review)
    with pytest.raises(Conflict):
        release(store, review, "bob")
    assert release(store, review, "ann").state is ReviewState.OPEN
    assert take(store, "bob") is not None


def test_release_undoes_a_decision_within_its_grace(store: SqlStore) -> None:
    prepare(store)
    review, _ = opened(store, "k")
    decide(store, review, accept("ann"))
    undone = release(store, review, "ann")
    assert (undone.state, undone.votes) == (ReviewState.OPEN, ())
    pass_grace(store)
    assert due(store) == []
    decide(store, review, reject("ann"))
    pass_grace(store)
    with pytest.raises(Conflict):
        release(store, review, "ann")
    assert len(due(store)) == 1


def test_a_check_sent_again_gets_a_new_item(store: SqlStore) -> None:
    prepare(store)
    review, check_pk = opened(store, "k")
    with store.begin() as tx:
        tx.reviews.close(check_pk, "expired")
        second = tx.reviews.open(PROJECT, check_pk, queue="q", approvals=1, deadline=None, shown="{}")
        assert second != review
        assert tx.reviews.get(PROJECT, review).state is ReviewState.EXPIRED
        assert tx.reviews.get(PROJECT, second).state is ReviewState.OPEN


def test_a_cancelled_check_leaves_the_desk(store: SqlStore) -> None:
    prepare(store)
    _, [check_pk] = demanded(store, "t", "k", tier=Tier.LAB, external=True)
    review, _ = opened(store, "k")
    with store.begin() as tx:
        [(demand, _, _)] = tx.demands.wanting(check_pk)
        assert tx.checks.withdraw(tx.demands.withdraw([demand], reason="test")) == [check_pk]
        assert tx.reviews.get(PROJECT, review).state is ReviewState.CANCELLED
    with pytest.raises(Conflict):
        decide(store, review, accept("ann"))
