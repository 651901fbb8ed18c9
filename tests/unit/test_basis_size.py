"""How large a calculation is, from text alone: held against the toolkits that read it properly."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from tiers.basis_size import FUNCTIONS, composition, functions, of_smiles, of_xyz
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.high_fidelity.pyscf_gap import GapParams, PyscfGap
from verifier_service.domain.verifiers import CheckInput

COMMON = Path(__file__).resolve().parents[2] / "tiers/maps/gfn2-to-r2scan/common.smi"
AWKWARD = [
    "C[N+](=O)[O-]",
    "[nH]1cccc1",
    "O=c1[nH]cnc2nc[nH]c12",
    "CS(=O)(=O)N",
    "OP(=O)(O)O",
    "C1CC%11CC1CC%11",
    "[13CH4]",
    "[H][H]",
    "C.Cl.[Na+].[OH-]",
    "F/C=C\\F",
    "[C@@H](N)(C)C(=O)O",
    "S(F)(F)(F)(F)(F)F",
    "C#CC#N",
    "[se]1cccc1",
    "BrCCCl",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "c1ccc2ccccc2c1",
    "B(O)(O)O",
    "C1=CC=CC=C1",
    "C12C3C4C1C5C2C3C45",
]


def rdkit(smiles: str) -> Counter[str]:
    mol = Chem.MolFromSmiles(smiles)
    return Counter(atom.GetSymbol() for atom in Chem.AddHs(mol).GetAtoms())


def test_hydrogens_are_counted_as_the_toolkit_counts_them() -> None:
    texts = [
        *AWKWARD,
        *(line.split()[0] for line in COMMON.read_text("utf-8").splitlines() if line.strip()),
    ]
    assert len(texts) > 100
    for text in texts:
        assert +Counter(composition(text)) == rdkit(text), text


@pytest.mark.parametrize("basis", FUNCTIONS)
@pytest.mark.parametrize("symbol", ["H", "C", "Cl"])
def test_functions_are_those_of_the_basis_set(basis: str, symbol: str) -> None:
    from pyscf import gto

    atom = gto.M(atom=f"{symbol} 0 0 0", basis=basis, spin=None, verbose=0)
    assert functions({symbol: 1}, basis) == atom.nao


def test_larger_molecules_and_bases_are_larger() -> None:
    sizes = [of_smiles("C" * count) for count in (1, 8, 40)]
    assert sizes == [34.0, 202.0, 970.0]
    large = PyscfGap().size(CheckInput(candidate="CCO"), GapParams(basis="def2-tzvp"))
    assert large > PyscfGap().size(CheckInput(candidate="CCO"), GapParams())


def test_a_structure_counts_its_atoms() -> None:
    water = "3\nwater\nO 0 0 0\n  H 0 0 0.96\nH\t0.9 0 -.3\n"
    assert of_xyz(water, "sto-3g") == 7.0
    catalog = VerifierCatalog()
    size = catalog.size("quantum.energy", {}, CheckInput(candidate={"xyz": water}))
    larger = CheckInput(candidate=water, inputs={"method": "RHF/cc-pVTZ"})
    assert (size, catalog.size("quantum.energy", {}, larger)) == (7.0, 58.0)


@given(
    st.one_of(
        st.none(), st.integers(), st.text(max_size=80), st.text("CNOcn()[]=#%123H+-.@/\\", max_size=80)
    )
)
def test_any_text_has_a_size(text: object) -> None:
    assert 1.0 <= of_smiles(text) < 1e6
    assert 1.0 <= of_xyz(text) < 1e6


def test_hostile_text_is_measured_quickly() -> None:
    began = time.process_time()
    for piece in ("(", "1", "C1", "[", "[CH4]", "%(1)", "H 0\n", "[" + "C" * 63):
        text = piece * 100_000
        of_smiles(text)
        of_xyz(text)
    assert time.process_time() - began < 20.0


def test_what_is_no_text_has_a_size_too() -> None:
    catalog = VerifierCatalog()
    assert catalog.size("pyscf.gap", {}, CheckInput(candidate={"not": "text"})) == 1.0
    assert catalog.size("math.answer", {}, CheckInput(candidate="12345")) == 5.0
    assert catalog.size("math.answer", {}, CheckInput(candidate={"a": [1]})) == 10.0
    assert catalog.size("math.answer", {}, CheckInput(candidate="")) == 1.0


@pytest.mark.parametrize("broken", ["RaisingSize", "EmptySize"])
def test_a_verifier_that_cannot_say_stops_nobody(broken: str) -> None:
    catalog = VerifierCatalog(Sources([f"tests.support.broken_declarations:{broken}"]))
    name = {"RaisingSize": "raising_size", "EmptySize": "empty_size"}[broken]
    assert catalog.size(name, {}, CheckInput(candidate="")) == 1.0
