"""What pages of the desk show, on every database: lists by key, counts within bounds, one's own items."""

from __future__ import annotations

import pytest

from tests.contract.samples import OTHER_RUN, PROJECT, RUN, alter, check, demand, prepare, trajectory
from tests.support.desk import end_claims, take, vote, wanted
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.desk_views import Placed, QueueLoad
from verifier_service.domain.states import DemandState
from verifier_service.persistence import desk_views
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk_pages

STATES = ("open", "claimed", "disputed", "decided", "effective", "expired", "cancelled")


def loads(store: SqlStore, reviewer: str) -> dict[str, QueueLoad]:
    with store.read() as tx:
        return {load.queue: load for load in tx.desk_views.loads(PROJECT, reviewer)}


def walked(store: SqlStore, limit: int, queue: str | None = None, state: str | None = None) -> list[str]:
    """All pages of a list, read in turn; ids in their order."""
    found: list[Placed] = []
    for _ in range(100):
        with store.read() as tx:
            after = found[-1].place if found else 0
            page, more = desk_pages.page(tx, PROJECT, queue=queue, state=state, after=after, limit=limit)
        assert len(page) <= limit
        found += page
        if not more:
            assert [one.place for one in found] == sorted({one.place for one in found})
            return [one.review.id for one in found]
    raise AssertionError("the list has no end")


def desk_of_all_states(store: SqlStore) -> dict[str, list[str]]:
    """Items by the state that they read as: two of each, one in each of two queues, made in turn."""
    made: dict[str, list[str]] = {state: [] for state in STATES}
    for queue in ("q", "q2"):
        for state in STATES:
            item = wanted(store, f"{queue}-{state}", queue=queue, approvals=2 if state == "disputed" else 1)
            made[state].append(item)
    for item in made["claimed"]:
        take(store, "ann", item)
    for item in made["disputed"]:
        vote(store, item, "ann")
        vote(store, item, "bob", "reject")
    for item in made["decided"]:
        vote(store, item, "ann", grace_s=3_600.0)
    for state in ("effective", "expired", "cancelled"):
        for item in made[state]:
            alter(store, f"UPDATE reviews SET state = '{state}' WHERE id = '{item}'")
    return made


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_every_item_is_listed_once_and_in_its_state(store: SqlStore, limit: int) -> None:
    prepare(store)
    made = desk_of_all_states(store)
    with store.read() as tx:
        every = [one.id for one in tx.reviews.listed(PROJECT, queue=None, state=None, limit=99)]
    assert walked(store, limit) == every
    assert sorted(every) == sorted(item for items in made.values() for item in items)
    made["open"] = [item for item in every if item in {*made["open"], *made["disputed"]}]
    for state, items in made.items():
        assert walked(store, limit, state=state) == items, state
        for queue in ("q", "q2", "nowhere"):
            mine = [item for item in items if item in walked(store, 99, queue=queue)]
            assert walked(store, limit, queue, state) == mine, (state, queue)
    assert len(walked(store, limit, "q")) == len(STATES)


def test_another_project_sees_nothing(store: SqlStore) -> None:
    prepare(store)
    item = wanted(store, "1")
    with store.read() as tx:
        views = tx.desk_views
        assert views.queues("elsewhere") == []
        assert views.loads("elsewhere", "ann") == []
        assert views.page("elsewhere", queue=None, state=None, after=0, limit=9) == []
        with pytest.raises(NotFound):
            views.behind("elsewhere", item, 9)
        assert views.queues(PROJECT) == ["q"]


def test_the_api_lists_as_the_pages_do(store: SqlStore) -> None:
    prepare(store)
    made = desk_of_all_states(store)
    with store.read() as tx:
        for state in ("claimed", "decided", "effective", "cancelled"):
            listed = tx.reviews.listed(PROJECT, queue=None, state=state, limit=9)
            assert [one.id for one in listed] == made[state]
            assert len(tx.reviews.listed(PROJECT, queue="q", state=state, limit=9)) == 1
        assert len(tx.reviews.listed(PROJECT, queue=None, state=None, limit=5)) == 5


def test_an_expired_claim_reads_as_open(store: SqlStore) -> None:
    prepare(store)
    item = wanted(store, "1")
    take(store, "ann", item)
    assert (walked(store, 9, state="claimed"), walked(store, 9, state="open")) == ([item], [])
    with store.read() as tx:
        assert [one.id for one in tx.desk_views.held(PROJECT, "ann", 9)] == [item]
    end_claims(store)
    assert (walked(store, 9, state="claimed"), walked(store, 9, state="open")) == ([], [item])
    with store.read() as tx:
        assert tx.desk_views.held(PROJECT, "ann", 9) == []


