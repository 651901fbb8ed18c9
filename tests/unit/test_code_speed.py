"""Speed is measured within the time of one check, whatever programs and references take."""

from __future__ import annotations

import time

import pytest

from tests.integration.test_code_hostile import verify
from tiers.coding import speed
from verifier_service.domain.errors import TaskError

SLOW = "import time\ndef f(n):\n    time.sleep({})\n    return n\n"
CALLS = [{"call": "f", "args": [1], "expected": 1}]


def measured(answer: str, solution: str, total_s: float) -> tuple[float | None, float]:
    """Score and seconds."""
    started = time.monotonic()
    reference = {"tests": CALLS, "solution": solution}
    finding = verify(answer, reference, {"score": "speed", "total_s": total_s}, time_limit_s=20.0)
    return finding.score, time.monotonic() - started


def test_measuring_ends_in_time_and_one_round_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SPEED_S", 13.0)
    score, took_s = measured(SLOW.format(3), SLOW.format(3), 4.0)
    assert 0.8 < (score or 0.0) <= 1.0
    assert took_s < 20.0


def test_a_slow_program_is_slow_and_not_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SPEED_S", 10.0)
    score, took_s = measured(SLOW.format(3.5), SLOW.format(0.1), 4.0)
    assert 0.0 < (score or 0.0) < 0.2
    assert took_s < 20.0


def test_a_reference_that_is_too_slow_to_measure_is_the_task_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speed, "SPEED_S", 10.0)
    for answer in (SLOW.format(0), SLOW.format(3)):
        with pytest.raises(TaskError, match="too slow") as raised:
            measured(answer, SLOW.format(3), 4.0)
        assert raised.value.code == "bad_solution"
