"""Coarser identities of a molecule, each asked for by name: tautomer form and parent form.

Both return a ``Molecule`` that was written and read back, or raise ``FormUnavailable``: a form that
cannot be trusted is an answer of its own and never a silent "different".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tiers.molecule import Molecule, Refusal, read_smiles, toolkit

MAX_FORM_HEAVY_ATOMS = 150  # tautomers multiply: at this size the bounds below are reached in seconds

# Organic salt formers and solvents, neutral and without stereo, after P. H. Stahl and C. G. Wermuth,
# Handbook of Pharmaceutical Salts (Wiley 2002). Pieces without carbon need no list.
_COUNTER_PIECES = (
    "CC(=O)O OC=O CCC(=O)O OC(=O)C(F)(F)F OC(=O)C(=O)O OC(=O)CC(=O)O OC(=O)CCC(=O)O "
    "OC(=O)CCCCC(=O)O OC(=O)C=CC(=O)O OC(=O)CC(O)C(=O)O OC(=O)C(O)C(O)C(=O)O "
    "OC(=O)CC(O)(CC(=O)O)C(=O)O CC(O)C(=O)O OCC(=O)O OC(=O)c1ccccc1 OC(=O)c1ccccc1O "
    "OC(=O)C(O)c1ccccc1 CS(=O)(=O)O CCS(=O)(=O)O OCCS(=O)(=O)O OS(=O)(=O)CCS(=O)(=O)O "
    "OS(=O)(=O)C(F)(F)F OS(=O)(=O)c1ccccc1 Cc1ccc(cc1)S(=O)(=O)O OS(=O)(=O)c1cccc2ccccc12 "
    "OS(=O)(=O)c1ccc2ccccc2c1 CC1(C)C2CCC1(CS(=O)(=O)O)C(=O)C2 COS(=O)(=O)O OC(=O)O SC#N "
    "OCC(O)C(O)C(O)C(O)C(=O)O OC(=O)c1cc2ccccc2c(Cc2c(O)c(C(=O)O)cc3ccccc23)c1O "
    "CN CCN CNC CCNCC CCN(CC)CC CN(C)C OCCN OCCNCCO OCCN(CCO)CCO NC(CO)(CO)CO NCCN C1CNCCN1 "
    "C1COCCN1 CNCC(O)C(O)C(O)C(O)CO C[N+](C)(C)C CC[N+](CC)(CC)CC CCCC[N+](CCCC)(CCCC)CCCC "
    "C[N+](C)(C)CCO c1ccc(cc1)[B-](c1ccccc1)(c1ccccc1)c1ccccc1 "
    "CO CCO CC(C)O CC(C)=O CC#N CS(C)=O CN(C)C=O CCOC(C)=O C1CCOC1 C1COCCO1 ClCCl ClC(Cl)Cl CCOCC"
)

_SALT_METALS = frozenset({3, 4, 11, 12, 19, 20, 37, 38, 55, 56})
_MINERAL = frozenset({1, 5, 7, 8, 9, 14, 15, 16, 17, 33, 34, 35, 51, 53})  # acids, water, BF4-, PF6-


class FormUnavailable(Exception):
    """The form could not be made for this molecule; the text says why."""


@lru_cache(maxsize=1)
def _enumerator() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    params: Any = rdMolStandardize.CleanupParameters()
    # The defaults erase stereo beside any mobile hydrogen and with it tell no D- from L-alanine.
    params.tautomerRemoveSp3Stereo = False
    params.tautomerRemoveBondStereo = False
    params.tautomerRemoveIsotopicHs = False
    params.maxTautomers = 2_000  # quercetin has 435, from 3,500 transforms
    params.maxTransforms = 10_000
    return rdMolStandardize.TautomerEnumerator(params)


def tautomer_form(molecule: Molecule) -> Molecule:
    """Return the canonical tautomer (transforms of M. Sitzmann et al., J. Comput. Aided Mol. Des.
    2010, 24, 521, as in RDKit), with the stereo that survives in it.

    Raises ``FormUnavailable`` for molecules above 150 heavy atoms, for enumerations that hit their
    bound (the form would depend on the spelling), and when the form does not read back.
    """
    if molecule.heavy_atoms > MAX_FORM_HEAVY_ATOMS:
        raise FormUnavailable(f"more than {MAX_FORM_HEAVY_ATOMS} heavy atoms")
    enumerator = _enumerator()
    try:
        found = enumerator.Enumerate(molecule.mol)
        if str(found.status) != "Completed":
            raise FormUnavailable("the enumeration of tautomers was cut short")
        text = str(toolkit().chem.MolToSmiles(enumerator.PickCanonical(found)))
    except (RuntimeError, ValueError) as error:
        raise FormUnavailable("tautomers could not be enumerated") from error
    return _reread(text)


def parent_form(molecule: Molecule) -> Molecule:
    """Return the molecule without counter-ions, solvents and repeats, uncharged where protons allow.

    Removed are pieces without carbon (single atoms, or without a metal) and those of a named list;
    never a piece for being smaller, so that several answers in one string gain nothing. A
    mixture without carbon is its own parent. Raises ``FormUnavailable`` when nothing readable
    results and ``Refusal("multiple_fragments")`` when several different organic pieces remain.
    """
    try:
        pieces = toolkit().chem.GetMolFrags(_as_ions(molecule.mol), asMols=True)
        organic = [piece for piece in pieces if not _droppable(piece)]
        if not any(_has_carbon(piece) for piece in organic):
            return molecule
        forms = {str(toolkit().chem.MolToSmiles(_uncharged(piece))) for piece in organic}
    except (RuntimeError, ValueError) as error:
        raise FormUnavailable("the parent could not be made") from error
    read = [_reread(text) for text in sorted(forms)]
    kept = [form for form in read if _flat(form.mol) not in _counter_pieces()] or read
    if len(kept) > 1:
        raise Refusal(
            "multiple_fragments", f"{len(kept)} different organic fragments, none a known salt former"
        )
    return kept[0]


def _as_ions(mol: Any) -> Any:
    """Write covalent bonds of alkali and alkaline-earth metals to N and O as ion pairs."""
    if not any(atom.GetAtomicNum() in _SALT_METALS and atom.GetDegree() for atom in mol.GetAtoms()):
        return mol
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.MetalDisconnector().Disconnect(mol)


def _uncharged(piece: Any) -> Any:
    # The uncharger would add hydride to carbocations and make methane of the methyl cation.
    if any(atom.GetAtomicNum() == 6 and atom.GetFormalCharge() for atom in piece.GetAtoms()):
        return piece
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.Uncharger().uncharge(piece)


def _has_carbon(piece: Any) -> bool:
    return any(atom.GetAtomicNum() == 6 for atom in piece.GetAtoms())


def _droppable(piece: Any) -> bool:
    if piece.GetNumAtoms() == 1:
        return not _has_carbon(piece)
    return all(atom.GetAtomicNum() in _MINERAL for atom in piece.GetAtoms())


def _flat(mol: Any) -> str:
    return str(toolkit().chem.MolToSmiles(mol, isomericSmiles=False))


@lru_cache(maxsize=1)
def _counter_pieces() -> frozenset[str]:
    return frozenset(_flat(read_smiles(text).mol) for text in _COUNTER_PIECES.split())


def _reread(text: str) -> Molecule:
    try:
        return read_smiles(text, allow_fragments=True)
    except Refusal as refusal:
        raise FormUnavailable(f"the form does not read back ({refusal.code})") from refusal
