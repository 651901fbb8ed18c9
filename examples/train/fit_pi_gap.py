"""Fit ``pi.gap`` to GFN2-xTB gaps: ``python -m examples.train.fit_pi_gap`` writes ``pi_gap.json``.

Measures molecules of ``molecules.smi`` that lie in the fit's domain (open chains of C, N, O and F, double
bonds that share no atom, no bond between heteroatoms) and saturated ones with this project's own
``xtb.gap``. Takes about two minutes of one core. σ is the root mean square of the leave-one-out errors.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem

from examples.train.pi_gap import FIT, features
from tiers.simulation.xtb_gap import XtbGap
from tiers.single_thread import one_thread
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Params

LINES = Path(__file__).with_name("molecules.smi")
OUTSIDE = ("[S]", "*#*", "*=*=*", "[R]", "[N,O]=[N,O]", "[N,O,F]-[N,O,F]")
IN_DOMAIN, SATURATED = 100, 20


def main() -> None:
    """Measure, fit, write."""
    lines = LINES.read_text(encoding="ascii").split()
    random.Random(11).shuffle(lines)
    chosen = [line for line in lines if in_domain(line)][:IN_DOMAIN]
    chosen += [line for line in lines if saturated(line)][:SATURATED]
    fitted = fit(dict(measured(chosen)))
    FIT.write_text(json.dumps(fitted, indent=1) + "\n", encoding="ascii")
    print({name: fitted[name] for name in ("coefficients", "sigma", "saturated", "n")})


def in_domain(smiles: str) -> bool:
    """Whether the fit may see it as a π system."""
    mol = Chem.MolFromSmiles(smiles)
    return features(mol) is not None and not any(
        mol.HasSubstructMatch(Chem.MolFromSmarts(smarts)) for smarts in OUTSIDE
    )


def saturated(smiles: str) -> bool:
    """Whether it has no π electrons."""
    return features(Chem.MolFromSmiles(smiles)) is None


def measured(lines: list[str]) -> Iterator[tuple[str, float]]:
    """SMILES and GFN2-xTB gap in eV, without those that the method refuses."""
    one_thread()
    verifier = XtbGap()
    for line in lines:
        outcome = verifier.attempt(CheckInput(candidate=line), Params())
        if isinstance(outcome, Finding):
            yield line, outcome.measurements[0].value


def fit(gaps: dict[str, float]) -> dict[str, Any]:
    """Least squares; the leave-one-out error of row i is its residual / (1 − h_ii), h the hat matrix."""
    rows = {smiles: features(Chem.MolFromSmiles(smiles)) for smiles in gaps}
    design = np.array([(1.0, *row) for row in rows.values() if row is not None])
    wanted = np.array([gaps[smiles] for smiles, row in rows.items() if row is not None])
    coefficients, *_ = np.linalg.lstsq(design, wanted, rcond=None)
    hat = design @ np.linalg.pinv(design)
    errors = (wanted - design @ coefficients) / (1.0 - np.diag(hat))
    plain = np.array([gaps[smiles] for smiles, row in rows.items() if row is None])
    return {
        "coefficients": [round(float(value), 4) for value in coefficients],
        "sigma": round(float(np.sqrt(np.mean(errors**2))), 4),
        "n": len(wanted),
        "saturated": {"mean": round(float(plain.mean()), 3), "sigma": round(float(plain.std(ddof=1)), 3)},
        "gaps_ev": {smiles: round(gap, 4) for smiles, gap in gaps.items()},
    }


if __name__ == "__main__":
    main()
