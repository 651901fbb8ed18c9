"""The hindsight export over both databases: pages of any size are the whole, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.samples import OTHER_RUN, PROJECT, RUN, prepare, record, trajectory
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Hint
from verifier_service.domain.hindsight import HindsightPage
from verifier_service.domain.ports.runs import StandingUpdate
from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.persistence.store import SqlStore
from verifier_service.services import hindsight
from verifier_service.services.hindsight import hindsight_page

HINT = Hint(kind="sign", text="The sign is wrong.")
REJECTED = RewardReason(code=RewardCode.REJECTED, detail="valence", message="too many bonds")


def issue(store: SqlStore, *records: RewardRecord) -> None:
    """Append records as settle does: the trajectory's row knows the newest."""
    with store.begin() as tx:
        found = tx.trajectories.find(PROJECT, RUN, {one.trajectory for one in records})
        for one in tx.rewards.append(PROJECT, RUN, records):
            update = StandingUpdate(
                pk=found[one.trajectory].pk,
                status=one.status,
                reward=one.reward,
                revision=one.revision,
                seq=one.seq,
                fingerprint=None,
                met=0,
            )
            tx.trajectories.settle([update])


def stored(store: SqlStore, *names: str) -> None:
    prepare(store, RUN, OTHER_RUN)
    with store.begin() as tx:
        items = [
            trajectory(name, body='{"prompt":"p","answer":"CCO","reference":{"smiles":"CCN"}}')
            for name in names
        ]
        tx.trajectories.insert(PROJECT, RUN, items)
        tx.trajectories.insert(PROJECT, OTHER_RUN, [replace(item, id=f"o{item.id}") for item in items])


def page(store: SqlStore, after: int = 0, limit: int = 100) -> HindsightPage:
    with store.read() as tx:
        return hindsight_page(tx, PROJECT, RUN, after=after, limit=limit)


def whole(store: SqlStore, limit: int) -> tuple[list[str], list[str]]:
    records, withdrawn, after = [], [], 0
    while True:
        found = page(store, after, limit)
        records += [one.trajectory for one in found.records]
        withdrawn += found.withdrawn
        assert found.cursor > after or not found.more
        after = found.cursor
        if not found.more:
            return records, withdrawn


def test_pages_of_any_size_are_the_whole(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{n:02}" for n in range(40)]
    stored(store, *names)
    first = [record(name, hints=(HINT,) if n % 3 else ()) for n, name in enumerate(names)]
    later = [
        record(name, 2, supersedes=n + 1, reason=REJECTED if n % 2 else None)
        for n, name in enumerate(names)
        if n % 4 == 0 or n % 7 == 0
    ]
    issue(store, *first)
    issue(store, *later)
    revised = {one.trajectory for one in later}
    expected = [one.trajectory for one in first if one.hints and one.trajectory not in revised]
    expected += [one.trajectory for one in later if one.reason is not None]
    gone = [one.trajectory for one in later if one.reason is None]
    for piece in (7, 250):
        monkeypatch.setattr(hindsight, "FEED_PIECE", piece)
        for limit in (1, 3, 1_000):
            assert whole(store, limit) == (expected, gone)
    monkeypatch.setattr(hindsight, "FEED_PIECE", 3)
    monkeypatch.setattr(hindsight, "MAX_SCANNED", 5)
    assert whole(store, 1_000) == (expected, gone)
    assert page(store).more
    assert page(store).cursor == 6


def test_a_page_ends_when_it_is_large(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(store, "a", "b", "c")
    issue(store, *(record(name, hints=(HINT,)) for name in "abc"))
    monkeypatch.setattr(hindsight, "MAX_PAGE_CHARS", 1)
    first = page(store)
    assert ([one.trajectory for one in first.records], first.cursor, first.more) == (["a"], 1, True)
    assert whole(store, 100)[0] == ["a", "b", "c"]


def test_a_revision_comes_again_and_what_was_taken_back_is_named(store: SqlStore) -> None:
    stored(store, "a", "b")
    issue(store, record("a", hints=(HINT,)), record("b", hints=(HINT,)))
    before = page(store)
    assert [(one.trajectory, one.supersedes) for one in before.records] == [("a", None), ("b", None)]
    issue(
        store,
        record("a", 2, hints=(HINT,), supersedes=1, reason=REJECTED),
        record("b", 2, hints=(HINT,), supersedes=2, status=RewardStatus.RETRACTED, reward=None),
    )
    after = page(store, before.cursor)
    assert [(one.trajectory, one.revision, one.supersedes) for one in after.records] == [("a", 2, 1)]
    assert after.withdrawn == ("b",)


def test_other_runs_and_references_are_not_in_it(store: SqlStore) -> None:
    stored(store, "a")
    issue(store, record("a", hints=(HINT,)))
    with store.read() as tx:
        assert hindsight_page(tx, PROJECT, OTHER_RUN, after=0, limit=9).records == ()
        with pytest.raises(NotFound):
            hindsight_page(tx, PROJECT, "never", after=0, limit=9)
        with pytest.raises(NotFound):
            hindsight_page(tx, "other", RUN, after=0, limit=9)
    text = page(store).model_dump_json()
    assert "CCN" not in text
    assert "CCO" in text
    assert page(store, after=10**9).cursor == 10**9
