"""What audits correct: unbiased means, shrunken biases, verdicts without their mistakes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from scheduler.corrections import (
    Estimated,
    backward_corrected,
    corrected_means,
    doubly_robust,
    mistake_rates,
    shrunken_bias,
)
from verifier_service.domain.errors import InvalidInput

BELIEVED = np.array([0.2, 1.0, -3.0, 0.5, 2.0])
TRUTH = np.array([0.9, 1.0, 4.0, -0.5, 2.5])
CHANCE = np.array([0.1, 0.5, 0.02, 0.9, 1.0])


def draws() -> list[tuple[np.ndarray, float]]:
    """Every outcome of the audit's draws, with its probability."""
    outcomes = [np.array(one, dtype=bool) for one in product((False, True), repeat=len(CHANCE))]
    return [(drawn, float(np.prod(np.where(drawn, CHANCE, 1.0 - CHANCE)))) for drawn in outcomes]


def test_over_all_draws_the_doubly_robust_reward_is_the_truth() -> None:
    expected = np.zeros(5)
    for drawn, probability in draws():
        found = np.where(drawn, TRUTH, np.nan)
        expected += probability * doubly_robust(BELIEVED, found, CHANCE, drawn)
    assert np.allclose(expected, TRUTH, atol=1e-12)


def test_over_all_draws_the_mean_of_each_stratum_is_the_truth() -> None:
    strata = ["a", "a", "b", "b", "b"]
    expected = {"a": 0.0, "b": 0.0}
    for drawn, probability in draws():
        found = np.where(drawn, TRUTH, np.nan)
        for name, one in corrected_means(strata, BELIEVED, found, CHANCE, drawn).items():
            expected[name] += probability * one.mean
    assert expected == pytest.approx({"a": TRUTH[:2].mean(), "b": TRUTH[2:].mean()}, abs=1e-12)


def test_over_all_draws_a_stratum_with_errors_like_the_others_has_the_standard_error_that_is_said() -> None:
    """One stratum, so nothing but its own errors is borrowed: equal errors make both parts the same."""
    believed, truth, chance = np.zeros(6), np.ones(6), np.full(6, 0.5)
    squared, estimated = 0.0, 0.0
    for outcome in product((False, True), repeat=6):
        one = corrected_means(["a"] * 6, believed, truth, chance, np.array(outcome))["a"]
        squared += (one.mean - 1.0) ** 2 / 64
        if one.audits == 3:  # as many as expected
            estimated = one.se**2
    assert estimated == pytest.approx(squared)


def test_a_stratum_whose_audits_found_no_error_yet_is_not_said_to_be_exact() -> None:
    strata = ["a"] * 50 + ["b"] * 50
    drawn = np.arange(100) % 10 == 0
    truth = np.r_[np.zeros(50), np.tile([1.0, -1.0], 25)]
    found = corrected_means(strata, np.zeros(100), truth, np.full(100, 0.1), drawn)
    assert 0.1 < found["a"].se < 2 * found["b"].se
    none = corrected_means(["a"], [0.0], [np.nan], [0.1], [False])["a"]
    assert np.isnan(none.se)


def test_two_standard_errors_cover_the_mean_in_95_of_100_batches() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        truth = rng.standard_normal(600)
        believed = truth + 0.3 + 0.5 * rng.standard_normal(600)
        chance = np.where(believed > 0.5, 0.3, 0.1)
        drawn = rng.random(600) < chance
        one = corrected_means(["all"] * 600, believed, truth, chance, drawn)["all"]
        covered += abs(one.mean - truth.mean()) <= 2 * one.se
        assert one.audits == drawn.sum()
    assert 368 <= covered <= 398  # 95.4 %, within four standard errors


def test_an_unaudited_candidate_keeps_its_belief_and_its_truth_is_not_read() -> None:
    assert doubly_robust([1.0, 2.0], [np.nan, 4.0], [np.nan, 0.5], [False, True]).tolist() == [1.0, 6.0]
    alone = corrected_means(["a"], [1.0], [np.nan], [0.1], [False])["a"]
    assert (alone.mean, alone.n, alone.audits) == (1.0, 1, 0)
    assert np.isnan(alone.se)
    assert isinstance(alone, Estimated)


