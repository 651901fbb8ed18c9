"""Affine maps per class with honest residuals: each class is shrunk towards the line of all data.

Model: y = a + b·x + e within a class, e ~ Student-like (a few molecules lie far off), so lines are fitted
by iteratively reweighted least squares with Huber weights (Huber, Ann. Math. Stat. 1964, 35, 73), and the
class parameters have a Gaussian prior around the pooled line. σ comes from leave-one-out residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

Pairs = list[tuple[float, float]]

HUBER = 1.5
PRIOR_SLOPE, PRIOR_LEVEL = 0.15, 1.0
PSEUDO_COUNT = 3.0
MIN_CLASS = 5
MIN_SIGMA = 0.05


@dataclass(frozen=True)
class Line:
    """target = slope·source + intercept, one standard deviation ``sigma``, from ``n`` pairs."""

    slope: float
    intercept: float
    sigma: float
    n: int

    def at(self, x: float) -> float:
        """The mapped value of ``x``."""
        return self.slope * x + self.intercept

    def as_json(self) -> dict[str, float | int]:
        """The fields, rounded to 0.1 meV."""
        return {
            "slope": round(self.slope, 4),
            "intercept": round(self.intercept, 4),
            "sigma": round(self.sigma, 4),
            "n": self.n,
        }


def fit_by_class(pairs: dict[str, Pairs]) -> tuple[dict[str, Line], Line]:
    """One line per class with at least ``MIN_CLASS`` pairs, and the default for all others.

    The default's σ is that of the pooled line's residuals over all classes, each class weighted alike,
    since an unseen kind of molecule differs from the known ones as these differ from each other.
    """
    everything = [pair for group in pairs.values() for pair in group]
    slope, level, centre = _huber(everything)
    pooled = Line(slope, level - slope * centre, 0.0, len(everything))
    spreads = [_mean_square([y - pooled.at(x) for x, y in group]) for group in pairs.values()]
    default = Line(pooled.slope, pooled.intercept, sqrt(sum(spreads) / len(spreads)), len(everything))
    large = {name: group for name, group in pairs.items() if len(group) >= MIN_CLASS}
    lines = {name: _class_line(group, pooled, default) for name, group in large.items()}
    return lines, default


def leave_one_out(pairs: dict[str, Pairs]) -> list[tuple[float, str]]:
    """(z, class) per pair: its residual over the σ of maps fitted without it."""
    scores = []
    for name, group in pairs.items():
        for i, (x, y) in enumerate(group):
            rest = {**pairs, name: group[:i] + group[i + 1 :]}
            lines, default = fit_by_class({k: v for k, v in rest.items() if v})
            line = lines.get(name, default)
            scores.append(((y - line.at(x)) / line.sigma, name))
    return scores


def _class_line(group: Pairs, pooled: Line, default: Line) -> Line:
    """The shrunk line of one class; σ from leave-one-out residuals, itself shrunk to the global level."""
    residuals = []
    for i, (x, y) in enumerate(group):
        slope, intercept = _shrunk(group[:i] + group[i + 1 :], pooled)
        residuals.append(y - slope * x - intercept)
    count = len(group)
    typical = (0.5 * default.sigma) ** 2
    variance = (count * _mean_square(residuals) + PSEUDO_COUNT * typical) / (count + PSEUDO_COUNT)
    slope, intercept = _shrunk(group, pooled)
    return Line(slope, intercept, max(MIN_SIGMA, sqrt(variance)), count)


def _shrunk(group: Pairs, pooled: Line) -> tuple[float, float]:
    slope, level, centre = _huber(group, pooled)
    return slope, level - slope * centre


def _huber(group: Pairs, prior: Line | None = None) -> tuple[float, float, float]:
    """Slope, level and centre of y = level + slope·(x − centre), with Huber weights.

    With a ``prior`` line the slope and the level at the centre are penalised around it, with standard
    deviations ``PRIOR_SLOPE`` and ``PRIOR_LEVEL`` against the residual variance.
    """
    import numpy as np

    x, y = (np.array(values, dtype=float) for values in zip(*group, strict=True))
    centre = float(x.mean())
    design = np.column_stack([x - centre, np.ones_like(x)])
    start = np.array([prior.slope, prior.at(centre)]) if prior else np.zeros(2)
    scales = np.array([PRIOR_SLOPE, PRIOR_LEVEL])
    weights, noise, answer = np.ones_like(x), 0.3, start
    for _ in range(30):
        penalty = np.diag((noise / scales) ** 2) if prior else np.zeros((2, 2))
        gram = design.T @ (design * weights[:, None]) + penalty
        answer = np.linalg.solve(gram, design.T @ (weights * y) + penalty @ start)
        residuals = y - design @ answer
        noise = max(0.05, 1.4826 * float(np.median(np.abs(residuals))))
        weights = np.minimum(1.0, HUBER * noise / np.maximum(np.abs(residuals), 1e-12))
    return float(answer[0]), float(answer[1]), centre


def _mean_square(values: list[float]) -> float:
    return sum(value * value for value in values) / len(values)
