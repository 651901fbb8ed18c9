"""Leave-one-out in closed form is what leaving one out gives."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.chain_average import (
    Designs,
    Problem,
    Recipe,
    _members,
    fit_average,
    relevance_of,
)
from scheduler.chain_ridge import Spectrum
from scheduler.chain_smooth import Basis, Smooth
from scheduler.observations import Floats


def refitted(design: Floats, target: Floats, weight: Floats, nugget: float, left: int) -> float:
    """The target at row ``left``, predicted by a ridge regression on the others."""
    others = np.arange(len(target)) != left
    d, w = design[others], weight[others]
    gram = d.T @ (w[:, None] * d) + nugget * np.eye(d.shape[1])
    return float(design[left] @ np.linalg.solve(gram, d.T @ (w * target[others])))


@pytest.mark.parametrize(("rows", "columns"), [(12, 4), (5, 9), (7, 7), (1, 3)])
@pytest.mark.parametrize("nugget", [0.01, 1.0, 30.0])
def test_leave_one_out_equals_refits(rows: int, columns: int, nugget: float) -> None:
    rng = np.random.default_rng(rows * columns)
    design, target = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    weight = rng.uniform(0.2, 10.0, rows)
    root = np.sqrt(weight)

    dual, diagonal = Spectrum.of(design * root[:, None]).solve(root * target, nugget)

    residual = dual / diagonal / root
    brute = [target[i] - refitted(design, target, weight, nugget, i) for i in range(rows)]
    np.testing.assert_allclose(residual, brute, rtol=1e-6, atol=1e-8)


def test_a_rank_that_is_lacking_does_no_harm() -> None:
    rng = np.random.default_rng(3)
    one = rng.normal(size=(20, 1))
    design, target = np.hstack([one, one, np.zeros((20, 2))]), one[:, 0] * 2.0

    spectrum = Spectrum.of(design)
    dual, diagonal = spectrum.solve(target, 1e-3)

    assert spectrum.values.size == 1
    brute = [target[i] - refitted(design, target, np.ones(20), 1e-3, i) for i in range(20)]
    np.testing.assert_allclose(dual / diagonal, brute, rtol=1e-4, atol=1e-9)


def test_a_member_of_the_average_leaves_out_what_it_says() -> None:
    """With the smooth basis as it stands, too."""
    rng = np.random.default_rng(5)
    n = 14
    z = rng.normal(size=(n, 2))
    target = np.sin(2 * z[:, 0]) + 0.1 * rng.normal(size=n)
    problem = Problem(np.column_stack([np.ones(n), z]), 1, z, target, np.ones(n))
    designs = Designs.of(problem, Basis.of(z, z, rng), target)
    recipe = Recipe("smooth", 1.5, 0.2, 0.3)

    (member,) = _members(designs, [(recipe, 0.3)], np.ones(n))

    design = designs.of_recipe(recipe)
    brute = [target[i] - refitted(design, target, np.ones(n), 0.3, i) for i in range(n)]
    np.testing.assert_allclose(member.left_out, brute, rtol=1e-6, atol=1e-8)


def test_what_is_joined_predicts_what_its_member_predicts() -> None:
    rng = np.random.default_rng(6)
    n = 30
    z = rng.normal(size=(n, 3))
    target = z[:, 0] ** 2 + z[:, 1]
    problem = Problem(np.column_stack([np.ones(n), z]), 1, z, target, np.ones(n))
    designs = Designs.of(problem, Basis.of(z, z, rng), target)
    recipe = Recipe("smooth", 4.0, 0.8, 0.03)
    (member,) = _members(designs, [(recipe, 0.1)], np.ones(n))

    linear, smooth = designs.joined([(1.0, member)])

    assert isinstance(smooth, Smooth)
    said = problem.linear @ linear + smooth.at(z)
    np.testing.assert_allclose(said, designs.of_recipe(recipe) @ member.coefficients, rtol=1e-6, atol=1e-8)
    assert np.corrcoef(said, target)[0, 1] > 0.95


def test_the_average_leans_on_the_family_that_foretells_best() -> None:
    """A declared line that holds keeps the others from chasing noise; one that does not gives way."""
    rng = np.random.default_rng(7)
    n = 40
    z = rng.normal(size=(n, 1))
    linear = np.column_stack([np.ones(n), z, z**2])
    noise = 0.3 * rng.normal(size=n)
    families = ("smooth", "free", "shift", "line")

    held = fit_average(Problem(linear, 2, z, noise, np.ones(n)), z, families, np.random.default_rng(0))
    bent = Problem(linear, 2, z, 3.0 * z[:, 0] ** 2 + noise, np.ones(n))
    broken = fit_average(bent, z, families, np.random.default_rng(0))

    def said(average: object, at: float) -> float:
        point = np.array([[at]])
        smooth = average.smooth.at(point)[0] if average.smooth is not None else 0.0  # type: ignore[attr-defined]
        return float(np.array([1.0, at, at**2]) @ average.coefficients + smooth)  # type: ignore[attr-defined]

    assert abs(said(held, 1.5)) < 0.15
    assert said(broken, 1.5) == pytest.approx(6.75, abs=0.8)


def test_one_wild_value_does_not_bend_the_fit() -> None:
    rng = np.random.default_rng(8)
    z = rng.normal(size=(60, 1))
    target = z[:, 0] + 0.05 * rng.normal(size=60)
    target[np.argmax(z)] -= 8.0
    linear = np.column_stack([np.ones(60), z])
    squares = np.linalg.lstsq(linear, target, rcond=None)[0]

    average = fit_average(Problem(linear, 2, z, target, np.ones(60)), z, ("free",), rng)

    assert squares[1] < 0.75
    assert average.coefficients[1] > 0.9


def test_a_line_leaves_what_it_does_not_say() -> None:
    """Nothing is learnt, so nothing changes when a row is left out."""
    target = np.array([3.0, -1.0, 0.5, 7.0])
    problem = Problem(np.ones((4, 1)), 1, np.empty((4, 0)), target, np.ones(4))
    average = fit_average(problem, np.empty((4, 0)), ("line",), np.random.default_rng(0))
    np.testing.assert_allclose(average.left_out, target)
    assert average.coefficients.tolist() == [0.0]
    assert average.smooth is None


def test_relevance_finds_the_column_that_matters() -> None:
    rng = np.random.default_rng(9)
    z = rng.normal(size=(80, 20))
    curves = Basis.of(z, z, rng).curves(z)
    residual = np.cos(2 * z[:, 7])

    shares = relevance_of(curves, (residual - residual.mean()) / residual.std())

    assert np.argmax(shares) == 7
    assert shares.sum() == pytest.approx(1.0)
    assert (shares > 0).sum() <= 16


def test_hardly_shrunken_columns_are_hardly_shrunken() -> None:
    n = 50
    z = np.linspace(-2, 2, n)[:, None]
    linear = np.column_stack([np.ones(n), z])
    problem = Problem(linear, 2, np.empty((n, 0)), 5.0 + 3.0 * z[:, 0], np.ones(n))

    average = fit_average(problem, np.empty((n, 0)), ("smooth", "free"), np.random.default_rng(0))

    np.testing.assert_allclose(average.coefficients, [5.0, 3.0], rtol=0.01)
