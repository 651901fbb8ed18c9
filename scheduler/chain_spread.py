"""How far the truth lies from a prediction: local variance, and the conformal scale of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from scheduler.observations import Floats, Ints

LOCAL = 0.7
NEIGHBOURS = (6, 40)  # a fifth of the labels, within these bounds
GLOBAL_COUNT = 2.0
KNOTS = 96
TOWARD_OPEN = 0.8
MOST_OPEN = 1000
FEWEST_OPEN = 5
TRUST_COUNT = 5.0
TINY = 1e-300
Z90 = 1.6448536269514722
LEVEL = 0.90
LARGEST_SCALE = 4.0
NOBODY: Floats = np.empty(0)


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """Variance as a piecewise-linear function of the prediction, and the intervals' scale."""

    at: Floats
    variance: Floats
    mean_variance: float
    scale: float

    def of(self, prediction: Floats) -> Floats:
        """Variance at each prediction (n,)."""
        found: Floats = np.interp(prediction, self.at, self.variance)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at.tolist(),
            "variance": self.variance.tolist(),
            "mean_variance": self.mean_variance,
            "scale": self.scale,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Spread:
        return cls(
            np.array(document["at"], dtype=np.float64),
            np.array(document["variance"], dtype=np.float64),
            float(document["mean_variance"]),
            float(document["scale"]),
        )


def fit_spread(
    prediction: Floats,
    squares: Floats,
    weight: Floats,
    *,
    prior: float,
    prior_count: float,
    waiting: Floats = NOBODY,
) -> Spread:
    """0.7 local + 0.3 global variance around each prediction.

    ``squares`` (n,): squared leave-one-out residuals (or their second moments). ``prior`` counts as
    ``prior_count`` further residuals (scaled inverse chi-squared), so that with none it is all there is.
    ``waiting`` (m,): predictions of candidates without a truth, for whom the intervals are meant.
    """
    total = float(weight.sum())
    mean = (prior * prior_count + float(weight @ squares)) / max(prior_count + total, TINY)
    if len(prediction) < 2:
        return Spread(np.zeros(1), np.full(1, mean), mean, interval_scale(squares[:0], weight[:0]))
    order = np.argsort(prediction, kind="stable")
    at, r2, w = prediction[order], squares[order], weight[order]
    low, high = _nearest(at, at, int(np.clip(len(at) // 5, *NEIGHBOURS)))
    mass = np.concatenate([[0.0], np.cumsum(w)])
    sums = np.concatenate([[0.0], np.cumsum(w * r2)])
    inside, moment = mass[high] - mass[low], sums[high] - sums[low]
    count = prior_count + GLOBAL_COUNT
    local = np.maximum(count * mean + moment, 0.0) / (count + inside)
    without = np.maximum(count * mean + moment - w * r2, 0.0) / (count + np.maximum(inside - w, 0.0))
    variance = LOCAL * local + (1.0 - LOCAL) * mean
    honest = LOCAL * without + (1.0 - LOCAL) * mean
    scores = np.sqrt(r2 / np.maximum(honest, TINY))
    scale = interval_scale(scores, w * _for_waiting(at, waiting))
    knots = np.unique(np.linspace(0, len(at) - 1, KNOTS).round().astype(int))
    return Spread(at[knots], variance[knots], mean, scale)


def _for_waiting(at: Floats, waiting: Floats) -> Floats:
    """Factor (n,) per label: how many of those who wait are like it (nearest-neighbour density ratio,
    Lima et al. 2008, MNRAS 390, section 3), drawn a fifth of the way toward 1.

    Labels are bought where they promise most, and the candidates that stay without one are others; the
    conformal quantile is to hold for these.
    """
    if len(waiting) < FEWEST_OPEN:
        return np.ones(len(at))
    ordered = np.sort(waiting)
    some = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_OPEN)).round().astype(int)]
    low, high = _nearest(at, some, int(np.clip(len(at) // 6, 5, NEIGHBOURS[1])))
    steps = np.bincount(low, minlength=len(at) + 1) - np.bincount(high, minlength=len(at) + 1)
    ratio = np.cumsum(steps)[:-1] * len(at) / float((high - low).sum())
    found: Floats = (1.0 - TOWARD_OPEN) + TOWARD_OPEN * ratio
    return found


def interval_scale(scores: Floats, weight: Floats) -> float:
    """Factor on the standard deviation that makes 90 % normal intervals cover 90 %.

    ``scores``: |leave-one-out residual| / sd. The weighted conformal quantile (Tibshirani et al. 2019,
    eq. 7) takes over from Student's t as labels come in.
    """
    count = float(weight.sum() ** 2 / (weight @ weight)) if len(weight) else 0.0
    student = min(float(stats.t.ppf(0.5 + LEVEL / 2, max(count - 1.0, 1.0))) / Z90, LARGEST_SCALE)
    if count < 2:
        return student
    order = np.argsort(scores, kind="stable")
    share = np.cumsum(weight[order]) / (weight.sum() + weight.mean())
    index = int(np.searchsorted(share, LEVEL))
    conformal = float(scores[order[min(index, len(order) - 1)]]) / Z90
    trust = count / (count + TRUST_COUNT)
    return min(float(trust * conformal + (1.0 - trust) * max(student, conformal)), LARGEST_SCALE)


def _nearest(at: Floats, queries: Floats, size: int) -> tuple[Ints, Ints]:
    """Bounds [low, high) of the ``size`` values of the sorted ``at`` that are nearest to each query."""
    n = len(at)
    size = min(size, n)
    low = np.clip(np.searchsorted(at, queries) - size // 2, 0, n - size).astype(np.int64)
    for _ in range(size):
        right = (low + size < n) & (at[np.minimum(low + size, n - 1)] - queries < queries - at[low])
        left = (low > 0) & ~right & (queries - at[np.maximum(low - 1, 0)] < at[low + size - 1] - queries)
        if not (right.any() or left.any()):
            break
        low = low + right - left
    return low, low + size
