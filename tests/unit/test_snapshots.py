"""Figures that are kept: counted again after a while, and never more than they may cost."""

from __future__ import annotations

import threading

import pytest

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


def test_who_does_not_wait_is_told_later() -> None:
    snapshots, going, ended = Snapshots(), threading.Event(), threading.Event()

    def count() -> int:
        going.wait(10)
        return 7

    assert snapshots.soon("a", count, 0.01) is None
    assert snapshots.soon("a", lambda: 8, 0.01) is None, "somebody counts it"
    going.set()
    seen = snapshots.soon("a", lambda: 8, 10.0)
    assert seen is not None
    assert seen.value == 7
    assert snapshots.soon("b", lambda: 9, 10.0).value == 9  # type: ignore[union-attr]
    ended.set()


def test_the_old_figure_is_shown_while_a_new_one_is_counted() -> None:
    clock, going = Clock(), threading.Event()
    snapshots = Snapshots(clock)
    assert snapshots.of("a", lambda: 1).value == 1
    clock.now += 6.0

    def count() -> int:
        going.wait(10)
        return 2

    seen = snapshots.soon("a", count, 0.01)
    assert seen is not None
    assert (seen.value, seen.age_s) == (1, 6.0)
    going.set()
    assert snapshots.of("a", lambda: 3).value in (1, 2)


def test_a_count_that_fails_is_told_to_who_asks_next() -> None:
    snapshots, going, ended = Snapshots(), threading.Event(), threading.Event()

    def count() -> int:
        going.wait(10)
        ended.set()
        raise ZeroDivisionError

    assert snapshots.soon("a", count, 0.01) is None
    going.set()
    assert ended.wait(10)
    with pytest.raises(ZeroDivisionError):
        snapshots.soon("a", count, 10.0)
    with pytest.raises(ZeroDivisionError):
        snapshots.soon("b", lambda: 1 // 0, 10.0)
    assert snapshots.soon("b", lambda: 5, 10.0).value == 5  # type: ignore[union-attr]
