"""One regression of the chain: the truth given one set of observed levels and the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduler.chain_average import Average, Family, Problem, fit_average
from scheduler.chain_smooth import Smooth
from scheduler.chain_spread import Spread, fit_spread
from scheduler.observations import Booleans, Declared, DeclaredLine, Floats, Ints, Observations

Pattern = tuple[int, ...]
PRIOR_COUNT = 3.0
DECLARED_COUNT = 4.0
ENOUGH = 30
FEW = 8
OPTIMISM = 4.0  # the average was chosen with the row that a residual leaves out
TINY = 1e-300
NO_SPREAD = Spread(np.zeros(1), np.zeros(1), 0.0, 1.0)
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
    def from_json(cls, document: Mapping[str, Any]) -> Scaling:
        return cls(*(np.array(document[name], dtype=np.float64) for name in cls.__slots__))


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """Truth = declared line of ``level`` (-1: the prior mean) + what was learnt of the difference."""

    pattern: Pattern
    level: int
    line: DeclaredLine
    coefficients: Floats
    smooth: Smooth | None
    spread: Spread
    labels: int

    def mean(self, x: Floats, y: Floats, scaling: Scaling) -> Floats:
        """Mean of the truth at rows in which all levels of the pattern are known, (n,)."""
        found = declared_values(self.level, self.line, y)
        if len(self.coefficients):
            found = found + basis_of(self.pattern, x, y, scaling) @ self.coefficients
        if self.smooth is not None:
            found = found + self.smooth.at(inputs_of(self.pattern, x, y, scaling))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "pattern": list(self.pattern),
            "level": self.level,
            "line": [self.line.intercept, self.line.slope, self.line.sigma],
            "coefficients": self.coefficients.tolist(),
            "smooth": None if self.smooth is None else self.smooth.as_json(),
            "spread": self.spread.as_json(),
            "labels": self.labels,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Step:
        smooth = document["smooth"]
        return cls(
            pattern=tuple(document["pattern"]),
            level=int(document["level"]),
            line=DeclaredLine(*document["line"]),
            coefficients=np.array(document["coefficients"], dtype=np.float64),
            smooth=None if smooth is None else Smooth.from_json(smooth),
            spread=Spread.from_json(document["spread"]),
            labels=int(document["labels"]),
        )


@dataclass(frozen=True, eq=False, slots=True)
class Labels:
    """What a step learns from: a target per row, whether it is a measured truth, its own variance (0 if
    so), and a weight."""

    seen: Observations
    target: Floats
    measured: Booleans
    extra: Floats
    weight: Floats

    def only(self, rows: Booleans) -> Labels:
        return Labels(
            self.seen.only(rows),
            self.target[rows],
            self.measured[rows],
            self.extra[rows],
            self.weight[rows],
        )


@dataclass(frozen=True, eq=False, slots=True)
class HeldOut:
    """Each measured truth, its weight, the key of its row, and what a step that had not seen it would have
    said; (n,)."""

    prediction: Floats
    truth: Floats
    weight: Floats
    key: Ints


def fit_step(
    pattern: Pattern,
    labels: Labels,
    everybody: Observations,
    declared: Declared,
    scaling: Scaling,
    rng: np.random.Generator,
) -> tuple[Step, HeldOut]:
    """The step of ``pattern`` from rows in which all its levels were bought.

    Few labels count beside the declared line as if it rested on four; a wide prior counts for less, by
    its variance.
    """
    level, line = declared.best(pattern)
    n = len(labels.target)
    prior = line.sigma**2 if level >= 0 else min(line.sigma**2, _variance_of_truths(everybody))
    if n == 0:
        none = np.empty(0)
        spread = fit_spread(none, none, none, prior=prior, prior_count=PRIOR_COUNT)
        nobody = HeldOut(none, none, none, none.astype(np.int64))
        return Step(pattern, level, line, none, None, spread, 0), nobody
    seen = labels.seen
    offset = declared_values(level, line, seen.y)
    weight = labels.weight / labels.weight.mean()
    linear = basis_of(pattern, seen.x, seen.y, scaling)
    inputs = inputs_of(pattern, seen.x, seen.y, scaling)
    problem = Problem(linear, 2 if pattern else 1, inputs, labels.target - offset, weight)
    families: tuple[Family, ...] = ("smooth", "free", "shift", "line") if level >= 0 else ("smooth", "free")
    whole = _rows_with(pattern, everybody)
    average = fit_average(problem, inputs_of(pattern, whole.x, whole.y, scaling), families, rng)
    found = _beside_declared(average, problem, level, prior)
    fitted = offset + linear @ found.coefficients
    if found.smooth is not None:
        fitted = fitted + found.smooth.at(inputs)
    squares = (1.0 + OPTIMISM / n) * found.left_out**2 + labels.extra
    variance = float(np.average(squares, weights=weight))
    step = Step(
        pattern, level, line, found.coefficients, found.smooth, NO_SPREAD, int(labels.measured.sum())
    )
    spread = fit_spread(
        fitted,
        squares,
        weight,
        prior=prior,
        prior_count=PRIOR_COUNT * _trust(level, prior, variance, n),
        waiting=_waiting(step, everybody, scaling),
    )
    measured = labels.measured
    held_out = HeldOut(
        prediction=(labels.target - found.left_out)[measured],
        truth=labels.target[measured],
        weight=weight[measured],
        key=labels.seen.key[measured],
    )
    return replace(step, spread=spread), held_out


def _beside_declared(average: Average, problem: Problem, level: int, prior: float) -> Average:
    """The average, drawn toward the declared line while labels are few."""
    n = len(problem.target)
    variance = float(np.average(average.left_out**2, weights=problem.weight))
    share = n / (n + DECLARED_COUNT * _trust(level, prior, variance, n))
    smooth = None if average.smooth is None else average.smooth.times(share)
    left_out = share * average.left_out + (1.0 - share) * problem.target
    return Average(share * average.coefficients, smooth, left_out)


def _variance_of_truths(seen: Observations) -> float:
    """Variance of the truths that were bought; infinite below eight of them."""
    known = np.isfinite(seen.y[:, seen.top])
    if known.sum() < FEW:
        return float("inf")
    truths, weight = seen.y[known, seen.top], seen.weight[known]
    return float(np.average((truths - np.average(truths, weights=weight)) ** 2, weights=weight))


def _trust(level: int, prior: float, variance: float, n: int) -> float:
    """What is left of the declared variance's standing beside ``n`` labels: nothing from 30 on; for a
    wide prior, which knows no scale, little beyond the first eight."""
    left = max(0.0, 1.0 - n / ENOUGH)
    return left if level >= 0 else left * max(min(1.0, variance / max(prior, TINY)), 1.0 - n / FEW)


def _waiting(step: Step, seen: Observations, scaling: Scaling) -> Floats:
    """Predictions of the candidates of whom exactly the step's levels are known."""
    known = np.isfinite(seen.y)
    wanted = np.zeros(seen.y.shape[1], dtype=bool)
    wanted[list(step.pattern)] = True
    rows = np.flatnonzero((known == wanted).all(axis=1))
    return step.mean(seen.x[rows], seen.y[rows], scaling)


def _rows_with(pattern: Pattern, seen: Observations) -> Observations:
    return seen.only(np.flatnonzero(np.isfinite(seen.y[:, list(pattern)]).all(axis=1)))


def inputs_of(pattern: Pattern, x: Floats, y: Floats, scaling: Scaling) -> Floats:
    """Columns of the smooth functions: the pattern's levels and the features, standardised; (n, d)."""
    levels = [np.clip(scaling.level(y, k), -CLIP, CLIP) for k in pattern[::-1]]
    return np.column_stack([*levels, scaling.features(x)])


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
