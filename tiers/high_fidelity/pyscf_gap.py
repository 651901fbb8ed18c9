"""``pyscf.gap``: the Kohn-Sham orbital gap of density functional theory at a GFN2-xTB geometry."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from tiers.basis_size import of_smiles
from tiers.geometry import lowest_conformers
from tiers.gfn2 import orbital_gap
from tiers.high_fidelity.scf import build, converge, load
from tiers.orbital_gap import POLICY, read_subject
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Measurement, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

Functional = Literal["r2scan", "pbe", "b3lyp", "pbe0"]
Basis = Literal["def2-svp", "def2-tzvp", "6-31g*", "sto-3g"]
FLOOR_EV = 0.005
MAX_ATOMS = 60


class GapParams(Params):
    """Functional, orbital basis and the cycles each solver may take."""

    functional: Functional = "r2scan"
    basis: Basis = "def2-svp"
    max_cycle: int = Field(default=100, ge=1, le=500)

    @property
    def method(self) -> str:
        """The part of the quantity's name that says how it was computed."""
        return f"{self.functional}/{self.basis}//gfn2"


class PyscfGap(Verifier):
    """Measures, never judges. Makes its own geometry and reads no other check.

    Gap in eV and total energy in Ha, density fitting, restricted for closed shells and unrestricted for
    open ones (the gap is then the smaller of the two spin channels). σ = 0.005 eV is numerical (grid,
    fitting, geometry): the quantity is defined by its method, and the conformer choice belongs to it.
    r2SCAN: Furness et al., J. Phys. Chem. Lett. 2020, 11, 8208; def2: Weigend and Ahlrichs, Phys. Chem.
    Chem. Phys. 2005, 7, 3297. Failures: those of ``tiers.geometry`` and ``scf``, and ``no_gap``.
    """

    params_model: ClassVar[type[Params]] = GapParams
    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="pyscf.gap",
        version="1",
        tier=Tier.HIGH_FIDELITY,
        summary="Kohn-Sham orbital gap (PySCF) at the lowest GFN2-xTB conformer",
        libraries=("rdkit", "tblite", "pyscf"),
        quantities=tuple(
            f"{kind}@{functional}/{basis}//gfn2"
            for kind in ("ks_gap", "energy")
            for functional in get_args(Functional)
            for basis in get_args(Basis)
        ),
        limits=Limits(time_s=900, memory_mb=4000),
        typical_cpu_s=10.0,
        typical_size=110.0,
        cost_exponent=2.5,
    )

    def unavailable(self) -> str | None:
        """Name the extra to install if a library is missing."""
        missing = [name for name in ("rdkit", "tblite", "pyscf") if find_spec(name) is None]
        if not missing:
            return None
        return f"{', '.join(missing)} missing: pip install 'verifier-service[high-fidelity]'"

    def size(self, item: CheckInput, params: Params) -> float:
        """Basis functions of the molecule."""
        options = GapParams.model_validate(params, from_attributes=True)
        return of_smiles(item.candidate, options.basis)

    def warm(self) -> None:
        """Load the libraries before the first deadline runs."""
        load()
        lowest_conformers(*_parts("C"), POLICY)
        import pyscf.dft  # noqa: F401 - loaded once per process

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Measure one SMILES. Raises ``Permanent`` with a named code."""
        options = GapParams.model_validate(params.model_dump())
        load()
        subject = read_subject(item.candidate)
        policy = replace(POLICY, max_atoms=MAX_ATOMS)
        atoms = lowest_conformers(subject.mol, subject.charge, subject.unpaired, policy)[0].atoms()
        field, solver = kohn_sham(atoms, subject.charge, subject.unpaired, options)
        gap = orbital_gap(field.mo_energy, field.mo_occ)
        if gap is None:
            raise Permanent("no_gap", "no pair of an occupied and an empty orbital")
        return Finding(
            verdict=Verdict.INCONCLUSIVE,
            measurements=(
                Measurement(quantity=f"ks_gap@{options.method}", value=gap, unit="eV", sigma=FLOOR_EV),
                Measurement(quantity=f"energy@{options.method}", value=float(field.e_tot), unit="Ha"),
            ),
            labels={"chemistry_class": subject.chemistry_class, "solver": solver},
            assumptions=(*subject.assumptions(gap), "density fitting, grid level 3, no stability analysis"),
        )


def kohn_sham(
    atoms: list[tuple[str, tuple[float, float, float]]], charge: int, unpaired: int, options: GapParams
) -> tuple[Any, str]:
    """Converged Kohn-Sham mean field of ``atoms`` (Å) and the solver's name; raises like ``converge``."""
    mol = build(atoms, charge=charge, unpaired=unpaired, basis=options.basis)
    from pyscf import dft

    field = (dft.UKS if unpaired else dft.RKS)(mol).density_fit()
    field.xc = options.functional
    field.grids.level = 3
    return converge(field, max_cycle=options.max_cycle, conv_tol=1e-8)


def _parts(smiles: str) -> tuple[Any, int, int]:
    subject = read_subject(smiles)
    return subject.mol, subject.charge, subject.unpaired
