"""A plugin under which ``molecule.identify`` fails for the molecule that is written ``SMILES until FILE``
while the file is not there: the toolkit of one machine was broken, and is repaired."""

from __future__ import annotations

from pathlib import Path

from tiers.fast.molecule_identify import MoleculeIdentify
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Params, Verifier

MARK = " until "
VERIFIERS: tuple[type[Verifier], ...] = ()
_verify = MoleculeIdentify.verify


def _until(self: MoleculeIdentify, item: CheckInput, params: Params) -> Finding:
    smiles, marked, file = str(item.candidate).partition(MARK)
    if not marked:
        return _verify(self, item, params)
    if not Path(file).exists():
        raise Permanent("not_mended", "the toolkit is broken here")
    return _verify(self, item.model_copy(update={"candidate": smiles}), params)


MoleculeIdentify.verify = _until  # type: ignore[method-assign]
