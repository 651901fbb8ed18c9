"""Beliefs about a verdict: the probability that the truth is 1, calibrated on what was held out.

A chain predicts the verdict as if it were a quantity; its leave-one-out predictions are then mapped to
probabilities by Venn-Abers prediction (Vovk and Petej 2014, Venn-Abers predictors): isotonic regression
with the new candidate once as a 0 and once as a 1, the two answers merged so that the log loss is least
in the worst case. Few labels leave the two far apart, and the probability near one half; there the
declared line counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from scheduler.chain import Belief, Chain, fit_chain, rows_by_pattern
from scheduler.chain_step import HeldOut, Pattern, Step
from scheduler.observations import Declared, Floats, Observations
from verifier_service.domain.errors import InvalidInput

FORMAT = "probability/1"
MOST_KNOTS = 160
DECLARED_COUNT = 10.0
PRIOR_COUNT = 3.0
ENOUGH = 30
EDGE = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class Calibration:
    """Probability as a function of a step's prediction, linear between knots; ``share`` is how far it has
    taken the place of the prediction itself. ``brier``: mean squared error of the probability."""

    at: Floats
    probability: Floats
    share: float
    brier: float

    def of(self, prediction: Floats) -> Floats:
        """Probability (n,) of each prediction."""
        declared = np.clip(prediction, 0.0, 1.0)
        if not len(self.at):
            return declared
        found: Floats = self.share * np.interp(prediction, self.at, self.probability)
        return found + (1.0 - self.share) * declared

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at.tolist(),
            "probability": self.probability.tolist(),
            "share": self.share,
            "brier": self.brier,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Calibration:
        return cls(
            np.array(document["at"], dtype=np.float64),
            np.array(document["probability"], dtype=np.float64),
            float(document["share"]),
            float(document["brier"]),
        )


@dataclass(frozen=True, eq=False, slots=True)
class Probability:
    """``Chain`` for truths in [0, 1] that are verdicts: mean = p, variance = p (1 - p), scale 1.

    Declared lines and the prior mean are probabilities; they are clipped to [0, 1].
    """

    chain: Chain
    calibrations: Mapping[Pattern, Calibration]

    @classmethod
    def fit(
        cls, observations: Observations, declared: Declared, *, noise: float = 0.0, seed: int = 0
    ) -> Probability:
        """As ``Chain.fit``; ``InvalidInput`` for truths outside [0, 1]."""
        truth = observations.y[:, observations.top]
        if ((truth < 0) | (truth > 1)).any():
            raise _invalid("a verdict lies in [0, 1]")
        chain, held_out = fit_chain(observations, declared, noise=noise, seed=seed)
        found = {pattern: calibrate(held_out[pattern], chain.steps[pattern]) for pattern in chain.steps}
        return cls(chain, found)

    @property
    def labels(self) -> int:
        """How many truths it rests on."""
        return self.chain.labels

    def believe(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Belief:
        """See ``Chain.believe``. A verdict that was bought is taken as it is, with the truth's noise."""
        values = np.array(y, dtype=np.float64)
        truth = values[:, -1].copy() if values.ndim == 2 and values.shape[1] else np.empty(0)
        if values.ndim == 2 and values.shape[1]:
            values[:, -1] = np.nan
        predicted = self.chain.believe(x, values).mean
        mean = np.zeros(len(predicted))
        for pattern, rows in rows_by_pattern(values).items():
            mean[rows] = self.calibrations[pattern].of(predicted[rows])
        known = ~np.isnan(truth)
        mean[known] = truth[known]
        variance = np.where(known, self.chain.noise, mean * (1.0 - mean))
        return Belief(mean, variance, np.ones(len(mean)))

    def residual_variance(self, level: int) -> float:
        """See ``Chain.residual_variance``: the mean squared error of the probability."""
        if level == self.chain.levels - 1:
            return self.chain.noise
        if not -1 <= level < self.chain.levels:
            raise _invalid(f"there is no level {level}")
        return self.calibrations[tuple(range(level + 1))].brier

    def gain(self, level_from: int, level_to: int, variance: npt.ArrayLike) -> Floats:
        """See ``Chain.gain``."""
        if not level_from < level_to:
            raise _invalid(f"level {level_to} is not above level {level_from}")
        v = np.asarray(variance, dtype=np.float64)
        if level_to == self.chain.levels - 1:
            return np.maximum(v - self.chain.noise, 0.0)
        before, after = self.residual_variance(level_from), self.residual_variance(level_to)
        return v * max(0.0, 1.0 - after / before) if before > 0 else np.zeros_like(v)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the same object is made."""
        calibrations = [
            {"pattern": list(pattern), **found.as_json()} for pattern, found in self.calibrations.items()
        ]
        return {"format": FORMAT, "chain": self.chain.as_json(), "calibrations": calibrations}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Probability:
        """What ``as_json`` wrote; ``InvalidInput`` for another format."""
        if document.get("format") != FORMAT:
            raise _invalid(f"this is no {FORMAT} document")
        calibrations = {
            tuple(item["pattern"]): Calibration.from_json(item) for item in document["calibrations"]
        }
        return cls(Chain.from_json(document["chain"]), calibrations)


def calibrate(held_out: HeldOut, step: Step) -> Calibration:
    """Venn-Abers probabilities at the step's held-out predictions."""
    prior = float(np.clip(step.spread.mean_variance, EDGE, 0.25))
    n = len(held_out.truth)
    if n == 0:
        return Calibration(np.empty(0), np.empty(0), 0.0, prior)
    weight = held_out.weight / held_out.weight.mean()
    values, group = np.unique(held_out.prediction, return_inverse=True)
    mass = np.bincount(group, weight).astype(np.float64)
    ones = np.bincount(group, weight * held_out.truth).astype(np.float64)
    places = np.unique(np.linspace(0, len(values) - 1, MOST_KNOTS).round().astype(int))
    merged = [_venn_abers(place, ones, mass) for place in places.tolist()]
    at = values[places]
    probability = np.maximum.accumulate(merged)
    found = Calibration(at, probability, n / (n + DECLARED_COUNT * max(0.0, 1.0 - n / ENOUGH)), 0.0)
    squares = float(weight @ (held_out.truth - found.of(held_out.prediction)) ** 2)
    brier = (PRIOR_COUNT * prior + squares) / (PRIOR_COUNT + float(weight.sum()))
    return Calibration(at, probability, found.share, brier)


def _venn_abers(place: int, ones: Floats, mass: Floats) -> float:
    """p1 / (1 - p0 + p1) at one of the distinct predictions, in whose order the weights of the truths
    that are 1 and of all truths are given; p0 and p1 with a 0 or a 1 of weight 1 added there."""
    answers = []
    for verdict in (0.0, 1.0):
        weight, sums = mass.copy(), ones.copy()
        weight[place] += 1.0
        sums[place] += verdict
        answers.append(float(isotonic_regression(sums / weight, weights=weight).x[place]))
    return answers[1] / (1.0 - answers[0] + answers[1])


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_probability", message)
