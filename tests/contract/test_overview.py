"""Lists in the order of an index, on every database: nothing is left out or shown twice, whatever moves."""

from __future__ import annotations

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    claim,
    complete,
    demanded,
    failure,
    prepare,
    trajectory,
)
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.listings import Listed
from verifier_service.domain.ports.runs import StandingUpdate
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.domain.workers import Kind
from verifier_service.persistence import overview
from verifier_service.persistence.store import SqlStore

STATUSES = (
    None,
    RewardStatus.FINAL,
    RewardStatus.UNSCORED,
    RewardStatus.PROVISIONAL,
    RewardStatus.RETRACTED,
)


def stored(store: SqlStore, count: int, run: str = RUN) -> list[str]:
    """Trajectories of all statuses in turn, in groups of three; their ids, newest first."""
    ids = [f"t{n:03}" for n in range(count)]
    with store.begin() as tx:
        items = [trajectory(id, group=f"g{n // 3:02}") for n, id in enumerate(ids)]
        pks = tx.trajectories.insert(PROJECT, run, items)
        tx.trajectories.settle(
            [
                StandingUpdate(
                    pk=pks[id],
                    status=STATUSES[n % 5],
                    reward=n / count if n % 5 in (1, 3) else None,
                    revision=1,
                    seq=None,
                    fingerprint=None,
                    met=0,
                )
                for n, id in enumerate(ids)
            ]
        )
    return ids[::-1]


def page(store: SqlStore, after: int | None = None, limit: int = 100, **only: str | None) -> Listed:
    with store.read() as tx:
        return tx.overview.trajectories(PROJECT, RUN, after=after, limit=limit, **only)


def walked(store: SqlStore, limit: int, **only: str | None) -> list[str]:
    found: list[str] = []
    after: int | None = None
    for _ in range(200):
        lines, after = page(store, after, limit, **only)
        assert len(lines) <= limit
        found += [line.id for line in lines]
        if after is None:
            return found
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("limit", [1, 7, 30, 31, 100])
def test_every_trajectory_comes_once_newest_first(store: SqlStore, limit: int) -> None:
    prepare(store, RUN, OTHER_RUN)
    newest = stored(store, 30)
    stored(store, 9, OTHER_RUN)
    assert walked(store, limit) == newest
    for place, status in enumerate(STATUSES):
        mine = [id for id in newest if int(id[1:]) % 5 == place]
        assert walked(store, limit, status="pending" if status is None else status.value) == mine
    assert walked(store, limit, group="g0") == newest
    assert walked(store, limit, group="g03") == ["t011", "t010", "t009"]
    assert walked(store, limit, group="g03", status="final") == ["t011"]
    assert walked(store, limit, group="G0") == []
    assert walked(store, limit, group="g0_") == []


