"""The trail backwards, and the latest decision without the rest of the desk."""

from __future__ import annotations

from tests.contract.samples import PROJECT, alter, prepare
from tests.support.desk import vote, wanted
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk_pages
from verifier_service.services.desk_quality import trail, trail_back

LATEST = 2**62


def test_backwards_is_the_trail_in_reverse_page_by_page(store: SqlStore) -> None:
    prepare(store)
    for at in range(3):
        vote(store, wanted(store, str(at)), "ann")
    with store.read() as tx:
        forward = [one.seq for one in trail(tx, PROJECT).events]
        found: list[int] = []
        before = LATEST
        while True:
            page = trail_back(tx, PROJECT, before=before, limit=2)
            found += [one.seq for one in page.events]
            before = page.cursor
            if not page.more:
                break
        of_ann = trail_back(tx, PROJECT, before=LATEST, limit=100, actor="ann").events
        of_nobody = trail_back(tx, PROJECT, before=LATEST, limit=100, actor="eve").events
    assert found == forward[::-1]
    assert {one.actor for one in of_ann} == {"ann"}
    assert of_nobody == ()


def test_the_latest_decision_is_told_while_it_can_be_undone(store: SqlStore) -> None:
    prepare(store)
    first, second = wanted(store, "1"), wanted(store, "2")
    with store.read() as tx:
        assert desk_pages.latest(tx, PROJECT, "ann") is None
    vote(store, first, "ann", grace_s=60.0)
    vote(store, second, "ann", "reject", grace_s=60.0)
    with store.read() as tx:
        found = desk_pages.latest(tx, PROJECT, "ann")
        assert desk_pages.latest(tx, PROJECT, "bob") is None
    assert found is not None
    assert (found[0].id, found[1].verdict) == (second, "reject")
    alter(store, "UPDATE votes SET effective_at = 1.0")
    with store.read() as tx:
        assert desk_pages.latest(tx, PROJECT, "ann") is None
