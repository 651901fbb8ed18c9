"""Rewards that stay honest although most candidates are never verified at the top: what audits correct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.observations import Floats
from verifier_service.domain.errors import InvalidInput

LEAST_DENOMINATOR = 0.2
BORROWED = 20.0  # audits


@dataclass(frozen=True, slots=True)
class Estimated:
    """A mean over ``n`` candidates, ``audits`` of which were audited, with its standard error."""

    mean: float
    se: float
    n: int
    audits: int


@dataclass(frozen=True, slots=True)
class Shift:
    """What to add to beliefs in a stratum, with its standard error, from ``n`` audits."""

    mean: float
    se: float
    n: int


def doubly_robust(
    believed: npt.ArrayLike, found: npt.ArrayLike, propensity: npt.ArrayLike, audited: npt.ArrayLike
) -> Floats:
    """m + (A / pi)(y - m) per candidate, (n,) each: unbiased for the truth over the draws of A, provided
    that m was made without y (Robins, Rotnitzky and Zhao 1994, JASA 89, 846; difference estimator of
    Cassel, Sarndal and Wretman 1976).

    ``found`` is read where ``audited`` only. ``InvalidInput``: other shapes; a propensity outside (0, 1]
    or no finite truth where audited; a belief that is not finite.
    """
    m, y, pi, a = _columns(believed, found, propensity, audited)
    result = m.copy()
    result[a] += (y[a] - m[a]) / pi[a]
    return result


def corrected_means(
    strata: Sequence[str],
    believed: npt.ArrayLike,
    found: npt.ArrayLike,
    propensity: npt.ArrayLike,
    audited: npt.ArrayLike,
) -> dict[str, Estimated]:
    """Mean truth per stratum: the mean belief and the mean error by its audits.

    The error's mean is Horvitz and Thompson's (1952, JASA 47, 663) sum over the number of candidates,
    exactly unbiased for independent draws. Its squared error about the mean truth of these very
    candidates is sum A (1 - pi) (y - m)^2 / pi^2 over n^2 (Sarndal, Swensson and Wretman 1992, ch. 2.8).
    Few audits often miss the large errors; so that is averaged with what it would be if errors were as
    large as in all strata together, which counts for 20 audits (after Smyth 2004, Statistical
    Applications in Genetics and Molecular Biology 3, 3). nan where nothing was audited at all.

    ``propensity`` is known for every candidate. Other arguments and errors as ``doubly_robust``.
    """
    values = doubly_robust(believed, found, propensity, audited)
    m, y, pi, chosen = _columns(believed, found, propensity, audited)
    names = _named(strata, len(values))
    if not ((pi > 0) & (pi <= 1)).all():
        raise _invalid("a propensity lies in (0, 1]")
    error = np.where(chosen, y - m, 0.0)
    seen = chosen / pi
    typical = float(seen @ error**2 / seen.sum()) if chosen.any() else float("nan")
    result: dict[str, Estimated] = {}
    for name in np.unique(names):
        rows = names == name
        n, audits = int(rows.sum()), int(chosen[rows].sum())
        own = float(((1.0 - pi[rows]) * (seen[rows] * error[rows]) ** 2).sum())
        borrowed = typical * float(((1.0 - pi[rows]) / pi[rows]).sum())
        squared = (audits * own + BORROWED * borrowed) / (audits + BORROWED)
        result[str(name)] = Estimated(float(values[rows].mean()), squared**0.5 / n, n, audits)
    return result


def shrunken_bias(
    strata: Sequence[str], error: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> dict[str, Shift]:
    """Correction of the mean per stratum from audits: mean error * n / (n + s^2 / t^2).

    ``error`` (n,): found - believed; nan where nothing was found. ``weight`` (n,): 1 / propensity. Means
    are Hajek's (1971), weighted and divided by the sum of weights, and n is Kish's effective number,
    (sum w)^2 / sum w^2. s^2 is the variance within strata. t^2 = var of the strata's true biases about
    0, by moments as DerSimonian and Laird (1986, Controlled Clinical Trials 7, 177), with their mean
    known to be 0. A stratum without audits gets 0 with t as its error. ``InvalidInput``: other shapes,
    infinite errors, weights that are not positive.
    """
    errors = np.asarray(error, dtype=np.float64)
    weights = np.ones_like(errors) if weight is None else np.asarray(weight, dtype=np.float64)
    if errors.ndim != 1 or weights.shape != errors.shape:
        raise _invalid("one error and one weight per audit")
    known = ~np.isnan(errors)
    if not np.isfinite(errors[known]).all() or not (weights[known] > 0).all():
        raise _invalid("errors are finite and weights positive")
    if not np.isfinite(weights[known]).all():
        raise _invalid("weights are finite")
    names = _named(strata, len(errors))
    parts = {str(name): _Part.of(errors, weights, known & (names == name)) for name in np.unique(names)}
    within = _within(parts)
    between = _between(parts, within)
    return {name: part.shrunk(within, between) for name, part in parts.items()}


def backward_corrected(
    rate: npt.ArrayLike, false_positive: npt.ArrayLike, false_negative: npt.ArrayLike
) -> Floats:
    """(rate - rho0) / (1 - rho0 - rho1): the reward of a yes-or-no verifier without its mistakes, in
    expectation (Natarajan et al. 2013, NeurIPS; for rewards Wang et al. 2020, AAAI).

    rho0 = ``false_positive``: P(verifier says yes | truth says no), rho1 = ``false_negative``. The
    denominator is at least 0.2, which bounds the noise and leaves some of the bias of a verifier that
    knows next to nothing. ``InvalidInput`` for rates outside [0, 1].
    """
    seen, rho0, rho1 = (
        np.asarray(given, dtype=np.float64) for given in (rate, false_positive, false_negative)
    )
    for given in (seen, rho0, rho1):
        if not ((given >= 0) & (given <= 1)).all():
            raise _invalid("rates lie between 0 and 1")
    return np.asarray((seen - rho0) / np.maximum(1.0 - rho0 - rho1, LEAST_DENOMINATOR))


@dataclass(frozen=True, slots=True)
class MistakeRates:
    """rho0 and rho1 of a verifier, from ``n`` audits."""

    false_positive: float
    false_negative: float
    n: int


def mistake_rates(
    said: npt.ArrayLike, truth: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> MistakeRates:
    """False-positive and false-negative rates from audits, weighted by 1 / propensity, smoothed after
    Laplace: (k + 1) / (n + 2), so that without audits both are 1/2.

    ``said``, ``truth`` (n,): booleans. Weights are scaled so that they sum to the audits in each class,
    for the smoothing counts audits. ``InvalidInput``: other shapes or weights that are not positive.
    """
    yes, right = np.asarray(said, dtype=bool), np.asarray(truth, dtype=bool)
    w = np.ones(yes.shape) if weight is None else np.asarray(weight, dtype=np.float64)
    if yes.ndim != 1 or not yes.shape == right.shape == w.shape:
        raise _invalid("one verdict, one truth and one weight per audit")
    if not (np.isfinite(w) & (w > 0)).all():
        raise _invalid("weights are finite and positive")
    return MistakeRates(_smoothed(yes[~right], w[~right]), _smoothed(~yes[right], w[right]), len(yes))


def _smoothed(mistaken: npt.NDArray[np.bool_], weight: Floats) -> float:
    n = len(mistaken)
    share = float(weight[mistaken].sum() / weight.sum()) if n else 0.0
    return (n * share + 1.0) / (n + 2.0)


@dataclass(frozen=True, slots=True)
class _Part:
    """Audits of one stratum: how many, effectively how many, mean error, sum of squares about it."""

    n: int
    effective: float
    mean: float
    squares: float

    @classmethod
    def of(cls, errors: Floats, weights: Floats, rows: npt.NDArray[np.bool_]) -> _Part:
        e, w = errors[rows], weights[rows]
        if not len(e):
            return cls(0, 0.0, 0.0, 0.0)
        share = w / w.sum()
        mean = float(share @ e)
        effective = float(1.0 / (share @ share))
        return cls(len(e), effective, mean, effective * float(share @ (e - mean) ** 2))

    def shrunk(self, within: float, between: float) -> Shift:
        """Posterior of the bias: prior N(0, between), likelihood N(mean, within / effective)."""
        if not self.n:
            return Shift(0.0, between**0.5, 0)
        total = between * self.effective + within
        kept = between * self.effective / total if total > 0 else 1.0
        return Shift(self.mean * kept, float((kept * within / self.effective) ** 0.5), self.n)


def _within(parts: Mapping[str, _Part]) -> float:
    free = sum(max(part.effective - 1.0, 0.0) for part in parts.values())
    return sum(part.squares for part in parts.values() if part.n > 1) / free if free > 0 else 0.0


def _between(parts: Mapping[str, _Part], within: float) -> float:
    """Expected sum of n b^2 is t^2 sum n + s^2 per stratum. A stratum alone with one audit says nothing."""
    seen = [part for part in parts.values() if part.n]
    total = sum(part.effective for part in seen)
    if total <= len(seen):
        return 0.0
    found = sum(part.effective * part.mean**2 for part in seen) - len(seen) * within
    return max(found / total, 0.0)


def _columns(
    believed: npt.ArrayLike, found: npt.ArrayLike, propensity: npt.ArrayLike, audited: npt.ArrayLike
) -> tuple[Floats, Floats, Floats, npt.NDArray[np.bool_]]:
    m, y, pi = (np.asarray(given, dtype=np.float64) for given in (believed, found, propensity))
    a = np.asarray(audited, dtype=bool)
    if m.ndim != 1 or not m.shape == y.shape == pi.shape == a.shape:
        raise _invalid("belief, truth, propensity and draw have one entry per candidate")
    if not np.isfinite(m).all() or not np.isfinite(y[a]).all():
        raise _invalid("beliefs are finite, and truths where there was an audit")
    if not ((pi[a] > 0) & (pi[a] <= 1)).all():
        raise _invalid("a propensity lies in (0, 1]")
    return m, y, pi, a


def _named(strata: Sequence[str], n: int) -> npt.NDArray[np.str_]:
    names = np.array(list(strata), dtype=np.str_)
    if names.shape != (n,):
        raise _invalid("one stratum per candidate")
    return names


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_corrections", message)
