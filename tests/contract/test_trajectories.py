"""Trajectories and cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection, event

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    case_of,
    claim,
    complete,
    demand,
    demanded,
    prepare,
    success,
    together,
    trajectory,
)
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.runs import Decided, StandingUpdate
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.persistence.store import SqlStore


def insert(store: SqlStore, *names: str, run: str = RUN, **changes: object) -> dict[str, int]:
    with store.begin() as tx:
        return tx.trajectories.insert(PROJECT, run, [trajectory(name, **changes) for name in names])


def settled(pk: int, status: RewardStatus | None, reward: float | None = None) -> StandingUpdate:
    return StandingUpdate(pk=pk, status=status, reward=reward, revision=1, seq=None, fingerprint="f", met=2)


def test_insert_returns_only_new_ids(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    first = insert(store, "a", "b")
    second = insert(store, "b", "c", content="other")
    elsewhere = insert(store, "b", run=OTHER_RUN)
    assert (first.keys(), second.keys(), elsewhere.keys()) == ({"a", "b"}, {"c"}, {"b"})
    with store.read() as tx:
        found = tx.trajectories.find(PROJECT, RUN, ["a", "b", "c", "unknown"])
        assert tx.trajectories.bodies([second["c"]])[second["c"]].answer == "CCO"
    assert {name: one.pk for name, one in found.items()} == first | second
    assert found["b"].content == "content of b"


def test_a_standing_shows_what_was_stored(store: SqlStore) -> None:
    prepare(store)
    pk = insert(store, "t", group="g", group_size=4, policy_version="v1", n_turns=3, finished=False)["t"]
    with store.read() as tx:
        one = tx.trajectories.standings([pk, 10_000])[pk]
    assert (one.project, one.run, one.id, one.multiplicity) == (PROJECT, RUN, "t", 1)
    assert (one.group, one.group_size, one.policy_version, one.n_turns) == ("g", 4, "v1", 3)
    assert (one.finished, one.cancelled, one.identified, one.needs_decision) == (False,) * 4
    assert (one.status, one.reward, one.revision, one.seq, one.decided_on, one.decision) == (
        None,
        None,
        0,
        None,
        -1,
        None,
    )


def test_an_unknown_run_takes_nothing(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx, pytest.raises(NotFound):
        tx.trajectories.insert(PROJECT, "unknown", [trajectory("t")])


def test_one_id_is_stored_once_whoever_comes_together(store: SqlStore) -> None:
    """Each loser must see the winner's row in its own transaction."""
    prepare(store)

    def work(index: int) -> tuple[bool, str]:
        with store.begin() as tx:
            mine = tx.trajectories.insert(PROJECT, RUN, [trajectory("t", content=f"content {index}")])
            return "t" in mine, tx.trajectories.find(PROJECT, RUN, ["t"])["t"].content

    results = together(20, work)
    winner = [index for index, (mine, _) in enumerate(results) if mine]
    assert len(winner) == 1
    assert {content for _, content in results} == {f"content {winner[0]}"}


def test_overlapping_batches_in_any_order_do_not_deadlock(store: SqlStore) -> None:
    prepare(store)
    names = [f"t{index}" for index in range(40)]

    def work(index: int) -> int:
        mine = names if index % 2 else names[::-1]
        with store.begin() as tx:
            return len(tx.trajectories.insert(PROJECT, RUN, [trajectory(name) for name in mine]))

    assert sum(together(8, work)) == len(names)


def test_repeats_raise_the_multiplicity(store: SqlStore) -> None:
    prepare(store)
    pks = insert(store, "a", "b")
    with store.begin() as tx:
        tx.trajectories.count_again({pks["a"]: 2})
        tx.trajectories.count_again({pks["a"]: 1, pks["b"]: 1})
        counts = {pk: one.multiplicity for pk, one in tx.trajectories.standings(pks.values()).items()}
    assert counts == {pks["a"]: 4, pks["b"]: 2}


def test_an_unfinished_trajectory_grows_until_it_is_finished(store: SqlStore) -> None:
    prepare(store)
    pk = insert(store, "t", finished=False, n_turns=1)["t"]
    with store.begin() as tx:
        tx.trajectories.identify({pk: ("digest", "CCO")})
        longer = trajectory("t", n_turns=2, turns_digest="longer", subject="new", body='{"answer":"N"}')
        tx.trajectories.grow(pk, longer)
        one = tx.trajectories.standings([pk])[pk]
        assert (one.n_turns, one.turns_digest, one.subject, one.finished) == (2, "longer", "new", True)
        assert (one.identified, one.canonical) == (False, None)
        assert tx.trajectories.bodies([pk])[pk].answer == "N"
        with pytest.raises(Conflict):
            tx.trajectories.grow(pk, longer)


def test_identify_sets_the_subject(store: SqlStore) -> None:
    prepare(store)
    pks = insert(store, "a", "b", "c")
    with store.begin() as tx:
        tx.trajectories.identify({pks["a"]: ("digest", "CCO"), pks["b"]: ("raw b", None)})
        found = tx.trajectories.find(PROJECT, RUN, pks)
    assert [(one.subject, one.canonical, one.identified) for _, one in sorted(found.items())] == [
        ("digest", "CCO", True),
        ("raw b", None, True),
        ("raw c", None, False),
    ]


