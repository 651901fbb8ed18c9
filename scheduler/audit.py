"""Audits: who is sent to the truth by lot, with a known chance, before anything is chosen by its worth.

Part of the share is spread evenly; the rest goes where an audit teaches most per credit (active statistical
inference: Zrnic and Candes 2024, arXiv 2403.03208, sect. 3: in proportion to the root of the expected
squared error, here per root of its cost, as in Neyman's allocation), or to the best by score, where a
policy that games a verifier shows first. The even part keeps every chance away from 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.observations import Booleans, Floats
from verifier_service.domain.errors import InvalidInput

LEAST_CHANCE = 0.02
Aim = Literal["value", "top"]
_LEAST_RATIO = 1e-9  # of the largest: what is worth nothing is audited last, but is audited
_HALVINGS = 200


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """What a chance depends on, (n,) each: ``score`` (higher is better), ``variance`` of the belief,
    ``cost`` of the truth in credits, ``weight`` of its error (W_g, by group). ``InvalidInput`` for other
    shapes, numbers that are not finite, negative variances or weights, costs that are not positive."""

    score: Floats
    variance: Floats
    cost: Floats
    weight: Floats

    @classmethod
    def of(
        cls,
        score: npt.ArrayLike,
        variance: npt.ArrayLike,
        cost: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
    ) -> Candidates:
        """From anything array-like; equal weights unless they are given."""
        columns = [np.asarray(given, dtype=np.float64) for given in (score, variance, cost)]
        w = np.ones_like(columns[0]) if weight is None else np.asarray(weight, dtype=np.float64)
        columns.append(w)
        if any(one.ndim != 1 or one.shape != columns[0].shape for one in columns):
            raise _invalid("score, variance, cost and weight have one entry per candidate")
        if not all(np.isfinite(one).all() for one in columns):
            raise _invalid("scores, variances, costs and weights are finite")
        if (columns[1] < 0).any() or (columns[2] <= 0).any() or (columns[3] < 0).any():
            raise _invalid("variances and weights are not negative, and costs positive")
        return cls(*columns)

    def log_worth(self) -> Floats:
        """Logarithm of sqrt(W v / c), what an audit teaches per root of a credit; (n,), may be -inf."""
        with np.errstate(divide="ignore"):
            return (np.log(self.weight) + np.log(self.variance) - np.log(self.cost)) / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditPlan:
    """``share``: of the candidates to be audited, in expectation; 0: none. ``even``: part of it that is the
    same for all. ``aim`` of the rest: ``value`` per cost, or the ``top`` part by score. ``least``: chance
    of every candidate; it holds even where the share is smaller. ``InvalidInput`` outside [0, 1]."""

    share: float
    aim: Aim = "value"
    least: float = LEAST_CHANCE
    even: float = 0.5
    top: float = 0.3

    def __post_init__(self) -> None:
        if not all(0.0 <= value <= 1.0 for value in (self.share, self.even)):
            raise _invalid("shares lie between 0 and 1")
        if not (0.0 < self.least <= 1.0 and 0.0 < self.top <= 1.0):
            raise _invalid("the least chance and the top part lie in (0, 1]")

    def fitted(self, recent: Candidates) -> Chances | None:
        """Chances with which the share of ``recent`` candidates is exactly ``share`` in expectation (or the
        least chance, if that is more); ``None`` without audits. Before there are any, all are equal."""
        if self.share == 0.0:
            return None
        share = max(self.share, self.least)
        if not len(recent.score):
            return Chances(high=share)
        if self.aim == "value":
            worth = recent.log_worth()
            floor = float(worth.max()) + math.log(_LEAST_RATIO)
            if math.isinf(floor):
                return Chances(high=share)
            edge = _log_root_price(np.maximum(worth, floor), self.least, share)
            base, high = self.even * share, 1.0 - self.even
            return Chances("value", base=base, low=self.least, high=high, edge=edge, floor=floor)
        edge = float(np.quantile(recent.score, 1.0 - self.top, method="higher"))
        part = float((recent.score >= edge).mean())
        low = max(self.even * share, self.least)
        high = share if part == 1.0 else (share - (1.0 - part) * low) / part
        if high > 1.0:
            low, high = (share - part) / (1.0 - part), 1.0
        return Chances("top", low=low, high=high, edge=edge)


@dataclass(frozen=True, slots=True)
class Chances:
    """Chance of an audit as a function of one candidate alone, so that it does not depend on the batch.

    ``even``: ``high`` for all. ``top``: ``high`` from the score ``edge`` on, ``low`` below. ``value``:
    ``base`` + ``high`` clip(sqrt(W v / (lambda_A c)), ``low``, 1); ``edge`` is ln sqrt(lambda_A), and
    ``floor`` what ln sqrt(W v / c) counts as at least.
    """

    kind: Literal["even", "value", "top"] = "even"
    base: float = 0.0
    low: float = 0.0
    high: float = 1.0
    edge: float = 0.0
    floor: float = 0.0

    def of(self, candidates: Candidates) -> Floats:
        """(n,), in (0, 1]."""
        if self.kind == "even":
            return np.full(len(candidates.score), self.high)
        if self.kind == "top":
            return np.where(candidates.score >= self.edge, self.high, self.low)
        worth = np.maximum(candidates.log_worth(), self.floor)
        return np.minimum(self.base + self.high * _clipped(worth, self.edge, self.low), 1.0)


class Lots(NamedTuple):
    """``number`` drawn per candidate, its ``chance``, and whether it is ``sent`` to the truth, (n,) each.
    Who is sent is owed an audit whatever it costs: it may wait for a budget, but is never dropped."""

    number: Floats
    chance: Floats
    sent: Booleans


def draw(
    chances: Chances | None,
    seed: int,
    keys: Sequence[str],
    candidates: Candidates,
    *,
    purpose: str = "audit",
) -> Lots | None:
    """The lots of candidates, named ``keys``, in the run of ``seed``; ``None`` without audits.

    Each depends on its own name and numbers, not on who else is there. ``InvalidInput`` unless there is
    one key per candidate.
    """
    if chances is None:
        return None
    if len(keys) != len(candidates.score):
        raise _invalid("one key per candidate")
    number = np.array([uniform(seed, key, purpose) for key in keys], dtype=np.float64)
    chance = chances.of(candidates)
    return Lots(number, chance, number < chance)


def uniform(seed: int, key: str, purpose: str) -> float:
    """The uniform number in [0, 1) that belongs to a name: 53 bits of a hash, the same on every machine and
    in every version of a numerical library."""
    text = "\0".join((str(seed), key, purpose)).encode("utf-8", "surrogatepass")
    word = hashlib.blake2b(text, digest_size=8).digest()
    return (int.from_bytes(word, "big") >> 11) / 2.0**53


@dataclass(frozen=True, slots=True)
class Propensity:
    """Probability that a candidate reaches the truth: the product of the chances of all stages that it had
    to pass by lot. No stage at all is certainty. ``InvalidInput`` for a chance outside (0, 1]."""

    stages: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not all(0.0 < chance <= 1.0 for chance in self.stages):
            raise _invalid("the chance of a stage lies in (0, 1]")

    @property
    def total(self) -> float:
        """The product; in (0, 1]."""
        return math.prod(self.stages)

    def then(self, chance: float) -> Propensity:
        """With one stage more, whose chance may rest on what the stages before it have found."""
        return Propensity((*self.stages, chance))

    def or_by(self, chance: float) -> Propensity:
        """With another, independent lot that leads to the truth as well: 1 - (1 - p)(1 - q)."""
        Propensity((chance,))
        return Propensity((self.total + chance - self.total * chance,))


def to_truth(lot: Propensity | None, *, straight: bool) -> float | None:
    """What is logged: 1 for a candidate that goes to the truth whatever was drawn, else the chance of its
    lots. ``None`` where nothing was drawn, even for one that goes straight: the others of its run had no
    chance, and weighing it with 1 would claim that they did."""
    if lot is None:
        return None
    return 1.0 if straight else lot.total


def _clipped(worth: Floats, edge: float, least: float) -> Floats:
    """clip(exp(worth - edge), least, 1), which cannot overflow."""
    return np.asarray(np.maximum(np.exp(np.minimum(worth - edge, 0.0)), least))


def _log_root_price(worth: Floats, least: float, share: float) -> float:
    """The edge at which the mean chance is the share, by bisection."""
    low, high = float(worth.min()), float(worth.max()) - math.log(least)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(_clipped(worth, middle, least).mean()) > share:
            low = middle
        else:
            high = middle
    return high


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_audit", message)
