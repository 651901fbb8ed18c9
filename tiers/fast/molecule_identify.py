"""``molecule.identify``: the canonical form that keys every other check of a molecule."""

from __future__ import annotations

from typing import ClassVar

from tiers.molecule import Refusal, rdkit_missing, read_smiles
from verifier_service.domain.evidence import Finding, Identity, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class MoleculeIdentify(Verifier):
    """Map a raw answer to its canonical isomeric SMILES.

    It refuses nothing by policy: fragments, wildcards, radicals and isotopes are canonicalised, and
    text that cannot be read ends ``inconclusive`` under the name of the refusal, without an
    identity. The gate, which sees the raw answer then, turns that name into a rejection.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="molecule.identify",
        version="1",
        tier=Tier.FAST,
        summary="Canonical isomeric SMILES of the answer, made with RDKit",
        libraries=("rdkit",),
        limits=Limits(time_s=5.0, memory_mb=1024, max_batch=256),
        typical_cpu_s=0.0003,
    )

    def unavailable(self) -> str | None:
        """Return why RDKit is missing, or ``None``."""
        return rdkit_missing()

    def warm(self) -> None:
        """Import RDKit and make its first parse."""
        read_smiles("CCO")

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Return the identity, or ``inconclusive`` with the refusal's code and message."""
        try:
            molecule = read_smiles(item.candidate, allow_fragments=True, allow_dummies=True)
        except Refusal as refusal:
            reason = Reason(code=refusal.code, message=refusal.message)
            return Finding(verdict=Verdict.INCONCLUSIVE, reason=reason)
        identity = Identity(kind="molecule", canonical=molecule.canonical, toolkit=molecule.toolkit)
        return Finding(verdict=Verdict.ACCEPT, identity=identity, assumptions=molecule.notes)
