"""Features of molecules: known values, the same for every spelling, given by the gate for nothing."""

from __future__ import annotations

import math

import pytest

from tiers.fast.molecule_descriptors import MoleculeDescriptors, descriptors
from tiers.fast.molecule_plausibility import MoleculePlausibility, PlausibilityParams
from tiers.molecule import read_smiles
from verifier_service.domain.evidence import MAX_FEATURES, Finding, Verdict
from verifier_service.domain.verifiers import CheckInput, Params

KNOWN = {
    "C": {
        "heavy_atoms": 1,
        "atoms": 5,
        "electrons": 10,
        "sp3_fraction": 1,
        "conjugated_atoms": 0,
        "rings": 0,
    },
    "O=C(N)c1ccccc1": {
        "heavy_atoms": 9,
        "atoms": 16,
        "electrons": 64,
        "rings": 1,
        "aromatic_atoms": 6,
        "sp2_fraction": 1,
        "nitrogen": 1,
        "oxygen": 1,
        "double_bonds": 1,
        "conjugated_atoms": 8,
        "rotatable_bonds": 1,
        "polar_surface": 43.09,
    },
    "CC[N+](C)(C)C.[Cl-]": {"charge": 0, "halogens": 1, "heavy_atoms": 7, "electrons": 68},
    "[O-]C(=O)C": {"charge": -1, "electrons": 32, "unpaired_electrons": 0},
    "C[CH]C": {"unpaired_electrons": 1, "electrons": 25},
    "C=CC=CCC#N": {"double_bonds": 2, "triple_bonds": 1, "conjugated_atoms": 4, "unsaturated_atoms": 6},
    "CS(C)(=O)=O": {"sulfur": 1, "phosphorus": 0},
    "[H][H]": {"heavy_atoms": 0, "electrons": 2, "sp3_fraction": 0},
}


def plausibility(smiles: str) -> Finding:
    return MoleculePlausibility().verify(CheckInput(candidate=smiles), PlausibilityParams())


@pytest.mark.parametrize("smiles", KNOWN)
def test_known_values(smiles: str) -> None:
    found = descriptors(read_smiles(smiles, allow_fragments=True))
    assert {name: found[name] for name in KNOWN[smiles]} == pytest.approx(KNOWN[smiles])


@pytest.mark.parametrize("smiles", ["OC(=O)c1ccccc1OC(C)=O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "C1CC2CCC1=C2"])
def test_every_spelling_has_the_same_features(smiles: str) -> None:
    molecule = read_smiles(smiles)
    other = read_smiles(molecule.canonical)
    assert descriptors(molecule) == descriptors(other)


def test_names_are_the_same_for_all_and_values_are_finite() -> None:
    found = [descriptors(read_smiles(smiles, allow_fragments=True)) for smiles in KNOWN]
    assert {tuple(each) for each in found} == {tuple(found[0])}
    assert len(found[0]) <= MAX_FEATURES - 3  # others are added
    assert all(math.isfinite(value) for each in found for value in each.values())


def test_the_gate_describes_what_it_accepts_and_what_it_rejects() -> None:
    for smiles, verdict in (("OCC", Verdict.ACCEPT), ("NNNNNN", Verdict.REJECT)):
        finding = plausibility(smiles)
        assert finding.verdict is verdict
        assert finding.features["sa_score"] == pytest.approx(finding.measurements[0].value, abs=1e-4)
        assert finding.features["heavy_atoms"] == len(smiles)
    assert plausibility("C1=CC").features == {}


def test_the_verifier_of_its_own_judges_nothing() -> None:
    finding = MoleculeDescriptors().verify(CheckInput(candidate="c1ccccc1O"), Params())
    assert (finding.verdict, finding.score, finding.reason) == (Verdict.INCONCLUSIVE, None, None)
    assert finding.features["logp"] == pytest.approx(1.3922)
    assert finding.features["molar_refractivity"] == pytest.approx(28.1068)
    unreadable = MoleculeDescriptors().verify(CheckInput(candidate="c1ccccc"), Params())
    assert unreadable.verdict is Verdict.INCONCLUSIVE
    assert unreadable.features == {}
    assert unreadable.reason is not None
    assert unreadable.reason.code in ("syntax", "kekulize")


@pytest.mark.parametrize("features", [{"x": math.nan}, {"x": math.inf}, {"X y": 1.0}, {"": 1.0}])
def test_features_are_finite_and_named(features: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="features"):
        Finding(verdict=Verdict.ACCEPT, features=features)


def test_features_are_few() -> None:
    many = {f"f{index}": 0.0 for index in range(MAX_FEATURES + 1)}
    with pytest.raises(ValueError, match="at most 64"):
        Finding(verdict=Verdict.ACCEPT, features=many)
