"""What a check takes, learned per method and size of input.

ln(CPU seconds) = a + b ln(size / typical size) + e, with e from Student's t distribution of 4 degrees of
freedom, so that a run on a stalled machine, or one that hardly converged, does not move the line (Lange,
Little and Taylor, J. Am. Stat. Assoc. 1989, 84, 881; fitted by their EM algorithm). What the verifier
declares is the prior: a about ln(typical CPU seconds), scale 1, with the same tails, so that a few attempts
on another machine outweigh it; b ~ N(declared exponent, 0.5^2), for that is how the method scales, and not
below 0; and a spread that counts as much as four attempts. The spread that is told is that above the line
(the root mean square of what took longer): times are skewed, and who sets money aside asks how long it may
take.

The line is that of attempts that found something. Those that did not are a factor on it: 1 + (their cost,
each in units of the line and at most 10) / (number that did + 5), at most 10.

Kept of each method are its last 24 attempts in every range of size of a quarter in the logarithm: bounded,
balanced over sizes, and renewed when the machines are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verifier_service.domain.costs import LearnedCost, NotedAttempt, PredictedCost
from verifier_service.domain.verifiers import VerifierInfo

Floats = npt.NDArray[np.float64]
Kept = tuple[float, float, bool]  # size, CPU seconds, found something
Cells = dict[int, list[Kept]]

FORMAT = 1
FREEDOM = 4.0
LEVEL_SD, EXPONENT_SD = 1.0, 0.5
SPREAD, SPREAD_WEIGHT = 0.5, 4.0
CELLS_PER_E, MAX_CELL = 4.0, 32
KEPT_PER_CELL = 24
MAX_FAILED, FOUND_WEIGHT = 10.0, 5.0
LEAST_S, MOST_S = 1e-7, 1e9
ROUNDS, STILL = 100, 1e-10


class Line(NamedTuple):
    """A fitted line: ``level`` a, ``exponent`` b, their covariance (upper triangle), the spread of the
    logarithm ``above`` it, and the factor ``retries``."""

    level: float
    exponent: float
    covariance: tuple[float, float, float]
    above: float
    retries: float


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """``CostModel`` by the line of the module."""

    def predict(self, info: VerifierInfo, size: float, fit: str | None) -> PredictedCost:
        """Median, spread and retries at one size; grows with it, or stays."""
        line = _declared(info) if fit is None else _read(fit)
        if line is None:
            line = _declared(info)
        x = _log_size(info, size)
        constant, both, slope = line.covariance
        unknown = constant + 2.0 * x * both + x * x * slope
        return PredictedCost(
            median_s=_seconds(line.level + line.exponent * x),
            log_sd=math.sqrt(max(0.0, unknown) + line.above**2),
            retries=line.retries,
        )

    def learn(
        self, info: VerifierInfo, attempts: Sequence[NotedAttempt], learned: LearnedCost | None
    ) -> LearnedCost:
        """Add attempts to those that are kept, and fit the line anew."""
        cells = _cells(learned.attempts) if learned is not None else {}
        for attempt in attempts:
            if not math.isfinite(attempt.cpu_s):
                continue
            seconds = min(MOST_S, max(LEAST_S, attempt.cpu_s))
            place = round(CELLS_PER_E * _log_size(info, attempt.size))
            cell = cells.setdefault(max(-MAX_CELL, min(MAX_CELL, place)), [])
            cell.append((_rounded(attempt.size), _rounded(seconds), attempt.found))
            del cell[:-KEPT_PER_CELL]
        line = _fitted(info, [one for place in sorted(cells) for one in cells[place]])
        kept = {str(place): cells[place] for place in sorted(cells)}
        return LearnedCost(
            fit=json.dumps({"format": FORMAT, **line._asdict()}),
            attempts=json.dumps({"format": FORMAT, "cells": kept}),
        )


def _declared(info: VerifierInfo) -> Line:
    return Line(
        level=math.log(max(LEAST_S, info.typical_cpu_s)),
        exponent=info.cost_exponent,
        covariance=(LEVEL_SD**2, 0.0, EXPONENT_SD**2),
        above=SPREAD,
        retries=1.0,
    )


@lru_cache(maxsize=512)
def _read(fit: str) -> Line | None:
    """``None`` for a document of another format: what it says is learned again."""
    found = json.loads(fit)
    if found.pop("format", None) != FORMAT:
        return None
    constant, both, slope = found.pop("covariance")
    return Line(covariance=(constant, both, slope), **found)


def _cells(document: str) -> Cells:
    found = json.loads(document)
    if found.get("format") != FORMAT:
        return {}
    cells: Mapping[str, list[list[float]]] = found["cells"]
    return {int(place): [(size, s, bool(ok)) for size, s, ok in kept] for place, kept in cells.items()}


def _fitted(info: VerifierInfo, kept: Sequence[Kept]) -> Line:
    found = [(_log_size(info, size), math.log(seconds)) for size, seconds, ok in kept if ok]
    line = _by_em(_declared(info), np.array(found)) if found else _declared(info)
    return line._replace(retries=_retries(info, line, kept, len(found)))


def _by_em(prior: Line, points: Floats) -> Line:
    """Posterior mode of line and spread; ``points`` (n, 2) are logarithms of size and seconds."""
    x, y = points[:, 0], points[:, 1]
    design = np.stack([np.ones_like(x), x], axis=1)
    level, exponent = _start(prior, x, y)
    variance = max(SPREAD**2, float(np.median(np.abs(y - level - exponent * x))) ** 2)
    for _ in range(ROUNDS):
        weights = _weight((y - level - exponent * x) ** 2 / variance)
        trust = _weight(np.array((level - prior.level) ** 2 / LEVEL_SD**2))
        precision = np.diag([float(trust) / LEVEL_SD**2, EXPONENT_SD**-2])
        known = precision + (design.T * weights) @ design / variance
        target = precision @ [prior.level, prior.exponent] + design.T @ (weights * y) / variance
        before = level, exponent, variance
        level, exponent = _solved(known, target)
        rest = float(weights @ (y - level - exponent * x) ** 2)
        variance = (SPREAD_WEIGHT * SPREAD**2 + rest) / (SPREAD_WEIGHT + len(y))
        if (
            max(abs(new - old) for new, old in zip((level, exponent, variance), before, strict=True))
            < STILL
        ):
            break
    covariance = np.linalg.inv(known)
    return Line(
        level=level,
        exponent=exponent,
        covariance=(float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])),
        above=_above(y - level - exponent * x),
        retries=1.0,
    )


def _weight(squared: Floats) -> Floats:
    """Of points so many scales away, squared."""
    return (FREEDOM + 1.0) / (FREEDOM + squared)


def _above(rest: Floats) -> float:
    longer = rest[rest > 0.0]
    return math.sqrt((SPREAD_WEIGHT * SPREAD**2 + float(longer @ longer)) / (SPREAD_WEIGHT + len(longer)))


def _start(prior: Line, x: Floats, y: Floats) -> tuple[float, float]:
    """With few points the declared line, else that line moved to their median: another machine may be ten
    times as slow for all of them."""
    if len(y) < FREEDOM:
        return prior.level, prior.exponent
    return float(np.median(y - prior.exponent * x)), prior.exponent


def _solved(known: Floats, target: Floats) -> tuple[float, float]:
    """The best line that does not fall."""
    level, exponent = np.linalg.solve(known, target)
    if exponent < 0.0:
        return float(target[0] / known[0, 0]), 0.0
    return float(level), float(exponent)


def _retries(info: VerifierInfo, line: Line, kept: Sequence[Kept], found: int) -> float:
    def in_vain() -> Iterator[float]:
        for size, seconds, ok in kept:
            if not ok:
                usual = _seconds(line.level + line.exponent * _log_size(info, size))
                yield min(MAX_FAILED, seconds / usual)

    return min(MAX_FAILED, 1.0 + sum(in_vain()) / (found + FOUND_WEIGHT))


def _log_size(info: VerifierInfo, size: float) -> float:
    within = size if 0.0 < size < math.inf else info.typical_size
    return max(-20.0, min(20.0, math.log(within / info.typical_size)))


def _seconds(logarithm: float) -> float:
    return min(MOST_S, max(LEAST_S, math.exp(min(50.0, logarithm))))


def _rounded(value: float) -> float:
    """Six digits are more than any clock has."""
    return float(f"{value:.6g}")
