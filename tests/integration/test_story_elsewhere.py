"""What the sweeping process lacks, workers of other processes may have: checks wait for those."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.story import Story, story_harness
from tiers.harness import ProcessHarness
from verifier_service.domain.evidence import Tier


@pytest.fixture(scope="module")
def harness() -> Iterator[ProcessHarness]:
    made = story_harness()
    yield made
    made.close()


@pytest.mark.parametrize("alone", [True, False])
def test_what_is_not_installed_here_may_be_elsewhere(
    tmp_path: Path, harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    story = Story(tmp_path, harness, embedded_workers=alone)
    for name in ("test.rough", "test.exact"):
        monkeypatch.setitem(story.service.catalog._unavailable, name, "needs another machine")  # type: ignore[attr-defined]
    story.submit("r", {"id": "t", "problem": {"prompt": "p"}, "answer": "CCC"})
    story.fast()
    story.sweep.tick()
    with story.service.store.read() as tx:
        waiting = {tier for tier, _ in tx.checks.live()}
    assert (Tier.SIMULATION in waiting) is not alone
