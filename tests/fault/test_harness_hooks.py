"""The caller's hooks: cancellation, heart beats, closing, and abandoning a run."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from tests.support.harnesses import all_closed, by_id, done, jobs, make_harness, nobody, verifier_children
from verifier_service.domain.errors import LeaseLost
from verifier_service.domain.evidence import Finding
from verifier_service.domain.ports.execution import Done, Released

pytestmark = pytest.mark.usefixtures(all_closed.__name__)


def test_a_cancelled_item_is_stopped_and_its_neighbours_finish() -> None:
    harness = make_harness()
    unwanted: set[str] = set()
    run = harness.run(jobs("ok", "spin", "ok", time_s=60.0), lambda: unwanted)
    first = next(run)
    time.sleep(0.3)
    unwanted.add("1")
    started = time.monotonic()
    results = by_id([first, *run])
    assert time.monotonic() - started < 10.0
    stopped = results["1"]
    assert isinstance(stopped, Released)
    assert stopped.note == "cancelled"
    assert stopped.cost.cpu_s > 0.0
    assert all(isinstance(done(results[key]).outcome, Finding) for key in "02")


def test_what_was_cancelled_before_it_was_sent_never_runs() -> None:
    harness = make_harness()
    results = by_id(harness.run(jobs("spin", "ok", "spin"), lambda: ["0", "2"]))
    assert [isinstance(results[key], Released) for key in "012"] == [True, False, True]
    assert not any(each.cost.cpu_s for each in results.values() if isinstance(each, Released))


def test_cancellation_is_asked_for_at_least_twice_a_second() -> None:
    harness = make_harness()
    asked: list[float] = []

    def cancelled() -> list[str]:
        asked.append(time.monotonic())
        return []

    list(harness.run(jobs({"do": "sleep", "s": 1.6}, time_s=30.0), cancelled))
    gaps = [after - before for before, after in pairwise(asked)]
    assert len(asked) >= 4
    assert max(gaps) < 1.5


def test_the_heart_beats_while_an_item_runs() -> None:
    harness = make_harness(beat_s=0.1)
    beats: list[float] = []
    began = time.monotonic()
    list(harness.run(jobs({"do": "sleep", "s": 0.8}, time_s=30.0), nobody, lambda: beats.append(0.0)))
    assert 3 <= len(beats) <= (time.monotonic() - began) / 0.1 + 2


def test_a_lost_lease_ends_the_run_and_the_child() -> None:
    harness = make_harness(beat_s=0.1)
    list(harness.run(jobs("ok"), nobody))
    (child,) = verifier_children()

    def beat() -> None:
        raise LeaseLost("lease_lost", "another worker has it")

    results: list[Done | Released] = []
    with pytest.raises(LeaseLost):
        results.extend(harness.run(jobs("spin", "ok", time_s=60.0), nobody, beat))
    assert results == []
    assert not child.is_running()
    (after,) = harness.run(jobs("ok"), nobody)
    assert isinstance(done(after).outcome, Finding)


def test_an_abandoned_run_kills_its_child() -> None:
    harness = make_harness()
    run = harness.run(jobs("ok", {"do": "sleep", "s": 0.02}, "spin", time_s=60.0), nobody)
    next(run)
    (child,) = verifier_children()
    run.close()  # type: ignore[attr-defined]
    assert not child.is_running()
    assert verifier_children() == []


def test_closing_from_another_thread_gives_the_rest_back() -> None:
    harness = make_harness()
    run = harness.run(jobs("ok", "spin", "ok", "ok", time_s=60.0), nobody)
    first = next(run)
    assert isinstance(first, Done)
    closer = threading.Timer(0.1, harness.close)
    closer.start()
    results = by_id(run)
    closer.join()
    assert set(results) == {"1", "2", "3"}
    assert [results[key].note for key in "123" if isinstance(results[key], Released)] == ["closing"] * 3
    assert verifier_children() == []
    (late,) = harness.run(jobs("ok"), nobody)
    assert isinstance(late, Released)


def test_closing_in_the_moment_when_a_run_ends_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is over, the harness still knows it: its bell may be anybody's descriptor by now."""
    harness = make_harness()
    leave = harness._leave

    def closed_first() -> None:
        harness.close()
        leave()

    monkeypatch.setattr(harness, "_leave", closed_first)
    [done] = list(harness.run(jobs("ok"), set, lambda: None))
    assert isinstance(done, Done)
