"""How far the truth lies from a prediction: local variance, and the conformal scale of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from scheduler.observations import Floats

LOCAL = 0.7
NEIGHBOURS = 25
KNOTS = 96
Z90 = 1.6448536269514722
LEVEL = 0.90
LARGEST_SCALE = 4.0


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
    prediction: Floats, squares: Floats, weight: Floats, *, prior: float, prior_count: float
) -> Spread:
    """0.7 local + 0.3 global variance around each prediction.

    ``squares`` (n,): squared leave-one-out residuals (or their second moments). ``prior`` counts as
    ``prior_count`` further residuals (scaled inverse chi-squared), so that with none it is all there is.
    """
    total = float(weight.sum())
    mean = (prior * prior_count + float(weight @ squares)) / (max(prior_count + total, 1e-12))
    if len(prediction) < 2:
        return Spread(np.zeros(1), np.full(1, mean), mean, interval_scale(np.empty(0), np.empty(0)))
    order = np.argsort(prediction, kind="stable")
    at, r2, w = prediction[order], squares[order], weight[order]
    low, high = _window(at, NEIGHBOURS)
    mass = np.concatenate([[0.0], np.cumsum(w)])
    sums = np.concatenate([[0.0], np.cumsum(w * r2)])
    inside, moment = mass[high] - mass[low], sums[high] - sums[low]
    local = (prior_count * mean + moment) / (prior_count + inside)
    without = (prior_count * mean + moment - w * r2) / (prior_count + np.maximum(inside - w, 0.0))
    variance = LOCAL * local + (1.0 - LOCAL) * mean
    honest = LOCAL * without + (1.0 - LOCAL) * mean
    scale = interval_scale(np.sqrt(r2 / np.maximum(honest, np.finfo(float).tiny)), w)
    knots = np.unique(np.linspace(0, len(at) - 1, KNOTS).round().astype(int))
    return Spread(at[knots], variance[knots], mean, scale)


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
    trust = count / (count + 10.0)
    return min(float(trust * conformal + (1.0 - trust) * max(student, conformal)), LARGEST_SCALE)


def _window(at: Floats, size: int) -> tuple[Any, Any]:
    """Bounds [low, high) of the ``size`` nearest neighbours of each of the sorted values."""
    n = len(at)
    size = min(size, n)
    low = np.clip(np.arange(n) - size // 2, 0, n - size)
    for _ in range(size):
        further = low + size < n
        right = at[np.minimum(low + size, n - 1)] - at
        left = at - at[low]
        move = further & (right < left)
        back = (low > 0) & ~move & (at - at[np.maximum(low - 1, 0)] < at[low + size - 1] - at)
        if not (move.any() or back.any()):
            break
        low = low + move.astype(int) - back.astype(int)
    return low, low + size
