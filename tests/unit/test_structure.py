"""Checks of a quantum job at the door: charge and spin, composition, distances, methods."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tiers.elements import NUMBERS, RADII
from tiers.quantum_job import QuantumJob, precheck_quantum, read_job
from tiers.structure import MAX_ATOMS, Structure, read_xyz

WATER = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"
HYDROXYL = "2\nOH\nO 0 0 0\nH 0 0 0.97\n"
ATOM = "1\nH\nH 0 0 0\n"


def structure(text: str) -> Structure:
    read = read_xyz(text)
    assert isinstance(read, Structure)
    return read


@pytest.mark.parametrize(
    ("xyz", "inputs", "code", "field"),
    [
        (HYDROXYL, {"charge": 0, "spin_2S": 0}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (HYDROXYL, {}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (HYDROXYL, {"multiplicity": 1}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (WATER, {"spin_2S": 1}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (WATER, {"spin_2S": -2}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (ATOM, {"charge": 0, "spin_2S": 5}, "charge_spin_inconsistent", "inputs.spin_2S"),
        (WATER, {"charge": 10, "spin_2S": 0}, "charge_spin_inconsistent", "inputs.charge"),
        (HYDROXYL, {"spin_2S": 1, "multiplicity": 1}, "charge_spin_inconsistent", "inputs.multiplicity"),
        (WATER, {"charge": "0"}, "bad_input", "inputs.charge"),
        (WATER, {"charge": True}, "bad_input", "inputs.charge"),
        (WATER, {"charge": 0.5}, "bad_input", "inputs.charge"),
        (WATER, {"charge": 10**400}, "bad_input", "inputs.charge"),
        (WATER, {"max_cycle": 0}, "bad_input", "inputs.max_cycle"),
        (WATER, {"tolerance": 0}, "bad_input", "inputs.tolerance"),
        (WATER, {"tolerance": True}, "bad_input", "inputs.tolerance"),
        (WATER, {"method": "FCI"}, "bad_method", "inputs.method"),
        (WATER, {"method": 1}, "bad_method", "inputs.method"),
        (HYDROXYL, {"spin_2S": 1, "method": "RHF"}, "bad_method", "inputs.method"),
        (WATER, {"basis": "sto-2g"}, "bad_basis", "inputs.basis"),
        (WATER, {"basis": "/etc/passwd"}, "bad_basis", "inputs.basis"),
        (WATER, {"method": "RHF/STO-3G", "basis": "cc-pvdz"}, "bad_basis", "inputs.basis"),
        (WATER, {"formula": "CH4"}, "composition", "answer.xyz"),
        (WATER, {"formula": "water"}, "bad_input", "inputs.formula"),
        ("1\n\nU 0 0 0\n", {}, "unsupported_element", "answer.xyz"),
        ("2\n\nH 0 0 0\nH 0 0 0.1\n", {}, "too_close", "answer.xyz"),
        ("2\n\nC 0 0 0\nC 0 0 0.5\n", {}, "too_close", "answer.xyz"),
    ],
)
def test_impossible_jobs_are_refused_with_the_field(
    xyz: str, inputs: dict[str, Any], code: str, field: str
) -> None:
    problem = precheck_quantum({"xyz": xyz}, inputs)
    assert problem is not None
    assert (problem.code, problem.field) == (code, field)
    assert problem.blame == field.partition(".")[0]


@pytest.mark.parametrize(
    ("xyz", "inputs", "method", "basis", "spin"),
    [
        (WATER, {}, "RHF", "sto-3g", 0),
        (WATER, {"method": "rhf/STO-3G", "charge": 0.0}, "RHF", "sto-3g", 0),
        (WATER, {"formula": "H2O", "basis": "Def2-SVP", "spin_2S": 2}, "UHF", "def2-svp", 2),
        (HYDROXYL, {"multiplicity": 2}, "UHF", "sto-3g", 1),
        (HYDROXYL, {"multiplicity": 2, "spin_2S": 1, "method": "ROHF"}, "ROHF", "sto-3g", 1),
        (HYDROXYL, {"charge": -1}, "RHF", "sto-3g", 0),
        (ATOM, {"spin_2S": 1}, "UHF", "sto-3g", 1),
    ],
)
def test_possible_jobs_are_read(
    xyz: str, inputs: dict[str, Any], method: str, basis: str, spin: int
) -> None:
    job = read_job({"xyz": xyz}, inputs)
    assert isinstance(job, QuantumJob)
    assert (job.method, job.basis, job.spin_2s) == (method, basis, spin)
    assert read_job(xyz, inputs) == job


@pytest.mark.parametrize(
    ("xyz", "pieces"),
    [
        (WATER, 1),
        (ATOM, 1),
        ("2\n\nHe 0 0 0\nHe 0 0 100\n", 2),
        ("4\n\nH 0 0 0\nH 0 0 0.74\nH 0 0 5\nH 0 0 5.74\n", 2),
        ("2\n\nNa 0 0 0\nCl 0 0 2.36\n", 1),
    ],
)
def test_fragments_are_counted(xyz: str, pieces: int) -> None:
    assert structure(xyz).fragments() == pieces


@pytest.mark.parametrize("answer", [None, {}, {"xyz": None}, [], 7, {"other": "x"}])
def test_answers_without_xyz_are_the_answers_fault(answer: object) -> None:
    problem = precheck_quantum(answer, {})
    assert problem is not None
    assert (problem.code, problem.blame) == ("not_text", "answer")


def test_the_largest_job_is_checked_quickly() -> None:
    lines = [f"H {i % 10} {i // 10 % 10} {i // 100}" for i in range(MAX_ATOMS)]
    text = f"{MAX_ATOMS}\n\n" + "\n".join(lines)
    start = time.perf_counter()
    assert precheck_quantum({"xyz": text}, {}) is None
    assert time.perf_counter() - start < 20.0


def test_elements_are_complete_and_ordered() -> None:
    assert len(NUMBERS) == 118
    assert (NUMBERS["H"], NUMBERS["Fe"], NUMBERS["I"], NUMBERS["Rn"], NUMBERS["Og"]) == (1, 26, 53, 86, 118)
    assert len(RADII) == 86
    assert (RADII["C"], RADII["Cs"], RADII["Rn"]) == (0.76, 2.44, 1.50)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"formula": "U", "spin_2S": 4}, "unsupported_element"),
        ({"formula": "He101"}, "too_many_atoms"),
        ({"formula": "c2h6"}, "bad_input"),
    ],
)
def test_a_task_that_no_answer_can_meet_is_the_tasks_fault(inputs: dict[str, object], code: str) -> None:
    problem = precheck_quantum({"xyz": "1\n\nH 0 0 0\n"}, inputs)
    assert problem is not None
    assert (problem.code, problem.blame, problem.field) == (code, "inputs", "inputs.formula")
