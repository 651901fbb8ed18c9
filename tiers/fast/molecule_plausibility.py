"""``molecule.plausibility``: the soft gate. Could this molecule exist in a flask?"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tiers.fast.molecule_descriptors import descriptors
from tiers.fast.molecule_graph import Graph
from tiers.fast.molecule_motifs import CHAIN_RULES, STATE_RULES
from tiers.fast.molecule_rings import RING_RULES, UNSATURATED_CHAIN_RULES
from tiers.fast.molecule_validity import radical_hint, refused
from tiers.molecule import Molecule, Refusal, rdkit_missing, read_smiles
from verifier_service.domain.evidence import Finding, Hint, Measurement, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_SA_HEAVY_ATOMS = 150  # the score grows with size and calls every long peptide impossible
RULES = (*CHAIN_RULES, *STATE_RULES, *RING_RULES, *UNSATURATED_CHAIN_RULES)
HINT = (
    "Parseable is not plausible: {motif} is not known to exist outside special conditions. "
    "Reach the goal with ordinary carbon frameworks and functional groups."
)


class PlausibilityParams(Params):
    """``max_sa_score``: highest synthetic accessibility score that passes, 1 easy to 10 hard;
    10 switches the score off. Vancomycin has 8.2, the highest of 4,991 NCI compounds 7.4."""

    max_sa_score: float = Field(default=8.5, ge=1.0, le=10.0)


class MoleculePlausibility(Verifier):
    """Reject as ``implausible``, naming the motifs, or accept without a score.

    The rules and their sources are in ``molecule_motifs`` and ``molecule_rings``; above them stands
    the synthetic accessibility score of P. Ertl and A. Schuffenhauer, J. Cheminform. 2009, 1, 8 (the
    implementation shipped with RDKit), reported as measurement ``sa_score`` up to 150 heavy atoms. Salts
    and mixtures are judged as a whole. The gate is heuristic: it errs towards passing, and a rejection
    is revisable. Features: those of ``molecule_descriptors.descriptors``, and ``sa_score`` where it is
    measured.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="molecule.plausibility",
        version="2",
        tier=Tier.FAST,
        summary="No motif that is absurd though it parses; synthetic accessibility within bounds",
        libraries=("rdkit",),
        limits=Limits(time_s=10.0, memory_mb=1024, max_batch=256),
        typical_cpu_s=0.0008,
    )
    params_model: ClassVar[type[Params]] = PlausibilityParams

    def unavailable(self) -> str | None:
        """Return why RDKit is missing, or ``None``."""
        return rdkit_missing()

    def warm(self) -> None:
        """Import RDKit and load the fragment table of the synthetic accessibility score."""
        ethanol = read_smiles("CCO")
        sa_score(ethanol)
        descriptors(ethanol)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Judge the candidate; text that cannot be read is rejected under the reader's code."""
        options = PlausibilityParams.model_validate(params, from_attributes=True)
        try:
            molecule = read_smiles(item.candidate, allow_fragments=True)
        except Refusal as refusal:
            return refused(refusal)
        graph = Graph.of(molecule.mol)
        found = _motifs(graph)
        measured: tuple[Measurement, ...] = ()
        features = descriptors(molecule, graph)
        if options.max_sa_score < 10.0 and molecule.heavy_atoms <= MAX_SA_HEAVY_ATOMS:
            score = sa_score(molecule)
            measured = (Measurement(quantity="sa_score", value=score, unit="1"),)
            features["sa_score"] = round(score, 4)
            if score > options.max_sa_score:
                found.append(f"synthetic accessibility score {score:.1f} above {options.max_sa_score:g}")
        unpaired = molecule.unpaired_electrons
        hints = [radical_hint(unpaired)] if unpaired else []
        hints += [Hint(kind="implausible", text=HINT.format(motif=motif)) for motif in found]
        return Finding(
            verdict=Verdict.REJECT if found else Verdict.ACCEPT,
            reason=Reason(code="implausible", message="; ".join(found)) if found else None,
            measurements=measured,
            hints=tuple(hints),
            labels={"unpaired_electrons": str(unpaired)},
            features=features,
        )


def motifs(molecule: Molecule) -> list[str]:
    """Name every implausible motif of the molecule, at most one per rule."""
    return _motifs(Graph.of(molecule.mol))


def _motifs(graph: Graph) -> list[str]:
    return [motif for rule in RULES if (motif := rule(graph)) is not None]


@lru_cache(maxsize=1)
def _scorer() -> Any:
    """Load the scorer that RDKit ships outside its package tree."""
    from importlib.util import module_from_spec, spec_from_file_location

    from rdkit import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = spec_from_file_location("rdkit_contrib_sascorer", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.readFragmentScores()
    return module


def sa_score(molecule: Molecule) -> float:
    """Synthetic accessibility from 1 (easy) to 10 (hard), without unit."""
    return float(_scorer().calculateScore(molecule.mol))
