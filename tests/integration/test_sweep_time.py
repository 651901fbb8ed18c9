"""The sweep's own time: a long tick is no sleep of the machine, and deciding leaves time for the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.story import Story, story_harness
from tiers.harness import ProcessHarness
from verifier_service.bootstrap import Service
from verifier_service.services import maintain
from verifier_service.worker import sweep as module

LEASE_S = 0.5


@pytest.fixture(scope="module")
def harness() -> Iterator[ProcessHarness]:
    made = story_harness()
    yield made
    made.close()


@pytest.fixture
def story(tmp_path: Path, harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(module, "SLOW_TICK_S", 0.0)
    return Story(tmp_path, harness, lease_s=LEASE_S)


@pytest.fixture
def reaped(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When something was reaped."""
    times: list[float] = []
    real = maintain.reap
    monkeypatch.setattr(maintain, "reap", lambda tx: times.append(time.monotonic()) or real(tx))
    return times


def test_an_overloaded_sweep_reaps(
    story: Story, reaped: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: Service, project: str, run: str, *, revisit_held: bool = False) -> int:
        time.sleep(LEASE_S)
        return 0

    monkeypatch.setattr(Service, "decide", slow)
    story.submit("r", {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    story.fast()
    for _ in range(3):
        story.sweep.tick()
    assert len(reaped) == 3


def test_a_run_that_takes_long_to_look_at_rests(
    story: Story, reaped: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.put_run("r", compute=1e-5)
    story.submit("r", {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    story.rest()
    monkeypatch.setattr(module, "LONG_S", 0.1)
    pause, looks = 0.0, 0

    def slow(self: Service, project: str, run: str, *, revisit_held: bool = False) -> int:
        nonlocal looks
        looks += revisit_held
        time.sleep(pause)
        return 0

    monkeypatch.setattr(Service, "decide", slow)
    for _ in range(3):
        story.sweep.tick()
    assert looks == 3
    pause = 0.2
    for _ in range(3):
        story.sweep.tick()
    assert looks == 4
    assert len(reaped) >= 6


def test_after_a_sleep_leases_get_time_to_be_renewed(story: Story, reaped: list[float]) -> None:
    story.sweep.tick()
    time.sleep(LEASE_S)
    story.sweep.tick()
    assert len(reaped) == 1
    until = time.monotonic() + 10 * LEASE_S
    while len(reaped) == 1:
        assert time.monotonic() < until
        time.sleep(LEASE_S / 10)
        story.sweep.tick()


def test_a_tick_ends_and_the_next_begins_where_it_did(
    story: Story, reaped: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def slow(self: Service, project: str, run: str, *, revisit_held: bool = False) -> int:
        if not revisit_held:
            asked.append(run)
            time.sleep(0.05)
        return 0

    monkeypatch.setattr(Service, "decide", slow)
    monkeypatch.setattr(module, "DECIDING_S", 0.07)
    for run in ("r1", "r2", "r3"):
        story.submit(run, {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    story.fast()
    for _ in range(3):
        story.sweep.tick()
    assert asked == ["r1", "r2", "r3", "r1", "r2", "r3"]
    assert len(reaped) == 3
