"""One bad item in a batch of twenty: nineteen results, one failure, blame on nobody else."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.harnesses import by_id, done, jobs, make_harness, nobody, running, soon
from tiers.harness import ProcessHarness
from verifier_service.domain.evidence import Failure, Finding, Verdict

BAD = 10
KILLED: list[tuple[str, str, str]] = [
    ("spin", "timed_out", "time_limit"),
    ("sleep_in_c", "timed_out", "time_limit"),
    ("eat", "resource", "memory_limit"),
    ("fork_eater", "resource", "memory_limit"),
    ("exit", "transient", "crashed"),
    ("segfault", "transient", "crashed"),
    ("killed", "transient", "worker_lost"),
    ("scribble", "permanent", "bad_output"),
]
SURVIVED: list[tuple[str, str, str]] = [
    ("not_finite", "permanent", "verifier_error"),
    ("not_finite_unvalidated", "permanent", "bad_output"),
    ("not_finite_inside", "permanent", "bad_output"),
    ("nothing", "permanent", "bad_output"),
    ("surrogate", "permanent", "bad_output"),
    ("huge", "permanent", "bad_output"),
    ("raise", "permanent", "verifier_error"),
    ("raise_permanent", "permanent", "not_converged"),
    ("system_exit", "permanent", "verifier_error"),
]


@pytest.fixture(scope="module")
def harness() -> Any:
    harness = make_harness()
    yield harness
    harness.close()


def twenty(act: str | dict[str, Any], **fields: Any) -> Any:
    return jobs(*["ok"] * BAD, act, *["ok"] * (19 - BAD), **{"time_s": 1.0, **fields})


def limits_for(code: str) -> dict[str, Any]:
    return {"time_s": 30.0, "memory_mb": 200} if code == "memory_limit" else {}


def only_failure(harness: ProcessHarness, batch: Any) -> Any:
    results = by_id(harness.run(batch, nobody))
    assert len(results) == 20
    bad = done(results.pop(str(BAD)))
    for result in results.values():
        good = done(result)
        assert isinstance(good.outcome, Finding)
        assert good.outcome.labels["n"] == good.id
        assert not good.blamed
        assert good.limit_hit is None
    return bad


@pytest.mark.parametrize(("act", "kind", "code"), KILLED)
def test_a_killed_item_is_blamed_and_its_neighbours_finish(
    harness: ProcessHarness, act: str, kind: str, code: str
) -> None:
    bad = only_failure(harness, twenty(act, **limits_for(code)))
    assert isinstance(bad.outcome, Failure)
    assert (bad.outcome.kind, bad.outcome.code) == (kind, code)
    assert bad.blamed
    assert bad.outcome.retryable is (kind == "transient")
    assert bad.limit_hit == (code if code.endswith("_limit") else None)
    assert bad.version == "1"
    assert "pydantic" in bad.libraries


@pytest.mark.parametrize(("act", "kind", "code"), SURVIVED)
def test_a_failing_item_costs_no_process(harness: ProcessHarness, act: str, kind: str, code: str) -> None:
    bad = only_failure(harness, twenty(act))
    assert isinstance(bad.outcome, Failure)
    assert (bad.outcome.kind, bad.outcome.code) == (kind, code)
    assert not bad.blamed


@pytest.mark.parametrize(
    "junk", ["x", "VF1", "VF1\x05\x00\x00\x00\x02[]", "VF1\x05\x7f\x00\x00\x00", "VF1\x03"]
)
def test_any_junk_on_the_channel_is_found_out(harness: ProcessHarness, junk: str) -> None:
    results = by_id(harness.run(twenty({"do": "scribble", "junk": junk}), nobody))
    assert len(results) == 20
    unwell = [each for each in map(done, results.values()) if isinstance(each.outcome, Failure)]
    assert [each.id for each in unwell] in ([], [str(BAD)])  # an empty list of results is no harm


def test_an_item_that_closes_the_channel_harms_nobody(harness: ProcessHarness) -> None:
    assert isinstance(only_failure(harness, twenty("close_everything")).outcome, Finding)


def test_a_result_does_not_wait_behind_a_slow_item(harness: ProcessHarness) -> None:
    run = harness.run(jobs("ok", "sleep_in_c", time_s=60.0), nobody)
    started = time.monotonic()
    try:
        assert next(run).id == "0"
        assert time.monotonic() - started < 30.0
    finally:
        run.close()  # type: ignore[attr-defined]


def test_junk_on_standard_output_is_harmless(harness: ProcessHarness) -> None:
    assert isinstance(only_failure(harness, twenty("chatter")).outcome, Finding)


@pytest.mark.parametrize(("act", "code"), [("spin", "time_limit"), ("eat", "memory_limit")])
def test_a_limit_can_be_the_candidates_own_doing(harness: ProcessHarness, act: str, code: str) -> None:
    bad = only_failure(harness, twenty(act, verifier="strict", **limits_for(code)))
    assert isinstance(bad.outcome, Finding)
    assert bad.outcome.verdict is Verdict.REJECT
    assert bad.outcome.reason is not None
    assert (bad.outcome.reason.code, bad.outcome.score) == (code, 0.0)
    assert bad.limit_hit == code
    assert bad.blamed


def test_a_limit_cut_by_the_budget_is_never_a_rejection(harness: ProcessHarness) -> None:
    bad = only_failure(harness, twenty("spin", verifier="strict", limit_is_cut=True))
    assert isinstance(bad.outcome, Failure)
    assert bad.limit_hit == "time_limit"


def test_every_bad_item_is_blamed_alone(harness: ProcessHarness) -> None:
    acts = ["ok", "exit", "ok", "segfault", "exit", "ok", "scribble", "killed", "ok", "scribble"]
    results = by_id(harness.run(jobs(*acts), nobody))
    assert len(results) == len(acts)
    blamed = [n for n, act in enumerate(acts) if done(results[str(n)]).blamed]
    assert blamed == [n for n, act in enumerate(acts) if act != "ok"]


def test_a_grandchild_that_holds_the_pipes_hides_no_death(harness: ProcessHarness, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    bad = only_failure(harness, twenty({"do": "fork_and_exit", "pidfile": str(pidfile)}, time_s=20.0))
    assert (bad.outcome.code, bad.blamed) == ("crashed", True)
    assert bad.wall_s < 15.0
    assert soon(lambda: not running(int(pidfile.read_text())))


def test_nothing_outlives_its_batch(harness: ProcessHarness, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    good = only_failure(harness, twenty({"do": "fork_and_leave", "pidfile": str(pidfile)}))
    assert isinstance(good.outcome, Finding)
    assert soon(lambda: not running(int(pidfile.read_text())))


def test_a_grandchild_in_its_own_session_is_killed_too(harness: ProcessHarness, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    bad = only_failure(harness, twenty({"do": "escape_and_hang", "pidfile": str(pidfile)}))
    assert bad.limit_hit == "time_limit"
    assert soon(lambda: not running(int(pidfile.read_text())))


def test_a_fork_that_returns_twice_answers_once(harness: ProcessHarness) -> None:
    assert isinstance(only_failure(harness, twenty("clone")).outcome, Finding)


def test_cpu_time_is_measured_inside_and_outside(harness: ProcessHarness) -> None:
    acts: tuple[dict[str, Any], ...] = ({"do": "burn", "s": 0.2}, {"do": "sleep", "s": 0.2})
    worked, idle = map(done, harness.run(jobs(*acts, time_s=20.0), nobody))
    (killed,) = map(done, harness.run(jobs("spin", time_s=0.6), nobody))
    assert 0.18 < worked.cost.cpu_s < 1.0
    assert idle.cost.cpu_s < 0.18
    assert idle.wall_s > 0.19
    assert 0.01 < killed.cost.cpu_s < killed.wall_s + 0.1


@pytest.mark.parametrize("stop", ["stop", "raise"])
def test_a_batch_method_that_gives_up_costs_one_item(harness: ProcessHarness, stop: str) -> None:
    batch = jobs(*["ok"] * 6, verifier="lazy")
    batch[2] = replace(batch[2], item=f'{{"candidate": "{stop}"}}')
    results = by_id(harness.run(batch, nobody))
    failed = [key for key, each in results.items() if isinstance(done(each).outcome, Failure)]
    assert len(results) == 6
    assert failed == ["2"]
