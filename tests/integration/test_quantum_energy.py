"""``quantum.energy`` against published Hartree-Fock energies, and its named outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from tiers.high_fidelity.quantum_energy import QuantumEnergy
from tiers.single_thread import one_thread
from verifier_service.domain.evidence import Failure, Finding, Outcome, Verdict
from verifier_service.domain.verifiers import CheckInput, Params

one_thread()

BOHR = 0.529177210903
WATER = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"
HYDROXYL = "2\nOH\nO 0 0 0\nH 0 0 0.97\n"
HELIUM_PAIR = "2\nHe2\nHe 0 0 0\nHe 0 0 100\n"


def run(xyz: str, inputs: dict[str, Any], reference: dict[str, Any] | None = None) -> Outcome:
    item = CheckInput(candidate={"xyz": xyz}, inputs=inputs, reference=reference or {})
    return QuantumEnergy().attempt(item, Params())


def found(xyz: str, inputs: dict[str, Any], reference: dict[str, Any] | None = None) -> Finding:
    outcome = run(xyz, inputs, reference)
    assert isinstance(outcome, Finding), outcome
    return outcome


def in_bohr(atoms: list[tuple[str, float, float, float]]) -> str:
    lines = [f"{s} {x * BOHR:.12f} {y * BOHR:.12f} {z * BOHR:.12f}" for s, x, y, z in atoms]
    return "\n".join([str(len(atoms)), "", *lines])


# T. D. Crawford, Programming Project 3 (computed with PSI3): geometries in bohr.
CRAWFORD_WATER = in_bohr(
    [
        ("O", 0.0, -0.143225816552, 0.0),
        ("H", 1.638036840407, 1.136548822547, 0.0),
        ("H", -1.638036840407, 1.136548822547, 0.0),
    ],
)
CRAWFORD_METHANE = in_bohr(
    [
        ("C", 0.0, 0.0, 0.0),
        ("H", 1.183771681898, -1.183771681898, -1.183771681898),
        ("H", 1.183771681898, 1.183771681898, 1.183771681898),
        ("H", -1.183771681898, 1.183771681898, -1.183771681898),
        ("H", -1.183771681898, -1.183771681898, 1.183771681898),
    ],
)


@pytest.mark.parametrize(
    ("xyz", "inputs", "energy", "tolerance"),
    [
        (CRAWFORD_WATER, {}, -74.942079928192, 1e-7),
        (CRAWFORD_METHANE, {}, -39.726850324347, 1e-7),
        # Szabo and Ostlund, Modern Quantum Chemistry, section 3.5: H2 at 1.4 bohr, and its atoms.
        (in_bohr([("H", 0, 0, 0), ("H", 0, 0, 1.4)]), {}, -1.1167, 5e-5),
        ("1\n\nH 0 0 0\n", {"spin_2S": 1}, -0.46658, 5e-6),
        ("1\n\nHe 0 0 0\n", {}, -2.807784, 1e-6),
        # The limit of the hydrogen atom: no basis goes below -0.5 Ha, a good one comes close.
        ("1\n\nH 0 0 0\n", {"spin_2S": 1, "basis": "cc-pvtz"}, -0.5, 3e-4),
        (HYDROXYL, {"spin_2S": 1, "method": "UHF/STO-3G"}, -74.362669, 1e-6),
        (WATER, {"method": "RHF", "basis": "STO-3G"}, -74.963359, 1e-6),
    ],
)
def test_published_energies(xyz: str, inputs: dict[str, Any], energy: float, tolerance: float) -> None:
    finding = found(xyz, inputs)
    assert finding.verdict is Verdict.ACCEPT
    assert finding.score == 1.0
    assert finding.measurements[0].unit == "Ha"
    assert finding.measurements[0].value == pytest.approx(energy, abs=tolerance)


def test_rotation_and_atom_order_do_not_matter() -> None:
    turned = "3\n\nH 0 0.96 0\nO 0 0 0\nH -0.93 -0.24 0\n"
    here = found(WATER, {}).measurements[0].value
    assert found(turned, {}).measurements[0].value == pytest.approx(here, abs=1e-8)


@pytest.mark.parametrize(("energy", "score"), [(-74.963359, 1.0), (-74.9640, 0.0), (-75, 0.0)])
def test_a_reference_decides_the_score_and_stays_secret(energy: float, score: float) -> None:
    finding = found(WATER, {}, {"energy": energy})
    assert finding.score == score
    assert (finding.reason.code if finding.reason else None) == (None if score else "energy_mismatch")
    shown = finding.model_dump_json(exclude={"measurements"})
    assert str(energy) not in shown


def test_the_tolerance_is_an_input() -> None:
    assert found(WATER, {"tolerance": 1e-3}, {"energy": -74.9640}).score == 1.0


def test_a_saddle_point_is_flagged_and_the_stable_solution_reported() -> None:
    # Two hydrogen atoms far apart: the true UHF energy is twice that of one, -0.46658 Ha each.
    finding = found("2\n\nH 0 0 0\nH 0 0 10\n", {"method": "UHF"}, {"energy": 2 * -0.466582})
    assert finding.score == 1.0
    first, stable = finding.measurements
    assert first.value > -0.6
    assert stable.quantity == "energy@uhf/sto-3g/stable"
    assert stable.value == pytest.approx(2 * -0.466582, abs=1e-5)
    assert "unstable" in [hint.kind for hint in finding.hints]


def test_an_unconverged_number_is_never_used() -> None:
    outcome = run(WATER, {"method": "RHF/STO-3G", "max_cycle": 1}, {"energy": -74.912827})
    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.kind) == ("not_converged", "permanent")
    assert "74.9" not in outcome.message


def test_a_second_solver_rescues_what_diis_misses() -> None:
    finding = found(WATER, {"max_cycle": 5})
    assert finding.labels["solver"] == "second order"
    assert finding.measurements[0].value == pytest.approx(-74.963359, abs=1e-6)


def test_far_fragments_are_flagged_and_no_molecule() -> None:
    finding = found(HELIUM_PAIR, {"method": "RHF/STO-3G"})
    assert finding.measurements[0].value == pytest.approx(2 * -2.807784, abs=2e-6)
    assert finding.labels["fragments"] == "2"
    assert [hint.kind for hint in finding.hints] == ["disconnected"]
    refused = found(HELIUM_PAIR, {"method": "RHF/STO-3G", "task": "molecule"})
    assert (refused.verdict, refused.score) == (Verdict.REJECT, 0.0)
    assert refused.reason is not None
    assert refused.reason.code == "disconnected"


def test_an_unreadable_structure_is_rejected_with_its_code() -> None:
    finding = found("3\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", {})
    assert finding.reason is not None
    assert (finding.reason.code, finding.score) == ("missing_comment_line", 0.0)


@pytest.mark.parametrize(
    ("inputs", "reference", "kind", "code"),
    [
        ({"spin_2S": 1}, {}, "permanent", "charge_spin_inconsistent"),
        ({"method": "FCI"}, {}, "task_error", "bad_method"),
        ({}, {"energy": "low"}, "task_error", "bad_reference"),
        ({}, {"energy": True}, "task_error", "bad_reference"),
    ],
)
def test_what_is_no_fault_of_the_answer_is_no_score(
    inputs: dict[str, Any], reference: dict[str, Any], kind: str, code: str
) -> None:
    outcome = run(WATER, inputs, reference)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code) == (kind, code)


def test_the_door_refuses_impossible_inputs_and_lets_bad_structures_be_judged() -> None:
    verifier = QuantumEnergy()
    odd = verifier.precheck(CheckInput(candidate={"xyz": HYDROXYL}, inputs={"spin_2S": 0}), Params())
    assert odd is not None
    assert odd.code == "charge_spin_inconsistent"
    assert verifier.precheck(CheckInput(candidate={"xyz": "3\nO"}, inputs={}), Params()) is None
    assert verifier.precheck(CheckInput(candidate={"xyz": WATER}, inputs={}), Params()) is None
