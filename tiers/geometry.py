"""The gas-phase geometry of a molecule: conformers from ETKDGv3, force field, then GFN2-xTB.

Shared by ``xtb.gap`` and ``pyscf.gap``, so that both speak of the same geometry definition
(``//gfn2``). ETKDGv3: Wang, Witek, Landrum, Riniker, J. Chem. Inf. Model. 2020, 60, 2044. MMFF94:
Halgren, J. Comput. Chem. 1996, 17, 490; UFF where MMFF94 lacks parameters: Rappé et al., J. Am. Chem.
Soc. 1992, 114, 10024. The start depends only on the canonical form (fixed seed, canonical atom
order), so every spelling of a molecule ends at the same geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiers.gfn2 import BOHR_ANGSTROM, HARTREE_KCAL, LAST_ELEMENT, Point, Relaxed, Surface, relax
from verifier_service.domain.errors import Permanent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MAIN_GROUP = frozenset(
    ["H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Ge", "As", "Se", "Br", "I"],
)
_SEED = 0x5EED
_BROKEN, _FORMED = 1.35, 1.15


@dataclass(frozen=True)
class ConformerPolicy:
    """How wide and how deep the search goes.

    ``embed`` bounds the embedded conformers, ``explore`` those relaxed loosely with GFN2 (the lowest by
    GFN2 energy at the force-field geometry), ``keep`` those relaxed tightly; ``window`` in kcal/mol
    above the lowest; tolerances are on the largest gradient component in Ha/bohr. Beyond 30 atoms fewer
    are explored (``work`` atoms in all), so that a large molecule stays affordable.
    """

    embed: int = 20
    explore: int = 8
    keep: int = 4
    window: float = 3.0
    loose: float = 2e-3
    tight: float = 5e-6
    steps: int = 400
    work: int = 240
    max_atoms: int = 100

    def describe(self) -> str:
        """The policy in one sentence, for the evidence."""
        return (
            f"ETKDGv3 (fixed seed, canonical atom order), up to {self.embed} embedded, {self.explore} "
            f"relaxed and {self.keep} kept within {self.window:g} kcal/mol by GFN2-xTB electronic "
            "energy; the lowest conformer is reported"
        )


@dataclass(frozen=True)
class Conformer:
    """One relaxed conformer: ``symbols``, ``positions`` (n, 3) in Å and its GFN2 ``point``."""

    symbols: tuple[str, ...]
    positions: Array
    point: Point

    def atoms(self) -> list[tuple[str, tuple[float, float, float]]]:
        """Symbol and coordinates in Å per atom, as plain Python values."""
        places = [(float(x), float(y), float(z)) for x, y, z in self.positions]
        return list(zip(self.symbols, places, strict=True))


def electrons(mol: Any) -> tuple[int, int]:
    """Charge and unpaired electrons (2S) of an RDKit molecule, taken as drawn.

    2S counts the radical electrons of all atoms as parallel. Raises ``Permanent`` with code
    ``charge_spin_inconsistent`` if the electron count has the other parity.
    """
    charge = sum(atom.GetFormalCharge() for atom in mol.GetAtoms())
    unpaired = sum(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())
    total = sum(atom.GetAtomicNum() + atom.GetTotalNumHs() for atom in mol.GetAtoms()) - charge
    if total < 1 or (total - unpaired) % 2 or unpaired > total:
        raise Permanent("charge_spin_inconsistent", f"{total} electrons cannot have {unpaired} unpaired")
    return charge, unpaired


def lowest_conformers(mol: Any, charge: int, unpaired: int, policy: ConformerPolicy) -> list[Conformer]:
    """Relaxed conformers of an RDKit molecule, lowest GFN2 energy first, at least one.

    ``mol`` is sanitised and has implicit hydrogens; ``charge`` and ``unpaired`` = 2S as from
    ``electrons``. Deterministic. Raises ``Permanent``: ``empty_structure``, ``multiple_fragments``,
    ``unsupported_element``, ``metal_complex``, ``too_large``, ``embedding_failed``, ``not_converged``
    (SCF), ``geometry_not_converged``, ``changed_connectivity`` or ``fragments_disconnected`` (the
    relaxed geometry no longer has the bonds of the molecule).
    """
    import numpy as np

    _require_supported(mol, policy)
    full = _canonical_with_hydrogens(mol)
    numbers = np.array([atom.GetAtomicNum() for atom in full.GetAtoms()])
    starts = _embed(full, policy)
    surface = Surface(numbers, starts[0][0], charge, unpaired)
    explored = [(rough.positions, rough.hessian) for rough in _explore(surface, starts, policy)]
    intact, damage = [], ""
    for fine in _relax_all(surface, explored, policy.tight, policy.steps):
        problem = _damage(full, fine.positions)
        if problem:
            damage = problem
        elif fine.converged:
            intact.append(fine)
    if not intact and damage:
        raise Permanent(damage, "GFN2-xTB relaxation changed the bonds of every conformer")
    if not intact:
        raise Permanent("geometry_not_converged", f"no conformer relaxed within {policy.steps} steps")
    symbols = tuple(atom.GetSymbol() for atom in full.GetAtoms())
    distinct = _distinct(sorted(intact, key=lambda r: r.point.energy), numbers, 0.02)
    return [Conformer(symbols, r.positions * BOHR_ANGSTROM, r.point) for r in distinct]


def _require_supported(mol: Any, policy: ConformerPolicy) -> None:
    from rdkit import Chem

    if mol.GetNumAtoms() == 0:
        raise Permanent("empty_structure", "no atoms")
    if len(Chem.GetMolFrags(mol)) > 1:
        raise Permanent("multiple_fragments", "a structure does not say how fragments lie")
    for atom in mol.GetAtoms():
        if atom.GetAtomicNum() > LAST_ELEMENT or atom.GetAtomicNum() == 0:
            raise Permanent("unsupported_element", f"GFN2-xTB has no parameters for {atom.GetSymbol()}")
        if atom.GetSymbol() in ("He", "Ne", "Ar", "Kr", "Xe", "Rn", "At"):
            raise Permanent("unsupported_element", f"no reliable conformers with {atom.GetSymbol()}")
        if atom.GetSymbol() not in MAIN_GROUP:
            raise Permanent("metal_complex", f"no reliable conformers around the metal {atom.GetSymbol()}")
    size = mol.GetNumAtoms() + sum(atom.GetTotalNumHs() for atom in mol.GetAtoms())
    if size > policy.max_atoms:
        raise Permanent("too_large", f"{size} atoms, at most {policy.max_atoms}")


def _canonical_with_hydrogens(mol: Any) -> Any:
    """The molecule in canonical atom order with explicit hydrogens."""
    from rdkit import Chem

    canonical = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    if canonical is None:
        raise Permanent("embedding_failed", "the canonical form cannot be read back")
    return Chem.AddHs(canonical)


def _flexibility(mol: Any) -> int:
    """Number of torsions that make distinct conformers: chain bonds (not methyl-like) and ring bonds."""
    from rdkit import Chem

    torsion = Chem.MolFromSmarts("[!D1;!$(*(-[#1])(-[#1])-[#1])]-!@[!D1;!$(*(-[#1])(-[#1])-[#1])]")
    chain = len(mol.GetSubstructMatches(torsion))
    rings = 0
    for ring in mol.GetRingInfo().AtomRings():
        bent = sum(mol.GetAtomWithIdx(i).GetHybridization() == Chem.HybridizationType.SP3 for i in ring)
        rings += max(0, bent - 3) if len(ring) > 4 else 0
    return int(chain + rings)


def _embed(mol: Any, policy: ConformerPolicy) -> list[tuple[Array, Array]]:
    """Distinct force-field geometries (bohr) with their Hessians (Ha/bohr²), lowest first."""
    import numpy as np
    from rdkit.Chem import rdDistGeom

    count = min(policy.embed, 2 * 3 ** min(_flexibility(mol), 5))
    settings: Any = rdDistGeom.ETKDGv3()
    settings.randomSeed = _SEED
    settings.numThreads = 1
    ids = list(rdDistGeom.EmbedMultipleConfs(mol, count, settings))
    if not ids:
        settings.useRandomCoords = True
        ids = list(rdDistGeom.EmbedMultipleConfs(mol, count, settings))
    if not ids:
        raise Permanent("embedding_failed", "distance geometry found no three-dimensional structure")
    relaxed = sorted((_force_field_minimum(mol, i) for i in ids), key=lambda item: item[0])
    numbers = np.array([atom.GetAtomicNum() for atom in mol.GetAtoms()])
    seen: list[Array] = []
    starts = []
    # Force fields like symmetric shapes; a fixed nudge lets GFN2 leave a saddle point on them.
    nudge = np.random.default_rng(_SEED).normal(scale=0.02, size=relaxed[0][1].shape)
    for _, positions, hessian in relaxed:
        shape = _fingerprint(numbers, positions)
        if all(float(np.abs(shape - other).max(initial=0.0)) > 0.2 for other in seen):
            seen.append(shape)
            starts.append((positions + nudge, hessian))
    return starts


def _force_field_minimum(mol: Any, conformer: int) -> tuple[float, Array, Array]:
    """Energy in kcal/mol, geometry (n, 3) in bohr and Hessian (3n, 3n) in Ha/bohr² of one conformer."""
    import numpy as np
    from rdkit.Chem import rdForceFieldHelpers

    properties = rdForceFieldHelpers.MMFFGetMoleculeProperties(mol)
    field = None
    if properties is not None:
        field = rdForceFieldHelpers.MMFFGetMoleculeForceField(mol, properties, confId=conformer)
    elif rdForceFieldHelpers.UFFHasAllMoleculeParams(mol):
        field = rdForceFieldHelpers.UFFGetMoleculeForceField(mol, confId=conformer)
    size = 3 * mol.GetNumAtoms()
    if field is None:
        return 0.0, mol.GetConformer(conformer).GetPositions() / BOHR_ANGSTROM, np.eye(size) * 0.5
    field.Initialize()
    field.Minimize(maxIts=500)
    positions = mol.GetConformer(conformer).GetPositions()
    return field.CalcEnergy(), positions / BOHR_ANGSTROM, _hessian(field, positions.ravel())


def _hessian(field: Any, at: Array) -> Array:
    """Central differences of the force field's gradient at ``at`` (3n,) in Å, in Ha/bohr²."""
    import numpy as np

    step, size = 1e-3, len(at)
    rows = np.empty((size, size))
    for i in range(size):
        ends = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved[i] += sign * step
            ends.append(np.array(field.CalcGrad([float(value) for value in moved])))
        rows[i] = (ends[0] - ends[1]) / (2.0 * step)
    symmetric: Array = 0.5 * (rows + rows.T) * BOHR_ANGSTROM**2 / HARTREE_KCAL
    return symmetric


