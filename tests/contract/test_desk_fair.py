"""Nobody takes what another holds, keeps too much of the desk, or is told what is not so."""

from __future__ import annotations

import pytest

from tests.contract.samples import ISSUED, PROJECT, again, alter, prepare, together
from tests.support.desk import end_claims, read, take, vote, wanted
from verifier_service.domain.accounts import Role
from verifier_service.domain.errors import Conflict, InvalidInput, NotFound
from verifier_service.domain.ports.desk_views import QueueLoad
from verifier_service.domain.reviews import ClaimRequest, Review, ReviewState
from verifier_service.domain.runs import Key, Scope
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk, desk_pages
from verifier_service.services.reviewers import require_reviewer

DAY_S = 86_400.0


def undo(store: SqlStore, review: str, reviewer: str) -> Review:
    with store.begin() as tx:
        return desk.release_review(tx, PROJECT, review, reviewer)


def skip(
    store: SqlStore, review: str, reviewer: str, whom: desk.Whom = "me", most_held: int = 20
) -> Review:
    with store.begin() as tx:
        return desk.skip_review(tx, PROJECT, review, reviewer, "later", whom, most_held).review


def claim(store: SqlStore, reviewer: str, review: str | None = None, most_held: int = 2) -> str | None:
    request = ClaimRequest(reviewer=reviewer, review=review)
    with store.begin() as tx:
        found = desk.claim_review(tx, PROJECT, request, most_held)
        return None if found is None else found.id


def load(store: SqlStore, reviewer: str) -> QueueLoad:
    with store.read() as tx:
        found = desk_pages.overview(tx, PROJECT, reviewer).loads
    return next(iter(found), QueueLoad("q", 0, 0, 0, None, more=False))


def code(raised: pytest.ExceptionInfo[Conflict]) -> str:
    return raised.value.code


