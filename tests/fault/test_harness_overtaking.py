"""A slow item is left alone with its child, and everything behind it goes on elsewhere."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.harnesses import (
    all_closed,
    by_id,
    done,
    jobs,
    make_harness,
    nobody,
    running,
    soon,
    verifier_children,
)
from tests.support.server import patience
from verifier_service.domain.evidence import Failure, Finding
from verifier_service.domain.ports.execution import Done, Job, Released

pytestmark = pytest.mark.usefixtures(all_closed.__name__)

LONG = 600.0
ROOT = Path(__file__).parents[2]


def hanging(batch: list[Job], time_s: float) -> list[Job]:
    """Give the items that hang a deadline of their own; the others shall never reach theirs."""
    return [
        replace(job, time_s=time_s if job.item.candidate["do"] in ("sleep_in_c", "spin") else LONG)  # type: ignore[union-attr,index,call-overload]
        for job in batch
    ]


def test_five_percent_hang_among_two_thousand() -> None:
    dice = random.Random(5)
    acts = ["sleep_in_c" if dice.random() < 0.05 else "ok" for _ in range(2000)]
    harness = make_harness(fast_children=8, spare_children=1)
    results = by_id(harness.run(hanging(jobs(*acts), 0.3), nobody))
    assert len(results) == 2000
    for n, act in enumerate(acts):
        result = done(results[str(n)])
        if act == "ok":
            assert isinstance(result.outcome, Finding)
            assert result.outcome.labels["n"] == str(n)
            assert not result.blamed
        else:
            assert isinstance(result.outcome, Failure)
            assert (result.limit_hit, result.blamed) == ("time_limit", True)
            assert result.wall_s >= 0.3


def test_nobody_waits_behind_a_hanging_item() -> None:
    unwanted: set[str] = set()
    acts = ["ok"] * 300
    acts[0] = acts[7] = acts[120] = "spin"
    results: dict[str, Done | Released] = {}
    for result in make_harness(fast_children=4).run(jobs(*acts, time_s=LONG), lambda: unwanted):
        assert result.id not in results
        results[result.id] = result
        if len(results) == 297:
            assert all(isinstance(done(each).outcome, Finding) for each in results.values())
            unwanted.update({"0", "7", "120"})
    stopped = [results[key] for key in ("0", "7", "120")]
    assert all(isinstance(each, Released) and each.note == "cancelled" for each in stopped)
    assert all(each.cost.cpu_s > 0.0 for each in stopped)


def test_jobs_that_come_later_pass_a_hanging_item() -> None:
    """``more`` is asked while the item executes, and what it returns runs in another child."""
    unwanted: set[str] = set()
    later = [replace(job, id=f"later{job.id}") for job in jobs(*["ok"] * 50, time_s=LONG)]
    told: list[frozenset[str]] = []

    def more(enough: frozenset[str]) -> list[Job]:
        told.append(enough)
        return [later.pop() for _ in range(min(10, len(later)))]

    results = []
    for result in make_harness().run(jobs("spin", time_s=LONG), lambda: unwanted, None, more):
        results.append(result.id)
        if len(results) == 50:
            unwanted.add("0")
    assert Counter(results) == Counter([f"later{n}" for n in range(50)] + ["0"])
    assert frozenset() in told


def test_when_every_child_is_slow_the_rest_waits_and_nothing_is_lost() -> None:
    acts = ["sleep_in_c", "ok"] * 4 + ["ok"] * 12
    harness = make_harness(fast_children=2)
    results = by_id(harness.run(hanging(jobs(*acts), 0.5), nobody))
    assert len(results) == len(acts)
    assert [done(results[str(n)]).blamed for n in range(len(acts))] == [act != "ok" for act in acts]
    assert len(verifier_children()) <= 2


def test_one_child_is_enough_without_overtaking() -> None:
    acts = ["ok", "sleep_in_c", "ok", "sleep_in_c", "ok"]
    results = by_id(make_harness(fast_children=1).run(hanging(jobs(*acts), 0.3), nobody))
    assert [done(results[str(n)]).blamed for n in range(5)] == [act != "ok" for act in acts]


def test_an_overtaken_child_that_is_killed_blames_its_item_alone(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    acts: list[Any] = ["ok"] * 20
    acts[3] = {"do": "hang", "pidfile": str(pidfile)}
    results: dict[str, Done | Released] = {}
    for result in make_harness().run(jobs(*acts, time_s=LONG), nobody):
        results[result.id] = result
        if len(results) == 19:
            os.kill(int(pidfile.read_text()), signal.SIGKILL)
    lost = done(results.pop("3"))
    assert isinstance(lost.outcome, Failure)
    assert (lost.outcome.code, lost.blamed) == ("worker_lost", True)
    assert not any(done(each).blamed for each in results.values())


def test_a_child_that_is_killed_while_it_overtakes_costs_its_own_item_only(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    acts: list[Any] = ["ok", "spin", *["ok"] * 5, {"do": "hang", "pidfile": str(pidfile)}, *["ok"] * 5]
    unwanted: set[str] = set()
    results: dict[str, Done | Released] = {}
    for result in make_harness(fast_children=3).run(jobs(*acts, time_s=LONG), lambda: unwanted):
        results[result.id] = result
        if len(results) == 11:
            os.kill(int(pidfile.read_text()), signal.SIGKILL)
        if len(results) == 12:
            unwanted.add("1")
    assert isinstance(results.pop("1"), Released)
    assert [key for key, each in results.items() if done(each).blamed] == ["7"]


def test_memory_is_bounded_while_overtaken(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    acts: list[Any] = ["ok", {"do": "eat_when", "sign": str(sign)}, *["ok"] * 20]
    order: list[Done] = []
    for result in make_harness().run(jobs(*acts, time_s=LONG, memory_mb=200), nobody):
        order.append(done(result))
        if len(order) == 21:
            sign.touch()
    assert (order[-1].id, order[-1].limit_hit, order[-1].blamed) == ("1", "memory_limit", True)
    assert not any(each.blamed for each in order[:-1])


@pytest.mark.parametrize("pause", [0.0005, 0.001, 0.002, 0.003])
def test_items_that_end_as_they_are_overtaken_run_once(tmp_path: Path, pause: float) -> None:
    """Every execution leaves a mark: none twice, none missing, whoever came first."""
    harness = make_harness(overtake_s=0.001, fast_children=3)
    for turn in range(12):
        file = tmp_path / str(turn)
        acts = [{"do": "mark", "file": str(file), "s": pause} for _ in range(30)]
        results = by_id(harness.run(jobs(*acts, time_s=LONG), nobody))
        assert len(results) == 30
        assert not any(done(each).blamed for each in results.values())
        assert Counter(file.read_text().split()) == Counter(str(n) for n in range(30))
    assert len(verifier_children()) <= 3


def test_closing_gives_back_the_overtaken_and_the_waiting() -> None:
    harness = make_harness(fast_children=2)
    run = harness.run(jobs("ok", "spin", "ok", "spin", "ok", "ok", time_s=LONG), nobody)
    first = [next(run), next(run)]
    assert {each.id for each in first} == {"0", "2"}
    closer = threading.Timer(0.3, harness.close)
    closer.start()
    rest = by_id(run)
    closer.join()
    assert {key: each.note for key, each in rest.items() if isinstance(each, Released)} == dict.fromkeys(
        "1345", "closing"
    )
    assert verifier_children() == []


def test_an_abandoned_run_kills_the_overtaken(tmp_path: Path) -> None:
    pids = [tmp_path / "a", tmp_path / "b"]
    first, second = ({"do": "hang", "pidfile": str(pid)} for pid in pids)
    run = make_harness().run(jobs(first, "ok", second, "ok", time_s=LONG), nobody)
    next(run)
    assert soon(lambda: all(pid.exists() and pid.read_text() for pid in pids), patience(10.0))
    run.close()  # type: ignore[attr-defined]
    assert not any(running(int(pid.read_text())) for pid in pids)


def test_a_slow_consumer_delays_no_deadline() -> None:
    """The limits are enforced while the caller is busy with the results it has."""
    run = make_harness().run(hanging(jobs("ok", "sleep_in_c", "ok"), 0.3), nobody)
    assert next(run).id == "0"
    assert soon(lambda: len(verifier_children()) <= 1, patience(10.0))
    blamed = [done(each) for each in run if done(each).blamed]
    assert [each.id for each in blamed] == ["1"]


def test_what_overtakes_needs_no_start(tmp_path: Path) -> None:
    """``heavy`` takes a second of CPU to warm up; a copy of the template is warm when it is made."""
    harness = make_harness(spare_children=1)
    first = done(next(iter(by_id(harness.run(jobs("ok", verifier="heavy"), nobody)).values())))
    assert isinstance(first.outcome, Finding)
    template = int(first.outcome.labels["pid"])

    def copied() -> bool:
        list(harness.run(jobs({"do": "sleep", "s": 0.02}, verifier="heavy"), nobody))
        return any(child.children() for child in verifier_children() if child.pid != template)

    assert soon(copied, patience(30.0))
    for _ in range(5):
        acts: list[Any] = ["sleep_in_c", *["ok"] * 20]
        results = by_id(harness.run(hanging(jobs(*acts, verifier="heavy"), 0.2), nobody))
        assert [done(results[str(n)]).blamed for n in range(21)] == [True, *[False] * 20]
    copies = [copy for child in verifier_children() for copy in child.children()]
    assert copies
    assert all(sum(copy.cpu_times()[:2]) < 1.0 for copy in copies)
    harness.close()
    assert soon(lambda: not any(running(copy.pid) for copy in copies))


def test_a_template_that_is_killed_is_replaced_and_its_copies_work_on() -> None:
    harness = make_harness(spare_children=1)

    def template() -> psutil.Process | None:
        list(harness.run(jobs("ok", {"do": "sleep", "s": 0.02}), nobody))
        return next((child for child in verifier_children() if child.children()), None)

    assert soon(lambda: template() is not None, patience(30.0))
    found = template()
    assert found is not None
    copies = found.children()
    found.kill()
    for _ in range(5):
        acts = ["ok", "sleep_in_c", "ok", "exit", *["ok"] * 10]
        results = by_id(harness.run(hanging(jobs(*acts), 0.2), nobody))
        assert [key for key, each in sorted(results.items()) if done(each).blamed] == ["1", "3"]
    harness.close()
    assert soon(lambda: not any(running(copy.pid) for copy in copies))


@pytest.mark.parametrize("act", ["exit", "segfault", "killed"])
def test_how_a_copy_ended_is_known(act: str) -> None:
    codes = {"exit": "status 3", "segfault": "SIGSEGV", "killed": "SIGKILL"}
    harness = make_harness(spare_children=1)
    assert soon(lambda: _copied(harness), patience(30.0))
    results = by_id(harness.run(jobs("spin", act, "ok", time_s=1.0), nobody))
    ended = done(results["1"])
    assert isinstance(ended.outcome, Failure)
    assert codes[act] in ended.outcome.message
    assert ended.blamed


def _copied(harness: Any) -> bool:
    list(harness.run(jobs("ok", {"do": "sleep", "s": 0.02}), nobody))
    return any(child.children() for child in verifier_children())


COPYING_PARENT = """
import sys, time
from tests.support.harnesses import jobs, make_harness, nobody, verifier_children
harness = make_harness(folder=sys.argv[1], spare_children=1)
while not any(child.children() for child in verifier_children()):
    list(harness.run(jobs("ok", {"do": "sleep", "s": 0.02}), nobody))
