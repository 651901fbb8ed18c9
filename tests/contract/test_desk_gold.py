"""Gold items among the others, what becomes of them, and the trail of it all."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.contract.samples import OTHER_RUN, PROJECT, RUN, alter, prepare
from tests.support.desk import acts, declare, end_claims, read, take, vote, wanted
from verifier_service.domain.digests import DIGEST_CHARS
from verifier_service.domain.errors import Conflict, InvalidInput, NotFound
from verifier_service.domain.gold import NewGold, is_gold_turn
from verifier_service.domain.review_trail import Act
from verifier_service.domain.reviews import Review, ReviewState
from verifier_service.domain.runs import RunState
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk_quality, queues
from verifier_service.services.purge import begin_purge, purge_step


def gold(store: SqlStore, name: str = "g", verdict: str = "accept", **known: Any) -> str:
    document = {
        "id": name,
        "queue": "q",
        "shown": {"candidate": f"known {name}", "ladder": "ladder", "prompt": "design"},
        "expected": {"verdict": verdict, **known},
    }
    with store.begin() as tx:
        return queues.add_gold(tx, PROJECT, NewGold.model_validate(document), "lead")[0].id


def is_gold(item: Review) -> bool:
    return str(item.candidate).startswith("known")


def work(store: SqlStore, reviewer: str, items: int) -> list[Review]:
    """Take and accept the next items, one after the other."""
    done = []
    for _ in range(items):
        item = take(store, reviewer)
        assert item is not None
        done.append(item)
        vote(store, item.id, reviewer)
    return done


def test_the_share_of_gold_items_is_right_and_can_be_drawn_again() -> None:
    drawn = [is_gold_turn("s", "q", "ann", n, 0.2) for n in range(5_000)]
    assert drawn == [is_gold_turn("s", "q", "ann", n, 0.2) for n in range(5_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.2, abs=0.02)
    assert drawn != [is_gold_turn("s", "q", "bob", n, 0.2) for n in range(5_000)]
    assert not any(is_gold_turn("s", "q", "ann", n, 0.0) for n in range(100))


def test_gold_items_look_like_the_others_until_the_vote_took_effect(store: SqlStore) -> None:
    prepare(store)
    declare(store, gold_share=0.5, approvals=2, blind=True)
    for n in range(12):
        wanted(store, str(n), approvals=2, queue_version=1, blind=True)
        gold(store, f"g{n}")
    found = work(store, "ann", 12)
    known, real = [item for item in found if is_gold(item)], [item for item in found if not is_gold(item)]
    assert known
    assert real
    for item in (*known, *real):
        after = read(store, item.id)
        assert (item.gold, after.gold) == (False, False)
        assert (item.state, item.assigned_to, after.assigned_to) == (ReviewState.CLAIMED, None, None)
        assert (item.queue, item.queue_version, item.approvals, item.blind) == ("q", 1, 2, True)
        assert after.state is ReviewState.OPEN, "one vote of two"
    assert len({item.ladder for item in found}) == 1, "by it pages know what a candidate is"
    assert all(len(item.check) == DIGEST_CHARS for item in known)
    assert {item.created_at for item in known}.isdisjoint({item.created_at for item in real})
    with store.read() as tx:
        due = tx.reviews.due(99)
    assert {(review, check) for _, review, check in due} == {(item.id, None) for item in known}
    with store.begin() as tx:
        for item in known:
            tx.reviews.close_gold(PROJECT, item.id)
    assert all(read(store, item.id).gold for item in known)
    with store.read() as tx:
        judged = tx.reviews.judged(PROJECT, "q", 99)
    assert {one.review for one in judged} == {item.id for item in known}
    assert all(one.expected is not None for one in judged)


def test_files_meet_gold_items_as_what_they_imitate(store: SqlStore) -> None:
    prepare(store)
    declare(store, gold_share=0.5)
    gold(store)
    for n in range(12):
        wanted(store, str(n))
    found = [item for item in iter(lambda: take(store, "ann"), None) if is_gold(item)]
    [item] = found
    with store.read() as tx:
        [one] = tx.lab_results.gold_items(PROJECT, [item.id, "nobody"])
        assert (one.review, one.queue, one.state, one.approvals) == (item.id, "q", "open", 1)
        assert (one.gold, one.claimed, one.canonical, one.key) == (True, True, "known g", item.check)
        assert tx.lab_results.gold_showing(PROJECT, ["known g"]) == [one]
        assert tx.lab_results.gold_showing(PROJECT, ["CCO"]) == []
        assert tx.lab_results.gold_items("another project", [item.id]) == []
        assert tx.lab_results.by_review(PROJECT, [item.id]) == []
    end_claims(store)
    with store.begin() as tx:
        assert tx.reviews.close_free(PROJECT, [item.id], by="bob", details={item.id: {"import": "i"}}) == 1
        tx.reviews.note_amended(PROJECT, [item.id], by="bob", details={item.id: {"import": "j"}})
    with store.read() as tx:
        assert tx.lab_results.gold_showing(PROJECT, ["known g"]) == []
        told = tx.trail.page(PROJECT, after=0, limit=99, actor="bob")
    assert [(act.kind, act.review, act.detail) for act in told] == [
        (Act.ANSWERED, item.id, {"import": "i"}),
        (Act.AMENDED, item.id, {"import": "j"}),
    ]
    assert read(store, item.id).state is ReviewState.EFFECTIVE


def test_nobody_gets_a_gold_item_twice_nor_anothers(store: SqlStore) -> None:
    prepare(store)
    declare(store, gold_share=0.5)
    gold(store)
    for n in range(40):
        wanted(store, str(n))
    mine, theirs = work(store, "ann", 12), work(store, "bob", 12)
    assert [sum(map(is_gold, found)) for found in (mine, theirs)] == [1, 1]
    [one] = [item for item in mine if is_gold(item)]
    with pytest.raises(Conflict):
        take(store, "bob", one.id)
    with store.begin() as tx:
        assert queues.retire_gold(tx, PROJECT, "g", "lead").retired_at is not None
    assert not any(map(is_gold, work(store, "cid", 12)))


def test_a_gold_item_that_was_let_go_comes_back(store: SqlStore) -> None:
    prepare(store)
    declare(store, gold_share=0.5)
    gold(store)
    for n in range(20):
        wanted(store, str(n))
    item = take(store, "ann")
    while item is not None and not is_gold(item):
        vote(store, item.id, "ann")
        item = take(store, "ann")
    assert item is not None
    end_claims(store)
    again = take(store, "ann")
    assert again is not None
    assert again.id == item.id


def test_no_gold_item_without_another(store: SqlStore) -> None:
    prepare(store)
    declare(store, gold_share=0.5)
    gold(store)
    assert all(take(store, "ann") is None for _ in range(20))


def test_what_is_known_fits_the_form(store: SqlStore) -> None:
    prepare(store)
    declare(store, form={"scores": [{"name": "quality", "low": 1, "high": 5}], "comment": "required"})
    assert gold(store, scores={"quality": 4}) == "g"
    with pytest.raises(InvalidInput) as raised:
        gold(store, "h", scores={"quality": 6})
    assert (raised.value.code, raised.value.field) == ("score_out_of_range", "expected.scores.quality")
    with pytest.raises(Conflict):
        gold(store, "g", verdict="reject", scores={"quality": 4})
    with store.read() as tx, pytest.raises(NotFound):
        tx.gold.get(PROJECT, "none")


def test_the_trail_tells_everything_in_order(store: SqlStore) -> None:
    prepare(store)
    review = wanted(store, "1")
    vote(store, review, "ann", "reject", comment="=1+1")
    assert acts(store, review=review) == [("made", "service"), ("claimed", "ann"), ("voted", "ann")]
    with store.begin() as tx:
        tx.reviews.through("vk_1")
        tx.trail.note(PROJECT, Act.GOLD, "@lead", queue="q", detail={"n": 1})
        page = desk_quality.trail(tx, PROJECT, limit=2)
        rest = desk_quality.trail(tx, PROJECT, after=page.cursor)
    assert (len(page.events), page.more, rest.more) == (2, True, False)
    assert [one.seq for one in (*page.events, *rest.events)] == sorted(
        one.seq for one in (*page.events, *rest.events)
    )
    assert rest.events[-1].key == "vk_1"
    [said] = [one for one in rest.events if one.kind is Act.VOTED]
    assert said.detail == {"verdict": "reject", "reason": "unstable", "comment": "=1+1"}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_the_trail_as_csv_runs_nothing(store: SqlStore, start: str) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.trail.note(PROJECT, Act.GOLD, f"{start}cmd|' /C calc'!A0", queue="q", detail={"a": 'é\n,"'})
        page = desk_quality.trail(tx, PROJECT)
    [header, row] = list(csv.reader(io.StringIO(desk_quality.trail_csv(page), newline="")))
    cells = dict(zip(header, row, strict=True))
    assert cells["actor"] == f"'{start}cmd|' /C calc'!A0"
    assert cells["detail"].startswith('{"a"')
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_a_purge_leaves_of_the_trail_who_did_what(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    review = wanted(store, "1")
    vote(store, review, "ann", "reject")
    before = acts(store)
    alter(store, "UPDATE runs SET state = 'closed' WHERE id = 'r'")
    with store.begin() as tx:
        begin_purge(tx, PROJECT, RUN)
    for _ in range(20):
        with store.begin() as tx:
            purge_step(tx, PROJECT, RUN)
    with store.read() as tx:
        assert tx.runs.get(PROJECT, RUN).state is RunState.PURGED
        with pytest.raises(NotFound):
            tx.reviews.get(PROJECT, review)
        told = tx.trail.page(PROJECT, after=0, limit=99)
    assert [(one.kind.value, one.actor) for one in told][: len(before)] == before
    assert all(one.detail == {} for one in told)
