"""Verdicts: calibrated probabilities."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scheduler.chain_probability import Calibration, Probability, calibrate
from scheduler.chain_spread import Spread
from scheduler.chain_step import HeldOut, Step
from scheduler.observations import Declared, DeclaredLine, Floats, Observations
from verifier_service.domain.errors import InvalidInput

NAN = float("nan")
DECLARED = Declared(0.5, 0.5, (DeclaredLine(0.2, 0.6, 0.4),))


def verdicts(n: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Features, [a test that errs in 15 of 100, the verdict], and the verdict's probability given x."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    probability = 1.0 / (1.0 + np.exp(-3.0 * (x[:, 0] + 0.5 * x[:, 1] ** 2 - 0.5)))
    truth = (rng.uniform(size=n) < probability).astype(float)
    test = np.where(rng.uniform(size=n) < 0.15, 1.0 - truth, truth)
    return x, np.column_stack([test, truth]), probability


def step_of(variance: float = 0.25) -> Step:
    spread = Spread(np.zeros(1), np.full(1, variance), variance, 1.0)
    return Step((), -1, DeclaredLine(0.5, 0.0, 0.5), np.empty(0), None, spread, 0)


def held_out(prediction: list[float], truth: list[float], weight: list[float] | None = None) -> HeldOut:
    weights = np.ones(len(truth)) if weight is None else np.array(weight)
    return HeldOut(np.array(prediction), np.array(truth), weights, np.arange(len(truth)))


def test_without_a_verdict_the_declared_line_is_the_probability() -> None:
    x, y, _ = verdicts(30, 0)
    y[:, 1] = NAN
    belief = Probability.fit(Observations.of(x, y), DECLARED).believe(
        [[0.0, 0.0]] * 3, [[0.0, NAN], [1.0, NAN], [NAN, NAN]]
    )
    np.testing.assert_allclose(belief.mean, [0.2, 0.8, 0.5])
    np.testing.assert_allclose(belief.variance, [0.16, 0.16, 0.25])
    assert belief.scale.tolist() == [1.0] * 3


def test_a_declared_line_beyond_a_probability_is_clipped() -> None:
    declared = Declared(0.5, 0.5, (DeclaredLine(-0.5, 2.0, 0.4),))
    empty = Observations.of(np.empty((0, 0)), np.empty((0, 2)))
    belief = Probability.fit(empty, declared).believe(np.empty((2, 0)), [[0.0, NAN], [1.0, NAN]])
    assert belief.mean.tolist() == [0.0, 1.0]
    assert belief.variance.tolist() == [0.0, 0.0]


def test_venn_abers_by_hand() -> None:
    """One verdict of 1: with a 0 beside it p0 = 1/2, with a 1 p1 = 1; merged 1 / (1 - 1/2 + 1) = 2/3."""
    one = calibrate(held_out([0.3], [1.0]), step_of())
    assert one.probability.tolist() == pytest.approx([2 / 3])
    both = calibrate(held_out([0.3, 0.3], [1.0, 0.0]), step_of())
    assert both.at.tolist() == [0.3]
    assert both.probability.tolist() == pytest.approx([(2 / 3) / (1 - 1 / 3 + 2 / 3)])
    apart = calibrate(held_out([0.2, 0.7], [0.0, 1.0]), step_of())
    assert apart.probability.tolist() == pytest.approx([1 / 3, 2 / 3])
    against = calibrate(held_out([0.2, 0.7], [1.0, 0.0]), step_of())
    assert np.ptp(against.probability) < 0.2


def test_probabilities_rise_with_the_prediction() -> None:
    rng = np.random.default_rng(1)
    prediction = rng.normal(size=300)
    found = calibrate(
        held_out(prediction.tolist(), (rng.uniform(size=300) < 0.5).astype(float).tolist()), step_of()
    )
    assert (np.diff(found.probability) >= 0).all()
    assert found.of(np.array([-9.0, 9.0])).tolist() == [found.probability[0], found.probability[-1]]


def test_probabilities_are_calibrated() -> None:
    """Of those given about p, a share of about p is right; the variance is p (1 - p)."""
    said, true, real = [], [], []
    for seed in range(5):
        x, y, probability = verdicts(900, seed)
        seen = y.copy()
        seen[200:, 1] = NAN
        seen[400:, 0] = NAN
        belief = Probability.fit(Observations.of(x, seen), DECLARED).believe(x[400:], seen[400:])
        said.append(belief.mean)
        true.append(y[400:, 1])
        real.append(probability[400:])
        np.testing.assert_allclose(belief.variance, belief.mean * (1 - belief.mean))
    p, verdict, known = np.concatenate(said), np.concatenate(true), np.concatenate(real)
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        rows = (p >= low) & (p < low + 0.2)
        assert verdict[rows].mean() == pytest.approx(p[rows].mean(), abs=0.1)
    assert np.mean((p - verdict) ** 2) < np.mean((known - verdict) ** 2) + 0.02


def test_a_test_adds_to_what_features_say() -> None:
    x, y, _ = verdicts(600, 7)
    seen = y.copy()
    seen[np.random.default_rng(0).uniform(size=600) < 0.5, 1] = NAN
    found = Probability.fit(Observations.of(x, seen), DECLARED)
    told, blind = found.residual_variance(0), found.residual_variance(-1)
    assert 0 < told < blind < 0.25
    np.testing.assert_allclose(found.gain(-1, 0, [0.2]), [0.2 * (1 - told / blind)])
    np.testing.assert_allclose(found.gain(-1, 1, [0.2]), [0.2])
    assert found.residual_variance(1) == 0.0
    for pair in ((0, 0), (1, 0), (-2, 0)):
        with pytest.raises(InvalidInput):
            found.gain(*pair, [0.2])


def test_a_verdict_that_was_bought_is_known() -> None:
    x, y, _ = verdicts(50, 8)
    found = Probability.fit(Observations.of(x, y), DECLARED)
    belief = found.believe(x, y)
    np.testing.assert_array_equal(belief.mean, y[:, 1])
    assert belief.variance.tolist() == [0.0] * 50
    assert found.labels == 50


@pytest.mark.parametrize("verdict", [0.0, 1.0])
def test_verdicts_that_never_differ_stay_short_of_certainty(verdict: float) -> None:
    x, y, _ = verdicts(40, 9)
    y[:, 1] = verdict
    belief = Probability.fit(Observations.of(x, y), DECLARED).believe(x, np.full((40, 2), NAN))
    assert np.abs(belief.mean - verdict).max() < 0.15
    assert (belief.variance > 0).all()


def test_weights_count() -> None:
    even = calibrate(held_out([0.5] * 4, [1.0, 0.0, 0.0, 0.0]), step_of())
    rare = calibrate(held_out([0.5] * 4, [1.0, 0.0, 0.0, 0.0], [9.0, 1.0, 1.0, 1.0]), step_of())
    assert rare.probability[0] > 0.5 > even.probability[0]


def test_a_stored_probability_says_the_same() -> None:
    x, y, _ = verdicts(120, 10)
    y[60:, 1] = NAN
    found = Probability.fit(Observations.of(x, y), DECLARED)
    document = json.dumps(found.as_json())
    again = Probability.from_json(json.loads(document))
    np.testing.assert_array_equal(found.believe(x, y).mean, again.believe(x, y).mean)
    assert json.dumps(again.as_json()) == document
    assert again.residual_variance(0) == found.residual_variance(0)
    with pytest.raises(InvalidInput):
        Probability.from_json(found.chain.as_json())


@pytest.mark.parametrize("truth", [-0.1, 1.1])
def test_a_quantity_is_no_verdict(truth: float) -> None:
    with pytest.raises(InvalidInput):
        Probability.fit(Observations.of(np.empty((1, 0)), [[0.0, truth]]), DECLARED)


def test_half_a_calibration_leaves_half_of_what_was_said() -> None:
    found = Calibration(np.array([0.0, 1.0]), np.array([0.4, 0.6]), 0.5, 0.2)
    assert found.of(np.array([0.0, 0.5, 2.0])).tolist() == pytest.approx([0.2, 0.5, 0.8])
