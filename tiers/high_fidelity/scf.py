"""A self-consistent field that either converged or is no result.

PySCF returns a number whether or not it converged, so ``converged`` is the only gate here.
"""

from __future__ import annotations

from typing import Any

from tiers.single_thread import one_thread
from verifier_service.domain.errors import Permanent

Atoms = list[tuple[str, tuple[float, float, float]]]
MAX_MEMORY_MB = 2500
_FOLLOW, _DISTINCT_HA = 3, 1e-6


def load() -> None:
    """Import PySCF with one compute thread."""
    one_thread()
    from pyscf import lib

    lib.num_threads(1)


def build(atoms: Atoms, *, charge: int, unpaired: int, basis: str) -> Any:
    """A PySCF molecule from symbols and coordinates in Å; def2 bases bring their core potentials.

    Raises ``Permanent``: ``charge_spin_inconsistent`` or ``unsupported_element`` (not in the basis).
    """
    load()
    from pyscf import gto
    from pyscf.lib.exceptions import BasisNotFoundError

    heavy = [symbol for symbol, _ in atoms if gto.charge(symbol) > 36]
    try:
        return gto.M(
            atom=[(symbol, list(place)) for symbol, place in atoms],
            charge=charge,
            spin=unpaired,
            basis=basis,
            ecp=dict.fromkeys(heavy, basis) if basis.startswith("def2") else {},
            verbose=0,
            max_memory=MAX_MEMORY_MB,
        )
    except BasisNotFoundError as error:
        raise Permanent("unsupported_element", f"not covered by {basis}: {error}"[:300]) from error
    except (RuntimeError, AssertionError) as error:
        message = f"charge {charge}, 2S {unpaired}: {error}"
        raise Permanent("charge_spin_inconsistent", message[:300]) from error


def converge(field: Any, *, max_cycle: int, conv_tol: float) -> tuple[Any, str]:
    """Return a converged mean field and the name of the solver that made it.

    DIIS first, then second order (co-iterative augmented Hessian, Sun, arXiv:1610.08423), then DIIS with a
    level shift, each for at most ``max_cycle`` cycles; ``conv_tol`` in Ha. Raises ``Permanent``:
    ``not_converged`` if none converged, ``scf_failed`` if the solver itself broke down.
    """
    import numpy as np

    field.verbose, field.max_cycle, field.conv_tol = 0, max_cycle, conv_tol
    try:
        field.kernel()
        if field.converged:
            return field, "diis"
        second = field.newton()
        second.max_cycle = max_cycle
        second.kernel(field.mo_coeff, field.mo_occ)
        if second.converged:
            return second, "second order"
        field.level_shift, field.damp = 0.3, 0.2
        field.kernel()
        if field.converged:
            return field, "diis with level shift"
    except (
        np.linalg.LinAlgError,
        ArithmeticError,
        ValueError,
        RuntimeError,
        AssertionError,
        IndexError,
    ) as error:
        raise Permanent("scf_failed", f"{type(error).__name__}: {error}"[:300]) from error
    raise Permanent("not_converged", f"no solver converged within {max_cycle} cycles")


def lower_solution(field: Any, *, max_cycle: int) -> float | None:
    """Energy in Ha of the solution below a converged ``field`` that is only a saddle point, else ``None``.

    Follows internal instabilities (Seeger and Pople, J. Chem. Phys. 1977, 66, 3045) at most three times.
    """
    import numpy as np

    lowest, reached = field.e_tot, field
    try:
        for _ in range(_FOLLOW):
            orbitals, _, stable, _ = reached.stability(return_status=True)
            if stable:
                break
            follower = reached.newton()
            follower.verbose, follower.max_cycle = 0, max_cycle
            follower.kernel(orbitals, reached.mo_occ)
            if not follower.converged:
                break
            lowest, reached = min(lowest, follower.e_tot), follower
    except (np.linalg.LinAlgError, ArithmeticError, ValueError, RuntimeError, IndexError):
        # No orbital pair to rotate (a hydrogen atom in a minimal basis), or a failed analysis.
        return None
    return float(lowest) if lowest < field.e_tot - _DISTINCT_HA else None
