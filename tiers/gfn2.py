"""GFN2-xTB for molecules: energy, gradient and orbital gap of a geometry, and its relaxation.

Method: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 2019, 15, 1652 (tblite). Open shells use the
spin-polarised form (Neugebauer, Hansen, Grimme, J. Comput. Chem. 2023, 44, 2120), so that each spin
channel has its own orbitals. Units inside this file are atomic: bohr, Hartree, e·bohr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verifier_service.domain.errors import Permanent, VerifierFailure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BOHR_ANGSTROM = 0.529177210903
HARTREE_EV = 27.211386245988
HARTREE_KCAL = 627.5094740631
DEBYE_PER_AU = 2.541746473
LAST_ELEMENT = 86

_MODEL_FLOOR, _FLOOR = 8e-3, 5e-4
_TRUST_START = 0.25
_TRUST_MAX = 0.5
_TRUST_MIN = 1e-4
_ENERGY_NOISE = 2e-8


@dataclass(frozen=True)
class Point:
    """One evaluation: energy in Ha, gradient (n, 3) in Ha/bohr, gap in eV, dipole norm in debye."""

    energy: float
    gradient: Array
    gap: float | None
    dipole: float


class Surface:
    """The GFN2 energy surface of one molecule: atomic ``numbers``, ``charge``, ``unpaired`` = 2S."""

    def __init__(self, numbers: Array, positions: Array, charge: int, unpaired: int) -> None:
        """Set up the calculator at ``positions`` (n, 3) in bohr.

        Raises ``Permanent`` with code ``unsupported_element`` or ``xtb_refused``.
        """
        from tblite.interface import Calculator

        self._unpaired = unpaired
        self._result: Any = None
        try:
            self._calculator = Calculator("GFN2-xTB", numbers, positions, charge=charge, uhf=unpaired)
            self._calculator.set("verbosity", 0)
            self._calculator.set("accuracy", 0.1)
            if unpaired:
                self._calculator.add("spin-polarization", 1.0)
        except (RuntimeError, ValueError) as error:
            raise _classified(error) from error

    def point(self, positions: Array) -> Point:
        """Evaluate at ``positions`` (n, 3) in bohr, warm-started from the previous call.

        Raises ``Permanent`` with code ``not_converged``, ``too_close`` or ``xtb_refused``.
        """
        import numpy as np

        try:
            self._calculator.update(positions)
            self._result = self._calculator.singlepoint(self._result)
            energies = self._result.get("orbital-energies")
            occupations = self._result.get("orbital-occupations")
            return Point(
                energy=float(self._result.get("energy")),
                gradient=np.array(self._result.get("gradient"), dtype=float),
                gap=orbital_gap(energies, occupations),
                dipole=float(np.linalg.norm(self._result.get("dipole"))) * DEBYE_PER_AU,
            )
        except (RuntimeError, ValueError) as error:
            self._result = None
            raise _classified(error) from error


def orbital_gap(energies: Array, occupations: Array) -> float | None:
    """Lowest unoccupied minus highest occupied orbital in eV, the smaller of the two spin channels.

    Shapes: (orbitals,) for a closed shell, (2, orbitals) for an open one, energies in Ha.
    ``None`` if no channel has both an occupied and an empty orbital (a bare hydrogen atom).
    """
    import numpy as np

    gaps = []
    share = 2.0 if np.ndim(energies) == 1 else 1.0
    for levels, filling in zip(np.atleast_2d(energies), np.atleast_2d(occupations), strict=True):
        filled = round(float(filling.sum()) / share)
        ordered = np.sort(levels)
        if 0 < filled < len(ordered):
            gaps.append(float(ordered[filled] - ordered[filled - 1]) * HARTREE_EV)
    return min(gaps) if gaps else None


def relax(surface: Surface, start: Array, hessian: Array, *, tolerance: float, steps: int) -> Relaxed:
    """Minimise from ``start`` (n, 3) bohr by BFGS in a trust region, seeded with a model ``hessian``.

    ``hessian`` is (3n, 3n) in Ha/bohr²; ``tolerance`` bounds the largest gradient component in Ha/bohr.
    BFGS: Nocedal and Wright, Numerical Optimization (2006), eq. 6.19; curvature below a floor is lifted
    so that translations, rotations and soft torsions take bounded steps.
    Returns the best geometry seen; ``converged`` says whether the tolerance was met.
    """
    import numpy as np

    here, at, trust = start, surface.point(start), _TRUST_START
    curvature, modes = np.linalg.eigh(hessian)
    model: Array = (modes * np.maximum(np.abs(curvature), _MODEL_FLOOR)) @ modes.T
    for _ in range(steps):
        if float(np.abs(at.gradient).max()) < tolerance:
            return Relaxed(here, at, model, True)
        step = _bounded_step(at.gradient.ravel(), model, trust).reshape(here.shape)
        new = surface.point(here + step)
        model = _bfgs(model, step.ravel(), (new.gradient - at.gradient).ravel())
        if new.energy > at.energy + _ENERGY_NOISE:
            trust = max(0.4 * float(np.abs(step).max()), _TRUST_MIN)
            continue
        trust = min(max(trust, 2.0 * float(np.abs(step).max())), _TRUST_MAX)
        here, at = here + step, new
    return Relaxed(here, at, model, False)


@dataclass(frozen=True)
class Relaxed:
    """A relaxed geometry (n, 3) in bohr with its ``point`` and the learned Hessian."""

    positions: Array
    point: Point
    hessian: Array
    converged: bool


def _bounded_step(gradient: Array, hessian: Array, trust: float) -> Array:
    """Quasi-Newton step, every component at most ``trust`` bohr."""
    import numpy as np

    curvature, modes = np.linalg.eigh(hessian)
    step: Array = -modes @ ((modes.T @ gradient) / np.maximum(np.abs(curvature), _FLOOR))
    largest = float(np.abs(step).max())
    return step * (trust / largest) if largest > trust else step


def _bfgs(hessian: Array, step: Array, change: Array) -> Array:
    """Update; skipped where the curvature along the step is not safely positive."""
    import numpy as np

    along = float(step @ change)
    if along < 0.1 * _FLOOR * float(step @ step):
        return hessian
    image = hessian @ step
    updated: Array = (
        hessian + np.outer(change, change) / along - np.outer(image, image) / float(step @ image)
    )
    return updated


def _classified(error: Exception) -> VerifierFailure:
    """The named outcome of a tblite error, which differs only in its text."""
    text = str(error)
    known = {
        "SCF not converged": "not_converged",
        "No support for elements": "unsupported_element",
        "Too close interatomic distances": "too_close",
        "unpaired electrons": "charge_spin_inconsistent",
    }
    for phrase, code in known.items():
        if phrase.lower() in text.lower():
            return Permanent(code, f"GFN2-xTB: {text}"[:300])
    return Permanent("xtb_refused", f"GFN2-xTB refused this geometry: {text}"[:300])
