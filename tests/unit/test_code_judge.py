"""The time for all tests of a program is not used up by a machine that has no processor for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tiers.coding.cases import Call
from tiers.coding.judge import Rules, judge
from tiers.sandbox.box import Limits
from tiers.sandbox.workshop import Run

RULES = Rules(Limits(1.0, 512), 0.5, None, None)
CASES = [Call(str(number), "f", [], {}, 1) for number in range(9)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that the judge reads: it passes when a call says so."""
    made = Clock()
    monkeypatch.setattr("tiers.coding.judge.time.monotonic", made)
    return made


class Clock:
    """Seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Busy:
    """A workshop in which every call takes 0.2 s, of which the machine starved it for some."""

    def __init__(self, clock: Clock, starved_s: float) -> None:
        self.clock, self.starved_s = clock, starved_s

    def __enter__(self) -> Busy:
        return self

    def __exit__(self, *raised: object) -> None: ...

    def run(self, stdin: bytes, limits: Limits) -> Run:
        raise NotImplementedError

    def call(self, target: str, args: list[Any], kwargs: Mapping[str, Any], limits: Limits) -> Run:
        self.clock.now += 0.2
        return Run("ended", 0, 0, 0.2, 0.0, 1.0, b"", b"", b"V1", self.starved_s)

    def rest(self) -> None: ...


@pytest.mark.parametrize(("starved_s", "least", "most"), [(0.0, 2, 3), (0.1, 4, 5), (0.2, 5, 6)])
def test_starved_time_is_given_back_up_to_as_much_again(
    clock: Clock, starved_s: float, least: int, most: int
) -> None:
    results = judge(Busy(clock, starved_s), None, CASES, RULES)
    assert least <= sum(each.code == "passed" for each in results) <= most
    assert {each.code for each in results} == {"passed", "not_run"}


def test_what_a_test_was_given_beyond_its_limit_is_given_to_all(clock: Clock) -> None:
    rules = RULES._replace(limits=Limits(0.05, 512))
    results = judge(Busy(clock, 0.0), None, CASES, rules)
    assert sum(each.code == "passed" for each in results) >= 5
