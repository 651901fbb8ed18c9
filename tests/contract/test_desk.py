"""The desk: who is offered what, who holds it, and when a vote counts."""

from __future__ import annotations

import random
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.samples import OTHER_RUN, PROJECT, alter, check, prepare, together
from tests.support.desk import acts, declare, end_claims, read, take, vote, wanted
from verifier_service.domain.errors import Conflict, Forbidden
from verifier_service.domain.evidence import Tier
from verifier_service.domain.review_votes import tally
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk

NAMES = count()


def ids(*items: Review | None) -> list[str]:
    return [item.id for item in items if item is not None]


def code_of(work: object) -> str:
    with pytest.raises((Conflict, Forbidden)) as raised:
        work()  # type: ignore[operator]
    return raised.value.code


def test_the_most_valuable_comes_first_and_the_oldest_of_equals(store: SqlStore) -> None:
    prepare(store)
    low = wanted(store, "1", priority=0.1)
    old = wanted(store, "2", priority=0.9)
    new = wanted(store, "3", priority=0.9)
    assert ids(*(take(store, "ann") for _ in range(4))) == [old, new, low]


def test_a_value_that_is_raised_later_counts(store: SqlStore) -> None:
    prepare(store, "r", OTHER_RUN)
    first = wanted(store, "1", priority=0.5)
    second = wanted(store, "2", priority=0.1)
    with store.begin() as tx:
        again = check("2", tier=Tier.LAB, external=True, priority=0.8)
        tx.checks.ensure(PROJECT, OTHER_RUN, [again])
    assert ids(take(store, "ann"), take(store, "ann")) == [second, first]


def test_what_is_kept_for_me_goes_first_and_others_are_not_offered_it(store: SqlStore) -> None:
    prepare(store)
    best = wanted(store, "1", priority=0.9)
    kept = wanted(store, "2", priority=0.1)
    with store.begin() as tx:
        tx.reviews.assign(PROJECT, kept, "ann", 1.0, by="lead", reason="knows tin")
    assert ids(take(store, "bob"), take(store, "bob")) == [best]
    assert code_of(lambda: take(store, "bob", kept)) == "review_assigned"
    assert ids(take(store, "ann")) == [kept]
    with store.read() as tx:
        found = tx.reviews.listed(PROJECT, queue=None, state=None, limit=9, assigned_to="ann")
    assert ids(*found) == [kept]
    assert found[0].assigned_to == "ann"


def test_what_is_kept_for_somebody_who_never_comes_frees_itself(store: SqlStore) -> None:
    prepare(store)
    kept = wanted(store, "1")
    with store.begin() as tx:
        tx.reviews.assign(PROJECT, kept, "ann", 1.0, by="lead", reason="")
    assert take(store, "bob") is None
    alter(store, "UPDATE reviews SET assigned_until = 1.0")
    assert ids(take(store, "bob")) == [kept]
    assert read(store, kept).assigned_to is None


def test_what_has_waited_too_long_goes_before_others(store: SqlStore) -> None:
    prepare(store)
    wanted(store, "1", priority=0.9)
    old = wanted(store, "2", priority=0.1, escalate_after_s=60.0)
    with store.begin() as tx:
        assert desk.escalate(tx) == 0
    alter(store, "UPDATE reviews SET escalate_at = 1.0 WHERE escalate_at IS NOT NULL")
    with store.begin() as tx:
        assert desk.escalate(tx) == 1
        assert desk.escalate(tx) == 0
    assert read(store, old).escalated
    assert ids(take(store, "ann")) == [old]
    assert ("escalated", "service") in acts(store, review=old)


