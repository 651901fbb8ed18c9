"""A process that is killed while it imports results has imported all of them or none."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab import QUANTITY, sent, versions, wait_at_lab
from tests.support.story import Story, story, story_harness
from verifier_service.domain.evidence import Tier

COUNT = 3
TEXT = "run,trajectory,quantity,value,unit,sigma\n" + "".join(
    f"r,t{at},{QUANTITY},{at + 1},1,0.1\n" for at in range(COUNT)
)


@pytest.fixture
def told(tmp_path: Path, store_url: str) -> Iterator[Story]:
    harness = story_harness()
    with story(tmp_path, harness, database_url=store_url) as made:
        yield made
    harness.close()


def killed(tmp_path: Path, url: str, after: str) -> None:
    file = tmp_path / "results.csv"
    file.write_text(TEXT)
    command = [sys.executable, "-m", "tests.support.lab_killed", str(tmp_path), url, str(file), after]
    assert subprocess.run(command, timeout=120, check=False).returncode == -signal.SIGKILL


def at_the_lab(told: Story) -> list[str]:
    return [record.trajectory for record in told.feed("r") if record.tier is Tier.LAB]


def test_before_the_commit_nothing_has_happened(told: Story, tmp_path: Path, store_url: str) -> None:
    wait_at_lab(told, COUNT)
    before = told.feed("r")
    killed(tmp_path, store_url, "settled")
    assert told.feed("r") == before
    done = sent(told, TEXT)
    assert (done.created, done.counts) == (True, {"accepted": COUNT})
    assert sorted(at_the_lab(told)) == ["t0", "t1", "t2"]


def test_after_the_commit_all_has_and_the_same_again_does_nothing(
    told: Story, tmp_path: Path, store_url: str
) -> None:
    wait_at_lab(told, COUNT)
    killed(tmp_path, store_url, "committed")
    assert sorted(at_the_lab(told)) == ["t0", "t1", "t2"]
    again = sent(told, TEXT)
    assert (again.created, again.counts) == (False, {"accepted": COUNT})
    assert [len(versions(told, value.check)) for value in again.values] == [1] * COUNT
    told.rest()
    assert {told.latest("r", f"t{at}").status for at in range(COUNT)} == {"final"}
