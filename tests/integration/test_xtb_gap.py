"""``xtb.gap`` and its geometries: published GFN2 values, invariance, named outcomes."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from rdkit import Chem

from tiers.geometry import ConformerPolicy, electrons, lowest_conformers
from tiers.gfn2 import BOHR_ANGSTROM, HARTREE_EV, Surface, relax
from tiers.molecule import read_smiles
from tiers.simulation.xtb_gap import XtbGap
from tiers.single_thread import one_thread
from verifier_service.domain.evidence import Failure, Finding, Outcome, Verdict
from verifier_service.domain.verifiers import CheckInput, Params

one_thread()

MEV = 1e-3


def run(smiles: str) -> Outcome:
    return XtbGap().attempt(CheckInput(candidate=smiles), Params())


def gap(smiles: str) -> float:
    outcome = run(smiles)
    assert isinstance(outcome, Finding), outcome
    return outcome.measurements[0].value


def test_water_energy_of_the_xtb_python_documentation() -> None:
    # xtb-python and tblite documentation, "ASE calculator": -137.96777587 and -137.96777594 eV for
    # the G2 geometry of water in Å.
    positions = np.array([[0, 0, 0.119262], [0, 0.763239, -0.477047], [0, -0.763239, -0.477047]])
    point = Surface(np.array([8, 1, 1]), positions / BOHR_ANGSTROM, 0, 0).point(positions / BOHR_ANGSTROM)
    assert point.energy * HARTREE_EV == pytest.approx(-137.967776, abs=1e-5)
    assert float(point.gradient[0, 2]) * HARTREE_EV / BOHR_ANGSTROM == pytest.approx(0.7495147, abs=1e-4)


def test_relaxed_water_of_the_xtb_program() -> None:
    # xtb 6 (Fortran), ``xtb h2o.xyz --opt``: -5.070544443464 Ha and a gap of 14.390892 eV.
    outcome = run("O")
    assert isinstance(outcome, Finding)
    values = {m.quantity: m.value for m in outcome.measurements}
    assert values["energy@gfn2//gfn2"] / HARTREE_EV == pytest.approx(-5.0705444, abs=1e-7)
    assert values["ks_gap@gfn2//gfn2"] == pytest.approx(14.3909, abs=2e-3)


def test_a_measurement_is_no_verdict_and_says_what_it_assumed() -> None:
    outcome = run("CCO")
    assert isinstance(outcome, Finding)
    assert (outcome.verdict, outcome.score) == (Verdict.INCONCLUSIVE, None)
    measured = outcome.measurements[0]
    assert (measured.quantity, measured.unit) == ("ks_gap@gfn2//gfn2", "eV")
    assert measured.sigma is not None
    assert 0.005 <= measured.sigma < 0.3
    assert outcome.labels == {"chemistry_class": "saturated_oxygen"}
    text = " ".join(outcome.assumptions)
    for phrase in ("tautomer as given", "2S = 0", "gas phase", "neither the optical nor the fundamental"):
        assert phrase in text


@pytest.mark.parametrize(
    "smiles", ["CCO", "Oc1ccccc1", "O=Cc1ccccc1F", "C/C=C/C=O", "C[C@H](N)C(=O)O", "[CH2]C=C"]
)
def test_every_spelling_has_the_same_gap(smiles: str) -> None:
    expected = gap(smiles)
    rng = random.Random(7)
    mol = Chem.MolFromSmiles(smiles)
    for _ in range(2):
        order = list(range(mol.GetNumAtoms()))
        rng.shuffle(order)
        spelling = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
        assert gap(spelling) == pytest.approx(expected, abs=MEV)
    assert gap(Chem.MolToSmiles(mol, kekuleSmiles=True, allBondsExplicit=True)) == pytest.approx(
        expected, abs=MEV
    )


@pytest.mark.parametrize("smiles", ["CCO", "c1ccccc1", "CC(=O)O", "Nc1ccccc1", "[CH2]C=C"])
def test_rotation_and_a_new_start_keep_the_gap(smiles: str) -> None:
    mol = read_smiles(smiles).mol
    charge, unpaired = electrons(mol)
    best = lowest_conformers(mol, charge, unpaired, ConformerPolicy())[0]
    rng = np.random.default_rng(11)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    order = rng.permutation(len(best.symbols))
    numbers = np.array([Chem.GetPeriodicTable().GetAtomicNumber(best.symbols[i]) for i in order])
    start = best.positions[order] @ turn / BOHR_ANGSTROM + rng.normal(scale=0.02, size=best.positions.shape)
    again = relax(
        Surface(numbers, start, charge, unpaired),
        start,
        np.eye(start.size) * 0.5,
        tolerance=5e-6,
        steps=400,
    )
    assert again.converged
    assert again.point.gap is not None
    assert again.point.gap == pytest.approx(best.point.gap, abs=MEV)


def test_the_lowest_conformer_need_not_be_the_first() -> None:
    # The enol of malonaldehyde is lowest with its internal hydrogen bond closed; a single embedding
    # finds an open form.
    mol = read_smiles("O/C=C\\C=O").mol
    one = lowest_conformers(mol, 0, 0, ConformerPolicy(embed=1))[0]
    many = lowest_conformers(mol, 0, 0, ConformerPolicy())[0]
    assert many.point.energy < one.point.energy - 1e-3


@pytest.mark.parametrize(
    ("smiles", "code"),
    [
        ("Cl[Pt](Cl)([NH3])[NH3]", "metal_complex"),
        ("[Fe]", "metal_complex"),
        ("[Na+].[Cl-]", "multiple_fragments"),
        ("F[U](F)(F)(F)(F)F", "unsupported_element"),
        ("[He]", "unsupported_element"),
        ("[NH3+]CC(=O)[O-]", "changed_connectivity"),
        ("C1=CC2=CC=C1C=C2", "embedding_failed"),
        ("C" * 60, "too_large"),
        ("[H]", "no_gap"),
        ("[H+]", "charge_spin_inconsistent"),
        ("", "empty_structure"),
        ("C1CC", "syntax"),
    ],
)
def test_what_cannot_be_measured_is_named_and_never_a_score(smiles: str, code: str) -> None:
    outcome = run(smiles)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code, outcome.retryable) == ("permanent", code, False)


def test_a_radical_has_its_spin_from_the_structure() -> None:
    outcome = run("[CH3]")
    assert isinstance(outcome, Finding)
    assert outcome.labels["chemistry_class"] == "open_shell"
    assert any("2S = 1" in text for text in outcome.assumptions)
    assert any("spin-polarised" in text for text in outcome.assumptions)


def test_a_relaxation_that_runs_out_of_steps_is_named() -> None:
    from verifier_service.domain.errors import Permanent

    mol = read_smiles("CCO").mol
    with pytest.raises(Permanent) as raised:
        lowest_conformers(mol, 0, 0, ConformerPolicy(steps=1))
    assert raised.value.code == "geometry_not_converged"


def test_declaring_the_chemistry_loads_none_of_it() -> None:
    modules = ("simulation.xtb_gap", "high_fidelity.pyscf_gap", "high_fidelity.quantum_energy")
    code = "\n".join(
        [
            "import sys",
            *(f"import tiers.{module}" for module in modules),
            "loaded = {'rdkit', 'tblite', 'ase', 'pyscf', 'numpy', 'scipy'} & set(sys.modules)",
            "sys.exit(str(loaded) if loaded else 0)",
        ],
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_gap_is_repeatable_to_the_last_digit() -> None:
    assert gap("OCCO") == gap("OCCO")
