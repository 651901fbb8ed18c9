"""What cannot be learnt from is refused with its field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.observations import Declared, DeclaredLine, Observations
from verifier_service.domain.errors import InvalidInput

NAN = float("nan")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"x": np.zeros((2, 1))}, None),
        ({"x": np.zeros(3)}, None),
        ({"y": np.zeros(3)}, None),
        ({"y": np.zeros((3, 0))}, "y"),
        ({"y": np.zeros((3, 7))}, "y"),
        ({"x": np.full((3, 1), NAN)}, "x"),
        ({"y": np.full((3, 2), np.inf)}, "y"),
        ({"weight": np.zeros(3)}, "weight"),
        ({"weight": np.array([1.0, NAN, 1.0])}, "weight"),
        ({"key": np.zeros((3, 1), dtype=np.int64)}, None),
    ],
)
def test_a_wrong_array_is_refused(changed: dict[str, Any], field: str | None) -> None:
    right = {
        "x": np.zeros((3, 1)),
        "y": np.zeros((3, 2)),
        "weight": np.ones(3),
        "key": np.arange(3),
    }
    Observations(**right)
    with pytest.raises(InvalidInput) as refused:
        Observations(**{**right, **changed})
    assert refused.value.field == field


@pytest.mark.parametrize("propensity", [[0.5, 0.0], [0.5, 1.1], [0.5], [[0.5, 0.5]]])
def test_a_propensity_is_a_probability_per_candidate(propensity: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Observations.of(np.zeros((2, 0)), np.zeros((2, 1)), propensity=propensity)
    assert refused.value.field == "propensity"


def test_weights_are_inverse_propensities_up_to_ten() -> None:
    seen = Observations.of(np.zeros((4, 0)), np.zeros((4, 1)), propensity=[1.0, 0.25, 0.02, NAN])
    assert seen.weight.tolist() == [1.0, 4.0, 10.0, 1.0]


def test_rows_are_sorted_by_key_and_then_by_content() -> None:
    seen = Observations.of([[3.0], [1.0], [2.0]], [[1.0, NAN], [2.0, 5.0], [3.0, NAN]], key=[7, 7, 2])
    assert seen.sorted().x[:, 0].tolist() == [2.0, 3.0, 1.0]
    assert seen.sorted().y[:, 0].tolist() == [3.0, 1.0, 2.0]


def test_the_sharpest_line_of_a_pattern_is_the_belief() -> None:
    rough, fine = DeclaredLine(0.0, 1.0, 2.0), DeclaredLine(1.0, 0.5, 0.3)
    declared = Declared(5.0, 4.0, (fine, rough, None))
    assert declared.best((0, 1)) == (0, fine)
    assert declared.best((1,)) == (1, rough)
    assert declared.best((2,)) == declared.best(()) == (-1, DeclaredLine(5.0, 0.0, 4.0))
    equal = Declared(0.0, 4.0, (rough, rough))
    assert equal.best((0, 1))[0] == 1


def test_a_line_that_says_less_than_the_prior_does_not_count() -> None:
    assert Declared(5.0, 1.0, (DeclaredLine(0.0, 1.0, 3.0),)).best((0,))[0] == -1


@pytest.mark.parametrize(("mean", "sigma"), [(0.0, 0.0), (0.0, -1.0), (NAN, 1.0), (0.0, np.inf)])
def test_a_prior_is_finite_and_has_a_width(mean: float, sigma: float) -> None:
    with pytest.raises(InvalidInput):
        Declared.wide(2, mean=mean, sigma=sigma)


@pytest.mark.parametrize("line", [(NAN, 1.0, 1.0), (0.0, np.inf, 1.0), (0.0, 1.0, -0.1)])
def test_a_declared_line_is_finite(line: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput):
        DeclaredLine(*line)
