"""Stories: the whole service in the test's own thread, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.story import Story, story, story_harness
from tiers.harness import ProcessHarness


@pytest.fixture(scope="module")
def children() -> Iterator[ProcessHarness]:
    """Warm children for all stories of a module: their start is most of a test's time."""
    harness = story_harness()
    yield harness
    harness.close()


@pytest.fixture
def told(tmp_path: Path, children: ProcessHarness, store_url: str) -> Iterator[Story]:
    with story(tmp_path, children, database_url=store_url) as made:
        yield made
