"""Beliefs hold for purchases that nobody planned."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.chain import Chain
from scheduler.chain_probability import Probability
from scheduler.observations import Declared, DeclaredLine, Observations

SETTINGS = settings(max_examples=40, deadline=None)


@st.composite
def purchases(draw: st.DrawFn, *, verdicts: bool = False) -> tuple[Observations, Declared]:
    """Any number of rows, features and levels, any of them bought, some of them repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p, levels = draw(st.integers(0, 40)), draw(st.integers(0, 5)), draw(st.integers(1, 4))
    size = 10.0 ** draw(st.integers(-6, 6))
    x = rng.normal(size=(n, p)) * size
    y = rng.normal(size=(n, 1)) + rng.normal(size=(n, levels)) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    if verdicts:
        y, size = (y > 0).astype(float), 1.0
    y[rng.uniform(size=y.shape) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))] = np.nan
    if n and draw(st.booleans()):
        rows = rng.integers(0, n, n)
        x, y = x[rows], y[rows]
    propensity = np.where(rng.uniform(size=n) < 0.5, rng.uniform(0.02, 1.0, n), np.nan)
    lines = [DeclaredLine(0.0, 1.0, 0.5 * size) if draw(st.booleans()) else None for _ in range(levels - 1)]
    seen = Observations.of(
        x, y * size, propensity=propensity, key=rng.permutation(n) // draw(st.sampled_from([1, 3, 50]))
    )
    return seen, Declared(0.5 if verdicts else 0.0, 3.0 * size, tuple(lines))


@SETTINGS
@given(purchases(), st.sampled_from([0.0, 0.01]))
def test_beliefs_are_finite_and_spread(case: tuple[Observations, Declared], noise: float) -> None:
    seen, declared = case
    chain = Chain.fit(seen, declared, noise=noise)
    belief = chain.believe(seen.x, seen.y)
    assert np.isfinite([belief.mean, belief.variance, belief.scale]).all()
    assert (belief.variance >= 0).all()
    assert (belief.scale > 0).all() or not len(seen.y)
    levels = seen.y.shape[1]
    assert all(0 <= chain.residual_variance(k) < np.inf for k in range(-1, levels))
    for low in range(-1, levels - 1):
        for high in range(low + 1, levels):
            gain = chain.gain(low, high, belief.variance)
            assert ((gain >= 0) & (gain <= belief.variance)).all()


@SETTINGS
@given(purchases(), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(case: tuple[Observations, Declared], seed: int) -> None:
    seen, declared = case
    shuffled = seen.only(np.random.default_rng(seed).permutation(len(seen.key)))
    assert json.dumps(Chain.fit(seen, declared).as_json()) == json.dumps(
        Chain.fit(shuffled, declared).as_json()
    )


@SETTINGS
@given(purchases())
def test_a_belief_depends_on_its_own_row(case: tuple[Observations, Declared]) -> None:
    seen, declared = case
    chain = Chain.fit(seen, declared)
    together = chain.believe(seen.x, seen.y)
    for row in range(min(3, len(seen.y))):
        alone = chain.believe(seen.x[[row]], seen.y[[row]])
        np.testing.assert_allclose(alone.mean, together.mean[[row]], rtol=1e-7, atol=1e-12)


@SETTINGS
@given(purchases())
def test_what_is_stored_says_the_same(case: tuple[Observations, Declared]) -> None:
    seen, declared = case
    chain = Chain.fit(seen, declared, noise=0.1)
    again = Chain.from_json(json.loads(json.dumps(chain.as_json(), allow_nan=False)))
    a, b = chain.believe(seen.x, seen.y), again.believe(seen.x, seen.y)
    for name in ("mean", "variance", "scale"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@SETTINGS
@given(purchases(verdicts=True), st.integers(0, 2**32 - 1))
def test_a_probability_is_one(case: tuple[Observations, Declared], seed: int) -> None:
    seen, declared = case
    found = Probability.fit(seen, declared)
    belief = found.believe(seen.x, seen.y)
    assert ((belief.mean >= 0) & (belief.mean <= 1)).all()
    assert ((belief.variance >= 0) & (belief.variance <= 0.25)).all()
    shuffled = seen.only(np.random.default_rng(seed).permutation(len(seen.key)))
    again = Probability.from_json(json.loads(json.dumps(Probability.fit(shuffled, declared).as_json())))
    np.testing.assert_array_equal(again.believe(seen.x, seen.y).mean, belief.mean)