@pytest.mark.parametrize(
    ("believed", "found", "chance"),
    [([np.nan], [1.0], [0.5]), ([1.0], [np.nan], [0.5]), ([1.0], [1.0], [0.0]), ([1.0, 1.0], [1.0], [0.5])],
)
def test_what_cannot_be_corrected_is_refused(
    believed: list[float], found: list[float], chance: list[float]
) -> None:
    with pytest.raises(InvalidInput):
        doubly_robust(believed, found, chance, [True])
    with pytest.raises(InvalidInput):
        corrected_means(["a"], [1.0], [np.nan], [np.nan], [False])


def test_many_audits_are_believed_and_few_are_not() -> None:
    rng = np.random.default_rng(1)
    error = np.concatenate([1.0 + rng.standard_normal(4000), -1.0 + rng.standard_normal(2)])
    found = shrunken_bias(["many"] * 4000 + ["few"] * 2, error)
    mean = error[4000:].mean()
    assert found["many"].mean == pytest.approx(error[:4000].mean(), rel=0.01)
    assert 0.0 < found["few"].mean / mean < 0.9
    assert found["few"].se > 5 * found["many"].se


def test_shrinkage_is_the_formula() -> None:
    error = np.array([0.9, 1.1, 1.3, -0.5, -0.9])
    found = shrunken_bias(["a", "a", "a", "b", "b"], error)
    within = (0.08 + 0.08) / 3
    between = (3 * 1.1**2 + 2 * 0.7**2 - 2 * within) / 5
    assert found["a"].mean == pytest.approx(1.1 * 3 / (3 + within / between))
    assert found["b"].mean == pytest.approx(-0.7 * 2 / (2 + within / between))
    assert found["a"].n == 3


def test_noise_alone_is_not_corrected_for_and_no_audits_mean_no_correction() -> None:
    rng = np.random.default_rng(2)
    strata = [str(number) for number in range(40)] * 10
    found = shrunken_bias(strata, rng.standard_normal(400))
    assert max(abs(one.mean) for one in found.values()) < 0.35  # raw means reach 0.9
    nothing = shrunken_bias(["a", "a", "b"], [1.0, 1.0, np.nan])["b"]
    assert (nothing.mean, nothing.n) == (0.0, 0)
    assert nothing.se > 0


def test_weights_undo_an_audit_that_looks_at_one_kind_more_often() -> None:
    error, weight = np.array([1.0] * 90 + [0.0] * 10), np.array([1.0] * 90 + [9.0] * 10)
    plain, weighted = (shrunken_bias(["a"] * 100, error, given)["a"] for given in (None, weight))
    assert plain.mean == pytest.approx(0.9, abs=0.01)
    assert weighted.mean == pytest.approx(0.5, abs=0.03)


def test_the_mistakes_of_a_verdict_are_taken_back() -> None:
    assert backward_corrected([1.0, 0.0, 0.5], 0.1, 0.3) == pytest.approx([1.5, -1 / 6, 2 / 3])
    expected = 0.7 * backward_corrected(1.0, 0.1, 0.3) + 0.3 * backward_corrected(0.0, 0.1, 0.3)
    assert expected == pytest.approx(1.0)  # a right answer passes with probability 0.7
    assert backward_corrected(1.0, 0.5, 0.5) == pytest.approx(2.5)  # denominator clipped at 0.2
    with pytest.raises(InvalidInput):
        backward_corrected(1.2, 0.1, 0.1)


def test_rates_of_mistakes_start_at_a_half_and_weigh_by_chance() -> None:
    nothing = mistake_rates([], [])
    assert (nothing.false_positive, nothing.false_negative, nothing.n) == (0.5, 0.5, 0)
    said = [True, False, False, True, True, False]
    right = [False, False, False, True, True, True]
    plain = mistake_rates(said, right)
    assert (plain.false_positive, plain.false_negative) == (2 / 5, 2 / 5)
    weighted = mistake_rates(said, right, [4.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert weighted.false_positive == pytest.approx((3 * 4 / 6 + 1) / 5)
