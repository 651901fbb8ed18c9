"""``molecule.validity``: the hard gate. Is the answer one molecule, written strictly?"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tiers.molecule import MAX_HEAVY_ATOMS, Molecule, Refusal, rdkit_missing, read_smiles
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

ADVICE = {
    "empty_structure": "Give a SMILES string with at least one atom as the answer.",
    "too_long": "Give a smaller molecule; the text is beyond what is read.",
    "too_large": "Give a smaller molecule, with fewer atoms or rings.",
    "non_ascii": "Write plain ASCII SMILES: no arrows, typographic dashes or invisible characters.",
    "trailing_text": "Give exactly one SMILES and nothing else: no name, comment or alternative.",
    "reaction": "Give the molecule itself, not a reaction.",
    "query": "Name concrete atoms and bonds; query features match many molecules.",
    "dummy_atom": "Replace every * and R-group by real atoms.",
    "multiple_fragments": "Give one connected molecule; leave out salts, solvents and alternatives.",
    "dative_bond": "Use ordinary bonds between non-metals; dative bonds end at a metal.",
    "syntax": "Check brackets, parentheses, ring-closure digits and element symbols.",
    "valence": "Count the bonds of the atom named; add a charge in brackets only if it is meant.",
    "kekulize": "Check the aromatic ring: write [nH] where it carries a hydrogen, or write it Kekulé.",
    "sanitize": "Rewrite the structure with ordinary valences and explicit double bonds.",
    "radical": "Add the missing hydrogens: atoms in brackets carry only those that are written.",
}
_ORGANIC = frozenset({1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 35, 53})
_METALLOIDS = frozenset({32, 33, 34, 51, 52, 85})
_NOBLE = frozenset({2, 10, 18, 36, 54, 86, 118})


class ValidityParams(Params):
    """What the gate lets through besides one connected closed-shell molecule."""

    allow_fragments: bool = False
    allow_radicals: bool = True
    max_heavy_atoms: int = Field(default=MAX_HEAVY_ATOMS, ge=1, le=MAX_HEAVY_ATOMS)


class MoleculeValidity(Verifier):
    """Accept without a score (a passed gate is not a score) or reject with the named refusal.

    Labels of accepted molecules: ``charge``, ``unpaired_electrons``, ``fragments`` (numbers as
    text) and ``elements`` (``organic``, ``metal`` or ``other``). A reached limit is the
    candidate's own doing.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="molecule.validity",
        version="1",
        tier=Tier.FAST,
        summary="One molecule, strictly written, with possible valences",
        on_limit="reject",
        libraries=("rdkit",),
        limits=Limits(time_s=5.0, memory_mb=1024, max_batch=256),
        typical_cpu_s=0.0002,
    )
    params_model: ClassVar[type[Params]] = ValidityParams

    def unavailable(self) -> str | None:
        """Return why RDKit is missing, or ``None``."""
        return rdkit_missing()

    def warm(self) -> None:
        """Import RDKit and make its first parse."""
        read_smiles("CCO")

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Judge the candidate's text. Raises ``Permanent`` only when the toolkit contradicts itself."""
        options = ValidityParams.model_validate(params, from_attributes=True)
        try:
            molecule = read_smiles(
                item.candidate,
                allow_fragments=options.allow_fragments,
                max_heavy_atoms=options.max_heavy_atoms,
            )
        except Refusal as refusal:
            return refused(refusal)
        unpaired = molecule.unpaired_electrons
        if unpaired and not options.allow_radicals:
            return refused(Refusal("radical", f"{unpaired} unpaired electrons"))
        hints = (radical_hint(unpaired),) if unpaired else ()
        return Finding(
            verdict=Verdict.ACCEPT,
            hints=hints,
            labels=_labels(molecule, unpaired),
            assumptions=molecule.notes,
        )


def refused(refusal: Refusal) -> Finding:
    """Turn a refusal into a rejection with advice; an internal one is raised as ``Permanent``."""
    if refusal.internal:
        raise Permanent(refusal.code, refusal.message)
    hint = Hint(kind=refusal.code, text=ADVICE[refusal.code])
    reason = Reason(code=refusal.code, message=refusal.message)
    return Finding(verdict=Verdict.REJECT, reason=reason, hints=(hint,))


def radical_hint(unpaired: int) -> Hint:
    """Return the flag that an open-shell answer carries."""
    return Hint(kind="radical", text=f"The answer has {unpaired} unpaired electrons. {ADVICE['radical']}")


def _labels(molecule: Molecule, unpaired: int) -> dict[str, str]:
    return {
        "charge": str(molecule.charge),
        "unpaired_electrons": str(unpaired),
        "fragments": str(molecule.fragments),
        "elements": _elements(molecule),
    }


def _elements(molecule: Molecule) -> str:
    if "[" not in molecule.canonical:
        return "organic"
    others = {atom.GetAtomicNum() for atom in molecule.mol.GetAtoms()} - _ORGANIC
    if not others:
        return "organic"
    return "metal" if others - _METALLOIDS - _NOBLE else "other"
