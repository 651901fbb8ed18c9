"""``verifier demo`` as a stranger runs it: the first prompts, as a process, and its data afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import server as servers
from verifier_service.cli.demo import RUN, recorded
from verifier_service.client import Client
from verifier_service.domain.rewards import RewardCode, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import CaseView

GROUPS = 1
COMMAND = [sys.executable, "-m", "verifier_service.cli", "demo", "--groups", str(GROUPS)]
SOFT = ("nitrogen_chain", "oxygen_chain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def summary(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*COMMAND, "--json", "--data", str(folder)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "verifier serve --data" in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def cases(folder: Path, summary: dict[str, Any]) -> dict[str, CaseView]:
    """Every case, read from the service started again on the demo's data."""
    with servers.running(folder, plugins="[]") as server, Client(server.url, server.key) as client:
        ids = {line["id"] for line in recorded(GROUPS)}
        return {one: client.trajectory(RUN, one) for one in ids}


def test_the_summary_adds_up(summary: dict[str, Any]) -> None:
    lines = recorded(GROUPS)
    assert summary["trajectories"] == len({line["id"] for line in lines})
    assert sum(summary["submitted"].values()) == len(lines)
    rewards = summary["rewards"]
    assert rewards["scored"] + rewards["null"] == summary["trajectories"]
    by_tier = {tier["tier"]: tier for tier in summary["tiers"]}
    found = summary["comparison"]
    assert found["measured"] == by_tier["high_fidelity"]["checks"]
    assert 0 < found["measured"] <= found["distinct"] <= found["readable"]
    assert found["spent_credits"] == pytest.approx(sum(tier["credits"] for tier in summary["tiers"]))
    assert found["each_trajectory_credits"] == pytest.approx(found["mean_credits"] * found["readable"])
    compute = next(one for one in summary["accounts"] if one["kind"] == "compute")
    assert compute["spent"] == pytest.approx(found["spent_credits"])
    assert compute["reserved"] == 0.0
    assert summary["reviews"]


def test_every_kind_gets_what_its_readme_says(cases: dict[str, CaseView]) -> None:
    for line in recorded(GROUPS):
        kind = line["metadata"]["kind"]
        _expect(kind, cases[line["id"]].rewards[-1])


def _expect(kind: str, record: RewardRecord) -> None:
    if kind == "outside_method":
        assert record.reward is None, kind
        assert record.reason is not None
        assert record.reason.code is RewardCode.UNVERIFIABLE
    elif kind == "molecule":
        assert record.outcome is not None
        assert record.reason is None
    else:
        assert record.outcome == 0.0, kind
        assert record.reason is not None
        assert record.reason.code is RewardCode.REJECTED
        wanted = RewardStatus.PROVISIONAL if kind in SOFT else RewardStatus.FINAL
        assert record.status is wanted, kind


def test_equal_molecules_are_measured_once(cases: dict[str, CaseView]) -> None:
    keys: dict[tuple[str, str], set[str]] = {}
    for case in cases.values():
        for demand in case.demands:
            if case.canonical is not None and demand.check is not None and demand.role == "measure":
                keys.setdefault((case.canonical, demand.path), set()).add(demand.check.key)
    assert keys
    assert all(len(found) == 1 for found in keys.values())


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(
        [*COMMAND, "--json"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        children = _children(demo.pid, at_least=3)
        demo.send_signal(signal.SIGTERM)
        _, complaint = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert demo.returncode != 0
    assert b"Traceback" not in complaint
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def _children(pid: int, *, at_least: int) -> list[psutil.Process]:
    """The server and the children in which verifiers run."""
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= at_least:
            return found
        time.sleep(0.2)
    raise AssertionError("the demo's server started no workers")
