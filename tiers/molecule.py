"""Molecules from untrusted text: one strict reader, one settings object, named refusals.

Every molecule verifier reads its candidate here, so that "what is a SMILES" has one answer in the
service. Work is bounded before RDKit sees the text: length, atoms and ring bonds are counted
linearly first (RDKit's parser is quadratic in chain length and worse in ring count).

Sources: D. Weininger, J. Chem. Inf. Comput. Sci. 1988, 28, 31 (SMILES); opensmiles.org for the
grammar; S. R. Heller et al., J. Cheminform. 2015, 7, 23 (InChI and its mobile-H layer).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

MAX_CHARS = 2_000
MAX_HEAVY_ATOMS = 400  # ciclosporin has 85, vancomycin 101; parsing stays under 15 ms at this size
MAX_RING_BONDS = 100  # C60 needs 31
MAX_OUTER_WHITESPACE = 1_000
MAX_ROUNDS = 4

_ATOM = re.compile(r"\[[^\[\]]*\]|Cl|Br|[BCNOPSFIbcnops*]")
_HYDROGEN = re.compile(r"\[\d{0,3}H\d?[+-]{0,2}\d?(?::\d{1,5})?\]")
_RING_DIGIT = re.compile(r"\[[^\[\]]*\]|%\(\d+\)|%\d\d|\d")
_ATOM_MAP = re.compile(r"(?<=[^\[\]:]):\d+(?=\])")
_R_GROUP = re.compile(r"R(?=[\d#'\])(=]|$)")
_LIST_MARK = re.compile(r"[,;|&!]")
_SMARTS = re.compile(r"~|\[[#$]|\[(?:[AQXMa]H?\d?\]|[CNOSPcnosp]?[DXvxr]\d)")
_BIG_NUMBER = re.compile(r"\[\d{4,}|\[[^\[\]]*[+-](?:1[6-9]|[2-9]\d|\d{3,})")
_STEREO_ATOM = re.compile(r"\[\d*([A-Z][a-z]?|[a-z]{1,2})@(SP|TB|OH|AL)?")
# Elements on which InChI keeps tetrahedral stereo (found by trying both hands of each with RDKit).
_INCHI_STEREO = frozenset({"B", "C", "N", "Si", "P", "S", "Ge", "As", "Se", "s", "p", "n"})
# Acceptors of a dative bond that chemistry knows as such: metals, and B, Al, Ga, In and the like.
_NO_DATIVE_ACCEPTOR = frozenset({1, 6, 7, 8, 9, 10, 15, 16, 17, 18, 34, 35, 36, 53, 54})


class Refusal(Exception):
    """The text is not one molecule that can be read; ``code`` names why.

    ``internal`` is true when the toolkit, not the text, is at fault: then nobody may be scored.
    """

    def __init__(self, code: str, message: str, *, internal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.internal = internal


@dataclass(frozen=True, slots=True)
class Molecule:
    """A molecule that was read: RDKit ``mol``, canonical isomeric SMILES, toolkit and its version.

    ``canonical`` is a fixed point: reading it again gives the same string. ``notes`` say what the
    reader left out (atom maps).
    """

    mol: Any
    canonical: str
    toolkit: str
    notes: tuple[str, ...] = ()

    @property
    def fragments(self) -> int:
        """Number of disconnected pieces."""
        return self.canonical.count(".") + 1

    @property
    def has_dummies(self) -> bool:
        """Whether an attachment point or wildcard atom is present."""
        return "*" in self.canonical

    @property
    def heavy_atoms(self) -> int:
        """Number of atoms other than hydrogen."""
        return int(self.mol.GetNumHeavyAtoms())

    @property
    def charge(self) -> int:
        """Net charge in units of e."""
        if "[" not in self.canonical:
            return 0
        return sum(atom.GetFormalCharge() for atom in self.mol.GetAtoms())

    @property
    def unpaired_electrons(self) -> int:
        """Sum over atoms of the electrons that the written valences leave unpaired."""
        if "[" not in self.canonical:  # only bracket atoms can be radicals
            return 0
        return sum(atom.GetNumRadicalElectrons() for atom in self.mol.GetAtoms())

    @property
    def formula(self) -> str:
        """Molecular formula in Hill order, with charge."""
        from rdkit.Chem.rdMolDescriptors import CalcMolFormula

        return str(CalcMolFormula(self.mol))


class _Toolkit(NamedTuple):
    chem: Any
    strict: Any
    unsanitized: Any
    name: str


@lru_cache(maxsize=1)
def toolkit() -> _Toolkit:
    """Load RDKit once per process with the service's settings (new stereo perception, no log)."""
    from rdkit import Chem, rdBase

    rdBase.DisableLog("rdApp.*")
    Chem.SetUseLegacyStereoPerception(False)
    settings = []
    for sanitize in (True, False):
        params: Any = Chem.SmilesParserParams()
        params.sanitize = sanitize
        params.removeHs = sanitize
        params.allowCXSMILES = False
        params.parseName = False
        settings.append(params)
    return _Toolkit(Chem, settings[0], settings[1], f"rdkit {rdBase.rdkitVersion}")


