"""``molecule.identity``: is the answer the reference molecule, at a stated level?"""

from __future__ import annotations

from typing import ClassVar

from tiers.fast.molecule_forms import FormUnavailable, parent_form, tautomer_form
from tiers.fast.molecule_validity import radical_hint, refused
from tiers.molecule import Molecule, Refusal, rdkit_missing, read_smiles, same_molecule
from verifier_service.domain.errors import Permanent, TaskError
from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.records import JsonObject
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

LEVELS = ("exact", "default", "inchikey", "tautomer", "parent")
MERGED = "only the InChIKeys match; InChI merges some tautomers and proton placements"


class MoleculeIdentity(Verifier):
    """Compare the candidate with ``reference["smiles"]``: score 1 or 0.

    ``inputs["identity"]`` names the level, default ``exact``. ``exact``, ``default`` and
    ``inchikey`` are one level: equal canonical isomeric SMILES, else equal non-empty InChIKeys.
    ``tautomer`` and ``parent`` accept, beyond that, equal canonical tautomers or equal parents
    (without counter-ions and solvents, uncharged). Each level accepts whatever ``exact`` accepts.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="molecule.identity",
        version="1",
        tier=Tier.FAST,
        summary="Same molecule as the reference, at the level the task names",
        reads=frozenset({"candidate", "inputs", "reference"}),
        libraries=("rdkit",),
        limits=Limits(time_s=20.0, memory_mb=1024, max_batch=64),
        typical_cpu_s=0.0006,
    )

    def unavailable(self) -> str | None:
        """Return why RDKit is missing, or ``None``."""
        return rdkit_missing()

    def warm(self) -> None:
        """Import RDKit and make its first parse and tautomer."""
        tautomer_form(read_smiles("CCO"))

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Return score 1 with ``accept`` or score 0 with a named rejection.

        Raises ``TaskError`` ``bad_identity_level`` or ``bad_reference`` when no answer to this task
        can be judged, and ``Permanent`` when the toolkit contradicts itself.
        """
        level = _level(item.inputs)
        reference = _reference(item.reference)
        try:
            candidate = read_smiles(item.candidate, allow_fragments=True)
            _refuse_unmatched(reference)
            return _compare(candidate, reference, level)
        except Refusal as refusal:
            return refused(refusal).model_copy(update={"score": 0.0})


def _level(inputs: JsonObject) -> str:
    level = inputs.get("identity", "exact")
    if not isinstance(level, str) or level not in LEVELS:
        raise TaskError("bad_identity_level", f"inputs.identity must be one of {', '.join(LEVELS)}")
    return level


def _reference(reference: JsonObject) -> Molecule:
    """Read the gold. Wildcards pass here, so that an answer with wildcards is refused as such."""
    if not isinstance(reference.get("smiles"), str):
        raise TaskError("bad_reference", "reference.smiles is missing or not a string")
    try:
        return read_smiles(reference["smiles"], allow_fragments=True, allow_dummies=True)
    except Refusal as refusal:
        raise TaskError("bad_reference", f"reference.smiles cannot be read ({refusal.code})") from refusal


def _refuse_unmatched(reference: Molecule) -> None:
    if reference.has_dummies:
        raise TaskError("bad_reference", "reference.smiles has wildcard atoms: no molecule can match it")


def _compare(candidate: Molecule, reference: Molecule, level: str) -> Finding:
    assumptions = [f"identity level: {'exact' if level in LEVELS[:3] else level}", *candidate.notes]
    match = same_molecule(candidate, reference)
    if match is None and level == "tautomer":
        match = _same_tautomer(candidate, reference)
    elif match is None and level == "parent":
        match = _same_parent(candidate, reference, assumptions)
    if match is None and level != "parent" and candidate.fragments > 1 and reference.fragments == 1:
        count = candidate.fragments
        raise Refusal("multiple_fragments", f"{count} disconnected fragments; the task asks for one")
    if match == "inchikey":
        assumptions.append(MERGED)
    unpaired = candidate.unpaired_electrons
    labels = {"unpaired_electrons": str(unpaired)}
    if match is not None:
        return Finding(
            verdict=Verdict.ACCEPT,
            score=1.0,
            labels={**labels, "match": match},
            assumptions=tuple(assumptions),
        )
    return Finding(
        verdict=Verdict.REJECT,
        score=0.0,
        reason=Reason(code="different_molecule", message="not the molecule the task asks for"),
        hints=_hints(candidate, reference, unpaired),
        labels=labels,
        assumptions=tuple(assumptions),
    )


def _same_tautomer(candidate: Molecule, reference: Molecule) -> str | None:
    """Raises ``Permanent`` when the forms cannot be made: not compared is not different."""
    # Tautomers are isomers with the same labels; enumerating them is dear.
    if candidate.formula != reference.formula or _isotopes(candidate) != _isotopes(reference):
        return None
    try:
        match = same_molecule(tautomer_form(candidate), tautomer_form(reference))
    except FormUnavailable as unavailable:
        raise _not_compared("tautomer", unavailable) from unavailable
    return "tautomer" if match else None


def _same_parent(candidate: Molecule, reference: Molecule, assumptions: list[str]) -> str | None:
    """Raises ``Permanent`` when a form cannot be made, ``TaskError`` when the reference has several."""
    try:
        wanted = parent_form(reference)
    except Refusal as refusal:
        message = f"reference.smiles has no one parent ({refusal.code})"
        raise TaskError("bad_reference", message) from refusal
    except FormUnavailable as unavailable:
        raise _not_compared("parent", unavailable) from unavailable
    try:
        match = same_molecule(parent_form(candidate), wanted)
    except FormUnavailable as unavailable:
        raise _not_compared("parent", unavailable) from unavailable
    assumptions.append("known counter-ions and solvents were left out and the rest uncharged")
    return "parent" if match else None


def _not_compared(level: str, unavailable: FormUnavailable) -> Permanent:
    return Permanent(f"no_{level}_form", f"the {level} forms cannot be compared: {unavailable}")


def _hints(candidate: Molecule, reference: Molecule, unpaired: int) -> tuple[Hint, ...]:
    hints = [radical_hint(unpaired)] if unpaired else []
    if _isotopes(candidate) != _isotopes(reference):
        hints.append(Hint(kind="isotope", text="The isotope labels are not those the task asks for."))
    elif candidate.formula != reference.formula:
        hints.append(Hint(kind="composition", text="The molecular formula is not the one asked for."))
    else:
        hints.append(
            Hint(kind="structure", text="The formula fits; check connectivity, charge and stereo.")
        )
    return tuple(hints)


def _isotopes(molecule: Molecule) -> list[tuple[int, int]]:
    atoms = molecule.mol.GetAtoms()
    return sorted((atom.GetAtomicNum(), atom.GetIsotope()) for atom in atoms if atom.GetIsotope())
