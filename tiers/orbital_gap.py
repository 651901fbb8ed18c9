"""What ``xtb.gap`` and ``pyscf.gap`` share: reading the candidate and saying what was taken as given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiers.chemistry_class import chemistry_class
from tiers.geometry import ConformerPolicy, electrons
from tiers.molecule import Refusal, read_smiles
from verifier_service.domain.errors import Permanent
from verifier_service.domain.records import JsonValue

POLICY = ConformerPolicy()
NEAR_DEGENERATE_EV = 0.5
NOT_OPTICAL = "a Kohn-Sham orbital gap is neither the optical nor the fundamental gap"


@dataclass(frozen=True)
class Subject:
    """A molecule to measure: RDKit ``mol``, ``charge``, ``unpaired`` electrons (2S), class."""

    mol: Any
    charge: int
    unpaired: int
    chemistry_class: str

    def assumptions(self, gap: float) -> tuple[str, ...]:
        """What the structure does not say and was therefore assumed; ``gap`` in eV."""
        from rdkit import Chem

        given = [
            "protonation state and tautomer as given",
            f"charge {self.charge}, 2S = {self.unpaired} from the radical electrons drawn, all parallel",
            "isolated molecule in the gas phase, no thermal motion",
            POLICY.describe(),
            NOT_OPTICAL,
        ]
        open_centres = [
            site
            for site in Chem.FindPotentialStereo(self.mol)
            if site.specified == Chem.StereoSpecified.Unspecified
        ]
        if open_centres:
            given.append(f"{len(open_centres)} stereo element(s) unspecified: lowest isomer found")
        if self.unpaired:
            given.append("open shell: the smaller of the gaps of the two spin channels")
        elif gap < NEAR_DEGENERATE_EV:
            given.append("closed shell as drawn, although nearly degenerate orbitals suggest an open one")
        return tuple(given)


def read_subject(candidate: JsonValue) -> Subject:
    """Read a SMILES candidate. Raises ``Permanent`` with the code of the refusal."""
    try:
        mol = read_smiles(candidate).mol
    except Refusal as refusal:
        raise Permanent(refusal.code, refusal.message) from refusal
    charge, unpaired = electrons(mol)
    return Subject(mol, charge, unpaired, chemistry_class(mol))
