"""The shipped gap map: readable, in step with its data, and honest on molecules it was not fitted on."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest

from tiers.chemistry_class import FAMILIES, NAMES, chemistry_class
from tiers.maps.affine import Pairs, fit_by_class
from tiers.molecule import read_smiles
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.maps import QuantityMap

FOLDER = Path(__file__).parents[2] / "tiers" / "maps" / "gfn2-to-r2scan"
Row = tuple[str, str, float, float]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with (FOLDER / "data.csv").open(newline="") as file:
        read = [row for row in csv.DictReader(file) if not row["failure"]]
    return [
        (
            row["smiles"],
            chemistry_class(read_smiles(row["smiles"]).mol),
            float(row["gfn2_ev"]),
            float(row["r2scan_ev"]),
        )
        for row in read
    ]


@pytest.fixture(scope="module")
def shipped() -> QuantityMap:
    return QuantityMap.model_validate_json((FOLDER / "map.json").read_text())


def test_the_map_joins_what_the_two_verifiers_measure(shipped: QuantityMap) -> None:
    from tiers.high_fidelity.pyscf_gap import PyscfGap
    from tiers.simulation.xtb_gap import XtbGap

    assert shipped.source in XtbGap.info.quantities
    assert shipped.target in PyscfGap.info.quantities
    assert set(shipped.classes) <= set(NAMES)
    assert shipped.default.sigma > max(
        line.sigma for name, line in shipped.classes.items() if FAMILIES[name] == "valence"
    )


def test_the_map_is_the_fit_of_its_data(shipped: QuantityMap, rows: list[Row]) -> None:
    lines, default = fit_by_class(_grouped(rows), FAMILIES)
    document = json.loads((FOLDER / "map.json").read_text())
    assert document["classes"] == {name: line.as_json() for name, line in lines.items()}
    assert document["default"] == default.as_json()


@pytest.mark.parametrize(
    ("name", "gfn2", "r2scan"),
    [("saturated_oxygen", 12.89, 7.82), ("aromatic", 4.93, 5.68), ("aromatic", 3.25, 3.6)],
    ids=["ethanol", "benzene", "naphthalene"],
)
def test_the_two_scales_are_brought_together(
    shipped: QuantityMap, name: str, gfn2: float, r2scan: float
) -> None:
    measured = Measurement(quantity=shipped.source, value=gfn2, unit="eV", sigma=0.005)
    mapped = shipped.apply(measured, {"chemistry_class": name})
    assert mapped.sigma is not None
    assert abs(mapped.value - r2scan) < 2 * mapped.sigma


def test_claimed_errors_cover_molecules_held_out(rows: list[Row]) -> None:
    """A quarter of the molecules, chosen by a hash, judged by maps fitted on the others.

    Of n honest 90% intervals, k ~ Binomial(n, 0.9) hold; both tails are cut at 0.5%.
    """
    held = [row for row in rows if _digest(row[0]) % 4 == 0]
    lines, default = fit_by_class(_grouped([row for row in rows if row not in held]), FAMILIES)
    inside = 0
    for _, name, x, y in held:
        line = lines.get(name, default)
        inside += abs(y - line.at(x)) < 1.645 * line.sigma
    low, high = _binomial_bounds(len(held), 0.9, 0.005)
    assert low <= inside <= high, (inside, len(held))


def _grouped(rows: list[Row]) -> dict[str, Pairs]:
    groups: dict[str, Pairs] = {}
    for _, name, x, y in rows:
        groups.setdefault(name, []).append((x, y))
    return groups


def _digest(smiles: str) -> int:
    return hashlib.sha256(smiles.encode()).digest()[0]


def _binomial_bounds(count: int, share: float, tail: float) -> tuple[int, int]:
    from scipy.stats import binom

    return int(binom.ppf(tail, count, share)), int(binom.ppf(1 - tail, count, share))


@pytest.mark.parametrize(
    ("smiles", "name"),
    [
        ("CCO", "saturated_oxygen"),
        ("CCCC", "saturated_hydrocarbon"),
        ("CCN", "saturated_amine"),
        ("CF", "saturated_fluoride"),
        ("ClCCl", "saturated_chloride"),
        ("C=C", "alkene"),
        ("C=CC=C", "polyene"),
        ("C#C", "alkyne"),
        ("CC#N", "nitrile"),
        ("CC=O", "ketone_or_aldehyde"),
        ("C=O", "ketone_or_aldehyde"),
        ("OC=O", "acyl"),
        ("CC(=O)N", "acyl"),
        ("NCC(=O)O", "amine_with_acceptor"),
        ("CN(C)CCCl", "amine_with_acceptor"),
        ("C=CC=O", "conjugated_carbonyl"),
        ("O=C1C=CC(=O)C=C1", "quinone"),
        ("c1ccccc1", "aromatic"),
        ("Oc1ccccc1", "aromatic_donor"),
        ("c1cc[nH]c1", "aromatic_donor"),
        ("c1ccncc1", "aromatic_lone_pair"),
        ("O=Cc1ccccc1", "aromatic_acceptor"),
        ("O=[N+]([O-])c1ccccc1", "nitro_or_azo"),
        ("c1ccsc1", "thiophene"),
        ("CC(C)=S", "thione"),
        ("CI", "iodide"),
        ("CBr", "bromide"),
        ("CSC", "sulfide_or_phosphine"),
        ("CS(C)=O", "oxidised_sulfur_or_phosphorus"),
        ("CC=NO", "imine"),
        ("C[N+](C)(C)[O-]", "other"),
        ("Cl", "other"),
        ("[CH3]", "open_shell"),
        ("C[NH3+]", "cation"),
        ("C[O-]", "anion"),
        ("C[SiH3]", "other_element"),
        ("[H][H]", "other"),
    ],
)
def test_classes_follow_the_structure(smiles: str, name: str) -> None:
    assert chemistry_class(read_smiles(smiles).mol) == name
