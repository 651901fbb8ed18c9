"""Descriptors of a molecule: what its graph alone says, as numbers that a model can learn from.

``molecule.plausibility`` gives the cheap ones with its verdict, so that a ladder with that gate needs no
check of its own for them. ``molecule.descriptors`` is for ladders without it, and gives two more that take
as long as all the others.

Sources: P. Ertl, B. Rohde, P. Selzer, J. Med. Chem. 2000, 43, 3714 (polar surface area); S. A. Wildman,
G. M. Crippen, J. Chem. Inf. Comput. Sci. 1999, 39, 868 (logP and molar refractivity), both as RDKit has
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from tiers.molecule import Molecule, Refusal, rdkit_missing, read_smiles
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

CARBON = 6
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
        logp, refractivity = _toolkit().descriptors.CalcCrippenDescriptors(molecule.mol)
        features = {"logp": round(logp, 4), "molar_refractivity": round(refractivity, 4)}
        return Finding(verdict=Verdict.INCONCLUSIVE, features=descriptors(molecule) | features)


def descriptors(molecule: Molecule) -> dict[str, float]:
    """Twenty-one numbers by name, the same for every spelling of a molecule; linear in its size.

    Counts, but for ``charge`` in e, ``sp2_fraction`` and ``sp3_fraction`` of the carbon atoms (0 without
    carbon) and ``polar_surface`` in Å². ``rotatable_bonds`` are single, outside of rings and between atoms
    with other neighbours, amides among them; ``conjugated_atoms`` make the largest conjugated system.
    ``double_bonds`` and ``triple_bonds`` leave out aromatic ones.
    """
    kit = _toolkit()
    mol = molecule.mol
    numbers: list[int] = []
    carbons: list[Any] = []
    hydrogens = aromatic = 0
    for atom in mol.GetAtoms():
        number = atom.GetAtomicNum()
        numbers.append(number)
        hydrogens += atom.GetTotalNumHs()
        aromatic += atom.GetIsAromatic()
        if number == CARBON:
            carbons.append(atom.GetHybridization())
    conjugated: list[tuple[int, int]] = []
    orders: list[Any] = []
    for bond in mol.GetBonds():
        orders.append(bond.GetBondType())
        if bond.GetIsConjugated():
            conjugated.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    found: dict[str, float] = {
        "heavy_atoms": molecule.heavy_atoms,
        "atoms": len(numbers) + hydrogens,
        "electrons": sum(numbers) + hydrogens - molecule.charge,
        "charge": molecule.charge,
        "unpaired_electrons": molecule.unpaired_electrons,
        "rings": mol.GetRingInfo().NumRings(),
        "aromatic_atoms": aromatic,
        "sp2_fraction": carbons.count(kit.sp2) / max(1, len(carbons)),
        "sp3_fraction": carbons.count(kit.sp3) / max(1, len(carbons)),
        "double_bonds": orders.count(kit.double),
        "triple_bonds": orders.count(kit.triple),
        "conjugated_bonds": len(conjugated),
        "conjugated_atoms": _largest(conjugated),
        "rotatable_bonds": kit.descriptors.CalcNumRotatableBonds(mol, False),
        "polar_surface": kit.descriptors.CalcTPSA(mol),
    }
    found |= {name: sum(map(numbers.count, members)) for name, members in ELEMENTS.items()}
    return {name: round(float(value), 4) for name, value in found.items()}


def _largest(bonds: Iterable[tuple[int, int]]) -> int:
    """Atoms of the largest connected piece that these bonds make."""
    neighbours: dict[int, list[int]] = {}
    for first, second in bonds:
        neighbours.setdefault(first, []).append(second)
        neighbours.setdefault(second, []).append(first)
    seen: set[int] = set()
    largest = 0
    for start in neighbours:
        piece, waiting = 0, [start]
        while waiting:
            atom = waiting.pop()
            if atom not in seen:
                seen.add(atom)
                piece += 1
                waiting.extend(neighbours[atom])
        largest = max(largest, piece)
    return largest


class _Toolkit(NamedTuple):
    descriptors: Any
    sp2: Any
    sp3: Any
    double: Any
    triple: Any


@lru_cache(maxsize=1)
def _toolkit() -> _Toolkit:
    from rdkit.Chem import BondType, HybridizationType, rdMolDescriptors

    return _Toolkit(
        rdMolDescriptors,
        HybridizationType.SP2,
        HybridizationType.SP3,
        BondType.DOUBLE,
        BondType.TRIPLE,
    )