for result in harness.run(jobs("ok", "spin", "ok", "fork_and_spin", "ok", time_s=600), nobody):
    print(result.id, flush=True)
"""


def test_copies_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", COPYING_PARENT, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        assert {int(parent.stdout.readline()) for _ in range(3)} == {0, 2, 4}
        family = [each.pid for each in psutil.Process(parent.pid).children(recursive=True)]
        assert len(family) >= 4
        parent.kill()
        parent.wait()
    assert soon(lambda: not any(map(running, family)), patience(2.0))


def test_a_copy_sees_no_more_than_other_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_API_KEY", "secret")
    harness = make_harness(spare_children=1, folder=str(tmp_path))
    assert soon(lambda: _copied(harness), patience(30.0))
    results = by_id(harness.run(hanging(jobs("sleep_in_c", "environment"), 0.3), nobody))
    outcome = done(results["1"]).outcome
    assert isinstance(outcome, Finding)
    labels = outcome.labels
    assert "env:VERIFIER_API_KEY" not in labels
    nest = Path(labels["cwd"]).parent
    assert labels["env:HOME"] == str(nest / "home")
    assert labels["env:TMPDIR"] == str(nest / "tmp")
    opened = [to for name, to in labels.items() if name.startswith("fd:")]
    assert all(to.startswith(("pipe:", "/dev/null", "/proc/", str(nest))) for to in opened), opened
    assert sum(to.startswith("pipe:") for to in opened) == 3


def test_twenty_thousand_items_leave_nothing(tmp_path: Path) -> None:
    me = psutil.Process()
    harness = make_harness(folder=str(tmp_path), fast_children=4)
    dice = random.Random(20)
    list(harness.run(jobs("ok"), nobody))
    descriptors, threads = me.num_fds(), threading.active_count()
    for _ in range(20):
        acts = ["ok"] * 1000
        for act in ("sleep_in_c", "exit", "spin", "killed", "clone"):
            acts[dice.randrange(1000)] = act
        results = by_id(harness.run(hanging(jobs(*acts), 0.2), nobody))
        assert len(results) == 1000
        assert {acts[int(key)] for key, each in results.items() if done(each).blamed} <= set(acts) - {"ok"}
    harness.close()
    assert verifier_children() == []
    assert list(tmp_path.iterdir()) == []
    assert me.num_fds() <= descriptors
    assert threading.active_count() == threads