def test_marks_decisions_and_cancellation(store: SqlStore) -> None:
    prepare(store)
    pks = list(insert(store, "a", "b", "c").values())
    with store.begin() as tx:
        tx.trajectories.set_needs_decision(reversed(pks), True)
        assert tx.trajectories.undecided(PROJECT, RUN, 10) == pks
        assert tx.trajectories.undecided(PROJECT, RUN, 2) == pks[:2]
        tx.trajectories.decided([Decided(pk=pks[0], on=3, decision="stop: enough")])
        tx.trajectories.set_needs_decision([pks[1]], False)
        tx.trajectories.cancel(pks[2])
        standings = tx.trajectories.standings(pks)
        assert tx.trajectories.undecided(PROJECT, RUN, 10) == pks[2:]
    first = standings[pks[0]]
    assert (first.needs_decision, first.decided_on, first.decision) == (False, 3, "stop: enough")
    assert [standings[pk].cancelled for pk in pks] == [False, False, True]


def test_settle_writes_back_and_ends_unsettled(store: SqlStore) -> None:
    prepare(store)
    pks = list(insert(store, "a", "b", "c", "d", "e").values())
    with store.begin() as tx:
        assert tx.trajectories.unsettled(PROJECT, RUN, 10) == pks
        tx.trajectories.settle(
            [
                settled(pks[3], RewardStatus.RETRACTED),
                settled(pks[2], RewardStatus.FINAL, 1.0),
                settled(pks[1], RewardStatus.PROVISIONAL, 0.5),
                settled(pks[0], RewardStatus.UNSCORED),
            ]
        )
        assert tx.trajectories.unsettled(PROJECT, RUN, 10) == [pks[0], pks[1], pks[3], pks[4]]
        at_rest = replace(settled(pks[3], RewardStatus.RETRACTED), met=MET_FINAL)
        tx.trajectories.settle([at_rest])
        assert tx.trajectories.unsettled(PROJECT, RUN, 10) == [pks[0], pks[1], pks[4]]
        one = tx.trajectories.standings([pks[1]])[pks[1]]
    assert (one.status, one.reward, one.revision, one.fingerprint, one.met) == (
        RewardStatus.PROVISIONAL,
        0.5,
        1,
        "f",
        2,
    )


def test_a_group_lists_its_members_in_order_of_arrival(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    insert(store, "z", group="g")
    insert(store, "a", group="g")
    insert(store, "m", group="h")
    insert(store, "x", run=OTHER_RUN, group="g")
    with store.read() as tx:
        assert [one.id for one in tx.trajectories.group(PROJECT, RUN, "g")] == ["z", "a"]
        assert tx.trajectories.group(PROJECT, RUN, "unknown") == []


def test_cases_come_in_the_order_asked_with_demands_in_climbing_order(store: SqlStore) -> None:
    prepare(store)
    pks = insert(store, "a", "b")
    paths = ["lab/0", "simulation/0", "fast/10", "fast/2", "process/1@4", "process/0@12", "identify"]
    with store.begin() as tx:
        tx.demands.insert([demand(pks["a"], None, path=path) for path in paths])
        cases = tx.trajectories.cases([pks["b"], 10_000, pks["a"]], lock=True)
    assert [case.standing.id for case in cases] == ["b", "a"]
    assert cases[0].demands == ()
    assert [one.path for one in cases[1].demands] == [
        "identify",
        "process/0@12",
        "process/1@4",
        "fast/2",
        "fast/10",
        "simulation/0",
        "lab/0",
    ]
    assert cases[1].ladder.version == 1


def test_a_case_holds_the_evidence_of_its_checks(store: SqlStore) -> None:
    prepare(store)
    pk, [check_pk] = demanded(store, "t", "k")
    [one] = claim(store)
    complete(store, success(one))
    with store.begin() as tx:
        tx.demands.satisfy([check_pk])
    [view] = case_of(store, pk).demands
    assert view.state is DemandState.SATISFIED
    assert view.check is not None
    assert (view.check.pk, view.check.state, view.check.payer) == (check_pk, CheckState.SUCCEEDED, RUN)
    assert view.check.evidence == success(one).evidence
    assert view.check.cost.cpu_s == 1.0


def test_cases_take_a_fixed_number_of_queries(store: SqlStore) -> None:
    prepare(store)
    for index in range(6):
        demanded(store, f"t{index}", f"k{index}", "shared")
    counts = []
    for size in (1, 1, 6):
        with store.begin() as tx:
            pks = [
                one.pk
                for one in tx.trajectories.find(PROJECT, RUN, [f"t{i}" for i in range(size)]).values()
            ]
            statements: list[str] = []
            counter = _counting(tx._database.connection, statements)
            assert len(tx.trajectories.cases(pks, lock=True)) == size
            counter()
            counts.append(len(statements))
    assert counts[1] == counts[2] <= 3  # the first call also loads the ladder


def test_held_cases_come_best_rank_first(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    pks = insert(store, "low", "high", "none", "unheld")
    other = insert(store, "x", run=OTHER_RUN)["x"]
    with store.begin() as tx:
        tx.demands.insert(
            [
                demand(pks["low"], None, rank=0.1),
                demand(pks["low"], None, rank=0.2, path="fast/1", tier=Tier.FAST),
                demand(pks["high"], None, rank=0.9),
                demand(pks["none"], None),
                demand(other, None, rank=5.0),
            ]
        )
        assert tx.trajectories.held(PROJECT, RUN, 10) == [pks["high"], pks["low"], pks["none"]]
        assert tx.trajectories.held(PROJECT, RUN, 1) == [pks["high"]]


def _counting(connection: Connection, statements: list[str]) -> Callable[[], None]:
    def count(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(connection, "before_cursor_execute", count)
    return lambda: event.remove(connection, "before_cursor_execute", count)