def _fingerprint(numbers: Array, positions: Array) -> Array:
    """Sorted distances per pair of elements: the same for a permutation or a mirror image."""
    import numpy as np

    first, second = np.triu_indices(len(numbers), 1)
    distance = np.linalg.norm(positions[first] - positions[second], axis=1)
    low, high = np.minimum(numbers[first], numbers[second]), np.maximum(numbers[first], numbers[second])
    ordered: Array = distance[np.lexsort((distance, high, low))]
    return ordered


def _explore(surface: Surface, starts: list[tuple[Array, Array]], policy: ConformerPolicy) -> list[Relaxed]:
    """Loosely relaxed conformers inside the energy window, lowest first."""
    number = min(policy.explore, max(2, policy.work // len(starts[0][0])))
    unmoved = _relax_all(surface, starts, policy.loose, 0)
    lowest = sorted(unmoved, key=lambda r: r.point.energy)[:number]
    rough = _relax_all(surface, [(r.positions, r.hessian) for r in lowest], policy.loose, policy.steps)
    rough.sort(key=lambda r: r.point.energy)
    ceiling = rough[0].point.energy + policy.window / HARTREE_KCAL
    return [r for r in rough if r.point.energy <= ceiling][: policy.keep]


def _relax_all(
    surface: Surface, starts: list[tuple[Array, Array]], tolerance: float, steps: int
) -> list[Relaxed]:
    """Relax every start; one that GFN2 cannot treat is dropped, and its failure raised if all are."""
    relaxed, failure = [], None
    for positions, hessian in starts:
        try:
            relaxed.append(relax(surface, positions, hessian, tolerance=tolerance, steps=steps))
        except Permanent as error:
            failure = error
    if not relaxed and failure:
        raise failure
    return relaxed


def _distinct(ordered: list[Relaxed], numbers: Array, tolerance: float) -> list[Relaxed]:
    """Drop repeats: same fingerprint within ``tolerance`` bohr as a lower one."""
    import numpy as np

    kept: list[tuple[Relaxed, Array]] = []
    for relaxed in ordered:
        shape = _fingerprint(numbers, relaxed.positions)
        if all(float(np.abs(shape - other).max(initial=0.0)) > tolerance for _, other in kept):
            kept.append((relaxed, shape))
    return [relaxed for relaxed, _ in kept]


def _damage(mol: Any, positions: Array) -> str:
    """``""``, or the code of what the relaxation did to the bonds of ``mol``; positions in bohr.

    A bond is broken beyond 1.35 and formed below 1.15 times the sum of covalent radii (RDKit's table).
    """
    import numpy as np
    from rdkit import Chem

    table = Chem.GetPeriodicTable()
    radii = np.array([table.GetRcovalent(atom.GetAtomicNum()) for atom in mol.GetAtoms()]) / BOHR_ANGSTROM
    ratio = np.linalg.norm(positions[:, None] - positions[None], axis=2) / (radii[:, None] + radii[None])
    bonded = Chem.GetAdjacencyMatrix(mol).astype(bool)
    if bool((ratio[bonded] > _BROKEN).any()):
        joined = (ratio < _BROKEN) & ~np.eye(len(radii), dtype=bool)
        reach = np.linalg.matrix_power(joined.astype(float) + np.eye(len(radii)), max(1, len(radii))) > 0
        return "changed_connectivity" if bool(reach.all()) else "fragments_disconnected"
    fresh = (ratio < _FORMED) & ~bonded & ~np.eye(len(radii), dtype=bool)
    return "changed_connectivity" if bool(fresh.any()) else ""