def test_a_rare_prefix_is_found_where_walking_finds_too_few(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(store)
    newest = stored(store, 30)
    monkeypatch.setattr(overview, "WALKED", 4)
    assert walked(store, 2, group="g00") == ["t002", "t001", "t000"]
    assert walked(store, 4, group="g0") == newest
    monkeypatch.setattr(overview, "SORTED", 2)
    assert walked(store, 2, group="g00") == ["t002", "t001", "t000"]
    assert page(store, limit=2, group="g00").after is not None


def test_new_ones_and_new_statuses_do_not_disturb_a_walk(store: SqlStore) -> None:
    prepare(store)
    newest = stored(store, 20)
    lines, after = page(store, limit=5)
    with store.begin() as tx:
        tx.trajectories.insert(PROJECT, RUN, [trajectory("later")])
    alter(store, "UPDATE trajectories SET status = 'final', reward = 1.0 WHERE id = 't000'")
    rest, _ = page(store, after, limit=100)
    assert [line.id for line in (*lines, *rest)] == newest


def test_lines_say_what_stands(store: SqlStore) -> None:
    prepare(store)
    stored(store, 5)
    [line] = [line for line in page(store).lines if line.id == "t001"]
    assert (line.status, line.reward, line.group, line.revision) == (RewardStatus.FINAL, 0.2, "g00", 1)
    assert line.created_at.timestamp() > 0


def test_counts_and_bins(store: SqlStore) -> None:
    prepare(store)
    stored(store, 30)
    alter(store, "UPDATE trajectories SET reward = 1.2 WHERE id = 't001'")
    with store.read() as tx:
        assert tx.overview.statuses(PROJECT, RUN) == {
            "pending": 6,
            "final": 6,
            "unscored": 6,
            "provisional": 6,
            "retracted": 6,
        }
        bins = tx.overview.rewards(PROJECT, RUN, 1.2, 20)
    assert sum(one.trajectories for one in bins) == 12
    assert {one.status for one in bins} == {"final", "provisional"}
    assert [one.trajectories for one in bins if one.bin == 19 and one.status == "final"] == [1]
    assert all(0 <= one.bin < 20 for one in bins)


def test_a_run_that_is_not_there_is_named(store: SqlStore) -> None:
    prepare(store)
    with store.read() as tx:
        with pytest.raises(NotFound, match="nowhere"):
            tx.overview.trajectories(PROJECT, "nowhere", after=None, limit=1)
        with pytest.raises(NotFound):
            tx.overview.statuses("elsewhere", RUN)


def test_queues_of_a_project(store: SqlStore) -> None:
    prepare(store)
    demanded(store, "a", "k1", "k2")
    claim(store, limit=1)
    alter(store, "UPDATE checks SET created_at = created_at - 50")
    with store.read() as tx:
        [fast, *_] = tx.overview.queues(PROJECT)
        [other, *_] = tx.overview.queues("elsewhere")
    assert (fast.tier, fast.queued, fast.running) == (Tier.FAST, 1, 1)
    assert fast.oldest_queued_s is not None
    assert fast.oldest_queued_s >= 50
    assert (other.queued, other.oldest_queued_s) == (0, None)


def failed(store: SqlStore, *names: str) -> None:
    """One failed check for each trajectory, which rests on it."""
    for name in names:
        demanded(store, name, f"of-{name}", max_attempts=1)
    ended = claim(store, limit=100)
    for one in ended:
        complete(store, failure(one, CheckState.FAILED))
    with store.begin() as tx:
        tx.demands.satisfy([one.pk for one in ended])


def test_failed_checks_newest_first_with_what_rests_on_them(store: SqlStore) -> None:
    prepare(store)
    failed(store, "a", "b", "c")
    with store.read() as tx:
        first, after = tx.troubles.failed(PROJECT, after=None, limit=2)
        rest, end = tx.troubles.failed(PROJECT, after=after, limit=2)
    assert [one.trajectory for one in (*first, *rest)] == ["c", "b", "a"]
    assert end is None
    assert (first[0].trajectories, first[0].unscored, first[0].closed) == (1, 1, False)
    assert first[0].failure.code == "broken"
    with store.read() as tx:
        assert tx.troubles.failed("elsewhere", after=None, limit=2).checks == []
        assert tx.troubles.failed(PROJECT, after=None, limit=2, run="other").checks == []


def test_what_nothing_rests_on_is_not_listed(store: SqlStore) -> None:
    prepare(store)
    failed(store, "a", "b")
    with store.begin() as tx:
        [one] = tx.troubles.resting(PROJECT, ["of-a"], 10)
        assert (one.demand_state, one.state) == (DemandState.SATISFIED, CheckState.FAILED)
        tx.demands.take_back([one.demand], reason="retried")
    with store.read() as tx:
        assert [one.trajectory for one in tx.troubles.failed(PROJECT, after=None, limit=9).checks] == ["b"]
        assert tx.troubles.resting(PROJECT, ["of-a"], 10) == []
        assert tx.troubles.resting("elsewhere", ["of-b"], 10) == []


def test_queued_checks_by_kind_page_by_page(store: SqlStore) -> None:
    prepare(store)
    for number in range(5):
        demanded(store, f"t{number}", f"k{number}", verifier="a.a" if number % 2 else "b.b")
    kinds = [(Tier.FAST, Kind("a.a", "1")), (Tier.FAST, Kind("b.b", "1"))]
    found: list[str] = []
    after: int | None = None
    with store.read() as tx:
        for _ in range(9):
            checks, after = tx.troubles.waiting(PROJECT, kinds, after=after, limit=2)
            found += [one.check.key for one in checks]
            if after is None:
                break
        assert found == ["k1", "k3", "k0", "k2", "k4"]
        assert tx.troubles.counted(PROJECT, *kinds[1], 2) == 2
        assert tx.troubles.counted("elsewhere", *kinds[1], 2) == 0
        [one, *_] = tx.troubles.waiting(PROJECT, kinds, after=None, limit=1).checks
        assert (one.check.run, one.check.trajectory, one.check.trajectory_run) == (RUN, "t1", RUN)
