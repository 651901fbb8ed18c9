"""The chain of regressions: from what is declared to what was bought."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from scheduler.chain import Chain, _labels, patterns_below
from scheduler.observations import Declared, DeclaredLine, Floats, Observations
from verifier_service.domain.errors import InvalidInput

NAN = float("nan")


def ladder(n: int, seed: int, *, levels: int = 2, features: int = 3) -> tuple[Floats, Floats]:
    """Features and complete values: features say much of the truth and not all, each level below is the
    truth with more noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features))
    truth = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] + 0.4 * rng.normal(size=n)
    below = [0.9 * truth + 0.2 + 0.1 * (levels - k) * rng.normal(size=n) for k in range(levels - 1)]
    return x, np.column_stack([*below, truth])


def bought(y: Floats, share: float, seed: int = 0) -> Floats:
    """Each value with this probability."""
    found = y.copy()
    found[np.random.default_rng(seed).uniform(size=y.shape) > share] = NAN
    return found


def without_truth(y: Floats) -> Floats:
    return np.column_stack([y[:, :-1], np.full(len(y), NAN)])


LINE = Declared(0.0, 3.0, (DeclaredLine(0.1, 1.1, 0.5),))


def test_without_a_label_the_belief_is_what_is_declared() -> None:
    x, y = ladder(20, 1, levels=3)
    declared = Declared(0.4, 2.0, (None, DeclaredLine(-0.2, 1.1, 0.3)))
    chain = Chain.fit(Observations.of(x, without_truth(y)), declared)

    nothing = chain.believe(x, np.full((20, 3), NAN))
    lowest = chain.believe(x, np.column_stack([y[:, 0], np.full((20, 2), NAN)]))
    second = chain.believe(x, np.column_stack([np.full(20, NAN), y[:, 1], np.full(20, NAN)]))

    assert chain.labels == 0
    for belief in (nothing, lowest):
        assert belief.mean.tolist() == [0.4] * 20
        np.testing.assert_allclose(belief.variance, 4.0)
    np.testing.assert_allclose(second.mean, -0.2 + 1.1 * y[:, 1])
    np.testing.assert_allclose(second.variance, 0.09)
    assert (second.scale > 1).all()


def test_before_any_candidate_there_is_a_belief() -> None:
    chain = Chain.fit(Observations.of(np.empty((0, 2)), np.empty((0, 2))), LINE)
    belief = chain.believe([[1.0, 2.0]], [[0.5, NAN]])
    assert belief.mean[0] == pytest.approx(0.65)
    assert belief.variance[0] == pytest.approx(0.25)


def test_enough_labels_find_what_features_and_levels_say() -> None:
    x, y = ladder(500, 2)
    seen = bought(y, 0.5)
    seen[250:] = NAN
    chain = Chain.fit(Observations.of(x, seen), LINE)
    blind = chain.believe(x[250:], np.full((250, 2), NAN))
    told = chain.believe(x[250:], without_truth(y[250:]))
    truth = y[250:, 1]
    assert np.corrcoef(blind.mean, truth)[0, 1] > 0.85
    assert np.mean((told.mean - truth) ** 2) < np.mean((blind.mean - truth) ** 2) < 0.3 * truth.var()
    for belief in (blind, told):
        low, high = belief.interval()
        assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.9, abs=0.06)