def test_an_undo_takes_no_claim_of_another(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", approvals=2)
    vote(store, review, "ann", grace_s=60.0)
    take(store, "bob", review)
    item = undo(store, review, "ann")
    assert (item.state, item.claimed_by, item.votes) == (ReviewState.CLAIMED, "bob", ())
    with pytest.raises(Conflict) as raised:
        take(store, "ann", review)
    assert code(raised) == "review_claimed"
    assert vote(store, review, "bob").votes[0].reviewer == "bob"
    assert read(store, review).claimed_by is None, "one's own claim ends with one's vote"


def test_an_undone_decision_leaves_the_item_free(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    vote(store, review, "ann", grace_s=60.0)
    item = undo(store, review, "ann")
    assert (item.state, item.claimed_by) == (ReviewState.OPEN, None)


def test_what_is_given_to_somebody_is_offered_to_them_though_they_had_put_it_aside(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    take(store, "ann", review)
    skip(store, review, "ann")
    assert take(store, "ann") is None
    with store.begin() as tx:
        tx.reviews.assign(PROJECT, review, "ann", 72.0, by="lead", reason="")
    assert (load(store, "ann").open, load(store, "bob").open) == (1, 0)
    offered = take(store, "ann")
    assert offered is not None
    assert offered.id == review
    assert skip(store, review, "ann").assigned_to is None, "and may be put aside again"
    assert (load(store, "ann").open, load(store, "bob").open) == (0, 1)


def test_open_to_you_is_what_you_may_be_offered(store: SqlStore) -> None:
    prepare(store)
    voted, own, aside, free = (
        wanted(store, str(n), approvals=2, submitter="ann" if n == 1 else None) for n in range(4)
    )
    vote(store, voted, "ann")
    take(store, "ann", aside)
    skip(store, aside, "ann")
    alter(store, "UPDATE reviews SET lane = 0, escalated_at = 1.0")
    assert (load(store, "ann").open, load(store, "ann").escalated) == (1, 1)
    assert (load(store, "bob").open, load(store, "bob").escalated) == (4, 4)
    item = take(store, "ann")
    assert item is not None
    assert item.id == free
    assert load(store, "ann").open == 0
    assert own not in {item.id}


def test_so_many_items_at_once_and_no_more(store: SqlStore) -> None:
    prepare(store)
    first, second, third = (wanted(store, str(n)) for n in range(3))
    assert [claim(store, "ann"), claim(store, "ann")] == [first, second]
    for named in (None, third):
        with pytest.raises(Conflict) as raised:
            claim(store, "ann", named)
        assert code(raised) == "too_many_held"
    assert claim(store, "ann", second) == second, "what is held may be held for longer"
    assert claim(store, "bob") == third
    undo(store, first, "ann")
    assert claim(store, "ann") == first
    end_claims(store)
    assert claim(store, "ann") == first, "what has ended is held no more"


def test_so_many_items_are_kept_for_oneself(store: SqlStore) -> None:
    prepare(store)
    first, second = (wanted(store, str(n)) for n in range(2))
    take(store, "ann", first)
    take(store, "ann", second)
    assert skip(store, first, "ann", "others", most_held=1).assigned_to == "ann"
    with pytest.raises(Conflict) as raised:
        skip(store, second, "ann", "others", most_held=1)
    assert code(raised) == "too_many_kept"
    assert read(store, second).claimed_by == "ann", "and nothing of it happened"
    take(store, "ann", first)
    assert skip(store, first, "ann", "others", most_held=1).assigned_to == "ann", "the same one again"


def test_a_claim_is_renewed_for_a_day_at_most(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1", minutes=30.0)
    take(store, "ann", review)
    alter(store, f"UPDATE reviews SET claimed_at = claimed_at - {DAY_S - 600.0}")
    with store.begin() as tx:
        for minutes in (None, 1_000.0):
            item = desk.renew_review(tx, PROJECT, review, "ann", minutes)
            assert item.claimed_until is not None
            assert 500.0 < item.claimed_until.timestamp() - tx.now() <= 600.0
    again = take(store, "ann", review)
    assert again is not None
    assert again.claimed_until == item.claimed_until, "to claim what one holds is to renew it"
    undo(store, review, "ann")
    anew = take(store, "ann", review)
    assert anew is not None
    assert anew.claimed_until is not None
    assert (anew.claimed_until - item.claimed_until).total_seconds() > 900.0


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("state", [None, "open"])
def test_a_list_goes_on_where_it_ended(store: SqlStore, limit: int, state: str | None) -> None:
    prepare(store)
    made = [wanted(store, str(n), queue="q" if n % 2 else "q2") for n in range(5)]
    alter(store, "UPDATE reviews SET created_at = 1000000.0 - pk")
    alter(store, f"UPDATE reviews SET created_at = 50.0 WHERE id IN ('{made[1]}', '{made[3]}')")
    seen: list[str] = []
    while True:
        with store.read() as tx:
            page = tx.reviews.listed(
                PROJECT, queue=None, state=state, limit=limit, after=seen[-1] if seen else None
            )
        seen += [item.id for item in page]
        if len(page) < limit:
            break
    assert seen == [*sorted([made[1], made[3]]), made[4], made[2], made[0]]
    with store.read() as tx:
        rest = tx.reviews.listed(PROJECT, queue="q2", state=state, limit=9, after=seen[1])
        assert [item.id for item in rest] == [made[4], made[2], made[0]]
        with pytest.raises(NotFound):
            tx.reviews.listed(PROJECT, queue=None, state=state, limit=9, after="nowhere")


def refusal(store: SqlStore, name: str) -> str | None:
    """Why nothing is kept for somebody."""
    try:
        with store.read() as tx:
            require_reviewer(tx, PROJECT, name, field="to")
    except InvalidInput as error:
        return error.code
    return None


def test_who_may_be_given_items(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.projects.ensure("elsewhere")
        for login, role in (("rev", Role.REVIEWER), ("lead", Role.LEAD), ("op", Role.OPERATOR)):
            tx.users.add(project=PROJECT, login=login, name=login, role=role)
        tx.users.add(project=PROJECT, login="gone", name="gone", role=Role.REVIEWER)
        tx.users.update("gone", name="gone", role=Role.REVIEWER, disabled=True)
        tx.users.add(project="elsewhere", login="other", name="other", role=Role.REVIEWER)
        key = Key(
            id="vk_zoe",
            project=PROJECT,
            name="zoe",
            owner="zoe",
            scopes=frozenset({Scope.REVIEW}),
            created_at=ISSUED,
        )
        tx.keys.add(key, "hash")  # of before owners had to have an account: it opens nothing any more
    wanted(store, "1")
    take(store, "ann")
    refused = {name: refusal(store, name) for name in ("op", "gone", "other", "zoe", "nobody", "")}
    assert refused == {
        "op": "not_a_reviewer",
        "gone": "reviewer_disabled",
        **dict.fromkeys(("other", "zoe", "nobody", ""), "no_such_reviewer"),
    }
    assert [refusal(store, name) for name in ("rev", "lead", "ann")] == [None] * 3


def test_who_has_voted_is_known(store: SqlStore) -> None:
    prepare(store)
    vote(store, wanted(store, "1"), "ann")
    alter(store, "DELETE FROM review_turns")
    assert (refusal(store, "ann"), refusal(store, "bob")) == (None, "no_such_reviewer")


def test_claims_at_the_same_moment_go_no_further(store: SqlStore) -> None:
    prepare(store)
    for n in range(6):
        wanted(store, str(n))

    def one(_: int) -> bool:
        try:
            return again(lambda: claim(store, "ann", most_held=2)) is not None
        except Conflict:
            return False

    assert sum(together(6, one)) == 2
