"""The thread that purges: a run whose purge fails is in no other's way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.samples import alter
from tests.support.story import PROJECT, Story, story_harness
from verifier_service.domain.runs import RunState
from verifier_service.persistence.store import SqlStore
from verifier_service.services.purge import begin_purge
from verifier_service.worker.purge import Purger

BROKEN = """CREATE TRIGGER broken BEFORE DELETE ON trajectories
WHEN OLD.run = (SELECT pk FROM runs WHERE id = 'b')
BEGIN SELECT RAISE(ABORT, 'this row stays'); END"""


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Story]:
    harness = story_harness()
    one = Story(tmp_path, harness)
    yield one
    one.close()
    harness.close()


def test_a_purge_that_fails_stops_no_other(told: Story, caplog: pytest.LogCaptureFixture) -> None:
    for run in "abc":
        told.submit(run, {"id": "t", "answer": "CCO"})
        told.service.close_run(PROJECT, run)
        told.until(lambda run=run: told.run(run).state is RunState.CLOSED)  # type: ignore[misc]
        with told.service.store.begin() as tx:
            begin_purge(tx, PROJECT, run)
    store = told.service.store
    assert isinstance(store, SqlStore)
    alter(store, BROKEN)
    with caplog.at_level(logging.ERROR):
        Purger(told.service).purge_all()
    found = [told.run(run).state for run in "abc"]
    assert found == [RunState.PURGED, RunState.PURGING, RunState.PURGED]
    assert "the purge of run b of default failed" in caplog.text
    alter(store, "DROP TRIGGER broken")
    Purger(told.service).purge_all()
    assert told.run("b").state is RunState.PURGED