def read_smiles(
    text: object,
    *,
    allow_fragments: bool = False,
    allow_dummies: bool = False,
    max_heavy_atoms: int = MAX_HEAVY_ATOMS,
) -> Molecule:
    """Read one SMILES strictly and canonicalise it.

    Outer spaces, tabs and line ends are dropped; anything else around or inside the string is
    refused. Atom-map numbers are bookkeeping of reactions, not identity, and would make equal
    molecules canonicalise apart: they are removed before parsing, with a note. Isotopes and
    radicals are kept. Raises ``Refusal`` and nothing else, with one of the codes
    ``empty_structure``, ``too_long``, ``too_large``, ``non_ascii``, ``trailing_text``,
    ``reaction``, ``query``, ``dummy_atom``, ``multiple_fragments``, ``dative_bond``, ``syntax``,
    ``valence``, ``kekulize``, ``sanitize`` or (internal) ``canonical_unreadable``.
    """
    smiles = _clean(text)
    _refuse_size(smiles, max_heavy_atoms)
    notes: tuple[str, ...] = ()
    if ":" in smiles and _ATOM_MAP.search(smiles):
        smiles = _ATOM_MAP.sub("", smiles)
        notes = ("atom-map numbers were removed: they are not part of a molecule's identity",)
    mol = _parse(smiles)
    if mol.GetNumAtoms() == 0:
        raise Refusal("empty_structure", "the structure has no atoms")
    if mol.GetNumHeavyAtoms() > max_heavy_atoms:
        raise Refusal("too_large", f"more than {max_heavy_atoms} heavy atoms")
    mol, canonical = _fixed_point(mol, smiles)
    _refuse_kind(mol, canonical, allow_fragments, allow_dummies)
    return Molecule(mol, canonical, toolkit().name, notes)


def _clean(text: object) -> str:
    if not isinstance(text, str):
        kind = "nothing" if text is None else type(text).__name__
        raise Refusal("empty_structure", f"the answer is {kind}, not a SMILES string")
    if len(text) > MAX_CHARS + MAX_OUTER_WHITESPACE:
        raise Refusal("too_long", f"longer than {MAX_CHARS} characters")
    smiles = text.strip(" \t\r\n")
    if not smiles:
        raise Refusal("empty_structure", "the answer is empty")
    if len(smiles) > MAX_CHARS:
        raise Refusal("too_long", f"longer than {MAX_CHARS} characters")
    if not smiles.isascii():
        raise Refusal("non_ascii", "SMILES is written in ASCII; other characters were found")
    if any(mark in smiles for mark in " \t\r\n\v\f"):
        raise Refusal("trailing_text", "whitespace inside: give one SMILES and nothing else")
    if not smiles.isprintable():
        raise Refusal("syntax", "control characters were found")
    _refuse_notation(smiles)
    return smiles


def _refuse_notation(smiles: str) -> None:
    if ">" in smiles and ">" in smiles.replace("->", ""):
        raise Refusal("reaction", "a reaction arrow was found; one molecule is expected")
    if ("[" in smiles or "~" in smiles) and _SMARTS.search(smiles):
        raise Refusal("query", "query atoms or bonds (SMARTS) do not name one molecule")
    mark = _LIST_MARK.search(smiles)
    if mark is not None:
        before = smiles[: mark.start()]
        if mark.group() in "&!" or before.rfind("[") > before.rfind("]"):
            raise Refusal("query", "query atoms or bonds (SMARTS) do not name one molecule")
        raise Refusal(
            "trailing_text", f"'{mark.group()}' separates texts: give one SMILES and nothing else"
        )
    if "R" in smiles and _R_GROUP.search(smiles):
        raise Refusal("dummy_atom", "an R-group is an open place, not an atom")
    if "[" in smiles and _BIG_NUMBER.search(smiles):
        raise Refusal("syntax", "an isotope above 999 or a charge beyond ±15")


def _refuse_size(smiles: str, max_heavy_atoms: int) -> None:
    if len(smiles) > max_heavy_atoms:  # shorter text cannot hold more atoms
        atoms = len(_ATOM.findall(smiles)) - len(_HYDROGEN.findall(smiles))
        if atoms > max_heavy_atoms:
            raise Refusal("too_large", f"{atoms} heavy atoms written, {max_heavy_atoms} allowed")
    if len(smiles) > 2 * MAX_RING_BONDS:
        digits = sum(1 for hit in _RING_DIGIT.finditer(smiles) if hit.group()[0] != "[")
        if digits > 2 * MAX_RING_BONDS:
            raise Refusal("too_large", f"more than {MAX_RING_BONDS} ring bonds")


