"""Variance and intervals around predictions."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.chain_spread import Z90, _for_waiting, _nearest, fit_spread, interval_scale


def covered(residual: np.ndarray, variance: np.ndarray, scale: float) -> float:
    return float(np.mean(np.abs(residual) <= Z90 * scale * np.sqrt(variance)))


@pytest.mark.parametrize("size", [1, 3, 10])
def test_the_nearest_are_the_nearest(size: int) -> None:
    rng = np.random.default_rng(size)
    at = np.sort(rng.normal(size=40))
    queries = rng.normal(size=25) * 2

    low, high = _nearest(at, queries, size)

    for query, start, stop in zip(queries, low, high, strict=True):
        best = np.sort(np.abs(at - query))[:size]
        np.testing.assert_allclose(np.sort(np.abs(at[start:stop] - query)), best)


def test_more_neighbours_than_there_are() -> None:
    low, high = _nearest(np.array([1.0, 2.0]), np.array([0.0, 5.0]), 9)
    assert low.tolist() == [0, 0]
    assert high.tolist() == [2, 2]


def test_local_variance_follows_the_residuals() -> None:
    rng = np.random.default_rng(0)
    prediction = rng.uniform(0, 1, 300)
    sd = np.where(prediction < 0.5, 0.1, 1.0)
    squares = (sd * rng.normal(size=300)) ** 2

    spread = fit_spread(prediction, squares, np.ones(300), prior=1.0, prior_count=0.0)

    quiet, loud = spread.of(np.array([0.2, 0.8]))
    assert quiet < 0.3 < 0.6 < loud
    assert spread.mean_variance == pytest.approx(squares.mean())
    assert spread.of(np.array([-9.0, 9.0])).tolist() == [spread.variance[0], spread.variance[-1]]


def test_without_residuals_the_prior_is_all_there_is() -> None:
    none = np.empty(0)
    spread = fit_spread(none, none, none, prior=2.5, prior_count=3.0)
    assert spread.mean_variance == 2.5
    assert spread.of(np.array([-1.0, 7.0])).tolist() == [2.5, 2.5]


def test_a_prior_counts_as_many_residuals_as_it_is_given() -> None:
    spread = fit_spread(np.arange(6.0), np.ones(6), np.ones(6), prior=10.0, prior_count=3.0)
    assert spread.mean_variance == pytest.approx((3 * 10 + 6) / 9)


def test_weights_count_as_repeats_do() -> None:
    squares = np.array([1.0, 4.0, 9.0])
    weighted = fit_spread(np.arange(3.0), squares, np.array([1.0, 2.0, 1.0]), prior=1.0, prior_count=1.0)
    repeated = fit_spread(
        np.array([0.0, 1.0, 1.0, 2.0]),
        np.array([1.0, 4.0, 4.0, 9.0]),
        np.ones(4),
        prior=1.0,
        prior_count=1.0,
    )
    assert weighted.mean_variance == pytest.approx(repeated.mean_variance)


@pytest.mark.parametrize("tails", ["normal", "heavy", "flat"])
def test_ninety_of_a_hundred_are_covered_whatever_the_tails(tails: str) -> None:
    rates = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        draw = {
            "normal": lambda n, rng=rng: rng.normal(size=n),
            "heavy": lambda n, rng=rng: rng.standard_t(2.5, size=n),
            "flat": lambda n, rng=rng: rng.uniform(-1, 1, n),
        }[tails]
        prediction, residual = rng.uniform(size=120), draw(120)
        spread = fit_spread(prediction, residual**2, np.ones(120), prior=1.0, prior_count=0.0)
        fresh = rng.uniform(size=500)
        rates.append(covered(draw(500), spread.of(fresh), spread.scale))
    assert np.mean(rates) == pytest.approx(0.9, abs=0.015)


def test_coverage_holds_where_the_noise_depends_on_the_prediction() -> None:
    rates, quiet, loud = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        prediction = rng.uniform(0, 1, 300)
        residual = (0.1 + prediction) * rng.normal(size=300)
        spread = fit_spread(prediction, residual**2, np.ones(300), prior=1.0, prior_count=0.0)
        fresh = rng.uniform(0, 1, 2000)
        errors = (0.1 + fresh) * rng.normal(size=2000)
        inside = np.abs(errors) <= Z90 * spread.scale * np.sqrt(spread.of(fresh))
        rates.append(inside.mean())
        quiet.append(inside[fresh < 0.3].mean())
        loud.append(inside[fresh > 0.7].mean())
    assert np.mean(rates) == pytest.approx(0.9, abs=0.015)
    assert 0.8 < np.mean(loud) < np.mean(quiet) < 0.995


def test_those_who_wait_are_covered_although_others_were_bought() -> None:
    """Labels from the loud half mostly, intervals for the quiet half."""
    with_shift, without = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sd = lambda at: np.where(at > 0.5, 1.0, 0.5)  # noqa: E731
        bought = np.where(rng.uniform(size=80) < 0.85, rng.uniform(0.5, 1, 80), rng.uniform(0, 0.5, 80))
        residual = sd(bought) * rng.normal(size=80)
        waiting = rng.uniform(0, 0.5, 400)
        errors = sd(waiting) * rng.normal(size=400)
        for rates, who in ((with_shift, waiting), (without, np.empty(0))):
            spread = fit_spread(bought, residual**2, np.ones(80), prior=1.0, prior_count=0.0, waiting=who)
            rates.append(covered(errors, spread.of(waiting), spread.scale))
    assert 0.9 < np.mean(with_shift) < 0.97 < np.mean(without)


def test_the_ratio_counts_those_who_wait() -> None:
    at = np.linspace(0, 1, 30)
    even = _for_waiting(at, np.linspace(0, 1, 300))
    assert np.ptp(even[6:-6]) < 0.2
    low = _for_waiting(at, np.linspace(0, 0.3, 300))
    assert low[:8].min() > 1.0 > low[15:].max()
    assert low.mean() == pytest.approx(1.0)
    assert _for_waiting(at, np.zeros(3)).tolist() == [1.0] * 30


def test_few_labels_widen_the_intervals() -> None:
    rng = np.random.default_rng(1)
    scales = []
    for count in (0, 1, 2, 5, 30, 1000):
        scales.append(interval_scale(np.abs(rng.normal(size=count)), np.ones(count)))
    assert scales[0] == scales[1] == pytest.approx(3.84, abs=0.01)
    assert scales[1] >= scales[2] > scales[3] > 1.0
    assert scales[-1] == pytest.approx(1.0, abs=0.06)
