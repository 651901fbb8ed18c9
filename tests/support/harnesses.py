"""Harnesses over the test verifiers, and small questions about processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psutil
import pytest

from tests.support.verifiers import PLUGIN
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.domain.ports.execution import Done, Job, Released
from verifier_service.domain.verifiers import CheckInput

CATALOG = VerifierCatalog(Sources((PLUGIN,), shipped={}, installed=False))


_MADE: list[ProcessHarness] = []


def make_harness(**options: Any) -> ProcessHarness:
    """A harness whose children know the test verifiers; without spares, so that they can be counted."""
    harness = ProcessHarness(
        CATALOG, HarnessOptions(**{"plugins": (PLUGIN,), "spare_children": 0, **options})
    )
    _MADE.append(harness)
    return harness


def verifier_children() -> list[psutil.Process]:
    """The verifier processes of this process; servers that other tests share are not among them."""
    return [child for child in psutil.Process().children() if _is_verifier(child)]


def _is_verifier(process: psutil.Process) -> bool:
    try:
        return "tiers.child" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


@pytest.fixture
def all_closed() -> Iterator[None]:
    """Close every harness made by the test, however it ends."""
    yield
    while _MADE:
        _MADE.pop().close()


def jobs(*acts: str | dict[str, Any], verifier: str = "hostile", **fields: Any) -> list[Job]:
    """One job per act, with the ids ``0``, ``1``, and so on."""
    bounds = {"time_s": 2.0, "memory_mb": 400, **fields}
    items = [{"do": act} if isinstance(act, str) else act for act in acts]
    return [
        Job(id=str(n), verifier=verifier, item=CheckInput(candidate={"n": n, **item}), **bounds)
        for n, item in enumerate(items)
    ]


def nobody() -> tuple[str, ...]:
    """No job is cancelled."""
    return ()


def by_id(results: Iterable[Done | Released]) -> dict[str, Done | Released]:
    """Results by id; fails when an id comes twice."""
    found: dict[str, Done | Released] = {}
    for result in results:
        assert result.id not in found, f"{result.id} came twice"
        found[result.id] = result
    return found


def done(result: Done | Released) -> Done:
    """The result as one that ended."""
    assert isinstance(result, Done), result
    return result


def running(pid: int) -> bool:
    """True while the process can still do something (a zombie cannot)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait for a condition; return whether it came true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
