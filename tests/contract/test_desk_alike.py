"""Gold items cannot be told from the others before the vote on one takes effect: whatever a reviewer does,
what the desk shows changes in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.samples import PROJECT, alter, prepare
from tests.contract.test_desk_gold import gold, is_gold
from tests.support.desk import declare, read, take, vote, wanted
from verifier_service.domain.errors import VerificationError
from verifier_service.domain.gold import coming, is_gold_turn
from verifier_service.domain.reviews import Review, ReviewDecision
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk, desk_pages, desk_quality

GRACE_S = 600.0
ITEMS = 20
GOLD = 2  # so few that all of them come before the last item, whatever is drawn
# Names, times and texts differ between any two items.
_OWN = ("id", "check", "candidate", "prompt", "inputs", "evidence", "created_at")
_TIMES = ("claimed_until", "assigned_until", "decided_at", "effective_at")


def looks(item: Review | None) -> Any:
    """The document of an item, without what differs between any two."""
    if item is None:
        return None
    found = {name: value for name, value in item.model_dump(mode="json").items() if name not in _OWN}
    return _timeless(found)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: one is not None if name in _TIMES else _timeless(one) for name, one in value.items()}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def desk_of(store: SqlStore, reviewer: str) -> dict[str, int]:
    """What a page counts."""
    with store.read() as tx:
        seen = desk_pages.overview(tx, PROJECT, reviewer)
    [load] = [one for one in seen.loads if one.queue == "q"]
    return {
        "open": load.open,
        "mine": load.mine,
        "escalated": load.escalated,
        "held": len(seen.held),
        "decided": len(seen.decided),
    }


def listed(store: SqlStore, reviewer: str | None = None, **only: Any) -> list[Review]:
    with store.read() as tx:
        wanted = {"queue": None, "state": None, "limit": 999, **only}
        return desk.listed_for(tx, PROJECT, reviewer, **wanted)


def states(store: SqlStore, review: str) -> list[str]:
    """The lists that an item is in."""
    every = ("open", "claimed", "disputed", "decided", "effective", "expired", "cancelled")
    found = [state for state in every if review in {item.id for item in listed(store, state=state)}]
    mine = [who for who in ("ann", "bob") if review in {i.id for i in listed(store, assigned_to=who)}]
    return [*found, *mine]


def answered(store: SqlStore, work: Callable[[Any], Review | None]) -> Any:
    """What an act answers: the item, or the refusal without its name."""
    try:
        with store.begin() as tx:
            return looks(work(tx))
    except VerificationError as error:
        return type(error).__name__, error.code, re.sub(r"[0-9a-f]{24}", "ID", error.message)


def act(store: SqlStore, name: str, review: str) -> Any:
    """One act of the API or of a page, and its answer."""
    who, _, what = name.partition(" ")
    if what.startswith("skip"):
        whom: Any = what.split()[1]
        return answered(store, lambda tx: desk.skip_review(tx, PROJECT, review, who, "why", whom).review)
    if what == "vote":
        said = ReviewDecision(reviewer=who, verdict="accept")
        return answered(store, lambda tx: desk.decide_review(tx, PROJECT, review, said, GRACE_S).review)
    if what == "lapse":
        return alter(store, f"UPDATE reviews SET claimed_until = 1.0 WHERE id = '{review}'")
    acts: dict[str, Callable[[Any], Review | None]] = {
        "look": lambda tx: desk.open_item(tx, PROJECT, review, who),
        "claim": lambda tx: desk.claim_review(tx, PROJECT, desk.ClaimRequest(reviewer=who, review=review)),
        "renew": lambda tx: desk.renew_review(tx, PROJECT, review, who),
        "release": lambda tx: desk.release_review(tx, PROJECT, review, who),
    }
    return answered(store, acts[what])


def story(store: SqlStore, review: str, names: tuple[str, ...]) -> list[Any]:
    """Everything that is seen of an item while things are done with it, and how the counts change."""
    told: list[Any] = []
    for name in names:
        before = desk_of(store, "ann")
        answer = act(store, name, review)
        after = desk_of(store, "ann")
        told.append(
            {
                "act": name,
                "answer": answer,
                "counts": {key: after[key] - before[key] for key in after},
                "item": looks(read(store, review)),
                "lists": states(store, review),
            }
        )
    return told


def filled(store: SqlStore, golden: int = ITEMS, approvals: int = 1, **item: Any) -> None:
    """A queue with items and gold items, and the same draws in every run."""
    prepare(store)
    alter(store, "UPDATE projects SET secret = 'known'")
    declare(store, gold_share=0.5, approvals=approvals, minutes=20.0)
    for n in range(ITEMS):
        wanted(store, str(n), queue_version=1, approvals=approvals, minutes=20.0, **item)
    for n in range(golden):
        gold(store, f"g{n}")


def next_of_both(store: SqlStore) -> tuple[str, str, list[dict[str, int]]]:
    """Claim until there was a gold item and another: their ids, and how each claim changed the counts."""
    found: dict[bool, str] = {}
    changes = []
    while len(found) < 2:
        before = desk_of(store, "ann")
        item = take(store, "ann")
        assert item is not None
        after = desk_of(store, "ann")
        changes.append({key: after[key] - before[key] for key in after})
        found.setdefault(is_gold(item), item.id)
    return found[True], found[False], changes


@pytest.mark.parametrize("approvals", [1, 2])
@pytest.mark.parametrize(
    "names",
    [
        ("ann look", "ann renew", "bob claim", "ann vote", "ann vote", "ann release", "ann claim"),
        ("ann vote", "ann claim", "ann renew", "ann skip me", "ann skip back", "ann look"),
        ("ann skip others", "bob claim", "ann look", "ann claim", "ann vote", "ann release"),
        ("ann skip others", "ann claim", "ann skip me", "ann renew", "ann claim"),
        ("ann skip others", "ann claim", "ann release", "bob claim", "ann claim"),
        ("ann skip me", "ann look", "ann release", "ann claim", "ann vote"),
        ("ann skip back", "ann claim", "ann vote", "ann look", "bob claim"),
        (
            "ann release",
            "ann vote",
            "ann claim",
            "bob vote",
            "ann lapse",
            "ann vote",
            "ann renew",
            "ann claim",
        ),
    ],
    ids=lambda names: names[0] if isinstance(names, tuple) else None,
)
def test_whatever_is_done_the_desk_shows_the_same(
    store: SqlStore, names: tuple[str, ...], approvals: int
) -> None:
    filled(store, GOLD, approvals)
    alter(store, "UPDATE reviews SET lane = 0, escalated_at = 1.0")
    known, other, changes = next_of_both(store)
    assert all(one == {"open": -1, "mine": 1, "escalated": -1, "held": 1, "decided": 0} for one in changes)
    assert looks(read(store, known)) == looks(read(store, other))
    assert states(store, known) == states(store, other)
    assert story(store, known, names) == story(store, other, names)


def test_counting_tells_nothing_until_the_last_item(store: SqlStore) -> None:
    filled(store, 4)
    left = desk_of(store, "ann")["open"]
    assert left == ITEMS + 4
    while (item := take(store, "ann")) is not None:
        left -= 1
        assert desk_of(store, "ann")["open"] == left
        vote(store, item.id, "ann", grace_s=GRACE_S)
        assert desk_of(store, "ann")["open"] == left
    assert left == 0


def test_lists_are_by_age_and_so_is_what_is_offered(store: SqlStore) -> None:
    filled(store)
    alter(store, "UPDATE reviews SET created_at = 1000.0 * pk")
    with store.read() as tx:
        first = desk_pages.overview(tx, PROJECT, "ann").loads[0].oldest
    taken = [item for item in (take(store, "ann") for _ in range(10)) if item is not None]
    assert 1 < sum(map(is_gold, taken)) < 10
    ages = [item.created_at for item in taken]
    assert ages == sorted(set(ages)), "each is older than what is offered after it"
    assert ages[0].timestamp() == pytest.approx(first, abs=1.0), "as old as the oldest is said to be"
    found = [item.created_at for item in listed(store, "ann")]
    assert found == sorted(found)


def test_a_gold_item_that_was_given_back_is_offered_before_what_it_stood_before(store: SqlStore) -> None:
    filled(store, 1)
    known, _, _ = next_of_both(store)
    with store.begin() as tx:
        desk.release_review(tx, PROJECT, known, "ann")
    again = take(store, "ann")
    assert again is not None
    assert again.id == known


def test_what_is_escalated_later_is_so_for_both(store: SqlStore) -> None:
    filled(store, escalate_after_s=60.0)
    known, other, _ = next_of_both(store)
    alter(store, "UPDATE reviews SET escalate_at = 1.0 WHERE escalate_at IS NOT NULL")
    with store.begin() as tx:
        desk.escalate(tx)
    assert (read(store, known).escalated, read(store, other).escalated) == (True, True)


def test_a_lead_sees_who_is_given_no_gold_items(store: SqlStore) -> None:
    filled(store)
    for _ in range(6):
        item = take(store, "ann")
        assert item is not None
        vote(store, item.id, "ann")
    with store.begin() as tx:
        free = [item.id for item in desk.listed(tx, PROJECT, queue="q", state="open", limit=99)]
    for review in free[:6]:
        vote(store, review, "bob")
    item = take(store, "cid")
    while item is not None and not is_gold(item):
        item = take(store, "cid")
    alter(store, "UPDATE reviews SET state = 'effective' WHERE state = 'decided'")
    with store.read() as tx:
        found = {one.reviewer: one for one in desk_quality.agreement(tx, PROJECT, "q").reviewers}
    assert (found["ann"].votes, found["ann"].gold_seen == found["ann"].gold > 0) == (6, True)
    assert (found["bob"].votes, found["bob"].gold, found["bob"].gold_seen) == (6, 0, 0)
    assert (found["cid"].votes, found["cid"].gold, found["cid"].gold_seen) == (0, 0, 1)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_what_is_coming_falls_by_one_with_every_item(share: float) -> None:
    others, unseen, taken = 40, 7, 3
    while others:
        left = others + coming("s", "q", "ann", taken=taken, share=share, unseen=unseen, others=others)
        known = unseen > 0 and is_gold_turn("s", "q", "ann", taken, share)
        others, unseen, taken = others - (not known), unseen - known, taken + 1
        now = others + coming("s", "q", "ann", taken=taken, share=share, unseen=unseen, others=others)
        assert now == left - 1
    assert coming("s", "q", "ann", taken=0, share=share, unseen=9, others=0) == 0


@pytest.mark.parametrize("then", ["release", "vote", "nothing"])
def test_another_s_gold_item_is_refused_as_what_somebody_holds(store: SqlStore, then: str) -> None:
    filled(store, GOLD, approvals=2)
    known, other, _ = next_of_both(store)
    held = act(store, "bob claim", other)
    assert held[:2] == ("Conflict", "review_claimed")
    if then != "nothing":
        act(store, f"ann {then}", known)
        assert states(store, known) == ["open"]
    assert act(store, "bob claim", known) == held
    offered = [take(store, "bob") for _ in range(4)]
    assert known not in {item.id for item in offered if item is not None}
