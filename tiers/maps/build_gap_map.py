"""Makes the map between the orbital gaps of ``xtb.gap`` and ``pyscf.gap``: measure, then fit.

``python -m tiers.maps.build_gap_map measure --minutes 60 --data FILE`` appends to a copy of ``data.csv``
(it resumes where the copy stops), ``python -m tiers.maps.build_gap_map fit`` writes ``map.json`` from
``data.csv`` and prints the figures. The class in the data is for readers: fitting derives it anew.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tiers.chemistry_class import FAMILIES, NAMES, chemistry_class
from tiers.geometry import MAIN_GROUP
from tiers.maps.affine import Line, fit_by_class, leave_one_out
from tiers.molecule import read_smiles
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput, Params

FOLDER = Path(__file__).parent / "gfn2-to-r2scan"
DATA = FOLDER / "data.csv"
COLUMNS = (
    *("smiles", "chemistry_class", "heavy_atoms", "gfn2_ev", "gfn2_sigma_ev", "r2scan_ev"),
    *("xtb_s", "pyscf_s", "failure"),
)
SOURCE, TARGET = "ks_gap@gfn2//gfn2", "ks_gap@r2scan/def2-svp//gfn2"
PER_CLASS, MAX_HEAVY = 14, 9


def choose() -> list[tuple[str, str]]:
    """Canonical SMILES and class, the classes in turn, so that every prefix of the list is balanced.

    Hand-picked common molecules come first, then those of RDKit's NCI set in the order of a hash.
    """
    from rdkit import Chem, RDConfig, rdBase

    rdBase.DisableLog("rdApp.*")
    common = [line.split()[0] for line in (FOLDER / "common.smi").read_text().splitlines()]
    shipped = Path(RDConfig.RDDataDir, "NCI/first_5K.smi").read_text()
    nci = [line.split()[0] for line in shipped.splitlines()]
    by_class: dict[str, list[str]] = {name: [] for name in NAMES}
    seen: set[str] = set()
    for text, picked in [(s, True) for s in common] + [(s, False) for s in sorted(nci, key=_digest)]:
        mol = Chem.MolFromSmiles(text)
        if mol is None or not (picked or _fits(mol)):
            continue
        smiles, name = Chem.MolToSmiles(mol), chemistry_class(mol)
        if smiles not in seen and len(by_class[name]) < PER_CLASS:
            seen.add(smiles)
            by_class[name].append(smiles)
    turns = [(i, name) for i in range(PER_CLASS) for name in NAMES if i < len(by_class[name])]
    return [(by_class[name][i], name) for i, name in turns]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _fits(mol: Any) -> bool:
    symbols = {atom.GetSymbol() for atom in mol.GetAtoms()}
    from rdkit import Chem

    return 2 <= mol.GetNumAtoms() <= MAX_HEAVY and symbols <= MAIN_GROUP and len(Chem.GetMolFrags(mol)) == 1


def measure(minutes: float, path: Path) -> None:
    """Run both verifiers on the molecules not yet in the file ``path`` for at most ``minutes``."""
    from tiers.high_fidelity.pyscf_gap import GapParams, PyscfGap
    from tiers.simulation.xtb_gap import XtbGap

    cheap, dear = XtbGap(), PyscfGap()
    cheap.warm()
    dear.warm()
    start = time.monotonic()
    done = {row["smiles"] for row in read(path)}
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n")
    todo = [item for item in choose() if item[0] not in done]
    for count, (smiles, name) in enumerate(todo, 1):
        row: dict[str, Any] = {"smiles": smiles, "chemistry_class": name, "heavy_atoms": _heavy(smiles)}
        row |= _timed(cheap, smiles, Params(), "gfn2_ev", "xtb_s")
        if "failure" not in row:
            row |= _timed(dear, smiles, GapParams(), "r2scan_ev", "pyscf_s")
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
        spent = time.monotonic() - start
        print(f"{count}/{len(todo)} {spent / count:.1f} s each {row}", flush=True)
        if spent > 60 * minutes:
            return


def _heavy(smiles: str) -> int:
    from rdkit import Chem

    return int(Chem.MolFromSmiles(smiles).GetNumHeavyAtoms())


def _timed(verifier: Any, smiles: str, params: Params, column: str, clock: str) -> dict[str, Any]:
    start = time.process_time()
    outcome = verifier.attempt(CheckInput(candidate=smiles), params)
    row: dict[str, Any] = {clock: round(time.process_time() - start, 3)}
    if not isinstance(outcome, Finding):
        return row | {"failure": outcome.code}
    gap = outcome.measurements[0]
    row[column] = round(gap.value, 5)
    return row | ({"gfn2_sigma_ev": round(gap.sigma or 0.0, 5)} if column == "gfn2_ev" else {})


def read(path: Path) -> list[dict[str, str]]:
    """The rows measured so far, failures included."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def points() -> dict[str, list[tuple[float, float]]]:
    """(GFN2, r2SCAN) gap pairs in eV per class as classes are defined now, measured rows only."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for row in read(DATA):
        if not row["failure"]:
            name = chemistry_class(read_smiles(row["smiles"]).mol)
            pairs.setdefault(name, []).append((float(row["gfn2_ev"]), float(row["r2scan_ev"])))
    return pairs


def fit() -> None:
    """Write ``map.json`` from the data and print the figures per class."""
    pairs = points()
    lines, default = fit_by_class(pairs, FAMILIES)
    document = {
        "name": "gfn2-to-r2scan",
        "version": "1",
        "source": SOURCE,
        "target": TARGET,
        "unit": "eV",
        "label": "chemistry_class",
        "classes": {name: line.as_json() for name, line in sorted(lines.items())},
        "default": default.as_json(),
        "libraries": {name: version(name) for name in ("rdkit", "tblite", "pyscf")},
    }
    (FOLDER / "map.json").write_text(json.dumps(document, indent=1) + "\n")
    for name, line in [*sorted(lines.items()), ("default", default)]:
        print(f"{name:22s} {_figures(line)}")
    scores = [z for z, _ in leave_one_out(pairs, FAMILIES)]
    inside = sum(abs(z) < 1.645 for z in scores)
    print(f"leave-one-out: {inside}/{len(scores)} inside the 90% interval")


def _figures(line: Line) -> str:
    return f"n {line.n:4d}  {line.slope:6.3f} x {line.intercept:+7.3f} eV  sigma {line.sigma:.3f} eV"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["measure", "fit"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    if arguments.step == "measure":
        measure(arguments.minutes, arguments.data)
    else:
        fit()
