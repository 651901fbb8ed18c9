"""Running a verifier for the conformance suite: in the real harness, and in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.conformance_inputs import Try
from tiers.conformance_process import DEATH, Act, Fact, Order
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.domain.ports.execution import Done, Job
from verifier_service.domain.records import JsonObject
from verifier_service.domain.verifiers import CheckInput, VerifierInfo

ROOT = Path(__file__).resolve().parents[1]
SPARE_S = 60.0
LINGER_S = 3.0
LONGEST_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Played:
    """What one process reported, how it ended, and what it wrote to its standard output."""

    facts: tuple[Fact, ...]
    status: int
    printed: bytes
    last_words: str
    running: tuple[int, ...] = ()
    timed_out: bool = False

    def of(self, act: Act) -> list[Fact]:
        """The outcomes of one act, in the order of the items."""
        return sorted((fact for fact in self.facts if fact.act == act and fact.index >= 0), key=_index)

    def left(self, act: Act) -> Fact | None:
        """What an act left behind."""
        return next((fact for fact in self.facts if fact.act == act and fact.index < 0), None)

    def ending(self) -> str | None:
        """Why it did not come to its end, or ``None``."""
        if self.timed_out:
            return "the process did not come to an end and was killed"
        if self.status not in (0, DEATH):
            words = self.last_words.strip().splitlines()
            return f"the process ended with status {self.status}: {words[-1][:200] if words else ''}"
        return None


def _index(fact: Fact) -> int:
    return fact.index


def play(
    path: str,
    info: VerifierInfo,
    params: JsonObject,
    items: Sequence[CheckInput],
    acts: Sequence[Act],
    *,
    hash_seed: int,
    environment: Mapping[str, str],
) -> Played:
    """Run acts in a process of their own, with folders that are its alone and nothing of this process's
    environment but what is given."""
    limit_s = min(LONGEST_S, info.limits.time_s * len(items) * len(acts) + SPARE_S)
    texts = tuple(item.model_dump_json() for item in items)
    order = Order(path=path, params=params, items=texts, acts=tuple(acts))
    with tempfile.TemporaryDirectory(prefix="verifier-conformance-") as folder:
        place = Path(folder)
        (place / "work").mkdir()
        (place / "order").write_text(order.model_dump_json())
        (place / "report").touch()
        with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
            files = (str(place / "order"), str(place / "report"))
            process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "tiers.conformance_process", *files],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=place / "work",
                env={**environment, **_environment(place / "work", hash_seed)},
                start_new_session=True,
            )
            timed_out, status = _ended(process, limit_s)
        facts = [Fact.model_validate_json(line) for line in _whole_lines(place / "report")]
        running = _still_running({pid for fact in facts for pid in fact.processes})
        return Played(
            facts=tuple(facts),
            status=status,
            printed=(place / "out").read_bytes()[:10_000],
            last_words=(place / "err").read_bytes()[-2_000:].decode("utf-8", "replace"),
            running=running,
            timed_out=timed_out,
        )


def _environment(folder: Path, hash_seed: int) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": str(hash_seed),
        "OMP_NUM_THREADS": "1",
    }


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bool, int]:
    try:
        return False, process.wait(limit_s)
    except subprocess.TimeoutExpired:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        return True, process.wait()


def _whole_lines(report: Path) -> list[str]:
    text = report.read_text("utf-8")
    return text[: text.rfind("\n") + 1].splitlines()


def _still_running(pids: set[int]) -> tuple[int, ...]:
    """Those that outlive the process that started them; they are ended here."""
    until = time.monotonic() + LINGER_S
    while time.monotonic() < until and any(map(_alive, pids)):
        time.sleep(0.05)
    left = tuple(sorted(filter(_alive, pids)))
    for pid in left:
        psutil.Process(pid).kill()
    return left


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def in_harness(
    path: str,
    info: VerifierInfo,
    params: JsonObject,
    tries: Sequence[Try],
    environment: Mapping[str, str],
) -> dict[str, Done]:
    """Every item through the real harness, under the limits that the verifier declares."""
    catalog = VerifierCatalog(Sources((path,), shipped={}, installed=False), folder=ROOT / "nowhere")
    harness = ProcessHarness(catalog, HarnessOptions(plugins=(path,), environment=dict(environment)))
    jobs = [
        Job(
            id=str(number),
            verifier=info.name,
            params=params,
            item=each.item.model_dump_json(exclude_defaults=True),
            time_s=info.limits.time_s,
            memory_mb=info.limits.memory_mb,
        )
        for number, each in enumerate(tries)
    ]
    names = {job.id: each.name for job, each in zip(jobs, tries, strict=True)}
    try:
        results = list(harness.run(jobs, lambda: ()))
    finally:
        harness.close()
    return {names[result.id]: result for result in results if isinstance(result, Done)}
