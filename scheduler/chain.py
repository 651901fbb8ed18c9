"""Beliefs of the scheduler: a chain of regressions that predicts a ladder's truth from what was bought.

One regression per set of observed levels (autoregressive between fidelities after Kennedy and O'Hagan
2000, Biometrika 87, 1), with leave-one-out residuals in closed form. Before any truth label a level's
declared line is the belief; the regressions learn what is left over after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.chain_step import HeldOut, Labels, Pattern, Scaling, Step, fit_step
from scheduler.observations import Declared, Floats, Observations
from verifier_service.domain.errors import InvalidInput

FORMAT = "chain/2"
PSEUDO_SHARE = 0.3
TINY = 1e-300


@dataclass(frozen=True, eq=False, slots=True)
class Belief:
    """What is believed of the truth, one row per candidate, in units of the truth.

    ``mean`` (n,); ``variance`` (n,): the second moment that utilities use; ``scale`` (n,): factor on the
    standard deviation in reported intervals only.
    """

    mean: Floats
    variance: Floats
    scale: Floats

    def interval(self) -> tuple[Floats, Floats]:
        """Ends of the nominal 90 % interval."""
        half = 1.6448536269514722 * self.scale * np.sqrt(self.variance)
        return self.mean - half, self.mean + half


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """Fitted regressions. ``labels`` counts the truths they rest on."""

    steps: Mapping[Pattern, Step]
    scaling: Scaling
    levels: int
    noise: float
    labels: int

    @classmethod
    def fit(
        cls,
        observations: Observations,
        declared: Declared,
        *,
        noise: float = 0.0,
        seed: int = 0,
    ) -> Chain:
        """Fit every regression.

        ``noise``: variance of the truth itself (tau^2), from repeats. ``seed`` fixes the choice of kernel
        centres among many rows. Deterministic; the order of rows does not matter. Raises ``InvalidInput``
        where ``declared`` has another number of levels or the noise is negative.
        """
        return fit_chain(observations, declared, noise=noise, seed=seed)[0]

    def believe(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Belief:
        """The belief about each candidate from its features (n, p) and what was bought (n, K).

        A measured truth is combined with the belief by its noise, and taken as it is where that is 0.
        """
        features, values = self._checked(x, y)
        n = len(values)
        mean, variance, scale = np.zeros(n), np.zeros(n), np.ones(n)
        for pattern, rows in rows_by_pattern(values).items():
            step = self.steps[pattern]
            at = step.mean(features[rows], values[rows], self.scaling)
            mean[rows], variance[rows], scale[rows] = at, step.spread.of(at), step.spread.scale
        truth = values[:, self.levels - 1]
        known = ~np.isnan(truth)
        latent = np.maximum(variance[known] - self.noise, 0.0)
        gain = np.divide(
            latent, latent + self.noise, out=np.ones_like(latent), where=latent + self.noise > 0
        )
        if self.noise == 0:
            gain = np.ones_like(latent)
        mean[known] = truth[known] + (1.0 - gain) * (mean[known] - truth[known])
        variance[known], scale[known] = gain * self.noise, 1.0
        return Belief(mean, variance, scale)

    def residual_variance(self, level: int) -> float:
        """V of ``level``: mean leave-one-out residual variance of the truth given levels 0..level; -1: of
        the features alone; the truth's own level: its noise."""
        if level == self.levels - 1:
            return self.noise
        if not -1 <= level < self.levels:
            raise _invalid(f"there is no level {level}")
        return self.steps[tuple(range(level + 1))].spread.mean_variance

    def gain(self, level_from: int, level_to: int, variance: npt.ArrayLike) -> Floats:
        """Expected fall of each variance (n,) on going from one level to a higher one.

        D = v (1 - V_to / V_from); to the truth D = v - tau^2. Never negative.
        """
        if not level_from < level_to:
            raise _invalid(f"level {level_to} is not above level {level_from}")
        v = np.asarray(variance, dtype=np.float64)
        if level_to == self.levels - 1:
            return np.maximum(v - self.noise, 0.0)
        before, after = self.residual_variance(level_from), self.residual_variance(level_to)
        return v * max(0.0, 1.0 - after / before) if before > 0 else np.zeros_like(v)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the same chain is made."""
        return {
            "format": FORMAT,
            "labels": self.labels,
            "levels": self.levels,
            "noise": self.noise,
            "scaling": self.scaling.as_json(),
            "steps": [step.as_json() for step in self.steps.values()],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Chain:
        """The chain that ``as_json`` wrote; ``InvalidInput`` for another format."""
        if document.get("format") != FORMAT:
            raise _invalid(f"this is no {FORMAT} document")
        steps = [Step.from_json(item) for item in document["steps"]]
        return cls(
            steps={step.pattern: step for step in steps},
            scaling=Scaling.from_json(document["scaling"]),
            levels=int(document["levels"]),
            noise=float(document["noise"]),
            labels=int(document["labels"]),
        )

    def _checked(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
        features, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        p = len(self.scaling.x_mean)
        if features.ndim != 2 or values.ndim != 2 or len(features) != len(values):
            raise _invalid("x and y have one row per candidate")
        if features.shape[1] != p or values.shape[1] != self.levels:
            raise _invalid(f"x has {p} columns and y {self.levels}")
        if not np.isfinite(features).all() or np.isinf(values).any():
            raise _invalid("features and values are finite")
        return features, values


def fit_chain(
    observations: Observations, declared: Declared, *, noise: float, seed: int
) -> tuple[Chain, dict[Pattern, HeldOut]]:
    """``Chain.fit``, and what each of its steps says of truths that it had not seen."""
    levels = observations.y.shape[1]
    if len(declared.lines) != levels - 1:
        raise _invalid(f"{levels - 1} levels below the truth, {len(declared.lines)} declared")
    if not (np.isfinite(noise) and noise >= 0):
        raise _invalid("the noise is a variance")
    seen = observations.sorted()
    scaling = Scaling.of(seen)
    steps: dict[Pattern, Step] = {}
    held_out: dict[Pattern, HeldOut] = {}
    for pattern in patterns_below(levels):
        labels = _labels(pattern, seen, steps, scaling)
        rng = np.random.default_rng((seed, *pattern))
        steps[pattern], held_out[pattern] = fit_step(pattern, labels, seen, declared, scaling, rng)
    count = int(np.isfinite(seen.y[:, seen.top]).sum())
    return Chain(steps, scaling, levels, float(noise), count), held_out


def patterns_below(levels: int) -> list[Pattern]:
    """Every set of levels below the truth, the largest first."""
    below = range(levels - 1)
    return [pattern for size in range(levels - 1, -1, -1) for pattern in combinations(below, size)]


def rows_by_pattern(values: Floats) -> dict[Pattern, npt.NDArray[np.int64]]:
    """Rows of ``values`` (n, K) by which levels below the truth are known."""
    below = ~np.isnan(values[:, :-1])
    code = below @ (1 << np.arange(below.shape[1])) if below.shape[1] else np.zeros(len(values), dtype=int)
    found: dict[Pattern, npt.NDArray[np.int64]] = {}
    for number in np.unique(code):
        pattern = tuple(k for k in range(below.shape[1]) if number >> k & 1)
        found[pattern] = np.flatnonzero(code == number)
    return found


def _labels(
    pattern: Pattern, seen: Observations, steps: Mapping[Pattern, Step], scaling: Scaling
) -> Labels:
    """Truths where they were bought, and for the lowest step what higher levels say (pseudo-labels).

    A pseudo-label has weight 1 / (1 + v / 0.3 s^2), v its belief's variance and s^2 that of the targets.
    """
    truth = seen.y[:, seen.top].copy()
    extra, weight = np.zeros(len(truth)), seen.weight.copy()
    known = np.isfinite(truth)
    if not pattern and known.any() and seen.x.shape[1]:
        guessed = ~known & np.isfinite(seen.y).any(axis=1)
        for bought, rows in rows_by_pattern(seen.y).items():
            rows = rows[guessed[rows]]
            if len(rows):
                truth[rows] = steps[bought].mean(seen.x[rows], seen.y[rows], scaling)
                extra[rows] = steps[bought].spread.of(truth[rows])
        if guessed.any():
            target = known | guessed
            total = float(np.var(truth[target]) + np.mean(extra[target]))
            weight[guessed] /= 1.0 + extra[guessed] / (PSEUDO_SHARE * max(total, TINY))
    usable = np.isfinite(truth)
    for level in pattern:
        usable &= np.isfinite(seen.y[:, level])
    return Labels(seen, truth, known, extra, weight).only(usable)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_chain", message)