def test_loads_count_what_one_may_be_offered(store: SqlStore) -> None:
    prepare(store)
    first, second, third = (wanted(store, str(n)) for n in range(3))
    other = wanted(store, "3", queue="other")
    with store.begin() as tx:
        tx.reviews.assign(PROJECT, third, "bob", 1.0, by="lead", reason="")
    take(store, "ann", first)
    take(store, "cat", other)
    alter(store, f"UPDATE reviews SET created_at = 50.0 WHERE id = '{third}'")
    alter(store, f"UPDATE reviews SET created_at = 60.0 WHERE id = '{second}'")
    alter(store, "UPDATE reviews SET created_at = 1.0 WHERE claimed_by IS NOT NULL")
    alter(store, f"UPDATE reviews SET lane = 0, escalated_at = 1.0 WHERE id IN ('{first}', '{third}')")
    assert loads(store, "ann") == {"q": QueueLoad("q", 1, 1, 0, 60.0, more=False, fresh=1)}
    assert loads(store, "bob") == {"q": QueueLoad("q", 2, 0, 1, 50.0, more=False, fresh=1)}
    assert loads(store, "cat")["other"] == QueueLoad("other", 0, 1, 0, None, more=False)
    alter(store, "UPDATE reviews SET deadline = 2.0")
    assert loads(store, "bob") == {}


def test_loads_read_a_bounded_part_of_a_queue(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(store)
    monkeypatch.setattr(desk_views, "COUNTED", 3)
    items = [wanted(store, str(n)) for n in range(4)]
    wanted(store, "9", queue="short")
    found = loads(store, "ann")
    assert (found["q"].open, found["q"].more) == (3, True)
    assert (found["short"].open, found["short"].more) == (1, False)
    with store.begin() as tx:
        for item in items[:3]:
            tx.reviews.assign(PROJECT, item, "bob", 1.0, by="lead", reason="")
    assert (loads(store, "ann")["q"].open, loads(store, "ann")["q"].more) == (0, True), "there may be more"


def test_queues_are_those_with_something_open_and_those_declared(store: SqlStore) -> None:
    prepare(store)
    wanted(store, "1", queue="b")
    wanted(store, "2", queue="a")
    ended = wanted(store, "3", queue="c")
    alter(store, f"UPDATE reviews SET state = 'cancelled' WHERE id = '{ended}'")
    with store.read() as tx:
        assert tx.desk_views.queues(PROJECT) == ["a", "b"]
        assert desk_pages.queue_names(tx, PROJECT) == ["a", "b"]


def test_own_items_and_own_decisions(store: SqlStore) -> None:
    prepare(store)
    items = [wanted(store, str(n)) for n in range(4)]
    take(store, "ann", items[0], minutes=50.0)
    take(store, "ann", items[1], minutes=5.0)
    for item in items[2:]:
        vote(store, item, "ann", grace_s=3_600.0)
    latest = f"(SELECT pk FROM reviews WHERE id = '{items[2]}')"
    alter(store, f"UPDATE votes SET decided_at = 9.0 WHERE review <> {latest}")
    with store.read() as tx:
        seen = desk_pages.overview(tx, PROJECT, "ann")
        assert [one.id for one in seen.held] == [items[1], items[0]]
        assert [item.id for item, _ in seen.decided] == [items[2], items[3]]
        assert [item.id for item in tx.desk_views.decided(PROJECT, "ann", 1)] == [items[2]]
        assert seen.last is not None
        assert seen.last[0].id == items[2]
        assert desk_pages.overview(tx, PROJECT, "bob").held == []


def test_what_is_behind_an_item(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    item = wanted(store, "1")
    with store.begin() as tx:
        again = check("1", tier=Tier.LAB, external=True)
        for run, state in ((OTHER_RUN, DemandState.REQUESTED), (RUN, DemandState.WITHDRAWN)):
            pk = tx.trajectories.insert(PROJECT, run, [trajectory(f"of-{state.value}")])[
                f"of-{state.value}"
            ]
            [ref] = tx.checks.ensure(PROJECT, run, [again])
            tx.demands.insert([demand(pk, ref.pk, path="lab/0", role="review", tier=Tier.LAB, state=state)])
    with store.read() as tx:
        behind = tx.desk_views.behind(PROJECT, item, 9)
        assert [(one.run, one.trajectory) for one in behind] == [(RUN, "t-1"), (OTHER_RUN, "of-requested")]
        assert len(tx.desk_views.behind(PROJECT, item, 1)) == 1
        assert tx.desk_views.told(PROJECT, item) == ()
