"""The unit in which a reward is counted: raw quantity, or the ladder's utility of it.

A belief about the quantity is normal, y ~ N(mean, variance). A ``Worth`` says what mean and variance
the reward then has, and how much of that variance a purchase would resolve. All functions are vectorised
over candidates; the scalar moments of ``scheduler.value`` are the reference they are tested against.

Piecewise-linear utilities have closed forms through the partial moments of the normal distribution
(Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions vol. 1, section 13.10.1). Logistic
ones are integrated by the trapezoidal rule, over whichever of the normal and the logistic density is the
narrower: the integrand is analytic in a strip, so that the error falls geometrically with the number of
nodes (Trefethen and Weideman 2014, SIAM Review 56, theorem 5.1); below 1e-6 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, owens_t

from verifier_service.domain.ladders import (
    LinearUtility,
    SigmoidUtility,
    ThresholdUtility,
    Utility,
    WindowUtility,
)

Floats = NDArray[np.float64]
Moments = tuple[Floats, Floats]
Segment = tuple[float, float, float, float]  # from, to, value at either end

HERMITE_NODES = 9
_NODES, _RAW_WEIGHTS = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
_WEIGHTS = _RAW_WEIGHTS / _RAW_WEIGHTS.sum()
_NORMAL_STEP, _NORMAL_REACH = 0.25, 8.0
_LOGISTIC_STEP, _LOGISTIC_REACH = 0.5, 30.0
_NARROW = 0.01
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(5)
_CHUNK = 16_384
_TINY = 1e-300


def hermite(mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Nodes (9, ...) and weights (9, 1) for expectations over N(mean, spread^2)."""
    return mean + _NODES[:, None] * spread, _WEIGHTS[:, None]


class Worth(Protocol):
    """How the quantity counts. Arguments and results have shape (n,); variances are at least 0."""

    def moments(self, mean: Floats, variance: Floats) -> Moments:
        """(E u, Var u) under y ~ N(mean, variance); variance 0 gives (u(mean), 0)."""
        ...

    def resolvable(self, mean: Floats, variance: Floats, variance_after: Floats) -> Floats:
        """Part of Var u that a purchase resolves which leaves ``variance_after`` of the variance of y.

        The posterior mean is N(mean, variance - variance_after) before the purchase; the answer is the
        variance of E[u | posterior mean], between 0 and Var u.
        """
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """The reward is the quantity itself."""

    def moments(self, mean: Floats, variance: Floats) -> Moments:
        """See ``Worth``."""
        return mean, np.maximum(variance, 0.0)

    def resolvable(self, mean: Floats, variance: Floats, variance_after: Floats) -> Floats:  # noqa: ARG002
        """See ``Worth``: the difference of the variances."""
        resolved: Floats = np.maximum(variance - np.maximum(variance_after, 0.0), 0.0)
        return resolved


@dataclass(frozen=True, slots=True)
class UtilityWorth:
    """The reward is a utility in [0, 1] of the quantity."""

    utility: Utility

    def moments(self, mean: Floats, variance: Floats) -> Moments:
        """See ``Worth``. Raises ``OverflowError`` where the moments are not finite."""
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        sd = np.sqrt(np.maximum(variance, 0.0))
        moments_of = _logistic if isinstance(self.utility, SigmoidUtility) else _piecewise
        first, second = _in_chunks(lambda m, s: moments_of(self.utility, m, s), mean.ravel(), sd.ravel())
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise OverflowError("the utility's moments are not finite")
        first = np.clip(first, 0.0, 1.0)
        spread = np.where(sd.ravel() > 0.0, np.clip(second - first * first, 0.0, 0.25), 0.0)
        return first.reshape(mean.shape), spread.reshape(mean.shape)

    def resolvable(self, mean: Floats, variance: Floats, variance_after: Floats) -> Floats:
        """See ``Worth``. Closed form for thresholds and where everything is resolved, else 9 nodes."""
        mean, variance = np.asarray(mean, float), np.maximum(variance, 0.0)
        after = np.clip(variance_after, 0.0, variance)
        total = self.moments(mean, variance)[1]
        if isinstance(self.utility, ThresholdUtility):
            return np.minimum(_threshold_resolvable(self.utility, mean, variance, after), total)
        nodes, weights = hermite(mean, np.sqrt(variance - after))
        first = self.moments(nodes, np.broadcast_to(after, nodes.shape))[0]
        centre = (weights * first).sum(axis=0)
        resolved = (weights * (first - centre) ** 2).sum(axis=0)
        resolved = np.where(after <= 0.0, total, np.minimum(resolved, total))
        return np.where(variance > after, resolved, 0.0)


