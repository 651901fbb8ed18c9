"""What a belief makes of the reward, against the scalar reference, fine sums, and random draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.value import utility_at, utility_moments
from scheduler.worth import IDENTITY, Floats, Worth, hermite, of_utility
from tests.support.utilities import UTILITIES as SHARED
from verifier_service.domain.ladders import (
    LinearUtility,
    SigmoidUtility,
    ThresholdUtility,
    Utility,
    WindowUtility,
)

UTILITIES: list[Utility] = [*SHARED, SigmoidUtility(kind="sigmoid", midpoint=4.5, scale=2.0)]
EACH = pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: f"{utility.kind}")
MEANS, SDS = (4.5, 3.4, 5.9, 2.0, 6.8, -3.0), (0.05, 0.2, 0.6, 1.5, 5.0)
GRID = np.array([(mean, sd) for mean in MEANS for sd in SDS]).T
NODES = np.linspace(-9.0, 9.0, 6_001)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()


def brute_force(worth: Worth, mean: float, variance: float, after: float) -> float:
    """Variance of E[u | posterior mean], summed over 6,001 posterior means."""
    posterior = mean + math.sqrt(variance - after) * NODES
    first = worth.moments(posterior, np.full(NODES.size, after))[0]
    return float(WEIGHTS @ (first - WEIGHTS @ first) ** 2)


def one(value: float) -> Floats:
    return np.array([value])


@EACH
def test_moments_are_those_of_the_scalar_reference(utility: Utility) -> None:
    mean, sd = GRID
    first, second = of_utility(utility).moments(mean, sd**2)
    expected = np.array([utility_moments(utility, float(m), float(s * s)) for m, s in GRID.T])
    assert first == pytest.approx(expected[:, 0], abs=1e-6)
    assert second == pytest.approx(expected[:, 1], abs=1e-6)


@EACH
def test_moments_are_those_of_many_draws(utility: Utility) -> None:
    """Independent of both implementations but for the utility itself."""
    draws = np.random.default_rng(5).normal(size=20_000)
    for mean, sd in ((4.3, 0.5), (3.2, 2.0)):
        values = [utility_at(utility, float(y)) for y in mean + sd * draws]
        first, second = of_utility(utility).moments(one(mean), one(sd * sd))
        assert first[0] == pytest.approx(np.mean(values), abs=0.012)
        assert second[0] == pytest.approx(np.var(values), abs=0.006)


@EACH
def test_what_is_known_has_the_utility_of_its_value_and_no_variance(utility: Utility) -> None:
    values = np.array([-50.0, 2.9, 3.0, 3.5, 4.0, 4.1, 4.5, 4.50001, 5.0, 5.5, 6.0, 50.0])
    first, second = of_utility(utility).moments(values, np.zeros(values.size))
    assert first == pytest.approx([utility_at(utility, float(value)) for value in values], abs=1e-12)
    assert (second == 0.0).all()


@pytest.mark.parametrize("ratio", [1e-3, 0.3, 0.99, 1.0, 1.01, 3.0, 30.0, 1e4])
def test_logistic_moments_hold_where_the_wider_density_changes(ratio: float) -> None:
    """The error is below 1e-6 on both sides of the change from one rule to the other."""
    worth = of_utility(SigmoidUtility(kind="sigmoid", midpoint=0.0, scale=1.0))
    step = 1 / 64
    y = np.arange(-40.0, 40.0 + step, step) if ratio > 2 else ratio * np.linspace(-9, 9, 20_001)
    for centre in (0.0, 0.7, 3.0, -8.0):
        found = [float(part[0]) for part in worth.moments(one(centre), one(ratio * ratio))]
        if ratio > 2:
            # E s^p = P(y > L), L of the density p s^p (1 - s)
            s = 1 / (1 + np.exp(-y))
            above = np.array([0.5 * math.erfc((at - centre) / ratio / math.sqrt(2)) for at in y])
            first, second = ((p * s**p * (1 - s) * above).sum() * step for p in (1, 2))
        else:
            density = np.exp(-0.5 * (y / ratio) ** 2)
            s = 1 / (1 + np.exp(-(centre + y)))
            first, second = ((s**p @ density) / density.sum() for p in (1, 2))
        assert found == pytest.approx([first, second - first * first], abs=1e-6)


@pytest.mark.parametrize("width", [1e-9, 1e-7, 1e-5, 9e-3, 1.1e-2])
def test_a_belief_may_be_far_wider_than_what_it_is_about(width: float) -> None:
    """Where the partial moments of a narrow ramp would cancel."""
    linear = LinearUtility(kind="linear", zero=0.0, one=width)
    window = WindowUtility(kind="window", low=0.0, high=0.0, softness=width)
    step = 0.5 * math.erfc(0.5 * (width - 0.2) / math.sqrt(2)), math.exp(-0.005) / math.sqrt(2 * math.pi)
    for found in (of_utility(linear).moments(one(0.1), one(1.0)), utility_moments(linear, 0.1, 1.0)):
        # to second order in the width: P(y > w / 2), less the w d / 6 by which a ramp is not a step
        assert float(np.ravel(found[0])[0]) == pytest.approx(step[0], abs=1e-6)
        variance = step[0] * (1 - step[0]) - width * step[1] / 6
        assert float(np.ravel(found[1])[0]) == pytest.approx(variance, abs=2e-6)
    for found in (of_utility(window).moments(one(0.1), one(1.0)), utility_moments(window, 0.1, 1.0)):
        assert float(np.ravel(found[0])[0]) == pytest.approx(width * step[1], rel=1e-4)
        variance = width * step[1] * 2 / 3 - (width * step[1]) ** 2
        assert float(np.ravel(found[1])[0]) == pytest.approx(variance, rel=1e-4)


@EACH
@pytest.mark.parametrize("mean", [1e12, -1e12, 1e155, -1e155, 1e250, -1e250])
def test_the_utility_of_what_is_far_away_is_certain(utility: Utility, mean: float) -> None:
    worth = of_utility(utility)
    for variance in (0.0, 1e-12, 1.0, 1e6):
        first, second = worth.moments(one(mean), one(variance))
        assert first[0] == pytest.approx(utility_at(utility, mean), abs=1e-12)
        assert second[0] == pytest.approx(0.0, abs=1e-12)
        assert worth.resolvable(one(mean), one(variance), one(variance / 2))[0] == pytest.approx(0.0)
        scalar = utility_moments(utility, mean, variance)
        assert scalar == pytest.approx((utility_at(utility, mean), 0.0), abs=1e-12)


@EACH
def test_what_is_not_a_number_is_no_moment(utility: Utility) -> None:
    for mean, variance in ((math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(OverflowError, match="not finite"):
            of_utility(utility).moments(one(mean), one(variance))
        with pytest.raises(OverflowError, match="not finite"):
            utility_moments(utility, mean, variance)


@EACH
def test_a_long_row_has_the_moments_of_its_parts(utility: Utility) -> None:
    """Longer than one chunk of the work, in any shape."""
    rng = np.random.default_rng(0)
    mean, variance = rng.uniform(2, 7, 40_000), rng.uniform(0, 2, 40_000)
    worth = of_utility(utility)
    first, second = worth.moments(mean, variance)
    for at in (0, 16_383, 16_384, 39_999):
        alone = worth.moments(mean[[at]], variance[[at]])
        assert (first[at], second[at]) == pytest.approx((alone[0][0], alone[1][0]), abs=1e-14)
    square = worth.moments(mean[:12].reshape(3, 4), variance[:12].reshape(3, 4))
    assert square[0].shape == (3, 4)
    assert square[0].ravel() == pytest.approx(first[:12], abs=1e-14)


@EACH
def test_nothing_resolved_is_nothing_and_everything_is_the_total(utility: Utility) -> None:
    mean, sd = GRID
    worth = of_utility(utility)
    assert (worth.resolvable(mean, sd**2, sd**2) == 0.0).all()
    assert (worth.resolvable(mean, sd**2, 2 * sd**2) == 0.0).all()
    total = worth.moments(mean, sd**2)[1]
    assert worth.resolvable(mean, sd**2, np.zeros(mean.size)) == pytest.approx(total, abs=1e-9)
    assert (worth.resolvable(mean, np.zeros(mean.size), np.zeros(mean.size)) == 0.0).all()


@pytest.mark.parametrize("direction", ["above", "below"])
def test_the_closed_form_of_a_threshold_is_the_sum_over_posterior_means(direction: str) -> None:
    utility = ThresholdUtility.model_validate({"kind": "threshold", "at": 4.5, "direction": direction})
    worth = of_utility(utility)
    for mean in (4.5, 4.1, 6.0, 1.5):
        for variance in (0.01, 0.8, 9.0):
            for share in (0.02, 0.3, 0.7, 0.99):
                found = worth.resolvable(one(mean), one(variance), one(share * variance))[0]
                expected = brute_force(worth, mean, variance, share * variance)
                assert found == pytest.approx(expected, abs=1e-7)


@EACH
def test_nine_nodes_are_enough_where_much_of_the_variance_stays(utility: Utility) -> None:
    """And coarse where little does of a belief that is wider than the utility's slope."""
    worth = of_utility(utility)
    for mean, sd in GRID.T:
        for share, within in ((0.5, 2e-4), (0.05, 0.05)):
            variance = float(sd * sd)
            found = worth.resolvable(one(mean), one(variance), one(share * variance))[0]
            assert found == pytest.approx(brute_force(worth, mean, variance, share * variance), abs=within)


