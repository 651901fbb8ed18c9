"""Checks that run before their batch is stored leave the rows that the queue would have left."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from benchmarks.ingest_scenarios import FULL_LADDER
from tests.support.databases import SqliteFiles
from tests.support.server import JUDGED
from tests.support.story import LADDER, PROJECT, Story
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.api.gather import Gatherer
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.persistence import tables
from verifier_service.persistence.engine import open_engines
from verifier_service.services.foresee import Foreseen
from verifier_service.services.intake import Intake

PLUGINS = ("tests.support.verifiers", "tests.support.measuring")
TURN = {
    "calls": [{"id": "c", "name": "f", "arguments": "{}"}],
    "observations": [{"call": "c", "text": "ok"}],
}
GOLD = {"reference": {"smiles": "OCC"}}
BATCH: list[Any] = [
    {"id": "right", "ladder": "ingest", "answer": "CCO", "problem": GOLD, "turns": [TURN, TURN]},
    {"id": "respelt", "ladder": "ingest", "answer": "OCC", "problem": GOLD, "turns": [TURN]},
    {"id": "wrong", "ladder": "ingest", "answer": "CCN", "problem": GOLD},
    {"id": "odd", "ladder": "molecule-identity", "answer": "[CH3]", "problem": GOLD},
    {"id": "unreadable", "ladder": "molecule-identity", "answer": "C1CC(", "problem": GOLD},
    {"id": "no-answer", "ladder": "molecule-identity", "problem": GOLD},
    {"id": "growing", "ladder": "carbons", "turns": [TURN], "finished": False},
    {"id": "climbing", "ladder": "carbons", "answer": "CCCCCC", "turns": [TURN]},
    {"id": "refused", "ladder": "carbons", "answer": "C1CC", "turns": [TURN]},
    {"id": "right", "ladder": "ingest", "answer": "CCO", "problem": GOLD, "turns": [TURN, TURN]},
    {"id": "wrong", "ladder": "ingest", "answer": "C", "problem": GOLD},
    {"id": "lost", "ladder": "nobody", "answer": "C"},
    {"ladder": "molecule-identity", "answer": "CO", "problem": GOLD},
    {"ladder": "molecule-identity", "answer": "CO", "problem": GOLD},
    {
        "id": "task",
        "ladder": "molecule-identity",
        "answer": "CO",
        "problem": {"reference": {"smiles": "X"}},
    },
    {"id": "fine", "ladder": "hostile", "answer": {"do": "ok"}},
    {"id": "broken", "ladder": "hostile", "answer": {"do": "raise"}},
    {"id": "never", "ladder": "hostile", "answer": {"do": "raise_permanent"}},
    InvalidInput("not_finite", "by hand", field="x"),
]
MEASURED = {"created_at", "started_at", "ended_at", "decided_at", "issued_at", "cost", "credits", "spent"}
PLACES = {"pk", "seq", "supersedes", "fingerprint"}
NUMBERS = {"run", "payer"}


@pytest.fixture(scope="module")
def children() -> Iterator[ProcessHarness]:
    harness = ProcessHarness(
        VerifierCatalog(Sources(PLUGINS)), HarnessOptions(plugins=PLUGINS, poll_s=0.05)
    )
    yield harness
    harness.close()


def made(folder: Path, children: ProcessHarness, url: str) -> Story:
    """A story whose keys are those of every other."""
    story = Story(folder, children, ladder=LADDER, plugins=PLUGINS, database_url=url)
    for ladder in (FULL_LADDER, JUDGED):
        story.put_ladder(ladder)
    writer, _ = open_engines(url)
    with writer.begin() as connection:
        connection.execute(update(tables.projects).values(secret="the same"))
    writer.dispose()
    return story


@pytest.fixture
def told(tmp_path: Path, children: ProcessHarness, store_url: str) -> Iterator[Story]:
    story = made(tmp_path, children, store_url)
    yield story
    story.close()


def parsed(items: list[Any]) -> list[TrajectorySubmission | InvalidInput]:
    return [
        item
        if isinstance(item, InvalidInput)
        else TrajectorySubmission.model_validate_json(json.dumps(item))
        for item in items
    ]


def foresee(story: Story, run: str, items: list[Any]) -> Foreseen:
    """What is foreseen once the child is warm: an earlier test may have cost it its life."""
    seen = once(story, run, items)
    return seen if not seen.gave_up else once(story, run, items)


def once(story: Story, run: str, items: list[Any]) -> Foreseen:
    sound = {at: item for at, item in enumerate(items) if isinstance(item, TrajectorySubmission)}
    until = time.monotonic() + 60.0
    return story.service.foresee(story.workers[0]._harness, "intake", PROJECT, run, sound, until)


def commit(story: Story, run: str, items: list[Any], foreseen: Foreseen) -> Intake:
    return story.service.unit(lambda tx: story.service.submit_in(tx, PROJECT, run, items, foreseen))


def rows(story: Story, table: str) -> list[dict[str, Any]]:
    """The rows of a table without what is measured, in an order of their own."""
    writer, _ = open_engines(story.service.settings.engine_url())
    checks, cases = tables.checks, tables.trajectories
    with writer.begin() as connection:
        keys = dict(connection.execute(select(checks.c.pk, checks.c.key)).all())
        ids = dict(connection.execute(select(cases.c.pk, cases.c.id)).all())
        found = [dict(row) for row in connection.execute(select(tables.metadata.tables[table])).mappings()]
    writer.dispose()
    for row in found:
        for name, value in row.items():
            if isinstance(value, str) and value.startswith("{"):
                row[name] = without_measures(json.loads(value))
        if table in ("demands", "bodies"):
            row["trajectory"] = ids[row["trajectory"]]
        if "check_pk" in row:
            row["check_pk"] = keys.get(row["check_pk"])
    kept = [{k: v for k, v in row.items() if k not in MEASURED | PLACES | NUMBERS} for row in found]
    return sorted(kept, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def without_measures(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_measures(v) for k, v in value.items() if k not in MEASURED | PLACES | {"worker"}}
    return [without_measures(each) for each in value] if isinstance(value, list) else value


def told_all(story: Story, names: Sequence[str]) -> bool:
    reasons = [story.latest("r", name).reason for name in names]
    return all(reason is None or reason.code is not RewardCode.PENDING for reason in reasons)


COMPARED = ("trajectories", "bodies", "checks", "demands", "rewards", "feeds", "pins", "runs")


def test_both_ways_end_in_the_same_rows(
    tmp_path: Path, children: ProcessHarness, sqlite: SqliteFiles, store_url: str
) -> None:
    queued = made(tmp_path / "queued", children, sqlite.migrated())
    ahead = made(tmp_path / "ahead", children, store_url)
    try:
        batch = parsed(BATCH)
        by_queue = queued.service.submit(PROJECT, "r", batch)
        queued.fast()
        at_once = commit(ahead, "r", batch, foresee(ahead, "r", batch))
        assert [(one.id, one.status) for one in at_once.results] == [
            (one.id, one.status) for one in by_queue.results
        ]
        assert ahead.latest("r", "right").status is RewardStatus.FINAL, "without any worker"
        ahead.fast()
        for table in COMPARED:
            assert rows(ahead, table) == rows(queued, table), table
        for story in (queued, ahead):
            story.until(partial(told_all, story, ("climbing", "refused", "broken")))
        for table in ("checks", "demands"):
            assert rows(ahead, table) == rows(queued, table), table
        assert {r.trajectory: r.reward for r in ahead.feed("r")} == {
            r.trajectory: r.reward for r in queued.feed("r")
        }
    finally:
        queued.close()
        ahead.close()


def test_foresight_alone_leaves_nothing(told: Story) -> None:
    """Whatever dies before the commit has promised nothing and is not in the way of a retry."""
    batch = parsed(BATCH[:3])
    seen = foresee(told, "r", batch)
    assert any(plan.ended is not None for plan in seen.plans.values())
    assert rows(told, "checks") == rows(told, "trajectories") == rows(told, "runs") == []
    with pytest.raises(ZeroDivisionError):
        told.service.unit(lambda tx: (told.service.submit_in(tx, PROJECT, "r", batch, seen), 1 / 0))
    assert rows(told, "checks") == rows(told, "rewards") == []
    taken = commit(told, "r", batch, seen)
    assert [one.status for one in taken.results] == ["accepted"] * 3
    assert told.latest("r", "right").status is RewardStatus.FINAL


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_batches_that_share_checks_store_each_once(told: Story, order: tuple[int, ...]) -> None:
    """All foresee before any commits: the first to commit has made the check and pays for it."""
    batches = [
        parsed(
            [
                {"id": f"a{n}", "ladder": "molecule-identity", "answer": "CCO", "problem": GOLD},
                {
                    "id": f"b{n}",
                    "ladder": "molecule-identity",
                    "answer": f"{'C' * (n + 2)}",
                    "problem": GOLD,
                },
            ]
        )
        for n in range(3)
    ]
    seen = [foresee(told, f"r{n}", batch) for n, batch in enumerate(batches)]
    for n in order:
        commit(told, f"r{n}", batches[n], seen[n])
    checks = rows(told, "checks")
    assert len({row["key"] for row in checks}) == len(checks) == 2 + 3 * 2
    assert all(row["state"] == "succeeded" and row["attempt"] == row["fence"] == 1 for row in checks)
    records = [told.latest(f"r{n}", f"a{n}") for n in range(3)]
    assert len({record.evidence for record in records}) == 1
    assert [n for n in range(3) if records[n].cost.cpu_s > 0] == [order[0]]
    with told.service.store.read() as tx:
        spent = [account.spent for n in range(3) for account in tx.ledger.accounts(PROJECT, f"r{n}")]
        credits = [record.credits for n in range(3) for record in told.feed(f"r{n}")]
    assert sum(spent) == pytest.approx(sum(credits))
    assert not any(worker.drain_once() for worker in told.workers)


def test_what_was_foreseen_under_another_ladder_is_not_believed(told: Story) -> None:
    """The ladder changes between the climb in memory and the commit: the new version decides."""
    loose = {
        "name": "close",
        "candidate": {"kind": "math"},
        "outcome": {"use": "math.answer"},
        "truth": "fast",
        "tiers": {"fast": [{"use": "math.answer", "params": {"relative_tolerance": 0.1}}]},
    }
    strict = {**loose, "tiers": {"fast": [{"use": "math.answer"}]}}
    item = {
        "id": "t",
        "ladder": "close",
        "answer": "\\boxed{1.05}",
        "problem": {"reference": {"answer": "1.01"}},
    }
    told.put_ladder(loose)
    batch = parsed([item])
    seen = foresee(told, "r", batch)
    assert any(plan.ended is not None for plan in seen.plans.values())
    told.put_ladder(strict)
    commit(told, "r", batch, seen)
    told.fast()
    record = told.latest("r", "t")
    assert (record.reward, record.status) == (0.0, RewardStatus.FINAL)


def test_a_check_under_way_is_not_made_twice(told: Story) -> None:
    """What the queue has is left to the queue, whenever it came there."""
    batch = parsed(BATCH[:1])
    seen = foresee(told, "late", batch)
    told.service.submit(PROJECT, "first", batch)
    commit(told, "late", batch, seen)
    assert foresee(told, "later", batch).plans.keys()
    assert not any(plan.ended for plan in foresee(told, "later", batch).plans.values())
    told.fast()
    assert all(row["fence"] == 1 for row in rows(told, "checks"))
    first, late = told.latest("first", "right"), told.latest("late", "right")
    assert (first.reward, first.evidence) == (late.reward, late.evidence)
    assert first.credits > 0 == late.credits


def test_a_budget_with_a_limit_reserves_before_anything_runs(told: Story) -> None:
    told.put_run("r", compute=5.0)
    batch = parsed(BATCH[:1])
    assert not foresee(told, "r", batch).plans
    open_ended = foresee(told, "other", batch)
    commit(told, "r", batch, open_ended)
    assert {row["state"] for row in rows(told, "checks")} == {"queued"}, "the limit came meanwhile"
    told.fast()
    assert told.latest("r", "right").status is RewardStatus.FINAL


def test_an_item_that_does_not_end_is_left_to_the_queue(told: Story) -> None:
    items = [{"id": f"t{n}", "ladder": "hostile", "answer": {"do": "ok", "n": n}} for n in range(8)]
    items.insert(4, {"id": "slow", "ladder": "hostile", "answer": {"do": "sleep", "s": 1.5}})
    batch = parsed(items)
    foresee(told, "r", batch[:1])
    seen = once(told, "r", batch)
    ended = {key[0] for key, plan in seen.plans.items() if plan.ended is not None}
    assert {"t0", "t1", "t2", "t3"} <= ended
    assert "slow" not in ended
    assert seen.gave_up
    taken = commit(told, "r", batch, seen)
    assert Tier.FAST in taken.woken
    told.fast()
    assert [told.latest("r", str(item["id"])).reward for item in items] == [1.0] * 9
    assert all(row["attempt"] == 1 for row in rows(told, "checks")), "nobody was blamed"


def gathered(story: Story, harness: Any, *requests: tuple[str, list[Any], bool]) -> list[Intake]:
    """Submit all at once through a gatherer with foresight."""

    async def go() -> list[Intake]:
        gatherer = Gatherer(replace(story.service, quick_harness=lambda: harness), foresight=True)
        calls = [gatherer.submit(PROJECT, run, items, eager=eager) for run, items, eager in requests]
        return await asyncio.gather(*calls)

    return asyncio.run(go())


def test_who_waits_is_answered_with_the_reward_and_who_does_not_is_answered_at_once(
    told: Story, children: ProcessHarness
) -> None:
    waits, goes = parsed(BATCH[:2]), parsed([BATCH[1] | {"id": "queued", "answer": "CCF", "turns": []}])
    foresee(told, "warm", waits)
    outcomes = gathered(
        told, children, ("r1", waits[:1], True), ("r1", goes, False), ("r1", waits[1:], True)
    )
    assert [one.results[0].status for one in outcomes] == ["accepted"] * 3
    assert told.latest("r1", "right").outcome == told.latest("r1", "respelt").outcome == 1.0
    assert told.standing("r1", "queued").status is None
    assert [bool(one.woken) for one in outcomes] == [False, True, False]


def test_when_foresight_fails_the_queue_does_the_work(told: Story) -> None:
    class Broken:
        def run(self, jobs: Collection[object], *_: object) -> Iterator[object]:
            raise OSError("by hand")

    [taken] = gathered(told, Broken(), ("r", parsed(BATCH[:1]), True))
    assert taken.results[0].status == "accepted"
    told.fast()
    assert told.latest("r", "right").status is RewardStatus.FINAL
