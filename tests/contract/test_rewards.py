"""The feed: in commit order, without gaps, nothing skipped and nothing twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    ids,
    prepare,
    record,
    together,
)
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Cost, Hint, Measurement, Tier
from verifier_service.domain.rewards import Interval, RewardCode, RewardReason
from verifier_service.domain.states import RewardStatus
from verifier_service.persistence.store import SqlStore


class Undone(Exception):
    """Raised to roll a transaction back."""


def append(store: SqlStore, *names: str, run: str = RUN, revision: int = 1) -> list[int]:
    with store.begin() as tx:
        stored = tx.rewards.append(PROJECT, run, [record(name, revision, seq=99) for name in names])
    return [one.seq for one in stored]


def test_seq_is_filled_in_per_run_without_gaps(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    assert append(store, "a", "b") == [1, 2]
    assert append(store, "x", run=OTHER_RUN) == [1]
    assert append(store, "c") == [3]
    assert append(store) == []
    with store.read() as tx:
        assert ids(tx.rewards.feed(PROJECT, RUN, 0, 10)) == [(1, "a"), (2, "b"), (3, "c")]
        assert ids(tx.rewards.feed(PROJECT, RUN, 1, 1)) == [(2, "b")]
        assert tx.rewards.feed(PROJECT, RUN, 3, 10) == []
        assert (tx.rewards.head(PROJECT, RUN), tx.rewards.head(PROJECT, OTHER_RUN)) == (3, 1)
        assert tx.runs.get(PROJECT, RUN).feed == 3


def test_a_record_comes_back_as_it_was(store: SqlStore) -> None:
    prepare(store)
    whole = record(
        "t",
        multiplicity=3,
        group="g",
        policy_version="v",
        outcome=0.4,
        reward=0.6,
        process=(1.0, None),
        process_weight=0.2,
        variance=0.01,
        interval=Interval(low=0.1, high=0.9),
        tier=Tier.SIMULATION,
        tiers=(Tier.FAST, Tier.SIMULATION),
        measurements=(Measurement(quantity="gap", value=1.5, unit="eV", sigma=None),),
        hints=(Hint(turn=1, kind="x", text="é\x00"),),
        propensity=0.1,
        reason=RewardReason(code=RewardCode.REJECTED, detail="empty"),
        cost=Cost(cpu_s=0.1),
        evidence=("k",),
        supersedes=7,
    )
    with store.begin() as tx:
        [stored] = tx.rewards.append(PROJECT, RUN, [whole])
    assert stored == whole.model_copy(update={"seq": 1})
    with store.read() as tx:
        assert tx.rewards.feed(PROJECT, RUN, 0, 1) == [stored]


def test_the_feed_filters_by_status(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.rewards.append(
            PROJECT,
            RUN,
            [
                record("a", status=RewardStatus.UNSCORED, reward=None),
                record("b"),
                record("c", status=RewardStatus.FINAL),
                record("d", status=RewardStatus.RETRACTED, reward=None),
                record("a", 2, status=RewardStatus.FINAL, reward=0.0),
            ],
        )
        assert ids(tx.rewards.feed(PROJECT, RUN, 0, 10, RewardStatus.FINAL)) == [(3, "c"), (5, "a")]
        assert ids(tx.rewards.feed(PROJECT, RUN, 3, 10, RewardStatus.FINAL)) == [(5, "a")]
        assert ids(tx.rewards.feed(PROJECT, RUN, 0, 10, RewardStatus.UNSCORED)) == [(1, "a")]


def test_latest_and_history(store: SqlStore) -> None:
    prepare(store)
    append(store, "a", "b")
    append(store, "a", revision=2)
    with store.read() as tx:
        latest = tx.rewards.latest(PROJECT, RUN, ["a", "b", "unknown"])
        assert {name: (one.seq, one.revision) for name, one in latest.items()} == {"a": (3, 2), "b": (2, 1)}
        assert [one.revision for one in tx.rewards.history(PROJECT, RUN, "a")] == [1, 2]
        assert tx.rewards.history(PROJECT, RUN, "unknown") == []
        assert tx.rewards.latest(PROJECT, RUN, []) == {}


def test_an_unknown_run_has_no_feed(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        for project, run in ((PROJECT, "unknown"), ("other", RUN)):
            with pytest.raises(NotFound):
                tx.rewards.head(project, run)
            with pytest.raises(NotFound):
                tx.rewards.append(project, run, [record("t")])
            assert tx.rewards.feed(project, run, 0, 10) == []


def test_a_slow_committer_makes_no_reader_skip(store: SqlStore) -> None:
    """The slow transaction took its numbers first: nobody may see a later one before its commit."""
    prepare(store)
    appended, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with store.begin() as tx:
            tx.rewards.append(PROJECT, RUN, [record("slow")])
            appended.set()
            assert go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow)
        assert appended.wait(30)
        second = pool.submit(append, store, "quick")
        with pytest.raises(TimeoutError):
            second.result(timeout=0.3)
        with store.read() as tx:
            assert tx.rewards.feed(PROJECT, RUN, 0, 10) == []
            assert tx.rewards.head(PROJECT, RUN) == 0
        go_on.set()
        first.result()
        assert second.result() == [2]
    with store.read() as tx:
        assert ids(tx.rewards.feed(PROJECT, RUN, 0, 10)) == [(1, "slow"), (2, "quick")]


def test_a_rollback_leaves_no_gap(store: SqlStore) -> None:
    prepare(store)

    def undone() -> None:
        with store.begin() as tx:
            tx.rewards.append(PROJECT, RUN, [record("lost")])
            raise Undone

    with pytest.raises(Undone):
        undone()
    assert append(store, "kept") == [1]


def test_a_follower_sees_every_record_once_in_order(store: SqlStore) -> None:
    prepare(store)
    writers, each = 6, 12
    seen: list[int] = []

    def follow() -> None:
        while len(seen) < writers * each:
            with store.read() as tx:
                batch = tx.rewards.feed(PROJECT, RUN, seen[-1] if seen else 0, 7)
                assert tx.rewards.head(PROJECT, RUN) >= (batch[-1].seq if batch else 0)
            seen.extend(one.seq for one in batch)

    def work(index: int) -> None:
        if index == 0:
            follow()
            return
        for step in range(each // 2):
            append(store, f"{index}-{step}-a", f"{index}-{step}-b")

    together(writers + 1, work)
    assert seen == list(range(1, writers * each + 1))
