"""Verifiers that wait for processes of their own run beside each other, and beside the fast ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.harnesses import all_closed, by_id, done, jobs, make_harness, nobody, verifier_children
from verifier_service.domain.evidence import Finding
from verifier_service.domain.ports.execution import Done, Job, Released

pytestmark = pytest.mark.usefixtures(all_closed.__name__)


def meeting(place: Path, count: int, *, at_once: int) -> list[Job]:
    place.mkdir()
    acts = [{"do": "meet", "place": str(place), "count": at_once} for _ in range(count)]
    return jobs(*acts, verifier="parallel", time_s=600.0)


def test_parallel_items_run_beside_each_other(tmp_path: Path) -> None:
    """Each of three waits until all three are there."""
    harness = make_harness(parallel_children=3)
    results = by_id(harness.run(meeting(tmp_path / "place", 9, at_once=3), nobody))
    outcomes = [done(each).outcome for each in results.values()]
    assert len(results) == 9
    assert len({each.labels["pid"] for each in outcomes if isinstance(each, Finding)}) == 3
    assert len(verifier_children()) == 3


def test_parallel_items_do_not_block_the_fast_ones(tmp_path: Path) -> None:
    """They wait for something that happens only after every fast item has its result."""
    place = tmp_path / "place"
    slow = [replace(job, id=f"slow{job.id}") for job in meeting(place, 4, at_once=5)]
    fast = jobs(*["ok"] * 100)
    results: dict[str, Done | Released] = {}
    for result in make_harness(parallel_children=4).run([*slow, *fast], nobody):
        results[result.id] = result
        if len(results) == 100:
            assert not any(key.startswith("slow") for key in results)
            (place / "permission").touch()
    assert len(results) == 104


def test_the_caller_is_told_which_lane_has_enough(tmp_path: Path) -> None:
    """While parallel items wait in line, only others are asked for."""
    place = tmp_path / "place"
    later = [replace(job, id=f"later{job.id}") for job in jobs(*["ok"] * 20)]

    def more(enough: frozenset[str]) -> list[Job]:
        return [later.pop()] if enough == {"parallel"} and later else []

    results = []
    run = make_harness(parallel_children=2).run(meeting(place, 10, at_once=3), nobody, None, more)
    for result in run:
        results.append(result.id)
        if len(results) == 20:
            (place / "permission").touch()
    assert len(set(results)) == 30
    assert not later
