"""Means of readings and what they may be wrong by, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from verifier_service.domain.lab_units import Unconvertible, converted
from verifier_service.domain.lab_values import assay_noise, mean_of, sigma_of


def test_the_standard_error_is_that_of_the_guide() -> None:
    # JCGM 100:2008, 4.2: readings 1..5 have s^2 = 10/4, and their mean s/sqrt(5).
    readings = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert mean_of(readings) == 3.0
    assert sigma_of(readings, [None] * 5) == pytest.approx(math.sqrt(2.5 / 5))


def test_declared_sigmas_of_all_readings_are_combined() -> None:
    assert sigma_of([2.0, 2.0], [0.3, 0.4]) == pytest.approx(0.25)
    assert sigma_of([2.0], [0.3]) == 0.3
    assert sigma_of([2.0, 2.0], [0.3, None]) is None


def test_the_largest_of_what_is_known_is_kept() -> None:
    assert sigma_of([1.0, 3.0], [0.1, 0.1]) == pytest.approx(1.0)
    assert sigma_of([2.0, 2.0], [0.1, 0.1], assay=1.0) == pytest.approx(1.0 / math.sqrt(2))


def test_what_is_not_known_is_null_and_never_zero() -> None:
    assert sigma_of([2.0], [None]) is None
    assert sigma_of([2.0, 2.0], [None, None]) is None
    assert sigma_of([2.0], [0.0]) is None


def test_controls_scatter_within_their_role_and_not_between_roles() -> None:
    # Sums of squares 2 and 8 with 2 and 1 degrees of freedom.
    assert assay_noise({"low": [1.0, 2.0, 3.0], "high": [98.0, 102.0]}) == pytest.approx(math.sqrt(10 / 3))
    assert assay_noise({"low": [1.0], "high": [99.0]}) is None
    assert assay_noise({}) is None


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (96.48533212331, "kJ/mol", "eV", 1.0),
        (23.060547830619, "kcal mol-1", "eV", 1.0),
        (1.0, "Eh", "eV", 27.211386245981),
        (8065.543937, "cm⁻¹", "eV", 1.0),
        (25.0, "°C", "K", 298.15),
        (1500.0, "nM", "µM", 1.5),
        (1.54, "Å", "nm", 0.154),
        (12.5, "percent", "1", 0.125),
        (90.0, "min", "h", 1.5),
    ],
)
def test_units_convert_by_their_published_factors(
    value: float, source: str, target: str, expected: float
) -> None:
    assert converted(value, None, source, target)[0] == pytest.approx(expected, rel=1e-8)


def test_a_difference_of_temperatures_has_no_offset() -> None:
    assert converted(25.0, 0.5, "degC", "K") == (pytest.approx(298.15), 0.5)


@pytest.mark.parametrize(("source", "known"), [("furlong", False), ("K", True)])
def test_what_leads_nowhere_says_whether_it_is_known(source: str, known: bool) -> None:
    with pytest.raises(Unconvertible) as refused:
        converted(1.0, None, source, "eV")
    assert refused.value.known is known
