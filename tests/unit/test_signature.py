"""Pay that rises without merit is told from progress and from nothing at all."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.signature import FEWEST_AUDITS, Signature, Span, compare, pay_and_merit
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.insight import Rested

N = 250


def span(rng: np.random.Generator, *, better: float = 0.0, hacked: float = 0.0) -> Span:
    """Truths N(better, 1), paid with an error of 0.4 and one more for a share of them; a fifth audited."""
    truth = better + rng.standard_normal(N)
    paid = truth + 0.4 * rng.standard_normal(N) + (rng.random(N) < hacked)
    chance = np.where(paid > 0.5, 0.3, 0.15)
    drawn = rng.random(N) < chance
    return Span.of(paid, np.where(drawn, truth, np.nan), chance, drawn)


def apart(seed: int, **after: float) -> list[bool | None]:
    rng = np.random.default_rng(seed)
    return [compare(span(rng), span(rng, **after)).apart for _ in range(400)]


@pytest.mark.parametrize("better", [0.0, 0.4, -0.4])
def test_neither_progress_nor_decline_nor_rest_looks_like_hacking(better: float) -> None:
    assert sum(one is True for one in apart(1, better=better)) <= 4  # 1 %


def test_pay_that_rises_without_merit_does() -> None:
    assert np.mean(apart(2, hacked=0.6)) > 0.8
    assert np.mean(apart(3, hacked=0.6, better=-0.2)) > 0.9


def test_the_rises_are_those_of_the_means_with_honest_errors() -> None:
    rng = np.random.default_rng(4)
    seen = [compare(span(rng), span(rng, hacked=0.4, better=0.1)) for _ in range(400)]
    for rises, truth in (([one.paid for one in seen], 0.5), ([one.deserved for one in seen], 0.1)):
        means, errors = np.array([[rise.mean, rise.se] for rise in rises]).T
        assert abs(means.mean() - truth) < 4 * means.std() / 20
        assert errors.mean() == pytest.approx(means.std(), rel=0.15)


def test_too_few_audits_tell_nothing() -> None:
    paid, drawn = np.linspace(0, 1, 40), np.arange(40) < FEWEST_AUDITS - 1
    few = Span.of(paid, paid, np.full(40, 0.2), drawn)
    enough = Span.of(paid, paid, np.full(40, 0.2), np.arange(40) < FEWEST_AUDITS)
    assert compare(few, enough).apart is None
    assert compare(enough, few).apart is None
    assert compare(enough, enough).apart is False
    assert isinstance(compare(few, few), Signature)


def test_a_span_of_one_is_refused() -> None:
    one = Span.of([1.0], [1.0], [0.5], [True])
    with pytest.raises(InvalidInput):
        compare(one, one)


def test_successive_cases_are_compared_in_halves() -> None:
    """Paid half a point more in the second half, and every second truth says that it was for nothing."""
    rng = np.random.default_rng(6)

    def cases(paid_more: float) -> list[Rested]:
        truth = rng.uniform(0.2, 0.4, 100)
        return [
            Rested(float(one) + paid_more, 0.5, place % 2 == 0, float(one) if place % 2 == 0 else None)
            for place, one in enumerate(truth)
        ]

    found = pay_and_merit([*cases(0.0), *cases(0.5)])
    assert found is not None
    assert (found.candidates, found.truths, found.apart) == (200, 100, True)
    assert found.paid.mean == pytest.approx(0.5, abs=0.05)
    assert found.deserved.mean == pytest.approx(0.0, abs=0.05)
    same = pay_and_merit([*cases(0.0), *cases(0.0)])
    assert same is not None
    assert same.apart is False
    assert pay_and_merit(cases(0.0)[:3]) is None
    few = pay_and_merit(cases(0.0)[:10])
    assert few is not None
    assert few.apart is None
