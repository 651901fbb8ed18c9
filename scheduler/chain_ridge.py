"""Ridge regression in its dual form, with leave-one-out residuals in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.observations import Floats

LEAST_FREEDOM = 1e-9
RANK = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class Spectrum:
    """Eigenvalues (m,) and eigenvectors (n, m) of D D' for a design D (n, q); without those whose
    eigenvalue is 0 where q < n."""

    values: Floats
    vectors: Floats
    complete: bool

    @classmethod
    def of(cls, design: Floats) -> Spectrum:
        n, q = design.shape
        if n <= q:
            values, vectors = np.linalg.eigh(design @ design.T)
            return cls(np.maximum(values, 0.0), vectors, True)
        values, right = np.linalg.eigh(design.T @ design)
        kept = values > RANK * max(float(values[-1]), np.finfo(float).tiny)
        return cls(values[kept], design @ right[:, kept] / np.sqrt(values[kept]), False)

    def solve(self, target: Floats, nugget: float) -> tuple[Floats, Floats]:
        """(a, d): a = A^-1 target and d the diagonal of A^-1, where A = D D' + nugget.

        The ridge coefficients of D with penalty ``nugget`` are D' a, and the residual at a row that was
        left out is a / d (Rasmussen and Williams 2006, eq. 5.12).
        """
        along = self.vectors.T @ target
        if self.complete:
            inverse = 1.0 / (self.values + nugget)
            return self.vectors @ (inverse * along), self.vectors**2 @ inverse
        shrink = self.values / (self.values + nugget)
        freedom = np.maximum(1.0 - self.vectors**2 @ shrink, LEAST_FREEDOM)
        return (target - self.vectors @ (shrink * along)) / nugget, freedom / nugget
