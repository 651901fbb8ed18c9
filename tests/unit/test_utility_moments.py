"""E[u] and Var[u] against brute-force integration, and the limits that must hold exactly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.value import utility_at, utility_interval, utility_moments
from tests.support.utilities import UTILITIES
from verifier_service.domain.ladders import (
    Utility,
)


def brute_force(utility: Utility, mean: float, sd: float, nodes: int = 40_001) -> tuple[float, float]:
    first = second = total = 0.0
    for node in range(nodes):
        z = -9.0 + 18.0 * node / (nodes - 1)
        weight = math.exp(-0.5 * z * z)
        value = utility_at(utility, mean + sd * z)
        total += weight
        first += weight * value
        second += weight * value * value
    first /= total
    return first, second / total - first * first


@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: f"{utility.kind}")
@pytest.mark.parametrize(("mean", "sd"), [(4.5, 0.2), (3.4, 0.6), (5.9, 1.5), (2.0, 0.3)])
def test_moments_agree_with_brute_force(utility: Utility, mean: float, sd: float) -> None:
    expected = brute_force(utility, mean, sd)
    found = utility_moments(utility, mean, sd * sd)
    assert found == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: f"{utility.kind}")
@given(mean=st.floats(-20, 30), sd=st.floats(0, 10))
@settings(max_examples=60)
def test_moments_and_intervals_stay_in_range(utility: Utility, mean: float, sd: float) -> None:
    first, variance = utility_moments(utility, mean, sd * sd)
    low, high = utility_interval(utility, mean, sd * sd)
    assert 0.0 <= first <= 1.0
    assert 0.0 <= variance <= 0.25
    assert 0.0 <= low <= utility_at(utility, mean) <= high <= 1.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(4.0, 1.0), (4.7, 1.0), (5.0, 1.0), (3.5, 0.5), (5.25, 0.75), (3.0, 0.0), (6.0, 0.0), (9.0, 0.0)],
)
def test_window_is_the_ladders_definition(value: float, expected: float) -> None:
    assert utility_at(UTILITIES[0], value) == pytest.approx(expected)


def test_interval_sees_a_window_inside_a_wide_belief() -> None:
    low, high = utility_interval(UTILITIES[0], 4.5, 4.0)
    assert (low, high) == (0.0, 1.0)
