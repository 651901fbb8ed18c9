"""An archive agrees with itself, also where people decide while it is read. On both databases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.samples import PROJECT, RUN, alter, demanded, prepare, record
from verifier_service.domain.runs import RunState
from verifier_service.persistence.store import SqlStore
from verifier_service.services.archive import Export

FOLLOWS = """UPDATE trajectories SET (status, reward, revision, seq) = (
    SELECT status, reward, revision, seq FROM rewards
    WHERE rewards.run = trajectories.run AND rewards.trajectory = trajectories.id
    ORDER BY seq DESC LIMIT 1)"""


def issue(store: SqlStore, name: str, revision: int, reward: float) -> None:
    """A record, and the trajectory's row as it stands then."""
    with store.begin() as tx:
        tx.rewards.append(PROJECT, RUN, [record(name, revision, reward=reward)])
    alter(store, FOLLOWS)


@pytest.fixture
def closed(store: SqlStore) -> SqlStore:
    prepare(store, RUN)
    for n in range(3):
        demanded(store, f"t{n}", f"k{n}")
        issue(store, f"t{n}", 1, 0.1)
    issue(store, "t0", 2, 0.2)
    with store.begin() as tx:
        tx.runs.set_state(PROJECT, RUN, RunState.CLOSED)
    return store


def rest(store: SqlStore, export: Export) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    while True:
        with store.read() as tx:
            page = export.page(tx)
        if page is None:
            return found
        for line in page:
            found.setdefault(line.kind, []).append(json.loads(line.text))


def test_every_trajectory_is_that_of_its_last_record(closed: SqlStore) -> None:
    with closed.read() as tx:
        export = Export(tx, PROJECT, RUN, references=True)
    issue(closed, "t0", 3, 0.9)
    issue(closed, "t1", 2, 0.8)
    found = rest(closed, export)
    last = {row["trajectory"]: row for row in found["reward"]}
    parts = ("status", "reward", "revision", "seq")
    for row in found["trajectory"]:
        assert {one: row[one] for one in parts} == {one: last[row["id"]][one] for one in parts}
    assert [row["reward"] for row in found["trajectory"]] == [0.2, 0.1, 0.1]
    with closed.read() as tx:
        later = Export(tx, PROJECT, RUN, references=True)
    assert [row["reward"] for row in rest(closed, later)["trajectory"]] == [0.9, 0.8, 0.1]


def test_one_without_a_record_before_has_no_reward(closed: SqlStore) -> None:
    with closed.read() as tx:
        found = tx.archives.cases(PROJECT, RUN, "", 9, references=True, most_bytes=10**6, through=2)
    rows = [json.loads(line.text) for line in found.lines if line.kind == "trajectory"]
    assert [(row["reward"], row["revision"], row["seq"]) for row in rows] == [
        (0.1, 1, 1),
        (0.1, 1, 2),
        (None, 0, None),
    ]
