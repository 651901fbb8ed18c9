"""What was bought so far, and what is declared before anything is bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verifier_service.domain.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

MAX_WEIGHT = 10.0
MAX_LEVELS = 6


@dataclass(frozen=True, eq=False, slots=True)
class Observations:
    """Candidates with what is known of each.

    ``x`` (n, p): free features, finite; p may be 0.
    ``y`` (n, K): value at each measuring level in one row per candidate, nan where it was not bought;
    the last column is the truth.
    ``weight`` (n,): min(1 / propensity, 10), 1 where the propensity is unknown.
    ``key`` (n,): integer ids; rows are sorted by them, so that their order does not matter.
    Wrong shapes, infinities and weights that are not positive raise ``InvalidInput``.
    """

    x: Floats
    y: Floats
    weight: Floats
    key: Ints

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or self.y.ndim != 2 or self.weight.ndim != 1 or self.key.ndim != 1:
            raise _invalid("x and y have two axes, weight and key one")
        if len({len(self.x), len(self.y), len(self.weight), len(self.key)}) != 1:
            raise _invalid("x, y, weight and key have one row per candidate")
        check_levels(self.y.shape[1])
        if not np.isfinite(self.x).all():
            raise _invalid("features are finite", "x")
        if np.isinf(self.y).any():
            raise _invalid("values are finite, or nan where nothing was bought", "y")
        if not (np.isfinite(self.weight).all() and (self.weight > 0).all()):
            raise _invalid("weights are finite and positive", "weight")

    @classmethod
    def of(
        cls,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        propensity: npt.ArrayLike | None = None,
        key: npt.ArrayLike | None = None,
    ) -> Observations:
        """From anything array-like. ``propensity`` (n,) is nan where unknown; ``key`` defaults to the
        row number."""
        values = np.array(y, dtype=np.float64)
        rows = len(values) if values.ndim else 0
        weight = np.ones(rows)
        if propensity is not None:
            given = np.asarray(propensity, dtype=np.float64)
            if given.shape != (rows,):
                raise _invalid("one propensity per candidate", "propensity")
            known = ~np.isnan(given)
            if not ((given[known] > 0) & (given[known] <= 1)).all():
                raise _invalid("a propensity lies in (0, 1]", "propensity")
            weight[known] = np.minimum(1.0 / given[known], MAX_WEIGHT)
        ids = np.arange(rows) if key is None else np.asarray(key)
        return cls(np.array(x, dtype=np.float64), values, weight, ids.astype(np.int64))

    @property
    def top(self) -> int:
        """Column of the truth."""
        return int(self.y.shape[1]) - 1

    def only(self, rows: Booleans | Ints) -> Observations:
        """Some of the rows."""
        return Observations(self.x[rows], self.y[rows], self.weight[rows], self.key[rows])

    def sorted(self) -> Observations:
        """The same rows in the order of their keys (rows with equal keys: of their content)."""
        columns = (*self.x.T[::-1], *self.y.T[::-1], self.weight, self.key)
        order = np.lexsort(columns)
        return self.only(order)


@dataclass(frozen=True, slots=True)
class DeclaredLine:
    """truth = intercept + slope * y_k, within ``sigma`` (standard deviation, in units of the truth)."""

    intercept: float
    slope: float
    sigma: float

    def __post_init__(self) -> None:
        if not np.isfinite([self.intercept, self.slope, self.sigma]).all() or self.sigma < 0:
            raise _invalid("a declared line is finite and its sigma not negative", "lines")


@dataclass(frozen=True, slots=True)
class Declared:
    """Before any truth label: a wide prior N(mean, sigma^2), and a line per level that has one.

    ``lines[k]`` belongs to level k < K - 1; ``None`` where nothing is declared.
    """

    mean: float
    sigma: float
    lines: tuple[DeclaredLine | None, ...]

    def __post_init__(self) -> None:
        if not np.isfinite([self.mean, self.sigma]).all() or self.sigma <= 0:
            raise _invalid("the prior is finite and its sigma positive", "sigma")
        check_levels(len(self.lines) + 1)

    @classmethod
    def wide(cls, levels: int, *, mean: float = 0.0, sigma: float = 1.0) -> Declared:
        """Nothing but the prior, for a ladder of ``levels`` levels, the truth among them."""
        return cls(mean, sigma, (None,) * (levels - 1))

    def best(self, pattern: Sequence[int]) -> tuple[int, DeclaredLine]:
        """The level in ``pattern`` whose line is sharpest (the higher of equals), or (-1, the prior)."""
        found = [(line.sigma, -k, line) for k in pattern if (line := self.lines[k]) is not None]
        if not found:
            return -1, DeclaredLine(self.mean, 0.0, self.sigma)
        sigma, negative, line = min(found, key=lambda item: item[:2])
        return (-negative, line) if sigma < self.sigma else (-1, DeclaredLine(self.mean, 0.0, self.sigma))


def check_levels(levels: int) -> None:
    """A chain has 1 to 6 levels, the truth among them."""
    if not 1 <= levels <= MAX_LEVELS:
        raise _invalid(f"a chain has 1 to {MAX_LEVELS} levels, not {levels}", "y")


def _invalid(message: str, field: str | None = None) -> InvalidInput:
    return InvalidInput("invalid_observations", message, field=field)
