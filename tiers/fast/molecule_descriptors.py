"""Descriptors of a molecule: what its graph alone says, as numbers that a model can learn from.

``molecule.plausibility`` gives the cheap ones with its verdict, so that a ladder with that gate needs no
check of its own for them. ``molecule.descriptors`` is for ladders without it, and gives two more that take
as long as all the others.

Sources: P. Ertl, B. Rohde, P. Selzer, J. Med. Chem. 2000, 43, 3714 (polar surface area); S. A. Wildman,
G. M. Crippen, J. Chem. Inf. Comput. Sci. 1999, 39, 868 (logP and molar refractivity), both as RDKit has
them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from tiers.fast.molecule_graph import Graph
from tiers.molecule import Molecule, Refusal, rdkit_missing, read_smiles
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

CARBON = 6
SINGLE, AROMATIC, DOUBLE, TRIPLE = 1, 1.5, 2, 3
ELEMENTS = {
    "nitrogen": (7,),
    "oxygen": (8,),
    "phosphorus": (15,),
    "sulfur": (16,),
    "halogens": (9, 17, 35, 53, 85),
}


class MoleculeDescriptors(Verifier):
    """Describes, never judges: the verdict is inconclusive, and the features are those of ``descriptors``
    with ``logp`` (octanol and water) and ``molar_refractivity`` in cm³/mol."""

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="molecule.descriptors",
        version="1",
        tier=Tier.FAST,
        summary="Numbers that the graph of a molecule says, for models to learn from; judges nothing",
        libraries=("rdkit",),
        limits=Limits(time_s=10.0, memory_mb=1024, max_batch=256),
        typical_cpu_s=0.0003,
    )

    def unavailable(self) -> str | None:
        """Return why RDKit is missing, or ``None``."""
        return rdkit_missing()

    def warm(self) -> None:
        """Import RDKit and load the tables of atom contributions."""
        self.verify(CheckInput(candidate="CCO"), Params())

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - no parameters
        """Describe the candidate. Text that cannot be read has no features, and ends inconclusive under
        the name of the refusal; raises ``Permanent`` where the toolkit contradicts itself."""
        try:
            molecule = read_smiles(item.candidate, allow_fragments=True)
        except Refusal as refusal:
            if refusal.internal:
                raise Permanent(refusal.code, refusal.message) from refusal
            reason = Reason(code=refusal.code, message=refusal.message)
            return Finding(verdict=Verdict.INCONCLUSIVE, reason=reason)
        logp, refractivity = _toolkit().CalcCrippenDescriptors(molecule.mol)
        features = {"logp": round(logp, 4), "molar_refractivity": round(refractivity, 4)}
        return Finding(verdict=Verdict.INCONCLUSIVE, features=descriptors(molecule) | features)


def descriptors(molecule: Molecule, graph: Graph | None = None) -> dict[str, float]:
    """Twenty-one numbers by name, the same for every spelling of a molecule; linear in its size.

    Counts, but for ``charge`` in e, ``sp2_fraction`` and ``sp3_fraction`` of the carbon atoms (0 without
    carbon) and ``polar_surface`` in Å². ``rotatable_bonds`` are single, outside of rings and between atoms
    with other neighbours, amides among them; ``double_bonds`` and ``triple_bonds`` leave out aromatic ones.
    ``unsaturated_atoms`` have a multiple or aromatic bond, ``conjugated_atoms`` of them make the largest
    connected system. ``graph`` is that of the molecule, where it was read already.
    """
    graph = graph or Graph.of(molecule.mol)
    kit = _toolkit()
    hydrogens = sum(graph.hydrogens)
    orders = [order for bonds in graph.bonds for _, order in bonds]
    unsaturated = [any(order != SINGLE for _, order in bonds) for bonds in graph.bonds]
    systems = graph.components(unsaturated.__getitem__) if any(unsaturated) else ()
    carbons = [
        _multiple(bonds)
        for bonds, number in zip(graph.bonds, graph.number, strict=True)
        if number == CARBON
    ]
    found: dict[str, float] = {
        "heavy_atoms": molecule.heavy_atoms,
        "atoms": len(graph.number) + hydrogens,
        "electrons": sum(graph.number) + hydrogens - sum(graph.charge),
        "charge": sum(graph.charge),
        "unpaired_electrons": sum(graph.unpaired),
        "rings": molecule.mol.GetRingInfo().NumRings(),
        "aromatic_atoms": sum(graph.aromatic),
        "sp2_fraction": carbons.count(1) / max(1, len(carbons)),
        "sp3_fraction": carbons.count(0) / max(1, len(carbons)),
        "double_bonds": orders.count(DOUBLE) / 2,
        "triple_bonds": orders.count(TRIPLE) / 2,
        "unsaturated_atoms": sum(unsaturated),
        "conjugated_atoms": max(map(len, systems), default=0),
        "rotatable_bonds": kit.CalcNumRotatableBonds(molecule.mol, False),
        "polar_surface": round(kit.CalcTPSA(molecule.mol), 4),
    }
    found |= {name: sum(map(graph.number.count, members)) for name, members in ELEMENTS.items()}
    return {name: float(value) for name, value in found.items()}


def _multiple(bonds: list[tuple[int, float]]) -> int:
    """How many p orbitals of a carbon atom its bonds take: 0 for sp3, 1 for sp2, 2 for sp."""
    if any(order == AROMATIC for _, order in bonds):
        return 1
    return int(sum(order - SINGLE for _, order in bonds))


@lru_cache(maxsize=1)
def _toolkit() -> Any:
    from rdkit.Chem import rdMolDescriptors

    return rdMolDescriptors
