"""Archive and purge of runs, on both databases: what is exported, what goes, and what others keep."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

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
    money,
    other_transaction,
    prepare,
    record,
    reservation,
    success,
    trajectory,
)
from tests.support.databases import PostgresServer
from verifier_service.domain.archive import COLUMNS
from verifier_service.domain.errors import Conflict, Contended, Gone
from verifier_service.domain.reviews import ReviewDecision
from verifier_service.domain.runs import RunSpec, RunState
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore
from verifier_service.services.archive import Export, Seen
from verifier_service.services.purge import begin_purge, purge_step

EMPTIED = ("trajectories", "bodies", "demands", "checks", "attempts", "reviews", "votes", "rewards")


def furnish(store: SqlStore, count: int = 3) -> list[int]:
    """A closed run: cases that ended with evidence of their own, one of them judged by a person, and
    records; the pks of the cases."""
    prepare(store, RUN, OTHER_RUN)
    pks = []
    for n in range(count):
        pk, _ = demanded(store, f"t{n}", f"k{n}")
        pks.append(pk)
    work = claim(store, limit=count)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(one.pk, 1.0) for one in work])
    complete(store, *(success(one, credits=0.5) for one in work))
    with store.begin() as tx:
        tx.demands.satisfy([one.pk for one in work])
        tx.rewards.append(PROJECT, RUN, [record(f"t{n}") for n in range(count)])
        review = tx.reviews.open(
            PROJECT, work[0].pk, queue="chemists", approvals=1, deadline=None, shown='{"prompt":"p"}'
        )
        said = ReviewDecision(reviewer="ann", verdict="accept")
        tx.reviews.claim(PROJECT, reviewer="ann", queue=None, review=review, minutes=5.0)
        tx.reviews.decide(PROJECT, review, said, grace_s=0.0)
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)
    alter(store, """UPDATE bodies SET body = '{"answer":"CCO","reference":{"gold":"secret 42"}}'""")
    return pks


def counted(store: SqlStore, *tables: str) -> dict[str, int]:
    with store.read() as tx:
        run = tx._database.connection.execute
        return {one: run(text(f"SELECT count(*) FROM {one}")).scalar_one() for one in tables}


def exported(store: SqlStore, *, references: bool = True) -> list[tuple[str, dict[str, Any]]]:
    with store.read() as tx:
        export = Export(tx, PROJECT, RUN, references=references)
    found = []
    while True:
        with store.read() as tx:
            page = export.page(tx)
        if page is None:
            break
        found += [(line.kind, json.loads(line.text)) for line in page]
    assert export.end().rows == Counter(kind for kind, _ in found)
    return found


def purge(store: SqlStore) -> int:
    """Purge to the end; how many steps it took."""
    with store.begin() as tx:
        begin_purge(tx, PROJECT, RUN)
    steps = 0
    done = False
    while not done:
        steps += 1
        with store.begin() as tx:
            done = purge_step(tx, PROJECT, RUN)
    return steps


def state(store: SqlStore, run: str = RUN) -> RunState:
    with store.read() as tx:
        return tx.runs.get(PROJECT, run).state


def test_an_archive_holds_every_row(store: SqlStore) -> None:
    furnish(store)
    lines = exported(store)
    rows = Counter(kind for kind, _ in lines)
    tables = {"trajectory": "trajectories", "vote": "votes"}
    for kind in ("trajectory", "demand", "check", "attempt", "review", "vote", "reward"):
        table = tables.get(kind, f"{kind}s")
        assert rows[kind] == counted(store, table)[table] > 0, kind
    assert rows["run"] == rows["ladder"] + 1 == 1
    assert rows["account"] == 2
    for kind, row in lines:
        assert tuple(row) == tuple(COLUMNS[kind])  # type: ignore[index]
    checks = {row["check"]: row for kind, row in lines if kind == "check"}
    demands = [row for kind, row in lines if kind == "demand"]
    assert {row["check"] for row in demands} == set(checks)
    assert all(row["evidence"]["verdict"] == "accept" and row["payer"] == RUN for row in checks.values())
    assert [row["seq"] for kind, row in lines if kind == "reward"] == [1, 2, 3]


def test_references_are_left_out_where_they_are_not_asked_for(store: SqlStore) -> None:
    furnish(store)
    whole, without = exported(store), exported(store, references=False)
    assert "secret 42" in json.dumps(whole)
    assert "secret 42" not in json.dumps(without)
    bodies = [row["body"] for kind, row in without if kind == "trajectory"]
    assert bodies == [{"answer": "CCO"}] * 3


def test_pages_are_bounded_by_their_text(store: SqlStore) -> None:
    furnish(store, count=5)
    with store.read() as tx:
        read = tx.archives.cases
        size = len('{"answer":"CCO","reference":{"gold":"secret 42"}}[]')
        first = read(PROJECT, RUN, "", 10, references=True, most_bytes=1)
        second = read(PROJECT, RUN, "t0", 10, references=True, most_bytes=size)
        last = read(PROJECT, RUN, "t2", 2, references=True, most_bytes=10 * size)
        none = read(PROJECT, RUN, "t4", 2, references=True, most_bytes=10 * size)
    assert [first.last, second.last, last.last, none.last] == ["t0", "t2", "t4", None]


def test_only_closed_runs_are_archived_and_purged(store: SqlStore) -> None:
    furnish(store)
    with store.begin() as tx:
        with pytest.raises(Conflict, match="close it first"):
            Export(tx, PROJECT, OTHER_RUN, references=True)
        with pytest.raises(Conflict, match="close it before"):
            begin_purge(tx, PROJECT, OTHER_RUN)
        assert purge_step(tx, PROJECT, OTHER_RUN)  # not marked: nothing is removed
    assert state(store, OTHER_RUN) is RunState.OPEN


def test_a_purge_removes_everything_but_the_row_and_the_ledger(store: SqlStore) -> None:
    furnish(store)
    with store.begin() as tx:
        tx.runs.pin(PROJECT, RUN, LADDER, 1)
    assert money(store) == (0.0, 1.5)
    purge(store)
    assert set(counted(store, *EMPTIED).values()) == {0}
    assert state(store) is RunState.PURGED
    assert money(store) == (0.0, 1.5)
    with store.begin() as tx:
        report = tx.runs.report(PROJECT, RUN)
        assert report.trajectories == 0
        assert report.run.purged_at is not None
        assert report.run.ladder_versions == {LADDER: 1}
        assert report.run.feed == 3
        assert tx.retention.purging() == ()
        assert tx.runs.ensure(PROJECT, RUN, RunSpec(), seed=1).state is RunState.PURGED
        with pytest.raises(Gone, match="its id stays taken"):
            tx.runs.put(PROJECT, RUN, RunSpec(), 1)
        with pytest.raises(Gone):
            tx.rewards.head(PROJECT, RUN)
        with pytest.raises(Gone):
            Export(tx, PROJECT, RUN, references=True)
        assert tx.runs.marks([(PROJECT, RUN), (PROJECT, OTHER_RUN)]).keys() == {(PROJECT, OTHER_RUN)}


def test_an_archive_ends_when_a_purge_begins(store: SqlStore) -> None:
    furnish(store)
    with store.read() as tx:
        export = Export(tx, PROJECT, RUN, references=True)
        assert export.page(tx)
    with store.begin() as tx:
        begin_purge(tx, PROJECT, RUN)
    with store.read() as tx, pytest.raises(Gone):
        export.page(tx)


@pytest.mark.parametrize("held", [False, True])
def test_evidence_that_another_run_cites_stays(store: SqlStore, held: bool) -> None:
    furnish(store)
    other, [shared] = demanded(store, "o", "k1", run=OTHER_RUN)
    if not held:
        with store.begin() as tx:
            tx.demands.satisfy([shared])
    before = case_of(store, other)
    purge(store)
    assert case_of(store, other) == before
    assert before.demands[0].check is not None
    assert before.demands[0].check.evidence is not None
    assert before.demands[0].check.payer == RUN
    assert counted(store, "checks", "attempts", "demands", "trajectories") == {
        "checks": 1,
        "attempts": 1,
        "demands": 1,
        "trajectories": 1,
    }
    with store.begin() as tx:
        [ref] = tx.checks.ensure(PROJECT, OTHER_RUN, [check("k1")])
    assert (ref.pk, ref.state) == (shared, CheckState.SUCCEEDED)


def test_withdrawn_demands_of_others_keep_a_check_too(store: SqlStore) -> None:
    furnish(store)
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, OTHER_RUN, [trajectory("o")])["o"]
        [ref] = tx.checks.ensure(PROJECT, OTHER_RUN, [check("k2")])
        tx.demands.insert([demand(pk, ref.pk, state=DemandState.WITHDRAWN)])
    purge(store)
    assert counted(store, "checks", "demands") == {"checks": 1, "demands": 1}


def test_a_check_that_still_lives_for_another_run_goes_on(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    demanded(store, "a", "k")
    demanded(store, "b", "alone")
    other, [shared] = demanded(store, "o", "k", run=OTHER_RUN)
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)
    purge(store)
    assert counted(store, "checks") == {"checks": 1}
    [work] = claim(store)
    assert work.pk == shared
    complete(store, success(work))
    view = case_of(store, other).demands[0].check
    assert view is not None
    assert view.evidence is not None


def die_in_a_step(store: SqlStore) -> None:
    """As when the process ends before the commit."""
    with store.begin() as tx:
        purge_step(tx, PROJECT, RUN)
        raise RuntimeError("dead")


def test_a_purge_goes_on_where_it_stopped(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(store, count=7)
    monkeypatch.setattr("verifier_service.services.purge.CASES_PER_STEP", 2)
    monkeypatch.setattr("verifier_service.services.purge.ROWS_PER_STEP", 3)
    with store.begin() as tx:
        begin_purge(tx, PROJECT, RUN)
    for _ in range(5):
        with store.begin() as tx:
            assert not purge_step(tx, PROJECT, RUN)
        with pytest.raises(RuntimeError):
            die_in_a_step(store)
    with store.begin() as tx:
        assert tx.retention.purging() == ((PROJECT, RUN),)
        begin_purge(tx, PROJECT, RUN)
    assert purge(store) == 3
    assert set(counted(store, *EMPTIED).values()) == {0}


@pytest.fixture
def on_postgres(postgres: PostgresServer) -> Iterator[SqlStore]:
    """SQLite has one writer at a time: nothing can come between there."""
    opened = create_store(postgres.migrated())
    yield opened
    opened.close()


def cite(tx: Any) -> None:
    """Another run finds evidence that is stored, and cites it."""
    [ref] = tx.checks.ensure(PROJECT, OTHER_RUN, [check("k0")])
    pk = tx.trajectories.insert(PROJECT, OTHER_RUN, [trajectory("o")])["o"]
    tx.demands.insert([demand(pk, ref.pk, state=DemandState.SATISFIED)])


def test_a_check_that_is_being_cited_is_kept(on_postgres: SqlStore) -> None:
    store = on_postgres
    furnish(store, count=1)
    with store.begin() as tx:
        begin_purge(tx, PROJECT, RUN)
        tx.retention.drop_rewards(PROJECT, RUN, 10)
    citing = threading.Event()

    def step() -> None:
        citing.wait()
        with store.begin() as tx:
            purge_step(tx, PROJECT, RUN)

    purging = threading.Thread(target=step)
    purging.start()
    with store.begin() as tx:
        cite(tx)
        citing.set()
        time.sleep(0.3)
        assert purging.is_alive()
    purging.join(10)
    assert counted(store, "checks", "demands") == {"checks": 1, "demands": 1}


def test_who_cites_a_check_that_is_being_removed_has_it_made_anew(on_postgres: SqlStore) -> None:
    store = on_postgres
    furnish(store, count=1)
    failed: list[type[Exception]] = []

    def citing() -> None:
        try:
            with store.begin() as tx:
                cite(tx)
        except Contended as error:
            failed.append(type(error))

    other = threading.Thread(target=citing)
    with other_transaction(store) as purger:
        purger(lambda tx: tx.retention.drop_cases(PROJECT, RUN, 10))
        other.start()
        time.sleep(0.3)
        assert other.is_alive()  # it found the check by its key, and waits to cite it
    other.join(10)
    assert failed == [Contended]
    citing()
    assert failed == [Contended]
    assert counted(store, "checks", "demands") == {"checks": 1, "demands": 1}


def test_the_file_shrinks(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    if store._postgres:
        with store.begin() as tx:
            assert not tx.retention.give_back(100)
        return
    furnish(store)
    alter(store, "UPDATE bodies SET turns = :big", big="x" * 2_000_000)
    big = pages(store)
    monkeypatch.setattr("verifier_service.services.purge.PAGES_PER_STEP", 20)
    assert 10 < purge(store) < big / 20 + 10
    assert pages(store) < big / 8


def pages(store: SqlStore) -> int:
    with store.begin() as tx:
        return int(tx._database.connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def test_keys_that_were_seen_are_seen_once() -> None:
    seen = Seen()
    assert seen.add([5, 3, 3, 70_000_000]) == [3, 5, 70_000_000]
    assert seen.add([3, 4, 70_000_000, 32_767, 32_768]) == [4, 32_767, 32_768]
