"""Weighted ridge regression with leave-one-out residuals in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.observations import Floats

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
TRIMMED = 0.05
LEVERAGE = 1.0 - 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class Ridge:
    """Coefficients (q,) and what leaving each row out would have left as its residual (n,)."""

    coefficients: Floats
    penalty: float
    left_out: Floats


def fit_ridge(
    basis: Floats,
    target: Floats,
    weight: Floats,
    multipliers: Floats,
    penalties: tuple[float, ...] = PENALTIES,
) -> Ridge:
    """Least sum of w (t - B c)^2 + penalty * sum of m c^2, the penalty by trimmed leave-one-out error.

    ``basis`` (n, q), ``target`` and ``weight`` (n,), ``multipliers`` (q,) positive. The leave-one-out
    residual is e / (1 - h), h the row's leverage (Allen 1974, PRESS).
    """
    root = np.sqrt(weight)
    design = (root[:, None] * basis) / np.sqrt(multipliers)
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    along = left.T @ (root * target)
    shrinks = [singular**2 / (singular**2 + penalty) for penalty in penalties]
    left_out = [
        (root * target - left @ (shrink * along)) / (1.0 - np.minimum(left**2 @ shrink, LEVERAGE)) / root
        for shrink in shrinks
    ]
    best = int(np.argmin([trimmed_mean(residual**2, weight) for residual in left_out]))
    solution = right.T @ (singular / (singular**2 + penalties[best]) * along)
    return Ridge(solution / np.sqrt(multipliers), penalties[best], left_out[best])


def trimmed_mean(values: Floats, weight: Floats, share: float = TRIMMED) -> float:
    """Weighted mean without the largest ``share`` of the values."""
    kept = np.argsort(values, kind="stable")[: max(1, int(np.ceil(len(values) * (1.0 - share))))]
    return float(np.average(values[kept], weights=weight[kept]))
