"""``pyscf.gap``: density functional energies against independent values, invariance, named outcomes."""

from __future__ import annotations

import pytest

from tiers.high_fidelity.pyscf_gap import GapParams, PyscfGap, kohn_sham
from tiers.single_thread import one_thread
from verifier_service.domain.evidence import Failure, Finding, Outcome, Verdict
from verifier_service.domain.verifiers import CheckInput

one_thread()

QUICK = GapParams(functional="pbe", basis="sto-3g")


def run(smiles: str, params: GapParams) -> Outcome:
    return PyscfGap().attempt(CheckInput(candidate=smiles), params)


def gap(smiles: str, params: GapParams) -> float:
    outcome = run(smiles, params)
    assert isinstance(outcome, Finding), outcome
    return outcome.measurements[0].value


@pytest.mark.parametrize(
    ("symbol", "unpaired", "limit"),
    [
        # Basis-set limits of PBE: Kurth, Perdew, Blaha, Int. J. Quantum Chem. 1999, 75, 889, and numerical
        # radial solvers (He -2.892935, H -0.499990 Ha). A finite basis lies above, def2-TZVP within 3 mHa.
        ("He", 0, -2.892935),
        ("H", 1, -0.499990),
    ],
)
def test_atoms_approach_the_limit_of_the_functional_from_above(
    symbol: str, unpaired: int, limit: float
) -> None:
    params = GapParams(functional="pbe", basis="def2-tzvp")
    field, _ = kohn_sham([(symbol, (0.0, 0.0, 0.0))], 0, unpaired, params)
    assert limit < field.e_tot < limit + 3e-3


def test_hydrogen_atom_in_r2scan_is_almost_exact() -> None:
    # The hydrogen atom is one of the norms r2SCAN is built on: its exact energy is -0.5 Ha.
    field, _ = kohn_sham([("H", (0.0, 0.0, 0.0))], 0, 1, GapParams(functional="r2scan", basis="def2-tzvp"))
    assert field.e_tot == pytest.approx(-0.5, abs=5e-4)


def test_ethanol_on_the_scale_of_the_ladder() -> None:
    outcome = run("CCO", GapParams())
    assert isinstance(outcome, Finding)
    assert (outcome.verdict, outcome.score) == (Verdict.INCONCLUSIVE, None)
    first, energy = outcome.measurements
    assert (first.quantity, first.unit) == ("ks_gap@r2scan/def2-svp//gfn2", "eV")
    assert first.value == pytest.approx(7.7, abs=0.15)
    assert (energy.quantity, energy.unit) == ("energy@r2scan/def2-svp//gfn2", "Ha")
    assert outcome.labels["chemistry_class"] == "saturated_oxygen"


@pytest.mark.parametrize("spelling", ["C(O)C", "OCC", "[CH3][CH2][OH]"])
def test_every_spelling_has_the_same_gap(spelling: str) -> None:
    assert gap(spelling, QUICK) == pytest.approx(gap("CCO", QUICK), abs=1e-3)


def test_rotation_moves_the_gap_by_less_than_a_millielectronvolt() -> None:
    water = [("O", (0.0, 0.0, 0.0)), ("H", (0.96, 0.0, 0.0)), ("H", (-0.24, 0.93, 0.0))]
    turned = [(symbol, (0.6 * x - 0.8 * y, 0.8 * x + 0.6 * y, z)) for symbol, (x, y, z) in reversed(water)]
    values = []
    for atoms in (water, turned):
        field, _ = kohn_sham(atoms, 0, 0, GapParams())
        levels = sorted(field.mo_energy)
        values.append(27.211386 * (levels[5] - levels[4]))
    assert values[0] == pytest.approx(values[1], abs=1e-3)


def test_radicals_are_unrestricted() -> None:
    outcome = run("[CH3]", QUICK)
    assert isinstance(outcome, Finding)
    assert outcome.labels["chemistry_class"] == "open_shell"
    assert any("smaller of the gaps" in text for text in outcome.assumptions)


def test_iodine_gets_its_core_potential() -> None:
    light = gap("CF", GapParams(functional="pbe"))
    heavy = gap("CI", GapParams(functional="pbe"))
    assert 3.0 < heavy < light


@pytest.mark.parametrize(
    ("smiles", "code"),
    [
        ("[Na+].[Cl-]", "multiple_fragments"),
        ("[Fe]", "metal_complex"),
        ("F[U](F)(F)(F)(F)F", "unsupported_element"),
        ("C" * 20, "too_large"),
    ],
)
def test_what_cannot_be_measured_is_named(smiles: str, code: str) -> None:
    outcome = run(smiles, QUICK)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code) == ("permanent", code)


def test_a_field_that_does_not_converge_is_no_number() -> None:
    outcome = run("O", GapParams(functional="pbe", basis="sto-3g", max_cycle=1))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code) == ("permanent", "not_converged")


def test_a_second_solver_rescues_what_diis_misses() -> None:
    outcome = run("O", GapParams(functional="pbe", basis="sto-3g", max_cycle=4))
    assert isinstance(outcome, Finding)
    assert outcome.labels["solver"] == "second order"
    assert outcome.measurements[0].value == pytest.approx(gap("O", QUICK), abs=1e-3)
