"""A purely structural class per molecule, on which the gap maps depend.

The classes separate kinds of frontier orbital (σ→σ*, n→π*, π→π*, charge transfer, open shell), because
the difference between two methods' gaps is systematic within a kind and not across kinds. The first
matching class counts; a map without a class uses its default. ``FAMILIES`` joins classes whose lines
resemble each other: in the ``sigma`` family the lowest empty orbital is Rydberg-like, and a small basis
set, not the molecule, decides where it lies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

# Atoms apart in one pattern (joined by a dot) must both occur, anywhere in the molecule.
_AMINE = "[NX3;!$(N-[#6X3,#6X2]);!$(N-[!#6;!#1]);!$(N=*)]"
_SIGMA = frozenset(
    {"saturated_amine", "saturated_oxygen", "saturated_fluoride", "saturated_hydrocarbon"},
)
CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("iodide", ("[I]",)),
    ("bromide", ("[Br]",)),
    ("nitro_or_azo", ("[NX3+](=O)[O-]", "N=O", "N=N", "[N+]=[N-]", "[n+][O-]", "[NX3+][O-]")),
    ("thione", ("C=S", "c=S", "P=S")),
    ("sulfide_or_phosphine", ("[SX2]", "[P;X3;!$(P=*)]")),
    ("thiophene", ("[s,p]",)),
    ("oxidised_sulfur_or_phosphorus", ("[S,P]",)),
    ("quinone", ("O=C1C=CC(=O)C=C1", "O=C1C(=O)C=CC=C1", "O=CC=O", "O=C-C=O", "O=C1C=CC=C1")),
    ("aromatic_acceptor", ("[c,n]-[CX3]=[O,N]", "[c,n]-C#N", "[c,n]=[O,N]")),
    ("aromatic_lone_pair", ("[nX2]",)),
    ("aromatic_donor", ("[c]-[NX3,OX2]", "[o,nX3]")),
    ("aromatic", ("[a]",)),
    ("amine_with_acceptor", (f"{_AMINE}.[$(C=[O,N]),$(C#N),$(C-Cl)]",)),
    ("conjugated_carbonyl", ("[C]=[C,N]-[C]=[O,N]", "[C]#[C]-[C]=O", "C=C=[O,N]")),
    ("nitrile", ("C#N",)),
    ("polyene", ("C=C-C=[C,N]", "C#C-C=C", "C#C-C#C", "C=C=C")),
    ("ketone_or_aldehyde", ("[#6][CX3](=O)[#6,#1]", "[CX3H1;!$(C-[!#6;!#1])]=O", "[CX3H2]=O")),
    ("imine", ("C=[NX2]",)),
    ("acyl", ("[CX3](=O)[O,N,F,Cl]",)),
    ("donor_alkene", ("C=C-[N,O,Cl]",)),
    ("alkene", ("C=C",)),
    ("alkyne", ("C#C",)),
    ("saturated_chloride", ("[C]-[Cl]",)),
    ("saturated_amine", ("[NX3]",)),
    ("saturated_oxygen", ("[OX2]",)),
    ("saturated_fluoride", ("[C]-[F]",)),
    ("saturated_hydrocarbon", ("[C;!$(C~[!#6;!#1])]",)),
)
NAMES: tuple[str, ...] = (
    *("open_shell", "cation", "anion", "other_element"),
    *(name for name, _ in CLASSES),
    "other",
)
_ALONE = frozenset(
    {"open_shell", "cation", "anion", "other_element", "nitrile", "iodide", "other"}
    | {"oxidised_sulfur_or_phosphorus"},
)
FAMILIES: dict[str, str] = {
    name: name if name in _ALONE else "sigma" if name in _SIGMA else "valence" for name in NAMES
}


_COMMON = frozenset({1, 6, 7, 8, 9, 15, 16, 17, 35, 53})


@cache
def _patterns() -> tuple[tuple[str, tuple[Any, ...]], ...]:
    from rdkit import Chem

    return tuple((name, tuple(Chem.MolFromSmarts(text) for text in texts)) for name, texts in CLASSES)


def chemistry_class(mol: Any) -> str:
    """Name one of ``NAMES`` for a sanitised RDKit molecule."""
    if any(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms()):
        return "open_shell"
    charge = sum(atom.GetFormalCharge() for atom in mol.GetAtoms())
    if charge:
        return "cation" if charge > 0 else "anion"
    if any(atom.GetAtomicNum() not in _COMMON for atom in mol.GetAtoms()):
        return "other_element"
    for name, patterns in _patterns():
        if any(mol.HasSubstructMatch(pattern) for pattern in patterns):
            return name
    return "other"
