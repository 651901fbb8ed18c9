"""What a machine offers, what a verifier lacks there, and who will claim a check."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from verifier_service.domain.evidence import Tier
from verifier_service.domain.resources import Needs, Offer, lacking
from verifier_service.domain.workers import Kind, VerifierHere, Worker, WorkerCard, WorkerState, nobody_runs
from verifier_service.settings import Settings
from verifier_service.worker import machine

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = Kind("xtb.gap", "2")


@pytest.mark.parametrize(
    ("needs", "memory_mb", "missing"),
    [
        ({}, 1_000, None),
        ({"cpus": 2.0, "gpus": 1, "tags": ["a100"]}, 4_000, None),
        ({"tags": ["b", "a100", "a"]}, 1, "no tag a, no tag b"),
        ({"gpus": 2}, 1, "1 of 2 GPUs"),
        ({"cpus": 2.5}, 1, "2 of 2.5 cores"),
        ({}, 4_001, "4000 of 4001 MiB of memory"),
        ({"cpus": 3, "tags": ["x"]}, 9_000, "no tag x, 2 of 3 cores, 4000 of 9000 MiB of memory"),
    ],
)
def test_what_is_lacking(needs: dict[str, Any], memory_mb: int, missing: str | None) -> None:
    offer = Offer(cpus=2.0, gpus=1, memory_mb=4_000, tags=("a100", "other"))
    assert lacking(Needs.model_validate(needs), memory_mb, offer) == missing


def test_no_gpu_at_all() -> None:
    assert lacking(Needs(gpus=1), 1, Offer(cpus=1.0, memory_mb=1)) == "no GPU"


@pytest.mark.parametrize("tag", ["", " a", "a b", "a,b", "-a", "x" * 65])
def test_tags_are_names(tag: str) -> None:
    with pytest.raises(ValidationError):
        Needs(tags=(tag,))


def worker(host: str = "vm-1", *, state: str = "alive", silent_s: float = 1.0, **changes: Any) -> Worker:
    values: dict[str, Any] = {
        "id": f"{host}/1",
        "host": host,
        "pid": 1,
        "tier": Tier.SIMULATION,
        "resources": Offer(cpus=1.0, memory_mb=1),
        "verifiers": (VerifierHere(name="xtb.gap", version="2"),),
    }
    card = WorkerCard(**(values | changes))
    return Worker(
        card=card, state=WorkerState(state), started_at=NOW, beat_at=NOW, silent_s=silent_s, current=()
    )


def here(**changes: Any) -> tuple[VerifierHere, ...]:
    return (VerifierHere(**({"name": "xtb.gap", "version": "2"} | changes)),)


def test_somebody_runs_it() -> None:
    assert nobody_runs(KIND, Tier.SIMULATION, [worker(state="lost"), worker("vm-2")]) is None


def test_one_that_refuses_takes_everything() -> None:
    assert nobody_runs(KIND, Tier.SIMULATION, [worker(verifiers=(), refuses=True)]) is None


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ([], "no worker of tier simulation is alive"),
        (
            [worker(state="lost", silent_s=70.0), worker("vm-2", state="stopped", silent_s=40.0)],
            "no worker of tier simulation is alive (last seen 40 s ago on vm-2)",
        ),
        (
            [worker(verifiers=here(lacking="no GPU")), worker("vm-2", state="lost", silent_s=9.0)],
            "no living worker of tier simulation runs xtb.gap 2: vm-1 lacks it: no GPU"
            " (last seen 9 s ago on vm-2)",
        ),
        (
            [worker(verifiers=here(libraries={"tblite": "0.4"}))],
            "no living worker of tier simulation runs xtb.gap 2: vm-1 has other libraries: tblite 0.4",
        ),
        (
            [worker(verifiers=here(version="1")), worker("vm-2", verifiers=())],
            "no living worker of tier simulation runs xtb.gap 2: vm-1 has version 1; vm-2 does not know it",
        ),
        (
            [worker(f"vm-{n}", verifiers=()) for n in range(5)],
            "no living worker of tier simulation runs xtb.gap 2: vm-0 does not know it;"
            " vm-1 does not know it; vm-2 does not know it and 2 more",
        ),
    ],
)
def test_nobody_runs_it(workers: list[Worker], words: str) -> None:
    assert nobody_runs(KIND, Tier.SIMULATION, workers) == words


def test_libraries_that_differ_are_named_where_anybody_knows_them() -> None:
    asked = VerifierHere(name="xtb.gap", version="2", libraries={"tblite": "0.5", "ase": "3"})
    other = worker(verifiers=here(libraries={"tblite": "0.4", "ase": "3"}))
    words = "vm-1 has other libraries: tblite 0.4 instead of 0.5"
    told = nobody_runs(asked.kind, Tier.SIMULATION, [other], asked)
    assert told == f"no living worker of tier simulation runs xtb.gap 2: {words}"
    lost = worker("vm-2", verifiers=(asked,), state="lost", silent_s=9.0)
    told = nobody_runs(asked.kind, Tier.SIMULATION, [other, lost])
    assert told is not None
    assert told.endswith(f"{words} (last seen 9 s ago on vm-2)")
    assert nobody_runs(asked.kind, Tier.SIMULATION, [worker(verifiers=(asked,))]) is None


def test_a_refusing_worker_that_is_lost_takes_nothing() -> None:
    assert nobody_runs(KIND, Tier.SIMULATION, [worker(refuses=True, state="lost")]) is not None


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_control_group_bounds_cores_and_memory(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/pod/box\n")
    put(tmp_path, "sys/fs/cgroup/pod/box/cpu.max", "max 100000\n")
    put(tmp_path, "sys/fs/cgroup/pod/cpu.max", "50000 100000\n")
    put(tmp_path, "sys/fs/cgroup/pod/box/memory.max", "1073741824\n")
    put(tmp_path, "sys/fs/cgroup/pod/memory.max", "max\n")
    assert machine.cores(tmp_path) == 0.5
    assert machine.memory(tmp_path) == 1 << 30


def test_control_groups_of_the_first_version(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n9:memory:/docker/1\n1:name=systemd:/x\n")
    put(tmp_path, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "25000\n")
    put(tmp_path, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n")
    put(tmp_path, "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "536870912\n")
    put(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert machine.cores(tmp_path) == 0.25
    assert machine.memory(tmp_path) == 512 << 20


def test_without_control_groups_it_is_the_machine(tmp_path: Path) -> None:
    assert machine.cores(tmp_path) >= 1.0
    assert machine.memory(tmp_path) > 64 << 20


def test_gpus_as_the_driver_lists_them(tmp_path: Path) -> None:
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / bus).mkdir(parents=True)
    assert machine.gpu_count(tmp_path) == 2


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("echo 'GPU 0: NVIDIA A100 (UUID: GPU-1)'; echo '  MIG 1g.5gb Device 0: (UUID: MIG-1)'", 1),
        ("echo 'NVIDIA-SMI has failed'; exit 9", 0),
    ],
)
def test_gpus_as_nvidia_smi_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, count: int
) -> None:
    put(tmp_path, "bin/nvidia-smi", f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert machine.gpu_count(tmp_path) == count


def test_no_gpu_where_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpu_count(tmp_path) == 0


def test_settings_go_before_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TAGS": " b, a,b,", "CPUS": "0.5", "GPUS": "3", "MEMORY_MB": "77"}.items():
        monkeypatch.setenv(f"VERIFIER_WORKER_{name}", value)
    offer = machine.offer(Settings(data=tmp_path))
    assert offer == Offer(cpus=0.5, gpus=3, memory_mb=77, tags=("a", "b"))


def test_what_a_worker_needs_itself_is_not_offered(tmp_path: Path) -> None:
    assert machine.offer(Settings(data=tmp_path)).memory_mb == machine.memory() // 2**20 - 150


def test_a_tag_that_is_none_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERIFIER_WORKER_TAGS", "fine,not fine")
    with pytest.raises(ValidationError, match="worker_tags"):
        Settings(data=tmp_path)
