"""Enumerate small plausible molecules with RDKit: what the policy sees before it learns anything.

``python -m examples.train.molecules`` writes ``molecules.smi`` (seeded; the same bytes every time).
"""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

from rdkit import Chem, rdBase

from tiers.fast.molecule_plausibility import motifs
from tiers.molecule import Refusal, read_smiles

FILE = Path(__file__).with_name("molecules.smi")
ELEMENTS = ("C", "C", "C", "C", "C", "C", "N", "O", "S", "F")
VALENCE = {"C": 4, "N": 3, "O": 2, "S": 2, "F": 1}
ORDERS = {1: Chem.BondType.SINGLE, 2: Chem.BondType.DOUBLE, 3: Chem.BondType.TRIPLE}
MAX_HEAVY_ATOMS = 5
COUNT = 1_200
# Beside the service's own rules: bonds between electron-rich atoms, and cumulenes longer than allenes.
UNWANTED = ("[O,S,F]-[O,S,F]", "[N;!$(N=*)]-[O,S,F]", "*=*=*=*", "[SX2H1]", "[CX2](-[O,S])#*")


def main() -> None:
    """Write the file."""
    with rdBase.BlockLogs():
        found = enumerate_molecules(random.Random(7), COUNT)
    FILE.write_text("\n".join(found) + "\n", encoding="ascii")
    print(f"{len(found)} molecules in {FILE}")


def enumerate_molecules(rng: random.Random, count: int) -> list[str]:
    """``count`` different canonical SMILES of plausible molecules, grown atom by atom, sorted."""
    found: set[str] = set()
    while len(found) < count:
        smiles = grown(rng, rng.randint(3, MAX_HEAVY_ATOMS))
        if smiles is not None and smiles not in found and plausible(smiles):
            found.add(smiles)
    return sorted(found)


def grown(rng: random.Random, atoms: int) -> str | None:
    """One random molecule of at most ``atoms`` heavy atoms, or ``None`` where RDKit refuses it."""
    editable = Chem.RWMol()
    free = []
    for index in range(atoms):
        element = rng.choice(ELEMENTS) if index else "C"
        new = editable.AddAtom(Chem.Atom(element))
        free.append(VALENCE[element])
        if not index:
            continue
        places = [place for place in range(new) if free[place] > 0]
        if not places:
            editable.RemoveAtom(new)
            break
        place = rng.choice(places)
        order = min(rng.choice((1, 2, 2, 3)), free[place], free[new])
        editable.AddBond(place, new, ORDERS[order])
        free[place] -= order
        free[new] -= order
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        _close_ring(rng, editable, free)
    try:
        Chem.SanitizeMol(editable)
    except ValueError:
        return None
    return str(Chem.MolToSmiles(editable))


def _close_ring(rng: random.Random, editable: Chem.RWMol, free: list[int]) -> None:
    distances = Chem.GetDistanceMatrix(editable, force=True)
    size = editable.GetNumAtoms()
    pairs = [
        (one, other)
        for one in range(size)
        for other in range(one)
        if free[one] > 0 and free[other] > 0 and distances[one][other] >= 2
    ]
    if not pairs:
        return
    one, other = rng.choices(pairs, [distances[pair[0]][pair[1]] ** 2 for pair in pairs])[0]
    order = min(rng.choice((1, 1, 2)), free[one], free[other])
    editable.AddBond(one, other, ORDERS[order])
    free[one] -= order
    free[other] -= order


def plausible(smiles: str) -> bool:
    """Whether the service's own rules for molecules and ``UNWANTED`` let it through."""
    try:
        molecule = read_smiles(smiles)
    except Refusal:
        return False
    return not motifs(molecule) and not any(
        molecule.mol.HasSubstructMatch(pattern) for pattern in _patterns()
    )


@lru_cache(maxsize=1)
def _patterns() -> tuple[Chem.Mol, ...]:
    return tuple(Chem.MolFromSmarts(smarts) for smarts in UNWANTED)


if __name__ == "__main__":
    main()
