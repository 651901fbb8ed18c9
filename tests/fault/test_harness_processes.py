"""Children as processes: they die with their parent, leak nothing, see nothing, and are reused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

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
from tests.support.verifiers import PLUGIN
from tiers.harness import ProcessHarness
from tiers.harness_nest import PREFIX, Nest, remove_abandoned
from tiers.harness_options import HarnessOptions
from verifier_service.domain.evidence import Failure, Finding
from verifier_service.domain.ports.execution import Done
from verifier_service.settings import Settings

PARENT = """
import sys
from tests.support.harnesses import jobs, make_harness, nobody, verifier_children
harness = make_harness(folder=sys.argv[1])
for result in harness.run(jobs("ok", {"do": sys.argv[2], "pidfile": sys.argv[3]}, time_s=600), nobody):
    print(result.outcome.labels["pid"], flush=True)
"""
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures(all_closed.__name__)


def pid_of(result: object) -> int:
    assert isinstance(result, Done)
    assert isinstance(result.outcome, Finding), result.outcome
    return int(result.outcome.labels["pid"])


@pytest.mark.parametrize("act", ["sleep_in_c", "spin", "fork_and_spin", "fork_and_hang"])
def test_children_die_with_a_killed_parent(tmp_path: Path, act: str) -> None:
    pidfile = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), act, str(pidfile)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        child = int(parent.stdout.readline())
        time.sleep(0.2)
        family = [child, *(each.pid for each in psutil.Process(child).children(recursive=True))]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert soon(lambda: not any(map(running, family)), 20.0)


def test_folders_of_a_killed_parent_are_removed_by_the_next(tmp_path: Path) -> None:
    left, living = Nest(str(tmp_path)), Nest(str(tmp_path))
    os.close(left.page)  # what the kernel does when the parent dies
    for nest in (left, living):
        os.utime(nest.path, (0, 0))
    fresh = tmp_path / f"{PREFIX}fresh"
    fresh.mkdir()
    assert remove_abandoned(str(tmp_path)) == 1
    assert sorted(tmp_path.iterdir()) == sorted([fresh, living.path])
    living.remove()


def test_fifty_runs_leak_nothing(tmp_path: Path) -> None:
    me = psutil.Process()
    harness = make_harness(folder=str(tmp_path))
    list(harness.run(jobs("ok"), nobody))
    descriptors, threads = me.num_fds(), threading.active_count()
    for n in range(50):
        batch = jobs("ok", "exit", "ok") if n % 5 == 0 else jobs(*["ok"] * 5)
        assert len(by_id(harness.run(batch, nobody))) == len(batch)
    assert me.num_fds() <= descriptors  # what earlier tests left may have been collected meanwhile
    assert threading.active_count() <= threads
    assert len(verifier_children()) == len(list(tmp_path.iterdir())) == 1
    harness.close()
    assert verifier_children() == []
    assert list(tmp_path.iterdir()) == []


def test_the_child_sees_nothing_of_the_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VERIFIER_API_KEY", "secret")
    monkeypatch.setenv("VERIFIER_DATA", "/somewhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    harness = make_harness(folder=str(tmp_path))
    (result,) = harness.run(jobs("environment"), nobody)
    outcome = done(result).outcome
    assert isinstance(outcome, Finding)
    labels = outcome.labels
    assert {name.removeprefix("env:") for name in labels if name.startswith("env:")} <= {
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "TMPDIR", "PYTHONHASHSEED", "PYTHONPATH"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    }
    opened = [to for name, to in labels.items() if name.startswith("fd:")]
    nest = next(path for path in tmp_path.iterdir() if path.is_dir())
    allowed = ("pipe:", "/dev/null", "/proc/", str(nest / "log"), str(nest / "page"))
    assert all(to.startswith(allowed) for to in opened), opened
    assert sum(to.startswith("pipe:") for to in opened) == 3
    assert labels["cwd"] == str(nest / "work")
    assert labels["files"] == ""
    assert labels["env:HOME"].startswith(str(nest))
    os.close(secret)


def test_settings_for_verifiers_travel_in_the_environment_only() -> None:
    key = "k-3f9a"
    settings = Settings(sandbox="remote", sandbox_url="http://judge", sandbox_key=key, languages="[]")
    assert key not in repr(settings)
    harness = make_harness(environment={**settings.for_verifiers(), "HOME": "/elsewhere"})
    (result,) = harness.run(jobs("environment"), nobody)
    outcome = done(result).outcome
    assert isinstance(outcome, Finding)
    seen = {name: value for name, value in outcome.labels.items() if name.startswith("env:VERIFIER_")}
    assert seen == {
        "env:VERIFIER_SANDBOX": "remote",
        "env:VERIFIER_SANDBOX_URL": "http://judge",
        "env:VERIFIER_SANDBOX_KEY": key,
        "env:VERIFIER_LANGUAGES": "[]",
    }
    assert outcome.labels["env:HOME"] != "/elsewhere"
    (child,) = verifier_children()
    assert key not in " ".join(child.cmdline())
    assert key not in repr(HarnessOptions(environment=settings.for_verifiers()))


def test_fast_verifiers_share_a_child_and_dear_ones_do_not() -> None:
    harness = make_harness()
    mixed = [
        replace(job, id=name) for name in ("hostile", "strict", "dear") for job in jobs("ok", verifier=name)
    ]
    first, second = (
        {name: pid_of(each) for name, each in by_id(harness.run(mixed, nobody)).items()} for _ in range(2)
    )
    assert first["hostile"] == first["strict"] != first["dear"]
    assert first == second


def test_groups_of_parameters_are_kept_apart() -> None:
    harness = make_harness()
    batch = [
        job
        for n, params in enumerate(({"size": 2}, {}, {"size": 2}, {"size": "x"}, {"size": float("nan")}))
        for job in jobs("ok", verifier="sized", params=params)
        for job in [type(job)(**{**_fields(job), "id": str(n)})]
    ]
    results = by_id(harness.run(batch, nobody))
    sizes = {key: done(each).outcome for key, each in results.items()}
    assert [sizes[key].labels["size"] for key in "012" if isinstance(sizes[key], Finding)] == [
        "2",
        "1",
        "2",
    ]
    assert [sizes[key].code for key in "34" if isinstance(sizes[key], Failure)] == ["invalid_params"] * 2


def _fields(job: object) -> dict[str, object]:
    return {name: getattr(job, name) for name in ("verifier", "params", "item", "time_s", "memory_mb")}


def test_a_worn_child_is_replaced() -> None:
    harness = make_harness(recycle_items=3)
    pids = [pid_of(result) for _ in range(4) for result in harness.run(jobs("ok", "ok"), nobody)]
    assert len(set(pids)) == 2
    assert pids[:4] == [pids[0]] * 4


def test_a_grown_child_is_replaced() -> None:
    harness = make_harness(recycle_growth_mb=100, weigh_s=0.0)
    pids = [
        pid_of(result) for _ in range(4) for result in harness.run(jobs("leak", memory_mb=2000), nobody)
    ]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_an_idle_child_that_died_is_replaced_without_blame() -> None:
    harness = make_harness()
    (first,) = harness.run(jobs("ok"), nobody)
    os.kill(pid_of(first), signal.SIGKILL)
    time.sleep(0.05)
    (second,) = harness.run(jobs("ok"), nobody)
    assert pid_of(second) != pid_of(first)


@pytest.mark.parametrize(
    ("verifier", "code", "words"),
    [
        ("unstartable", "child_start_failed", "no such toolkit"),
        ("dying_start", "child_start_failed", "ended with 9"),
        ("missing", "child_start_failed", "needs the extra"),
        ("external", "external_verifier", "not executed"),
        ("unheard_of", "unknown_verifier", "unheard_of"),
    ],
)
def test_what_cannot_start_blames_nobody(verifier: str, code: str, words: str) -> None:
    harness = make_harness()
    results = by_id(harness.run(jobs("ok", "ok", verifier=verifier), nobody))
    assert len(results) == 2
    for result in map(done, results.values()):
        assert isinstance(result.outcome, Failure)
        assert result.outcome.code == code
        assert result.outcome.retryable is (code == "child_start_failed")
        assert words in result.outcome.message
        assert not result.blamed


def test_warming_up_has_a_limit_of_its_own() -> None:
    patient, hasty = make_harness(), make_harness(start_s=0.3)
    (result,) = patient.run(jobs("ok", verifier="slow_start", time_s=0.2), nobody)
    assert isinstance(done(result).outcome, Finding)
    (result,) = hasty.run(jobs("ok", verifier="slow_start", time_s=0.2), nobody)
    failure = done(result).outcome
    assert isinstance(failure, Failure)
    assert failure.code == "child_start_failed"


def test_a_harness_per_thread() -> None:
    outcomes: dict[int, list[bool]] = {}

    def work(number: int) -> None:
        harness = make_harness()
        results = by_id(harness.run(jobs("ok", "exit", *["ok"] * 20), nobody))
        outcomes[number] = [done(results[str(n)]).blamed for n in range(22)]
        harness.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {number: [False, True, *[False] * 20] for number in range(4)}


def test_a_child_outlives_the_thread_that_first_used_it() -> None:
    harness = make_harness()
    pids: list[int] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: pids.extend(map(pid_of, harness.run(jobs("ok"), nobody))))
        thread.start()
        thread.join()
        time.sleep(0.1)
    assert pids[0] == pids[1]


def test_a_forgotten_harness_leaves_no_folder(tmp_path: Path) -> None:
    code = PARENT.replace("time_s=600", "time_s=5")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path), "ok", "-"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert run.stderr == b""
    assert list(tmp_path.iterdir()) == []
    assert len(run.stdout.split()) == 2


def test_only_one_thread_may_run_at_a_time() -> None:
    harness: ProcessHarness = make_harness()
    first = harness.run(jobs("ok", "ok"), nobody)
    next(first)
    with pytest.raises(RuntimeError, match="already running"):
        next(harness.run(jobs("ok"), nobody))
    list(first)


def test_the_default_folder_is_the_systems() -> None:
    harness = make_harness()
    list(harness.run(jobs("ok"), nobody))
    assert list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    assert PLUGIN in sys.modules