def test_labels_take_over_from_a_wrong_line_one_by_one() -> None:
    """The truth is 5 - y, the line says y: the error falls, and no single label turns the belief over."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=(60, 1))
    values = np.hstack([y, 5.0 - y + 0.05 * rng.normal(size=(60, 1))])
    declared = Declared(0.0, 10.0, (DeclaredLine(0.0, 1.0, 1.0),))
    at = np.array([[0.5, NAN]])
    said = []
    for count in range(61):
        seen = values.copy()
        seen[count:, 1] = NAN
        said.append(
            float(
                Chain.fit(Observations.of(np.empty((60, 0)), seen), declared)
                .believe(np.empty((1, 0)), at)
                .mean[0]
            )
        )
    assert said[0] == 0.5
    assert said[60] == pytest.approx(4.5, abs=0.1)
    assert np.abs(np.diff(said)).max() < 2.0
    assert np.abs(np.diff(said[30:])).max() < 0.2


def test_a_label_that_hardly_differs_hardly_matters() -> None:
    x, y = ladder(40, 4)
    seen = bought(y, 0.6)
    row = int(np.flatnonzero(~np.isnan(seen[:, 1]))[0])
    before = Chain.fit(Observations.of(x, seen), LINE).believe(x, without_truth(y))
    seen[row, 1] += 1e-7
    after = Chain.fit(Observations.of(x, seen), LINE).believe(x, without_truth(y))
    np.testing.assert_allclose(before.mean, after.mean, atol=1e-5)
    np.testing.assert_allclose(before.variance, after.variance, rtol=1e-4)


def test_pseudo_labels_teach_the_features() -> None:
    """Many cheap values and few truths say more about the features than the few truths alone."""
    gains = []
    for seed in range(6):
        x, y = ladder(260, seed)
        few = np.full_like(y, NAN)
        few[:15] = y[:15]
        many = few.copy()
        many[15:200, 0] = y[15:200, 0]
        truth, none = y[200:, 1], np.full((60, 2), NAN)
        errors = [
            np.mean((Chain.fit(Observations.of(x, seen), LINE).believe(x[200:], none).mean - truth) ** 2)
            for seen in (few, many)
        ]
        gains.append(errors[0] - errors[1])
    assert np.mean(gains) > 0.05
    assert min(gains) > -0.05


def test_a_pseudo_label_is_no_truth() -> None:
    """Features say the level to the last digit, and the level says the truth within 0.5: so do features."""
    rng = np.random.default_rng(16)
    x = rng.normal(size=(220, 1))
    y = np.column_stack([x[:, 0], x[:, 0] + 0.5 * rng.normal(size=220)])
    y[20:, 1] = NAN
    chain = Chain.fit(Observations.of(x, y), LINE)
    assert chain.residual_variance(-1) > 0.15


def test_pseudo_labels_weigh_less_the_less_they_know() -> None:
    x, y = ladder(120, 17, levels=3)
    seen = Observations.of(x, bought(y, 0.4)).sorted()
    chain = Chain.fit(seen, Declared.wide(3, sigma=3.0))
    labels = _labels((), seen, chain.steps, chain.scaling)
    guessed = ~labels.measured
    assert 20 < guessed.sum() < len(guessed)
    assert (labels.weight[~guessed] == 1.0).all()
    assert (labels.extra[~guessed] == 0.0).all()
    order = np.argsort(labels.extra[guessed])
    assert (np.diff(labels.weight[guessed][order]) <= 0).all()
    assert 0 < labels.weight[guessed].min() < labels.weight[guessed].max() < 1


def test_intervals_are_meant_for_those_without_a_truth() -> None:
    """Truths were bought where they scatter; whoever waits is where they do not."""
    rng = np.random.default_rng(18)
    x = np.concatenate([rng.uniform(0.5, 1, 70), rng.uniform(0, 0.5, 310)])[:, None]
    truth = 4 * x + np.where(x > 0.5, 1.0, 0.1) * rng.normal(size=x.shape)
    truth[100:] = NAN
    asked = Chain.fit(Observations.of(x, truth), Declared.wide(1, sigma=5.0))
    alone = Chain.fit(Observations.of(x[:100], truth[:100]), Declared.wide(1, sigma=5.0))
    at = (x[100:], truth[100:])
    assert asked.believe(*at).scale[0] < 0.9 * alone.believe(*at).scale[0]


def test_what_was_not_bought_is_not_used() -> None:
    x, y = ladder(80, 5)
    seen = bought(y, 0.5)
    declared = Chain.fit(Observations.of(x, seen), LINE)
    hidden = np.where(np.isnan(seen), NAN, y)
    again = Chain.fit(Observations.of(x, hidden), LINE)
    assert json.dumps(declared.as_json()) == json.dumps(again.as_json())


def test_a_truth_that_was_bought_is_taken_as_it_is() -> None:
    x, y = ladder(60, 6)
    exact = Chain.fit(Observations.of(x, bought(y, 0.7)), LINE).believe(x, y)
    np.testing.assert_array_equal(exact.mean, y[:, 1])
    assert exact.variance.tolist() == [0.0] * 60


def test_a_noisy_truth_is_shrunk_by_its_noise() -> None:
    x, y = ladder(200, 7)
    noise = 0.25
    chain = Chain.fit(Observations.of(x, bought(y, 0.7)), LINE, noise=noise)
    before = chain.believe(x, without_truth(y))
    after = chain.believe(x, y)
    latent = np.maximum(before.variance - noise, 0.0)
    share = latent / (latent + noise)
    np.testing.assert_allclose(after.mean, before.mean + share * (y[:, 1] - before.mean))
    np.testing.assert_allclose(after.variance, share * noise)
    assert chain.residual_variance(1) == noise
    np.testing.assert_allclose(chain.gain(0, 1, [1.0, 0.1]), [0.75, 0.0])


def test_the_gain_is_what_residuals_lose() -> None:
    x, y = ladder(200, 8, levels=3)
    chain = Chain.fit(Observations.of(x, bought(y, 0.8)), Declared.wide(3, sigma=3.0))
    low, middle, high = (chain.residual_variance(level) for level in (-1, 0, 1))
    assert low > middle > high > 0
    np.testing.assert_allclose(chain.gain(-1, 0, [2.0]), 2.0 * (1 - middle / low))
    np.testing.assert_allclose(chain.gain(-1, 1, [2.0]), 2.0 * (1 - high / low))
    np.testing.assert_allclose(chain.gain(0, 2, [2.0, 0.0]), [2.0, 0.0])
    for pair in ((1, 1), (1, 0), (-2, 0)):
        with pytest.raises(InvalidInput):
            chain.gain(*pair, [1.0])


def test_every_set_of_levels_has_a_regression() -> None:
    assert patterns_below(1) == [()]
    assert patterns_below(3) == [(0, 1), (0,), (1,), ()]
    x, y = ladder(300, 9, levels=4)
    chain = Chain.fit(Observations.of(x, bought(y, 0.7)), Declared.wide(4, sigma=3.0))
    skipped = np.full((300, 4), NAN)
    skipped[:, 2] = y[:, 2]
    both = skipped.copy()
    both[:, 0] = y[:, 0]
    errors = [np.mean((chain.believe(x, seen).mean - y[:, 3]) ** 2) for seen in (skipped, both)]
    assert max(errors) < 0.05
    assert errors[1] < errors[0] * 1.05


def test_weights_speak_for_those_who_were_rarely_drawn() -> None:
    """A rare draw with weight 10 moves the belief as ten such rows would."""
    rng = np.random.default_rng(10)
    y = np.concatenate([rng.normal(0, 0.1, 60), rng.normal(2, 0.1, 6)])[:, None]
    x = np.empty((66, 0))
    propensity = np.where(np.arange(66) < 60, 1.0, 0.1)
    plain = Chain.fit(Observations.of(x, y), Declared.wide(1, sigma=5.0))
    weighted = Chain.fit(Observations.of(x, y, propensity=propensity), Declared.wide(1, sigma=5.0))
    at = (np.empty((1, 0)), [[NAN]])
    assert plain.believe(*at).mean[0] < 0.4
    assert weighted.believe(*at).mean[0] > plain.believe(*at).mean[0] + 0.3


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_units_do_not_matter(size: float) -> None:
    x, y = ladder(60, 11)
    seen = bought(y, 0.7)
    plain = Chain.fit(Observations.of(x, seen), Declared.wide(2, sigma=3.0))
    scaled = Chain.fit(Observations.of(x * 1e3, seen * size), Declared.wide(2, sigma=3.0 * size))
    a = plain.believe(x, without_truth(y))
    b = scaled.believe(x * 1e3, without_truth(y) * size)
    np.testing.assert_allclose(a.mean, b.mean / size, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(a.variance, b.variance / size**2, rtol=1e-5)


def awkward() -> dict[str, tuple[Floats, Floats]]:
    x, y = ladder(50, 12)
    return {
        "one row": (x[:1], y[:1]),
        "two equal rows": (x[[0, 0]], y[[0, 0]]),
        "all rows equal": (np.repeat(x[:1], 40, axis=0), np.repeat(y[:1], 40, axis=0)),
        "a constant truth": (x, np.column_stack([y[:, 0], np.full(50, 2.0)])),
        "a constant level": (x, np.column_stack([np.full(50, 2.0), y[:, 1]])),
        "a constant feature": (np.column_stack([x, np.full(50, 1e6)]), y),
        "equal features": (np.column_stack([x, x]), y),
        "more features than rows": (np.random.default_rng(0).normal(size=(8, 60)), y[:8]),
        "a feature with one outlier": (np.column_stack([x, np.r_[1e12, np.zeros(49)]]), y),
        "counts": (np.round(x), np.round(y)),
    }


@pytest.mark.parametrize("name", awkward())
def test_awkward_rows_give_finite_beliefs(name: str) -> None:
    x, y = awkward()[name]
    chain = Chain.fit(Observations.of(x, y), LINE)
    for values in (without_truth(y), np.full_like(y, NAN), y):
        belief = chain.believe(x * 1.5, values)
        assert np.isfinite([belief.mean, belief.variance, belief.scale]).all()
        assert (belief.variance >= 0).all()


def test_a_stored_chain_says_the_same() -> None:
    x, y = ladder(150, 13, levels=3, features=5)
    chain = Chain.fit(Observations.of(x, bought(y, 0.6)), Declared.wide(3, sigma=3.0), noise=0.01)
    document = json.dumps(chain.as_json())
    again = Chain.from_json(json.loads(document))
    for share in (0.0, 0.4, 1.0):
        values = bought(y, share, seed=1)
        a, b = chain.believe(x, values), again.believe(x, values)
        for name in ("mean", "variance", "scale"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (again.labels, again.levels, again.noise) == (chain.labels, 3, 0.01)
    assert again.labels == int((~np.isnan(bought(y, 0.6)[:, 2])).sum())
    assert json.dumps(again.as_json()) == document


def test_a_stored_chain_stays_small() -> None:
    x, y = ladder(2000, 14, features=20)
    chain = Chain.fit(Observations.of(x, y), LINE)
    assert len(json.dumps(chain.as_json())) < 300_000


def test_another_format_is_refused() -> None:
    chain = Chain.fit(Observations.of(np.empty((0, 0)), np.empty((0, 1))), Declared.wide(1))
    for document in ({**chain.as_json(), "format": "chain/0"}, {}):
        with pytest.raises(InvalidInput):
            Chain.from_json(document)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1.0, 2.0]], [[1.0, NAN]]),
        ([[1.0, 2.0, 3.0]], [[1.0]]),
        ([[1.0, 2.0, 3.0]], [[1.0, NAN], [1.0, NAN]]),
        ([[1.0, 2.0, NAN]], [[1.0, NAN]]),
        ([[1.0, 2.0, 3.0]], [[np.inf, NAN]]),
        ([1.0, 2.0, 3.0], [[1.0, NAN]]),
    ],
)
def test_what_has_another_shape_cannot_be_believed(x: Any, y: Any) -> None:
    known, values = ladder(20, 15)
    with pytest.raises(InvalidInput):
        Chain.fit(Observations.of(known, values), LINE).believe(x, y)


@pytest.mark.parametrize("noise", [-1.0, NAN, np.inf])
def test_noise_is_a_variance(noise: float) -> None:
    with pytest.raises(InvalidInput):
        Chain.fit(Observations.of(np.empty((0, 0)), np.empty((0, 1))), Declared.wide(1), noise=noise)


def test_declared_lines_belong_to_the_levels() -> None:
    with pytest.raises(InvalidInput):
        Chain.fit(Observations.of(np.empty((0, 0)), np.empty((0, 3))), LINE)
