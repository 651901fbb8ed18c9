"""Retractions in the store: what is found, marked and served no more, nor to those who come just then."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.samples import (
    LADDER,
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    case_of,
    check,
    claim,
    complete,
    demand,
    demanded,
    ensure,
    evidence,
    other_transaction,
    prepare,
    success,
    trajectory,
)
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.domain.errors import Conflict, Contended, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import LadderKey
from verifier_service.domain.retractions import (
    KEPT,
    RETRACTED,
    Mode,
    NewRetraction,
    RetractionState,
    Sought,
    Task,
)
from verifier_service.domain.runs import Key, RunState
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence.store import SqlStore

BY = Key(
    id="k", project=PROJECT, name="ann", scopes=frozenset(), created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
FOREVER = 1e12


def sought(**changes: Any) -> Sought:
    values: dict[str, Any] = {
        "project": PROJECT,
        "keys": None,
        "verifier": "a.b",
        "builds": None,
        "params": None,
        "since": None,
        "until": FOREVER,
    }
    return Sought(**(values | changes))


def begin(store: SqlStore, mode: Mode = Mode.RETRACT, **changes: Any) -> Task:
    aim = sought(**changes)
    named = {"checks": aim.keys} if aim.keys is not None else {"verifier": aim.verifier}
    flags = {"reverify": mode is not Mode.RETRACT, "keep": mode is Mode.REPLACE}
    wanted = NewRetraction(reason="wrong", **named, **flags)  # type: ignore[arg-type]
    with store.begin() as tx:
        tx.retractions.add(aim, wanted, "one", BY)
        return tx.retractions.lock(PROJECT, "one")


def mark(store: SqlStore, task: Task, limit: int = 100) -> int:
    """Mark everything; how many checks."""
    count, place = 0, 0
    while True:
        with store.begin() as tx:
            marked = tx.retractions.mark(task._replace(place=place), limit)
        count += sum(marked.tiers.values())
        if marked.place is None:
            return count
        place = marked.place


def judged(store: SqlStore, *names: str, run: str = RUN, **changes: Any) -> dict[str, int]:
    """A trajectory per name with evidence under the key of that name; the check pks."""
    pks = {name: demanded(store, name, name, run=run, **changes)[1][0] for name in names}
    done = [success(one) for one in claim(store, limit=len(names))]
    complete(store, *done)
    with store.begin() as tx:
        tx.demands.satisfy(pks.values())
    return pks


def resting(store: SqlStore, task: Task, limit: int = 100) -> list[int]:
    with store.read() as tx:
        return tx.retractions.resting(task, limit).trajectories


def test_what_is_marked_is_what_is_sought(store: SqlStore) -> None:
    prepare(store)
    judged(store, "aa", "ab")
    judged(store, "ac", version="2", params={"x": 1})
    judged(store, "ad", verifier="c.d")
    ensure(store, check("queued"))
    for changes, found in (
        ({}, 3),
        ({"builds": ("1",)}, 2),
        ({"builds": ()}, 0),
        ({"builds": ("2", "3")}, 1),
        ({"params": ('{"x":1}',)}, 1),
        ({"until": 1.0}, 0),
        ({"since": FOREVER}, 0),
        ({"project": "theirs"}, 0),
        ({"verifier": "c.d"}, 1),
        ({"verifier": None, "keys": ("aa", "ad", "queued")}, 2),
    ):
        with store.read() as tx:
            extent = tx.retractions.extent(sought(**changes), Mode.RETRACT, None)
        assert (extent.checks, extent.trajectories, extent.runs) == (found, found, int(found > 0)), changes
    with store.read() as tx:
        assert tx.retractions.builds(PROJECT, "a.b") == ["1", "2"]
        assert tx.retractions.params(PROJECT, "a.b") == ['{"x":1}', "{}"]
        assert tx.retractions.unknown(PROJECT, ["aa", "zz", "yy"]) == ["zz", "yy"]
    task = begin(store, builds=("1",))
    assert mark(store, task, limit=1) == 2
    assert mark(store, task) == 0
    with store.read() as tx:
        assert tx.retractions.extent(sought(), Mode.RETRACT, None).checks == 1
        assert tx.retractions.counted(task).trajectories == 2


def test_named_checks_are_marked_page_by_page(store: SqlStore) -> None:
    prepare(store)
    judged(store, "aa", "ab", "ac", "ad")
    task = begin(store, verifier=None, keys=("ad", "aa", "ac"))
    assert mark(store, task, limit=2) == 3
    with store.read() as tx:
        found = tx.checks.found(PROJECT, ["aa", "ab", "ac", "ad"])
    assert {key for key, view in found.items() if view is not None} == {"ab"}


@pytest.mark.parametrize(("began", "ended", "found"), [(5.0, 15.0, 1), (25.0, 30.0, 0), (1.0, 9.0, 0)])
def test_a_range_is_of_attempts_that_were_under_way_in_it(
    store: SqlStore, began: float, ended: float, found: int
) -> None:
    prepare(store)
    judged(store, "aa")
    alter(store, "UPDATE checks SET started_at = :began, ended_at = :ended", began=began, ended=ended)
    with store.read() as tx:
        extent = tx.retractions.extent(sought(since=10.0, until=20.0), Mode.RETRACT, None)
        late = tx.retractions.extent(sought(since=10.0, until=12.0), Mode.RETRACT, None)
    assert (extent.checks, late.checks) == (found, found)
    alter(store, "UPDATE checks SET external = true")
    with store.read() as tx:
        people = tx.retractions.extent(sought(since=10.0, until=12.0), Mode.RETRACT, None)
    assert people.checks == 0, "of what people decided, the decision counts"


def test_it_is_not_served_and_a_new_replicate_is_made(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    old = judged(store, "aa")["aa"]
    assert ensure(store, check("aa"), run=OTHER_RUN)[0].pk == old
    mark(store, begin(store))
    [new] = ensure(store, check("aa"), run=OTHER_RUN)
    assert (new.created, new.state) == (True, CheckState.QUEUED)
    assert ensure(store, check("aa"))[0].pk == new.pk
    with store.read() as tx:
        assert tx.checks.found(PROJECT, ["aa"]) == {"aa": None}
    [one] = claim(store)
    assert one.replicate == 1
    complete(store, success(one))
    assert ensure(store, check("aa"))[0].pk == new.pk


def test_the_case_tells_who_took_it_back(store: SqlStore) -> None:
    prepare(store)
    pk, [check_pk] = demanded(store, "t", "aa")
    complete(store, *(success(one) for one in claim(store)))
    with store.begin() as tx:
        tx.demands.satisfy([check_pk])
    task = begin(store)
    assert case_of(store, pk).demands[0].check.retracted is None  # type: ignore[union-attr]
    mark(store, task)
    found = case_of(store, pk)
    [view] = found.demands
    assert view.check is not None
    assert view.check.retracted is not None
    assert (view.check.retracted.id, view.check.retracted.by.name, view.check.retracted.reason) == (
        "one",
        "ann",
        "wrong",
    )
    assert found.evidence(view) is not None, "until its trajectory's turn"
    with store.begin() as tx:
        tx.demands.take_back([view.pk], reason=RETRACTED)
    after = case_of(store, pk)
    assert after.evidence(after.demands[0]) is None
    assert after.demands[0].check is not None
    assert after.demands[0].check.evidence == evidence("aa")


def test_trajectories_come_page_by_page_until_none_rests_on_it(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first = judged(store, "aa", "ab")
    for n in range(3):
        with store.begin() as tx:
            pk = tx.trajectories.insert(PROJECT, OTHER_RUN, [trajectory(f"u{n}")])[f"u{n}"]
            tx.demands.insert([demand(pk, first["aa"])])
    task = begin(store)
    mark(store, task)
    seen: list[int] = []
    place = 0
    while True:
        with store.begin() as tx:
            page = tx.retractions.resting(task._replace(place=place), 2)
            if not page.trajectories:
                break
            taken = tx.retractions.taken(task, page.trajectories)
            assert {one.trajectory for one in taken} == set(page.trajectories)
            tx.demands.take_back([one.demand for one in taken], reason=RETRACTED)
            seen += page.trajectories
            place = page.place
    assert len(seen) == len(set(seen)) == 5


def test_what_is_kept_is_found_when_it_is_retracted_after_all(store: SqlStore) -> None:
    prepare(store)
    judged(store, "aa", "ab")
    task = begin(store)
    mark(store, task)
    pages = resting(store, task)
    with store.begin() as tx:
        [first, second] = tx.retractions.taken(task, pages)
        tx.demands.take_back([first.demand], reason=KEPT)
        tx.demands.take_back([second.demand], reason=RETRACTED)
    assert resting(store, task) == [first.trajectory]
    with store.read() as tx:
        assert [one.demand for one in tx.retractions.taken(task, pages)] == [first.demand]
        assert tx.retractions.counted(task).trajectories == 1


def test_runs_that_are_purged_or_closed(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    judged(store, "aa")
    judged(store, "ab", run=OTHER_RUN)
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)
    with store.read() as tx:
        assert tx.retractions.extent(sought(), Mode.RETRACT, None).trajectories == 2
        assert tx.retractions.extent(sought(), Mode.REPLACE, None).trajectories == 1
    with store.begin() as tx:
        tx.retention.begin(PROJECT, RUN)
    with store.read() as tx:
        assert tx.retractions.extent(sought(), Mode.RETRACT, None).trajectories == 1


def test_what_runs_and_what_waits_in_another_build_is_live(store: SqlStore) -> None:
    prepare(store)
    _, [running] = demanded(store, "t", "aa")
    claim(store)
    _, [old, later] = demanded(store, "u", "ab", "ac")
    _, [today] = demanded(store, "v", "ad", version="2")
    _, [people] = demanded(store, "w", "ae", external=True, tier=Tier.LAB)
    [one] = claim(store, tier=Tier.LAB)
    alter(store, "UPDATE checks SET not_before = :soon WHERE key = 'ac'", soon=FOREVER)
    with store.begin() as tx:
        assert tx.checks.wait_external("w", people, one.fence)
    with store.read() as tx:
        assert tx.retractions.live(sought(), "2", 10) == [running, old, later]
        assert tx.retractions.live(sought(), "2", 2) == [running, old]
        assert tx.retractions.live(sought(), "1", 10) == [running, today]
        assert tx.retractions.live(sought(builds=("1",)), "1", 10) == [running]
        assert tx.retractions.live(sought(), None, 10) == [running]
        assert tx.retractions.live(sought(until=1.0), "2", 10) == []
        assert tx.retractions.live(sought(verifier=None, keys=("aa", "ab")), None, 10) == [running]


def test_a_retraction_is_stored_once_and_read_back(store: SqlStore) -> None:
    prepare(store)
    wanted = NewRetraction(reason="wrong \x00", verifier="a.b", version="1", params={"x": 1})
    other = NewRetraction(reason="other", verifier="a.b")
    with store.begin() as tx:
        made, created = tx.retractions.add(sought(since=5.0), wanted, "one", BY)
        assert created
        assert (made.reason, made.state) == ("wrong \ufffd", RetractionState.MARKING)
        assert (made.selection.params, made.selection.version) == ({"x": 1}, "1")
        assert tx.retractions.add(sought(), wanted, "one", BY) == (made, False)
        with pytest.raises(Conflict):
            tx.retractions.add(sought(), other, "one", BY)
        tx.retractions.add(sought(), other, "two", BY)
        assert [one.id for one in tx.retractions.listed(PROJECT, 10)] == ["two", "one"]
        assert tx.retractions.open(10) == [(PROJECT, "one"), (PROJECT, "two")]
        assert tx.retractions.open(1) == [(PROJECT, "one")]
        task = tx.retractions.lock(PROJECT, "one")
        assert (task.sought.since, task.sought.until) == (5.0, FOREVER)
        tx.retractions.move(task, place=7, checks=2, stopped=1)
        tx.retractions.move(task, place=9, checks=1, done=4, records=3)
        assert tx.retractions.lock(PROJECT, "one").place == 9
        tx.retractions.finish(task)
        with pytest.raises(NotFound):
            tx.retractions.get("theirs", "one")
    with store.read() as tx:
        found = tx.retractions.get(PROJECT, "one")
        assert (found.checks, found.stopped, found.done, found.records) == (3, 1, 4, 3)
        assert found.state is RetractionState.DONE
        assert found.finished_at is not None
        assert tx.retractions.open(10) == [(PROJECT, "two")]


def test_ladders_that_lost_evidence_are_named(store: SqlStore) -> None:
    prepare(store)
    demanded(store, "t", "aa", tier=Tier.SIMULATION)
    complete(store, *(success(one) for one in claim(store, tier=Tier.SIMULATION)))
    judged(store, "ab")
    task = begin(store)
    mark(store, task)
    with store.begin() as tx:
        assert tx.retractions.untaught(0.0) == {}
        tx.retractions.finish(task)
        assert tx.retractions.untaught(0.0) == {LadderKey(PROJECT, LADDER, 1): 1}
        assert tx.retractions.untaught(FOREVER) == {}


def postgres_only(databases: PostgresServer | SqliteFiles) -> bool:
    """On SQLite nobody writes beside another: there is no such moment."""
    return isinstance(databases, PostgresServer)


def test_who_found_it_just_before_is_told(store: SqlStore, databases: PostgresServer | SqliteFiles) -> None:
    prepare(store)
    old = judged(store, "aa")["aa"]
    task = begin(store)
    if not postgres_only(databases):
        return
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, RUN, [trajectory("late")])["late"]
        [ref] = tx.checks.ensure(PROJECT, RUN, [check("aa")])
        assert ref.pk == old
        with other_transaction(store) as step:
            step(lambda other: other.retractions.mark(task, 10))
        with pytest.raises(Contended, match="retracted"):
            tx.demands.insert([demand(pk, ref.pk)])
    with store.begin() as tx:
        pk = tx.trajectories.find(PROJECT, RUN, ["late"])["late"].pk
        tx.demands.insert([demand(pk, None, path="fast/1")])
        held = tx.trajectories.cases([pk])[0].demands[-1]
        with pytest.raises(Contended, match="retracted"):
            tx.demands.request(held.pk, old, reason="now", quote=0.0)


def test_who_cites_it_at_the_same_time_is_found(
    store: SqlStore, databases: PostgresServer | SqliteFiles
) -> None:
    prepare(store)
    old = judged(store, "aa")["aa"]
    task = begin(store)
    if not postgres_only(databases):
        return
    marked = threading.Event()

    def mark_now() -> None:
        with store.begin() as other:
            other.retractions.mark(task, 10)
        marked.set()

    thread = threading.Thread(target=mark_now)
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, RUN, [trajectory("late")])["late"]
        tx.demands.insert([demand(pk, old)])
        thread.start()
        time.sleep(0.3)
        assert not marked.is_set(), "it waits for whoever cites the evidence"
    thread.join(10)
    assert pk in resting(store, task)
    assert case_of(store, pk).demands[0].state is DemandState.SATISFIED