def test_a_claim_lasts_as_long_as_its_queue_says(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", minutes=2.0)
    item = take(store, "ann", review)
    assert item is not None
    assert item.claimed_until is not None
    with store.read() as tx:
        assert 100 < item.claimed_until.timestamp() - tx.now() <= 120
    for asked, lasts in ((10.0, 120), (1.0, 60)):
        again = take(store, "ann", review, minutes=asked)
        assert again is not None
        assert again.claimed_until is not None
        with store.read() as tx:
            assert lasts - 20 < again.claimed_until.timestamp() - tx.now() <= lasts, "no longer than that"


def test_a_claim_that_holds_is_renewed_and_an_expired_one_is_not(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    take(store, "ann", review, minutes=1.0)
    with store.begin() as tx:
        renewed = desk.renew_review(tx, PROJECT, review, "ann", 60.0)
    assert renewed.claimed_by == "ann"
    end_claims(store)

    def renew(reviewer: str = "ann") -> Review:
        with store.begin() as tx:
            return desk.renew_review(tx, PROJECT, review, reviewer)

    assert code_of(renew) == "claim_expired"
    assert code_of(lambda: renew("bob")) == "not_opened"
    take(store, "bob", review)
    assert code_of(renew) == "review_claimed"
    assert ("lapsed", "ann") in acts(store)


def test_a_verdict_needs_a_claim_that_holds(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")

    def decide(reviewer: str) -> bool:
        with store.begin() as tx:
            said = ReviewDecision(reviewer=reviewer, verdict="accept")
            return desk.decide_review(tx, PROJECT, review, said, 0.0).created

    assert code_of(lambda: decide("ann")) == "not_opened"
    with store.begin() as tx:
        desk.open_item(tx, PROJECT, review, "ann")
    assert code_of(lambda: decide("ann")) == "claim_expired"
    take(store, "ann", review)
    end_claims(store)
    assert code_of(lambda: decide("ann")) == "claim_expired"
    assert read(store, review).votes == ()
    take(store, "bob", review)
    assert code_of(lambda: decide("ann")) == "review_claimed"
    assert decide("bob")


@pytest.mark.parametrize(
    ("whom", "mine", "others"), [("me", False, True), ("others", True, False)], ids=["me", "others"]
)
def test_an_item_is_put_aside(store: SqlStore, whom: desk.Whom, mine: bool, others: bool) -> None:
    prepare(store)
    review = wanted(store, "1")
    take(store, "ann")
    with store.begin() as tx:
        done = desk.skip_review(tx, PROJECT, review, "ann", "not my field", whom)
    assert (done.touched, done.review.claimed_by) == ([], None)
    for reviewer, offered in (("bob", others), ("ann", mine)):
        assert (take(store, reviewer) is not None) is offered
        end_claims(store)
    assert ("skipped", "ann") in acts(store)


def test_what_cannot_be_judged_goes_back_with_a_reason(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    other = wanted(store, "2", approvals=2)
    vote(store, other, "bob")
    for item in (review, other):
        take(store, "ann", item)

    def back(item: str) -> desk.Skipped:
        with store.begin() as tx:
            return desk.skip_review(tx, PROJECT, item, "ann", "the drawing is missing", "back")

    done = back(review)
    assert done.review.state is ReviewState.CANCELLED
    [pk] = done.touched
    with store.read() as tx:
        [case] = tx.trajectories.cases([pk])
    [demand] = case.demands
    assert demand.check is not None
    assert demand.check.failure is not None
    assert (demand.check.failure.code, demand.check.failure.message) == (
        "not_judgeable",
        "the drawing is missing",
    )
    assert code_of(lambda: back(other)) == "has_votes"
    assert read(store, other).claimed_by == "ann", "and nothing of it happened"


def test_a_disagreement_is_decided_by_one_further_person(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", approvals=2)
    vote(store, review, "ann")
    torn = vote(store, review, "bob", "reject")
    assert (torn.state, torn.disputed, len(torn.votes)) == (ReviewState.OPEN, True, 2)
    with store.read() as tx:
        assert ids(*tx.reviews.listed(PROJECT, queue=None, state="disputed", limit=9)) == [review]
        assert tx.reviews.due(9) == []
    for voter in ("ann", "bob"):
        assert take(store, voter) is None
        assert code_of(lambda voter=voter: take(store, voter, review)) == "already_voted"
    done = vote(store, review, "cid", "reject")
    assert (done.state, done.disputed, len(done.votes)) == (ReviewState.DECIDED, False, 3)
    assert code_of(lambda: vote(store, review, "dan")) == "review_not_open"
    assert [kind for kind, _ in acts(store, review=review)].count("disputed") == 1


def test_an_undone_vote_is_no_vote(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", approvals=2)
    vote(store, review, "ann", grace_s=60.0)
    vote(store, review, "bob", "reject", grace_s=60.0)
    vote(store, review, "cid", grace_s=60.0)
    with store.begin() as tx:
        item = desk.release_review(tx, PROJECT, review, "bob")
    assert (item.state, item.disputed) == (ReviewState.DECIDED, False), "the two that are left agree"
    assert ("undone", "bob") in acts(store)
    assert tally([one.verdict for one in read(store, review).votes], 2).verdict == "accept"


def test_nobody_judges_what_they_submitted(store: SqlStore) -> None:
    prepare(store, "r", OTHER_RUN)
    own = wanted(store, "1", submitter="ann", priority=0.9)
    other = wanted(store, "2", submitter="bob")
    assert ids(take(store, "ann"), take(store, "ann")) == [other]
    assert code_of(lambda: take(store, "ann", own)) == "own_submission"
    assert code_of(lambda: vote(store, own, "ann")) == "own_submission"
    with store.begin() as tx:
        assert tx.reviews.submitted(PROJECT, own, "ann")
        assert not tx.reviews.submitted(PROJECT, own, "bob")
        with pytest.raises(Forbidden):
            tx.reviews.assign(PROJECT, own, "ann", 1.0, by="lead", reason="")
    assert ids(take(store, "bob")) == [own]


def test_who_claimed_before_they_submitted_cannot_decide(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    take(store, "ann", review)
    alter(store, "UPDATE trajectories SET submitter = 'ann'")
    assert code_of(lambda: vote(store, review, "ann")) == "own_submission"


def test_a_blind_item_hides_proxies_and_votes_until_ones_own_stands(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", approvals=3, blind=True)
    seen = take(store, "ann", review)
    assert seen is not None
    assert (seen.hidden, seen.evidence, seen.votes, seen.candidate) == (True, (), (), "CCO")
    vote(store, review, "ann", "reject")
    mine = vote(store, review, "bob", grace_s=60.0)
    assert mine.hidden
    assert [one.reviewer for one in mine.votes] == ["bob"], "while it can be undone it does not stand"

    def shown(reviewer: str | None) -> Review:
        with store.begin() as tx:
            return desk.open_item(tx, PROJECT, review, reviewer)

    assert len(shown("ann").votes) == 2
    assert shown("ann").evidence
    for stranger in ("cid", None):
        assert (shown(stranger).votes, shown(stranger).evidence) == ((), ())
    with store.read() as tx:
        [listed] = desk.listed_for(tx, PROJECT, "cid", queue=None, state=None, limit=9)
    assert listed.votes == ()


def test_many_claim_at_once_and_each_item_has_one_holder(store: SqlStore) -> None:
    prepare(store)
    items = {wanted(store, f"{n}", priority=n % 3) for n in range(12)}
    got = together(16, lambda n: take(store, f"r{n}"))
    held = ids(*got)
    assert len(held) == len(set(held)) == len(items)


def test_racing_votes_are_as_many_as_are_asked_for(store: SqlStore) -> None:
    prepare(store)
    items = [wanted(store, f"{n}", approvals=2) for n in range(6)]

    def work(n: int) -> int:
        dice, cast = random.Random(n), 0
        while (item := take(store, f"r{n}")) is not None:
            vote(store, item.id, f"r{n}", dice.choice(["accept", "reject"]))
            cast += 1
        return cast

    cast = sum(together(5, work))
    again = sum(work(n) for n in range(5))
    found = [read(store, item) for item in items]
    assert sum(len(item.votes) for item in found) == cast + again
    for item in found:
        said = [one.verdict for one in item.votes]
        assert item.state is ReviewState.DECIDED
        assert len(said) == (2 if said[0] == said[1] else 3)
        assert len({one.reviewer for one in item.votes}) == len(said)


def test_a_double_submit_counts_once(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", approvals=3)
    take(store, "ann", review)

    def submit(_: int) -> bool:
        with store.begin() as tx:
            said = ReviewDecision(reviewer="ann", verdict="accept")
            return desk.decide_review(tx, PROJECT, review, said, 60.0).created

    assert sum(together(6, submit)) == 1
    assert len(read(store, review).votes) == 1
    assert acts(store).count(("voted", "ann")) == 1


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_people_do_the_votes_make_the_state(store: SqlStore, data: st.DataObject) -> None:
    """Random acts of three people on one item: the state is what the rule says of the votes."""
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
    prepare(store)
    approvals = data.draw(st.integers(1, 3))
    review = wanted(store, f"k{next(NAMES)}", approvals=approvals)
    for _ in range(data.draw(st.integers(1, 10))):
        who = data.draw(st.sampled_from("abcd"))
        what = data.draw(st.sampled_from(["accept", "reject", "undo", "take"]))
        try:
            if what == "undo":
                with store.begin() as tx:
                    desk.release_review(tx, PROJECT, review, who)
            elif what == "take":
                take(store, who, review)
            else:
                vote(store, review, who, what, grace_s=60.0)
        except Conflict:
            pass
        item = read(store, review)
        now = tally([one.verdict for one in item.votes], approvals)
        assert (item.state is ReviewState.DECIDED) == (now.state == "decided")
        assert item.disputed == (now.state == "disputed")
        assert len({one.reviewer for one in item.votes}) == len(item.votes) <= approvals + 1


def test_queues_are_versions(store: SqlStore) -> None:
    prepare(store)
    assert declare(store, instructions="look") == 1
    assert declare(store, instructions="look") == 1
    assert declare(store, instructions="look twice") == 2
    with store.read() as tx:
        assert [(one.spec.name, one.version) for one in tx.queues.of_project(PROJECT)] == [("q", 2)]
        assert tx.queues.version(PROJECT, "q", 1).spec.instructions == "look"
        assert tx.queues.latest(PROJECT, "other").version == 0
    assert acts(store).count(("queue", "lead")) == 2
