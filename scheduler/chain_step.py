"""One regression of the chain: the truth given one set of observed levels and the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.chain_ridge import fit_ridge
from scheduler.chain_spread import Spread, fit_spread
from scheduler.observations import Booleans, Declared, DeclaredLine, Floats, Observations

Pattern = tuple[int, ...]
PRIOR_COUNT = 3.0
CONSTANT, TOP_LEVEL = 0.001, 0.01
BEND = 0.8  # mean of |z| for a standard normal
CLIP = 6.0


@dataclass(frozen=True, eq=False, slots=True)
class Scaling:
    """Standardisation of features and levels; a constant column becomes 0."""

    x_mean: Floats
    x_sd: Floats
    y_mean: Floats
    y_sd: Floats

    @classmethod
    def of(cls, seen: Observations) -> Scaling:
        x_mean, x_sd = _moments(seen.x)
        y_mean, y_sd = _moments(seen.y)
        return cls(x_mean, x_sd, y_mean, y_sd)

    def features(self, x: Floats) -> Floats:
        z: Floats = np.clip((x - self.x_mean) / self.x_sd, -CLIP, CLIP)
        return z

    def level(self, y: Floats, k: int) -> Floats:
        z: Floats = (y[:, k] - self.y_mean[k]) / self.y_sd[k]
        return z

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name).tolist() for name in self.__slots__}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Scaling:
        return cls(*(np.array(document[name], dtype=np.float64) for name in cls.__slots__))


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """Truth = declared line of ``level`` (-1: the prior mean) + basis @ coefficients."""

    pattern: Pattern
    level: int
    line: DeclaredLine
    coefficients: Floats
    spread: Spread
    labels: int

    def mean(self, x: Floats, y: Floats, scaling: Scaling) -> Floats:
        offset = declared_values(self.level, self.line, y)
        if not len(self.coefficients):
            return offset
        found: Floats = offset + basis_of(self.pattern, x, y, scaling) @ self.coefficients
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "pattern": list(self.pattern),
            "level": self.level,
            "line": [self.line.intercept, self.line.slope, self.line.sigma],
            "coefficients": self.coefficients.tolist(),
            "spread": self.spread.as_json(),
            "labels": self.labels,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Step:
        return cls(
            pattern=tuple(document["pattern"]),
            level=int(document["level"]),
            line=DeclaredLine(*document["line"]),
            coefficients=np.array(document["coefficients"], dtype=np.float64),
            spread=Spread.from_json(document["spread"]),
            labels=int(document["labels"]),
        )


@dataclass(frozen=True, eq=False, slots=True)
class Labels:
    """What a step learns from: a target per row, its own variance (0 for a measured truth), a weight."""

    seen: Observations
    target: Floats
    extra: Floats
    weight: Floats

    def only(self, rows: Booleans) -> Labels:
        seen = self.seen
        kept = Observations(seen.x[rows], seen.y[rows], seen.weight[rows], seen.key[rows])
        return Labels(kept, self.target[rows], self.extra[rows], self.weight[rows])


def fit_step(pattern: Pattern, labels: Labels, declared: Declared, scaling: Scaling) -> Step:
    """The step of ``pattern`` from rows in which all its levels were bought."""
    level, line = declared.best(pattern)
    prior = line.sigma**2
    n = len(labels.target)
    measured = int((labels.extra == 0).sum())
    if n == 0:
        spread = fit_spread(np.empty(0), np.empty(0), np.empty(0), prior=prior, prior_count=PRIOR_COUNT)
        return Step(pattern, level, line, np.empty(0), spread, 0)
    seen = labels.seen
    offset = declared_values(level, line, seen.y)
    basis = basis_of(pattern, seen.x, seen.y, scaling)
    weight = labels.weight / labels.weight.mean()
    ridge = fit_ridge(basis, labels.target - offset, weight, multipliers_of(pattern, basis.shape[1]))
    squares = ridge.left_out**2 + labels.extra
    fitted = offset + basis @ ridge.coefficients
    spread = fit_spread(fitted, squares, weight, prior=prior, prior_count=PRIOR_COUNT if n < 30 else 1e-9)
    return Step(pattern, level, line, ridge.coefficients, spread, measured)


def declared_values(level: int, line: DeclaredLine, y: Floats) -> Floats:
    """The declared line at each row; the prior mean where ``level`` is -1."""
    if level < 0:
        return np.full(len(y), line.intercept)
    found: Floats = line.intercept + line.slope * y[:, level]
    return found


def basis_of(pattern: Pattern, x: Floats, y: Floats, scaling: Scaling) -> Floats:
    """[1, z_top, other levels, z_top^2 - 1, |z_top| - 0.8, x], all standardised; (n, q)."""
    columns = [np.ones((len(x), 1))]
    if pattern:
        top = scaling.level(y, pattern[-1])
        others = [scaling.level(y, k) for k in pattern[-2::-1]]
        bent = np.clip(top, -CLIP, CLIP)
        columns.append(np.column_stack([top, *others, bent**2 - 1.0, np.abs(bent) - BEND]))
    columns.append(scaling.features(x))
    return np.hstack(columns)


def multipliers_of(pattern: Pattern, width: int) -> Floats:
    """Penalty multipliers of the basis."""
    found = np.ones(width)
    found[0] = CONSTANT
    if pattern:
        found[1] = TOP_LEVEL
    return found


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation per column over what is known; sd 1 for a constant column."""
    known = ~np.isnan(values)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, values, 0.0)
    mean = filled.sum(axis=0) / count
    centred = np.where(known, values - mean, 0.0)
    sd = np.sqrt((centred**2).sum(axis=0) / count)
    flat = sd <= 1e-9 * np.maximum(np.abs(mean), np.finfo(float).tiny)
    return mean, np.where(flat, 1.0, sd)
