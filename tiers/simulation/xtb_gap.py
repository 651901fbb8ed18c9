"""``xtb.gap``: the GFN2-xTB orbital gap at the lowest GFN2-xTB conformer."""

from __future__ import annotations

from importlib.util import find_spec
from math import exp, sqrt
from typing import ClassVar

from tiers.basis_size import of_smiles
from tiers.geometry import Conformer, lowest_conformers
from tiers.gfn2 import HARTREE_EV, HARTREE_KCAL
from tiers.orbital_gap import POLICY, read_subject
from tiers.single_thread import one_thread
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Measurement, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

QUANTITY = "ks_gap@gfn2//gfn2"
FLOOR_EV = 0.005
RANKING_KCAL = 1.0


class XtbGap(Verifier):
    """Measures, never judges: the verdict is inconclusive and the gap is on GFN2's own scale.

    Gap in eV; σ = √(0.005² + spread²), where 0.005 eV covers the remaining geometry error and the spread
    is that of the low conformers, weighted by exp(−ΔE / 1 kcal/mol), about GFN2's own error in ranking
    conformers. Method and geometry: ``tiers.gfn2`` and ``tiers.geometry``, whose named failures pass on;
    ``no_gap`` if there is no pair of an occupied and an empty orbital.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="xtb.gap",
        version="1",
        tier=Tier.SIMULATION,
        summary="GFN2-xTB orbital gap at the lowest GFN2-xTB conformer",
        libraries=("rdkit", "tblite"),
        quantities=(QUANTITY, "energy@gfn2//gfn2", "dipole@gfn2//gfn2"),
        limits=Limits(time_s=120, memory_mb=1500, max_batch=16),
        typical_cpu_s=0.4,
        typical_size=190.0,
        cost_exponent=2.0,
    )

    def unavailable(self) -> str | None:
        """Name the extra to install if a library is missing."""
        missing = [name for name in ("rdkit", "tblite") if find_spec(name) is None]
        if not missing:
            return None
        return f"{', '.join(missing)} missing: pip install 'verifier-service[simulation]'"

    def size(self, item: CheckInput, params: Params) -> float:  # noqa: ARG002 - no parameters
        """Basis functions that the molecule has in def2-SVP: a measure of its atoms and their elements."""
        return of_smiles(item.candidate)

    def warm(self) -> None:
        """Load the libraries and run one tiny molecule, so that no deadline pays for it."""
        one_thread()
        self.verify(CheckInput(candidate="C"), Params())

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - no parameters
        """Measure one SMILES. Raises ``Permanent`` with a named code."""
        subject = read_subject(item.candidate)
        conformers = lowest_conformers(subject.mol, subject.charge, subject.unpaired, POLICY)
        best = conformers[0].point
        if best.gap is None:
            raise Permanent("no_gap", "no pair of an occupied and an empty orbital")
        method = "spin-polarised GFN2-xTB" if subject.unpaired else "GFN2-xTB"
        return Finding(
            verdict=Verdict.INCONCLUSIVE,
            measurements=(
                Measurement(quantity=QUANTITY, value=best.gap, unit="eV", sigma=gap_sigma(conformers)),
                Measurement(quantity="energy@gfn2//gfn2", value=best.energy * HARTREE_EV, unit="eV"),
                Measurement(quantity="dipole@gfn2//gfn2", value=best.dipole, unit="D"),
            ),
            labels={"chemistry_class": subject.chemistry_class},
            assumptions=(
                *subject.assumptions(best.gap),
                f"{method}, {len(conformers)} low conformer(s) found",
            ),
        )


def gap_sigma(conformers: list[Conformer]) -> float:
    """Standard deviation in eV of the gap over low conformers, with the floor added in quadrature."""
    lowest = conformers[0].point.energy
    pairs = [
        (exp(-(c.point.energy - lowest) * HARTREE_KCAL / RANKING_KCAL), c.point.gap)
        for c in conformers
        if c.point.gap is not None
    ]
    total = sum(weight for weight, _ in pairs)
    mean = sum(weight * gap for weight, gap in pairs) / total
    return sqrt(FLOOR_EV**2 + sum(weight * (gap - mean) ** 2 for weight, gap in pairs) / total)