@EACH
def test_what_leaves_less_resolves_more(utility: Utility) -> None:
    """To the accuracy of nine nodes; a closed form exactly."""
    slack = 1e-12 if isinstance(utility, ThresholdUtility) else 0.01
    worth = of_utility(utility)
    for mean, sd in GRID.T:
        after = np.linspace(0.0, sd * sd, 30)
        found = worth.resolvable(np.full(30, mean), np.full(30, sd * sd), after)
        assert (np.diff(found) <= slack).all()
        assert found[0] == found.max() or slack > 1e-12


@EACH
@settings(max_examples=40)
@given(mean=st.floats(-30, 30), sd=st.floats(0, 20), share=st.floats(0, 1))
def test_a_part_is_between_nothing_and_the_total(
    utility: Utility, mean: float, sd: float, share: float
) -> None:
    worth = of_utility(utility)
    first, total = worth.moments(one(mean), one(sd * sd))
    part = worth.resolvable(one(mean), one(sd * sd), one(share * sd * sd))
    assert 0.0 <= first[0] <= 1.0
    assert 0.0 <= part[0] <= total[0] <= 0.25


def test_a_raw_quantity_is_its_own_reward() -> None:
    mean, variance = np.array([1.0, -2.0, 3.0]), np.array([2.0, 0.0, 1.0])
    first, second = IDENTITY.moments(mean, variance)
    assert (first == mean).all()
    assert (second == variance).all()
    after = np.array([0.5, 0.0, 4.0])
    assert IDENTITY.resolvable(mean, variance, after).tolist() == [1.5, 0.0, 0.0]
    assert IDENTITY.resolvable(mean, variance, np.array([-1.0, 0.0, 0.0])).tolist() == [2.0, 0.0, 1.0]
    assert IDENTITY.moments(mean, np.full(3, -1e-18))[1].tolist() == [0.0, 0.0, 0.0]


def test_nine_nodes_integrate_polynomials_up_to_degree_seventeen() -> None:
    nodes, weights = hermite(np.zeros(2), np.array([1.0, 2.0]))
    assert nodes.shape == (9, 2)
    assert weights.shape == (9, 1)
    for power in range(18):
        expected = 0.0 if power % 2 else float(math.prod(range(1, power, 2)))
        found = (weights * nodes**power).sum(axis=0) / np.array([1.0, 2.0**power])
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)