def _parse(smiles: str) -> Any:
    tools = toolkit()
    try:
        mol = tools.chem.MolFromSmiles(smiles, tools.strict)
    except (RuntimeError, ValueError) as error:
        raise Refusal("sanitize", f"RDKit could not read it: {str(error)[:200]}") from error
    if mol is None:
        raise _diagnosis(smiles)
    return mol


def _diagnosis(smiles: str) -> Refusal:
    """Say why the parse failed, from RDKit's own list of chemistry problems."""
    tools = toolkit()
    mol = tools.chem.MolFromSmiles(smiles, tools.unsanitized)
    if mol is None:
        return Refusal("syntax", _syntax_message(smiles))
    for problem in tools.chem.DetectChemistryProblems(mol):
        message = " ".join(problem.Message().split())[:200]
        if "Valence" in problem.GetType():
            return Refusal("valence", message)
        return Refusal("kekulize", message)
    return Refusal("sanitize", "the structure could not be sanitised")


def _syntax_message(smiles: str) -> str:
    for opening, closing, name in ("()p", "[]b"):
        if smiles.count(opening) != smiles.count(closing):
            return f"unbalanced {'parentheses' if name == 'p' else 'brackets'}"
    if smiles.startswith("InChI="):
        return "this is an InChI; SMILES is expected"
    digits = [hit.group() for hit in _RING_DIGIT.finditer(smiles) if hit.group()[0] != "["]
    unclosed = sorted({digit for digit in digits if digits.count(digit) % 2})
    if unclosed:
        return f"ring closure {unclosed[0]} is opened and not closed"
    return "not a SMILES string"


def _fixed_point(mol: Any, text: str) -> tuple[Any, str]:
    """Canonicalise until reading the result gives it back; a cycle is settled by its least member.

    Text that already is its own canonical form (every candidate after ``identify``) needs no
    second parse.
    """
    tools = toolkit()
    seen: dict[str, Any] = {}
    canonical = str(tools.chem.MolToSmiles(mol))
    if canonical == text:
        return mol, canonical
    for _ in range(MAX_ROUNDS):
        again = tools.chem.MolFromSmiles(canonical, tools.strict)
        if again is None:
            break
        seen[canonical] = again
        following = str(tools.chem.MolToSmiles(again))
        if following == canonical:
            break
        if following in seen:
            canonical = min(list(seen)[list(seen).index(following) :])
            break
        canonical = following
    settled = seen.get(canonical)
    if settled is None or (len(seen) > 1 and inchikey(settled) != inchikey(mol)):
        message = "the canonical form does not read back as the same molecule"
        raise Refusal("canonical_unreadable", message, internal=True)
    return settled, canonical


def _refuse_kind(mol: Any, canonical: str, allow_fragments: bool, allow_dummies: bool) -> None:
    if "*" in canonical and not allow_dummies:
        raise Refusal("dummy_atom", "wildcard atoms are open places: name a complete molecule")
    if ":" in canonical:
        raise Refusal("kekulize", "aromatic bonds outside an aromatic ring")
    if (">" in canonical or "<" in canonical) and _absurd_dative(mol):
        raise Refusal("dative_bond", "a dative bond must end at a metal or a Lewis acid")
    if "." in canonical and not allow_fragments:
        count = canonical.count(".") + 1
        raise Refusal("multiple_fragments", f"{count} disconnected fragments; one is expected")


def _absurd_dative(mol: Any) -> bool:
    return any(
        bond.GetEndAtom().GetAtomicNum() in _NO_DATIVE_ACCEPTOR
        for bond in mol.GetBonds()
        if bond.GetBondType().name.startswith("DATIVE")
    )


def inchikey(mol: Any) -> str:
    """Standard InChIKey of an RDKit molecule, or ``""`` where InChI has none (wildcards, say)."""
    return str(toolkit().chem.MolToInchiKey(mol))


def same_molecule(left: Molecule, right: Molecule) -> str | None:
    """Return how two molecules are the same, ``"canonical"`` or ``"inchikey"``, else ``None``.

    InChI has no layer for unpaired electrons (O=O against [O][O]) nor for stereo at metals and
    square-planar or octahedral centres (cisplatin against transplatin): there it is not asked. Nor is
    it for different formulas: it would say no, and on a cage it takes minutes to.
    """
    if left.canonical == right.canonical:
        return "canonical"
    if left.unpaired_electrons != right.unpaired_electrons or left.formula != right.formula:
        return None
    if _has_stereo_beyond_inchi(left.canonical) or _has_stereo_beyond_inchi(right.canonical):
        return None
    key = inchikey(left.mol)
    return "inchikey" if key and key == inchikey(right.mol) else None


def _has_stereo_beyond_inchi(canonical: str) -> bool:
    return any(shape or symbol not in _INCHI_STEREO for symbol, shape in _STEREO_ATOM.findall(canonical))


def rdkit_missing() -> str | None:
    """Return why RDKit cannot be used here, or ``None``; answers without importing it."""
    from importlib.util import find_spec

    return None if find_spec("rdkit") else "RDKit is not installed (extra: chem)"
