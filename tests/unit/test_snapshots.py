"""Figures that are kept: counted again after a while, and never more than they may cost."""

from __future__ import annotations

from verifier_service.bootstrap.snapshots import Snapshots


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_figure_is_kept_for_five_seconds_or_ten_times_what_it_took() -> None:
    clock, made = Clock(), []
    snapshots = Snapshots(clock)

    def count(takes: float) -> int:
        clock.now += takes
        made.append(takes)
        return len(made)

    assert snapshots.of("a", lambda: count(0.1)).value == 1
    clock.now += 4.9
    seen = snapshots.of("a", lambda: count(0.1))
    assert (seen.value, round(seen.age_s, 3), round(seen.took_s, 3)) == (1, 4.9, 0.1)
    clock.now += 0.2
    assert snapshots.of("a", lambda: count(3.0)).value == 2
    clock.now += 29.0
    assert snapshots.of("a", lambda: count(3.0)).value == 2
    clock.now += 2.0
    assert snapshots.of("a", lambda: count(3.0)).value == 3
    assert snapshots.of("b", lambda: count(0.1)).value == 4


def test_what_fails_is_not_kept() -> None:
    snapshots = Snapshots()
    for _ in range(2):
        try:
            snapshots.of("a", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError("it did not raise")
    assert snapshots.of("a", lambda: 7).value == 7
