"""The fit behind the gap maps: recovers known lines, shrinks small classes, claims honest errors."""

from __future__ import annotations

import random

import pytest

from tiers.maps.affine import MIN_SIGMA, NOVELTY, Line, fit_by_class, leave_one_out

Pairs = list[tuple[float, float]]


def line(slope: float, intercept: float, noise: float, count: int, seed: int) -> Pairs:
    rng = random.Random(seed)
    xs = [rng.uniform(2.0, 8.0) for _ in range(count)]
    return [(x, slope * x + intercept + rng.gauss(0.0, noise)) for x in xs]


def test_known_lines_are_recovered() -> None:
    pairs = {"a": line(1.0, 0.6, 0.1, 40, 1), "b": line(1.1, 0.9, 0.3, 40, 2)}
    lines, _ = fit_by_class(pairs, {"a": "f", "b": "f"})
    assert lines["a"].at(5.0) == pytest.approx(5.6, abs=0.1)
    assert lines["b"].at(5.0) == pytest.approx(6.4, abs=0.15)
    assert lines["a"].sigma == pytest.approx(NOVELTY * 0.12, abs=0.08)
    assert lines["b"].sigma == pytest.approx(NOVELTY * 0.3, abs=0.1)
    assert (lines["a"].n, lines["b"].n) == (40, 40)


def test_one_wild_molecule_does_not_turn_the_line() -> None:
    pairs = {"a": [*line(1.0, 0.6, 0.1, 20, 3), (3.0, 9.0)]}
    lines, _ = fit_by_class(pairs, {})
    assert lines["a"].at(5.0) == pytest.approx(5.6, abs=0.15)
    assert lines["a"].sigma > 0.5


def test_a_small_class_leans_on_its_family_and_not_on_luck() -> None:
    pairs = {"large": line(1.0, 0.6, 0.3, 60, 4), "small": [(4.0, 4.61), (5.0, 5.6), (6.0, 6.6)]}
    lines, _ = fit_by_class(pairs, {"large": "f", "small": "f"})
    assert lines["small"].sigma > 0.15
    assert lines["small"].slope == pytest.approx(lines["large"].slope, abs=0.15)


def test_a_class_of_a_thin_family_is_left_to_the_default() -> None:
    pairs = {"a": line(1.0, 0.6, 0.1, 20, 5), "rare": [(11.0, 4.0)]}
    lines, default = fit_by_class(pairs, {})
    assert set(lines) == {"a"}
    assert default.sigma > 5 * lines["a"].sigma
    assert default.n == 21


def test_no_error_bar_is_smaller_than_the_floor() -> None:
    lines, _ = fit_by_class({"a": [(float(x), x + 0.5) for x in range(10)]}, {})
    assert lines["a"].sigma >= MIN_SIGMA


def test_claimed_errors_cover_on_synthetic_classes() -> None:
    pairs = {name: line(1.0, 0.1 * i, 0.2 + 0.1 * i, 15, i) for i, name in enumerate("abcd")}
    scores = [z for z, _ in leave_one_out(pairs, dict.fromkeys("abcd", "f"))]
    inside = sum(abs(z) < 1.645 for z in scores) / len(scores)
    assert 0.88 <= inside < 1.0


def test_a_line_reports_plain_rounded_numbers() -> None:
    assert Line(1.00004, 0.5, 0.25, 3).as_json() == {"slope": 1.0, "intercept": 0.5, "sigma": 0.25, "n": 3}
