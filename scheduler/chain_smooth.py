"""Smooth functions of standardised columns, in a basis in which they are linear.

A curve per column, piecewise linear with a Matern 3/2 prior on its values at the knots, and a Matern
3/2 process of all columns together through a set of centres (Rasmussen and Williams 2006, sections 4.2
and 8.3). Written as a linear basis, a Gaussian process is a ridge regression: it stores as plain
numbers, and its leave-one-out residuals have a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from scheduler.observations import Floats, Ints

KNOT_SHARES = np.concatenate([[0.0], ndtr(np.linspace(-2.4, 2.4, 14)), [1.0]])
CURVE_LENGTH = 1.5  # in normal scores of the column
CURVE_RANK = 6
CENTRES = 96
LENGTHS = (1.5, 4.0)  # of the joint process, in root mean square standard deviations
JITTER = 1e-8


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """Which columns have curves, where these bend, and where the centres of the joint process lie."""

    column: Ints
    knots: tuple[Floats, ...]
    roots: tuple[Floats, ...]
    centres: Floats

    @classmethod
    def of(cls, seen: Floats, learnt: Floats, rng: np.random.Generator) -> Basis:
        """Knots at quantiles of ``seen`` (m, d), centres among the rows ``learnt`` (n, d) from."""
        column, knots, roots = [], [], []
        for j in range(seen.shape[1]):
            at = np.unique(np.quantile(seen[:, j], KNOT_SHARES))
            if len(at) > 1:
                column.append(j)
                knots.append(at)
                roots.append(_curve_root(_normal_scores(seen[:, j], at)))
        distinct: Floats = np.unique(learnt, axis=0)
        centres: Floats = distinct[np.sort(rng.permutation(len(distinct))[:CENTRES])]
        return cls(np.array(column, dtype=np.int64), tuple(knots), tuple(roots), centres)

    def curves(self, z: Floats) -> list[Floats]:
        """Design of each curve, (n, rank)."""
        found = []
        for j, knots, root in zip(self.column, self.knots, self.roots, strict=True):
            found.append(np.column_stack([np.interp(z[:, j], knots, unit) for unit in root.T]))
        return found

    def joint(self, z: Floats, length: float) -> Floats:
        """Design of the joint process, (n, centres)."""
        kernel = joint_kernel(z, self.centres, length)
        return np.ascontiguousarray(solve_triangular(self.joint_root(length), kernel.T, lower=True).T)

    def joint_root(self, length: float) -> Floats:
        """Lower Cholesky factor of the covariance at the centres."""
        covariance = joint_kernel(self.centres, self.centres, length)
        root = np.linalg.cholesky(covariance + JITTER * np.eye(len(covariance)))
        return np.asarray(root, dtype=np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class Smooth:
    """A sum of curves and of joint processes, one per length scale."""

    column: Ints
    knots: tuple[Floats, ...]
    heights: tuple[Floats, ...]
    centres: Floats
    joint: Mapping[float, Floats]

    def at(self, z: Floats) -> Floats:
        """Values at the rows of ``z`` (n, d)."""
        total = np.zeros(len(z))
        for j, knots, heights in zip(self.column, self.knots, self.heights, strict=True):
            total += np.interp(z[:, j], knots, heights)
        for length, weights in self.joint.items():
            total += joint_kernel(z, self.centres, length) @ weights
        return total

    def times(self, factor: float) -> Smooth:
        """The same function, scaled."""
        heights = tuple(factor * heights for heights in self.heights)
        joint = {length: factor * weights for length, weights in self.joint.items()}
        return Smooth(self.column, self.knots, heights, self.centres, joint)

    def as_json(self) -> dict[str, Any]:
        return {
            "column": self.column.tolist(),
            "knots": [knots.tolist() for knots in self.knots],
            "heights": [heights.tolist() for heights in self.heights],
            "centres": self.centres.tolist(),
            "columns": self.centres.shape[1],
            "joint": [[length, weights.tolist()] for length, weights in self.joint.items()],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Smooth:
        return cls(
            column=np.array(document["column"], dtype=np.int64),
            knots=tuple(np.array(knots, dtype=np.float64) for knots in document["knots"]),
            heights=tuple(np.array(heights, dtype=np.float64) for heights in document["heights"]),
            centres=np.array(document["centres"], dtype=np.float64).reshape(-1, document["columns"]),
            joint={float(length): np.array(weights) for length, weights in document["joint"]},
        )


def joint_kernel(z: Floats, centres: Floats, length: float) -> Floats:
    """Matern 3/2 correlation of rows and centres, (n, centres)."""
    reach = length * np.sqrt(max(1, z.shape[1]))
    squared = (z**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * (z @ centres.T)
    return _matern(np.sqrt(np.maximum(squared, 0.0)) / reach)


def _matern(distance: Floats) -> Floats:
    scaled = np.sqrt(3.0) * distance
    found: Floats = (1.0 + scaled) * np.exp(-scaled)
    return found


def _normal_scores(values: Floats, knots: Floats) -> Floats:
    """Where the knots stand among the values, as normal scores of their middle ranks."""
    ordered = np.sort(values)
    rank = 0.5 * (np.searchsorted(ordered, knots, "left") + np.searchsorted(ordered, knots, "right"))
    least = 0.5 / len(values)
    found: Floats = ndtri(np.clip(rank / len(values), least, 1.0 - least))
    return found


def _curve_root(scores: Floats) -> Floats:
    """Principal root (knots, rank) of the prior covariance of a curve's values at its knots."""
    covariance = _matern(np.abs(scores[:, None] - scores) / CURVE_LENGTH)
    values, vectors = np.linalg.eigh(covariance)
    kept = slice(-min(CURVE_RANK, len(values)), None)
    found: Floats = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
    return found