IDENTITY: Worth = Identity()


def of_utility(utility: Utility) -> Worth:
    """The worth of a ladder that declares ``utility``."""
    return UtilityWorth(utility)


def _in_chunks(moments_of: Callable[[Floats, Floats], Moments], mean: Floats, sd: Floats) -> Moments:
    """Bound the memory of the (nodes, n) tables."""
    parts = [
        moments_of(mean[at : at + _CHUNK], sd[at : at + _CHUNK])
        for at in range(0, max(1, mean.size), _CHUNK)
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _segments(utility: Utility) -> list[Segment]:
    """Pieces on which the utility is linear; it is 0 outside all of them."""
    inf = np.inf
    if isinstance(utility, WindowUtility):
        low, high, softness = utility.low, utility.high, utility.softness
        return [(low, high, 1.0, 1.0), (low - softness, low, 0.0, 1.0), (high, high + softness, 1.0, 0.0)]
    if isinstance(utility, ThresholdUtility):
        above = utility.direction == "above"
        return [(utility.at, inf, 1.0, 1.0)] if above else [(-inf, utility.at, 1.0, 1.0)]
    if isinstance(utility, LinearUtility):
        if utility.zero < utility.one:
            return [(utility.zero, utility.one, 0.0, 1.0), (utility.one, inf, 1.0, 1.0)]
        return [(utility.one, utility.zero, 1.0, 0.0), (-inf, utility.one, 1.0, 1.0)]
    raise TypeError(f"not piecewise linear: {utility.kind}")


def _slope(segment: Segment) -> float:
    start, end, first, last = segment
    return 0.0 if first == last or start == end else (last - first) / (end - start)


def _piecewise(utility: Utility, mean: Floats, sd: Floats) -> Moments:
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    known = sd <= 0.0
    scale = np.where(known, 1.0, sd)
    for segment in _segments(utility):
        low, high = (segment[0] - mean) / scale, (segment[1] - mean) / scale
        narrow = (high - low < _NARROW) & ~known
        wide = ~narrow & ~known
        first[wide], second[wide] = np.add(
            (first[wide], second[wide]), _exact(segment, mean[wide], scale[wide], low[wide], high[wide])
        )
        first[narrow], second[narrow] = np.add(
            (first[narrow], second[narrow]), _summed(segment, low[narrow], high[narrow])
        )
    first = np.where(known, _value(utility, mean), first)
    return first, np.where(known, first * first, second)


def _exact(segment: Segment, mean: Floats, scale: Floats, low: Floats, high: Floats) -> Moments:
    """A segment's part of E u and E u^2, by partial moments."""
    p_low, p_high = _density(low), _density(high)
    m0 = _mass(low, high)
    there = ~(m0 <= 0.0)  # elsewhere, zero times a huge value would not be a number
    m1 = p_low - p_high
    m2 = m0 + _edge(low, p_low) - _edge(high, p_high)
    slope = _slope(segment)
    a = segment[2] + (slope * (np.where(there, mean, segment[0]) - segment[0]) if slope else 0.0)
    b = slope * scale
    return (
        np.where(there, a * m0 + b * m1, 0.0),
        np.where(there, a * a * m0 + 2 * a * b * m1 + b * b * m2, 0.0),
    )


def _summed(segment: Segment, low: Floats, high: Floats) -> Moments:
    """The same where the belief is much wider than the segment and the partial moments cancel."""
    at = 0.5 * (1.0 + _LEGENDRE_NODES[:, None])
    mass = 0.5 * _LEGENDRE_WEIGHTS[:, None] * (high - low) * _density(low + at * (high - low))
    value = segment[2] + (segment[3] - segment[2]) * at
    return (mass * value).sum(axis=0), (mass * value * value).sum(axis=0)


def _value(utility: Utility, at: Floats) -> Floats:
    found = np.zeros_like(at)
    for segment in _segments(utility):
        start, end, first, _ = segment
        inside, slope = (start <= at) & (at <= end), _slope(segment)
        value = first + (slope * (np.where(inside, at, start) - start) if slope else 0.0)
        found = np.where(inside, np.maximum(found, value), found)
    return np.clip(found, 0.0, 1.0)


def _logistic(utility: Utility, mean: Floats, sd: Floats) -> Moments:
    """E[s] and E[s^2] of s = 1 / (1 + exp(-(y - midpoint) / scale)).

    Where the normal is the wider one, E[s^p] = E[normal mass above L] with L of density p s^p (1 - s).
    """
    assert isinstance(utility, SigmoidUtility)  # noqa: S101 - narrows the union
    centre, ratio = (mean - utility.midpoint) / utility.scale, sd / abs(utility.scale)
    first, second = np.empty_like(mean), np.empty_like(mean)
    narrow = ratio < 1.0
    z = np.arange(-_NORMAL_REACH, _NORMAL_REACH + _NORMAL_STEP / 2, _NORMAL_STEP)[:, None]
    mass = _density(z) * _NORMAL_STEP
    s = expit(centre[narrow] + ratio[narrow] * z)
    first[narrow], second[narrow] = (mass * s).sum(axis=0), (mass * s * s).sum(axis=0)
    nodes = np.arange(-_LOGISTIC_REACH, _LOGISTIC_REACH + _LOGISTIC_STEP / 2, _LOGISTIC_STEP)[:, None]
    above = ndtr((centre[~narrow] - nodes) / ratio[~narrow])
    at, rest = expit(nodes), expit(-nodes)
    first[~narrow] = (_LOGISTIC_STEP * at * rest * above).sum(axis=0)
    second[~narrow] = (_LOGISTIC_STEP * 2 * at * at * rest * above).sum(axis=0)
    return first, second


def _threshold_resolvable(
    utility: ThresholdUtility, mean: Floats, variance: Floats, after: Floats
) -> Floats:
    """Var P(y beyond ``at`` | posterior mean) = P(both of two copies are beyond) - P(one is)^2.

    The copies share the posterior mean, so their correlation is resolved / total variance; the
    bivariate probability follows from Owen's T function (Owen 1956, equation 2.1 with h = k).
    """
    sd = np.sqrt(np.maximum(variance, _TINY))
    with np.errstate(over="ignore"):
        h = (mean - utility.at) / sd
    share = np.where(variance > 0.0, 1.0 - after / np.maximum(variance, _TINY), 0.0)
    one = ndtr(h)
    both = one - 2.0 * owens_t(h, np.sqrt((1.0 - share) / (1.0 + share)))
    return np.where(variance > after, np.maximum(both - one * one, 0.0), 0.0)


def _mass(low: Floats, high: Floats) -> Floats:
    """Normal mass between two points, from the nearer tail so that it does not cancel."""
    flip = low > 0.0
    mass: Floats = np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return mass


def _edge(z: Floats, density: Floats) -> Floats:
    """z times its density, which vanishes at both infinities."""
    finite = np.isfinite(z)
    product: Floats = np.where(finite, z, 0.0) * density
    return product


def _density(z: Floats) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        found: Floats = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return found
