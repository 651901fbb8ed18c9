"""Measures the ladder that this project carries: GFN2-xTB and r2SCAN orbital gaps of small molecules.

``python -m benchmarks.escalation.measure_gaps [--minutes 120]`` appends to ``data/organic_gaps.csv`` and
resumes where that stops. A new file begins with the molecules of 2 to 8 heavy atoms that made the shipped
map ``gfn2-to-r2scan``, as they were measured there; those of RDKit's NCI set follow in the order of a hash.
Both gaps come from the service's own verifiers, ``xtb.gap`` and ``pyscf.gap``; ``*_cpu_s`` is the CPU time
of one attempt in a warm process, single-threaded. A refusal leaves the value empty and names its code.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tiers.geometry import MAIN_GROUP
from tiers.high_fidelity.pyscf_gap import GapParams, PyscfGap
from tiers.maps.build_gap_map import DATA as MAP_DATA
from tiers.simulation.xtb_gap import XtbGap
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Params, Verifier

FILE = Path(__file__).parent / "data" / "organic_gaps.csv"
COLUMNS = (
    *("smiles", "chemistry_class", "heavy_atoms"),
    *("gfn2_ev", "gfn2_sigma_ev", "gfn2_cpu_s", "r2scan_ev", "r2scan_cpu_s", "failure"),
)
LEAST_HEAVY, MOST_HEAVY = 2, 8


def molecules() -> Iterator[str]:
    """Canonical SMILES in the order of their hash."""
    from rdkit import Chem, RDConfig, rdBase

    rdBase.DisableLog("rdApp.*")
    known = {row["smiles"] for row in read(MAP_DATA)}
    found: set[str] = set()
    for line in Path(RDConfig.RDDataDir, "NCI/first_5K.smi").read_text().splitlines():
        mol = Chem.MolFromSmiles(line.split()[0])
        if mol is None or not LEAST_HEAVY <= mol.GetNumAtoms() <= MOST_HEAVY:
            continue
        smiles = Chem.MolToSmiles(mol)
        whole = len(Chem.GetMolFrags(mol)) == 1
        if whole and {atom.GetSymbol() for atom in mol.GetAtoms()} <= MAIN_GROUP and smiles not in known:
            found.add(smiles)
    yield from sorted(found, key=lambda smiles: hashlib.sha256(smiles.encode()).hexdigest())


def read(path: Path) -> list[dict[str, str]]:
    """Rows measured so far, failures included."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def measure(minutes: float, path: Path) -> None:
    """Run both verifiers on the molecules that ``path`` lacks, for at most ``minutes``."""
    cheap, dear = XtbGap(), PyscfGap()
    cheap.warm()
    dear.warm()
    began = time.monotonic()
    if not path.exists():
        _begin(path)
    done = {row["smiles"] for row in read(path)}
    todo = [smiles for smiles in molecules() if smiles not in done]
    for count, smiles in enumerate(todo, 1):
        row = _measured(cheap, dear, smiles)
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
        spent = time.monotonic() - began
        print(f"{count}/{len(todo)}, {spent / count:.1f} s each: {row}", flush=True)
        if spent > 60 * minutes:
            return


def _begin(path: Path) -> None:
    """Write the head, and what was measured for the map."""
    renamed = {"gfn2_cpu_s": "xtb_s", "r2scan_cpu_s": "pyscf_s"}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in read(MAP_DATA):
            if LEAST_HEAVY <= int(row["heavy_atoms"]) <= MOST_HEAVY:
                writer.writerow({name: row[renamed.get(name, name)] for name in COLUMNS})


def _measured(cheap: Verifier, dear: Verifier, smiles: str) -> dict[str, Any]:
    from rdkit import Chem

    row: dict[str, Any] = {"smiles": smiles, "heavy_atoms": Chem.MolFromSmiles(smiles).GetNumAtoms()}
    for verifier, params, name in ((cheap, Params(), "gfn2"), (dear, GapParams(), "r2scan")):
        began = time.process_time()
        outcome = verifier.attempt(CheckInput(candidate=smiles), params)
        row[f"{name}_cpu_s"] = round(time.process_time() - began, 3)
        if not isinstance(outcome, Finding):
            return row | {"failure": outcome.code}
        gap = outcome.measurements[0]
        row[f"{name}_ev"] = round(gap.value, 5)
        row["chemistry_class"] = outcome.labels.get("chemistry_class", "")
        if name == "gfn2":
            row["gfn2_sigma_ev"] = round(gap.sigma or 0.0, 5)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    measure(arguments.minutes, arguments.file)
