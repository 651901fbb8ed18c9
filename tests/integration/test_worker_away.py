"""A worker whose database goes away at the worst moments."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.story import Story, story_harness
from tiers.harness import ProcessHarness
from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Unavailable

AWAY = Unavailable("database_unavailable", "by hand")


@pytest.fixture(scope="module")
def harness() -> Iterator[ProcessHarness]:
    made = story_harness()
    yield made
    made.close()


@pytest.fixture
def story(tmp_path: Path, harness: ProcessHarness) -> Story:
    story = Story(tmp_path, harness)
    story.submit("r", {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    return story


def attempts(story: Story) -> list[tuple[int, int]]:
    with story.service.store.read() as tx:
        rows = tx._database.connection.exec_driver_sql("SELECT attempt, fence FROM checks WHERE fence > 1")  # type: ignore[attr-defined]
        return [(row[0], row[1]) for row in rows]


def test_a_claim_that_was_committed_unheard_is_no_attempt(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, lost = Service.take, []

    def unheard(self: Service, *args: Any, **kwargs: Any) -> Any:
        taken = take(self, *args, **kwargs)
        if taken.jobs and len(lost) < 4:
            lost.append(taken)
            raise AWAY
        return taken

    monkeypatch.setattr(Service, "take", unheard)
    worker = story.workers[0]
    for _ in range(4):
        with pytest.raises(Unavailable):
            worker.drain_once()
    story.rest()
    assert attempts(story)
    assert all(attempt == 1 and fence == 5 for attempt, fence in attempts(story))
    assert story.latest("r", "t").reward is not None


def test_a_report_is_sent_again_and_counts_once(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    report, sent = Service.report, []

    def unheard(self: Service, *args: Any, **kwargs: Any) -> None:
        report(self, *args, **kwargs)
        sent.append(args)
        if len(sent) == 1:
            raise AWAY

    monkeypatch.setattr(Service, "report", unheard)
    story.rest()
    with story.service.store.read() as tx:
        spent = sum(account.spent for account in tx.ledger.totals())
        charged = tx._database.connection.exec_driver_sql("SELECT sum(spent) FROM checks").scalar()  # type: ignore[attr-defined]
        assert tx.checks.stale_completions() >= 1
    assert spent == pytest.approx(charged)


def test_a_worker_that_is_told_to_stop_still_reports(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    report, refused = Service.report, threading.Event()
    worker = story.workers[0]

    def away_for_a_moment(self: Service, *args: Any, **kwargs: Any) -> None:
        if not refused.is_set():
            refused.set()
            worker._stopping.set()
            raise AWAY
        report(self, *args, **kwargs)

    monkeypatch.setattr(Service, "report", away_for_a_moment)
    worker.drain_once()
    with story.service.store.read() as tx:
        assert not any(state == "running" for _, state in tx.checks.live())


def test_a_batch_that_fails_here_is_given_back_without_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = story_harness()
    run, failed = ProcessHarness.run, threading.Event()

    def no_descriptors(self: ProcessHarness, *args: Any, **kwargs: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise OSError(24, "Too many open files")
        return run(self, *args, **kwargs)

    monkeypatch.setattr(ProcessHarness, "run", no_descriptors)
    story = Story(tmp_path, harness)
    story.submit("r", {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    worker = story.workers[0]
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        story.until(lambda: failed.is_set() and any(fence == 2 for _, fence in attempts(story)))
    finally:
        worker.stop()
        thread.join()
    assert attempts(story)[0] == (1, 2)
