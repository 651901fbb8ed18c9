"""``pi.gap``: the fast guess at what ``xtb.gap`` measures, from a Hückel model of the π electrons.

Gap = a + b·(ε_LUMO − ε_HOMO of the Hückel matrix, in |β|) + c·(has C=O) + d·(has C=N or N=N), fitted by
``fit_pi_gap.py`` on open chains of C, N, O and F with double bonds. Hückel parameters: F. A.
Van-Catledge, J. Org. Chem. 1980, 45, 4801, table I; between two heteroatoms k is the product of both.
Every multiple bond is one π bond and all π orbitals are parallel, so that cumulenes, triple bonds and
strained rings lie outside of the model, and thiocarbonyls outside of the fit: there it is wrong in one
direction, and a policy that is paid by it alone finds out.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from tiers.molecule import Refusal, read_smiles
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Hint, Measurement, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

QUANTITY = "ks_gap@gfn2//gfn2"
FIT = Path(__file__).with_name("pi_gap.json")
MAX_PI_ATOMS = 40
# h and k of an atom in a double bond (one π electron), and of one that gives a lone pair (two).
IN_BOND = {"C": (0.0, 1.0), "N": (0.51, 1.02), "O": (0.97, 1.06), "S": (0.46, 0.81)}
LONE_PAIR = {"N": (1.37, 0.89), "O": (2.09, 0.66), "F": (2.71, 0.52), "S": (1.11, 0.69)}


class PiGapParams(Params):
    """``low`` and ``high``: the task's window in eV, for hints. Without them there are none."""

    low: float | None = None
    high: float | None = None


class PiGap(Verifier):
    """Measures, never judges: gap in eV on GFN2's scale, σ from leave-one-out over the fit's molecules.

    Molecules without π electrons get the mean and the standard deviation of the saturated ones that were
    measured. Raises ``Permanent``: a refusal's own code, ``outside_model`` for other elements or charges.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="pi.gap",
        version="1",
        tier=Tier.FAST,
        summary="Hückel estimate of the GFN2-xTB orbital gap",
        libraries=("rdkit", "numpy"),
        quantities=(QUANTITY,),
        limits=Limits(time_s=2.0, memory_mb=512, max_batch=256),
        typical_cpu_s=0.0003,
    )
    params_model: ClassVar[type[Params]] = PiGapParams

    def unavailable(self) -> str | None:
        """Name what is missing."""
        missing = [name for name in ("rdkit", "numpy") if find_spec(name) is None]
        return f"{', '.join(missing)} missing: pip install 'verifier-service[chem]'" if missing else None

    def warm(self) -> None:
        """Load RDKit and the fit."""
        self.verify(CheckInput(candidate="C=C"), PiGapParams())

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Estimate one SMILES."""
        options = PiGapParams.model_validate(params, from_attributes=True)
        try:
            mol = read_smiles(item.candidate).mol
        except Refusal as refusal:
            raise Permanent(refusal.code, refusal.message) from refusal
        fit = _fit()
        found = features(mol)
        if found is None:
            value, sigma = fit["saturated"]["mean"], fit["saturated"]["sigma"]
        else:
            terms = zip(fit["coefficients"], (1.0, *found), strict=True)
            value, sigma = max(0.0, sum(weight * term for weight, term in terms)), fit["sigma"]
        return Finding(
            verdict=Verdict.INCONCLUSIVE,
            measurements=(Measurement(quantity=QUANTITY, value=value, unit="eV", sigma=sigma),),
            hints=tuple(_hints(value, options)),
            assumptions=("parallel π orbitals; fitted on open chains of C, N, O and F with double bonds",),
        )


def _hints(value: float, window: PiGapParams) -> list[Hint]:
    if window.high is not None and value > window.high:
        text = "The gap is too high: conjugate more double bonds, or add a donor and an acceptor."
        return [Hint(kind="gap_too_high", text=text)]
    if window.low is not None and value < window.low:
        return [Hint(kind="gap_too_low", text="The gap is too low: shorten the conjugation.")]
    return []


def features(mol: Any) -> tuple[float, float, float] | None:
    """Hückel gap in |β|, 1 for a C=O, 1 for a C=N or N=N; ``None`` without π electrons.

    Raises ``Permanent`` (``outside_model``) for what the parameters do not cover.
    """
    from rdkit import Chem

    mol = Chem.Mol(mol)
    Chem.Kekulize(mol, clearAromaticFlags=True)
    if any(atom.GetFormalCharge() or atom.GetNumRadicalElectrons() for atom in mol.GetAtoms()):
        raise Permanent("outside_model", "the π model has neutral closed shells only")
    multiple = [bond for bond in mol.GetBonds() if bond.GetBondTypeAsDouble() > 1]
    if not multiple:
        return None
    double = {_elements(bond) for bond in multiple if bond.GetBondTypeAsDouble() == 2}
    imine = bool(double & {frozenset("CN"), frozenset("N")})
    bonded = {end.GetIdx() for bond in multiple for end in (bond.GetBeginAtom(), bond.GetEndAtom())}
    return _huckel_gap(mol, bonded), float(frozenset("CO") in double), float(imine)


def _elements(bond: Any) -> frozenset[str]:
    return frozenset((bond.GetBeginAtom().GetSymbol(), bond.GetEndAtom().GetSymbol()))


def _huckel_gap(mol: Any, bonded: set[int]) -> float:
    """Highest occupied minus lowest empty level in |β|; atoms in ``bonded`` give one π electron each,
    their neighbours with lone pairs two."""
    import numpy as np

    atoms = {index: _parameters(mol.GetAtomWithIdx(index), IN_BOND) for index in bonded}
    for atom in mol.GetAtoms():
        beside = any(neighbour.GetIdx() in bonded for neighbour in atom.GetNeighbors())
        if atom.GetIdx() not in bonded and beside and atom.GetSymbol() in LONE_PAIR:
            atoms[atom.GetIdx()] = _parameters(atom, LONE_PAIR)
    if len(atoms) > MAX_PI_ATOMS:
        raise Permanent("outside_model", f"more than {MAX_PI_ATOMS} atoms with π electrons")
    place = {index: row for row, index in enumerate(sorted(atoms))}
    matrix = np.diag([atoms[index][0] for index in sorted(atoms)]).astype(float)
    for bond in mol.GetBonds():
        one, other = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if one in place and other in place:
            coupling = atoms[one][1] * atoms[other][1]
            matrix[place[one], place[other]] = matrix[place[other], place[one]] = coupling
    levels = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    filled = (len(bonded) + 2 * (len(atoms) - len(bonded))) // 2
    return float(levels[filled - 1] - levels[filled])


def _parameters(atom: Any, table: dict[str, tuple[float, float]]) -> tuple[float, float]:
    symbol = atom.GetSymbol()
    if symbol not in table:
        raise Permanent("outside_model", f"the π model has no parameters for {symbol}")
    return table[symbol]


@lru_cache(maxsize=1)
def _fit() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FIT.read_text(encoding="ascii"))
    return loaded
