"""A quantum job as submitted: an XYZ structure and what to compute, checked before it is queued.

Standard library only: ``precheck_quantum`` runs at the door, ``quantum.energy`` reads the same job again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tiers.elements import NUMBERS
from tiers.structure import MAX_ATOMS, Problem, Structure, read_xyz, spin_problem

METHODS = ("RHF", "UHF", "ROHF")
DEFAULT_TOLERANCE = 1e-5
MAX_CYCLES = 1000

_UP_TO_KR = frozenset(range(1, 37)) - {19}
_DEF2 = frozenset(range(1, 58)) | frozenset(range(72, 87))
COVERAGE: dict[str, frozenset[int]] = {
    "sto-3g": frozenset(range(1, 54)),
    "3-21g": frozenset(range(1, 55)),
    "6-31g": frozenset(range(1, 31)),
    "6-31g*": frozenset(range(1, 31)),
    "6-31g**": frozenset(range(1, 31)),
    "cc-pvdz": _UP_TO_KR,
    "cc-pvtz": _UP_TO_KR,
    "def2-svp": _DEF2,
    "def2-tzvp": _DEF2,
}
_FORMULA = re.compile(r"([A-Z][a-z]?)(\d{0,4})", re.ASCII)


@dataclass(frozen=True)
class QuantumJob:
    """What to compute: ``spin_2s`` = 2S, ``method`` and ``basis`` as in ``METHODS`` and ``COVERAGE``."""

    structure: Structure
    charge: int
    spin_2s: int
    method: str
    basis: str
    max_cycle: int
    tolerance: float
    task: str


def precheck_quantum(answer: object, inputs: dict[str, Any]) -> Problem | None:
    """The first problem of a submission, or ``None``: linear in the text, bounded in the atoms.

    Codes of ``tiers.structure.read_xyz``, and ``charge_spin_inconsistent``, ``bad_input``, ``bad_method``,
    ``bad_basis``, ``unsupported_element``, ``composition``, ``too_close``. ``Problem.blame`` tells whether
    the answer is wrong or what was asked of it.
    """
    job = read_job(answer, inputs)
    return job if isinstance(job, Problem) else None


def read_job(answer: object, inputs: dict[str, Any]) -> QuantumJob | Problem:
    """Read the job; the answer is ``{"xyz": text}`` or the text itself.

    Inputs, all optional: ``charge`` (0); ``spin_2S``, the number of unpaired electrons 2S (0), or
    ``multiplicity`` = 2S + 1, or both if they agree; ``method`` (RHF for 2S = 0, else UHF) and ``basis``
    (sto-3g), or both as in ``RHF/STO-3G``; ``max_cycle`` per solver (100); ``tolerance`` in Ha (1e-5);
    ``formula``, which the atoms must match; ``task``: ``molecule`` demands one connected molecule.
    """
    numbers = _read_numbers(inputs)
    if isinstance(numbers, Problem):
        return numbers
    charge, spin, cycles, tolerance = numbers
    method = _read_method(inputs, spin)
    if isinstance(method, Problem):
        return method
    wanted = _read_composition(inputs, method[1])
    if isinstance(wanted, Problem):
        return wanted
    structure = read_xyz(answer.get("xyz") if isinstance(answer, dict) else answer)
    if isinstance(structure, Problem):
        return structure
    task = str(inputs.get("task", "energy"))[:40]
    job = QuantumJob(structure, charge, spin, *method, cycles, tolerance, task)
    return _job_problem(job, wanted) or job


def _read_composition(inputs: dict[str, Any], basis: str) -> dict[str, int] | Problem | None:
    """The composition that the task demands, if any; a demand that no answer could meet is its fault."""
    if "formula" not in inputs:
        return None
    wanted = _read_formula(inputs["formula"])
    if wanted is None:
        return Problem("bad_input", "formula is not like C2H6O", "inputs.formula")
    outside = sorted(symbol for symbol in wanted if NUMBERS[symbol] not in COVERAGE[basis])
    if outside:
        message = f"{basis} does not cover {', '.join(outside)}"
        return Problem("unsupported_element", message, "inputs.formula")
    if sum(wanted.values()) > MAX_ATOMS:
        return Problem("too_many_atoms", f"more than {MAX_ATOMS} atoms", "inputs.formula")
    return wanted


def _job_problem(job: QuantumJob, wanted: dict[str, int] | None) -> Problem | None:
    outside = sorted({s for s in job.structure.symbols if NUMBERS[s] not in COVERAGE[job.basis]})
    if outside:
        return Problem(
            "unsupported_element", f"{job.basis} does not cover {', '.join(outside)}", "answer.xyz"
        )
    if wanted is not None and wanted != job.structure.formula():
        return Problem("composition", "the atoms are not those of the task", "answer.xyz")
    wrong = spin_problem(job.structure, job.charge, job.spin_2s)
    if wrong:
        return wrong
    pair = job.structure.closest()
    if pair:
        return Problem("too_close", f"atoms {pair[0] + 1} and {pair[1] + 1} overlap", "answer.xyz")
    return None


def _read_numbers(inputs: dict[str, Any]) -> tuple[int, int, int, float] | Problem:
    charge = _integer(inputs, "charge", 0, -50, 200)
    multiplicity = _integer(inputs, "multiplicity", None, 1, 200)
    spin = _integer(inputs, "spin_2S", None, -200, 200)
    cycles = _integer(inputs, "max_cycle", 100, 1, MAX_CYCLES)
    for value in (charge, multiplicity, spin, cycles):
        if isinstance(value, Problem):
            return value
    if spin is not None and multiplicity is not None and multiplicity != spin + 1:
        return Problem("charge_spin_inconsistent", "multiplicity is not 2S + 1", "inputs.multiplicity")
    if spin is None:
        spin = multiplicity - 1 if multiplicity is not None else 0
    tolerance = inputs.get("tolerance", DEFAULT_TOLERANCE)
    real = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
    if not real or not 0.0 < tolerance <= 1.0:
        return Problem("bad_input", "tolerance is not a number of Hartree in (0, 1]", "inputs.tolerance")
    return charge or 0, spin, cycles or 1, float(tolerance)


def _integer(inputs: dict[str, Any], name: str, default: int | None, low: int, high: int) -> Any:
    value = inputs.get(name, default)
    if value is default:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        return Problem("bad_input", f"{name} is not an integer from {low} to {high}", f"inputs.{name}")
    return value


def _read_method(inputs: dict[str, Any], spin: int) -> tuple[str, str] | Problem:
    """Method and basis; ``method`` may also name both, as in ``RHF/STO-3G``."""
    text = inputs.get("method", "UHF" if spin else "RHF")
    if not isinstance(text, str):
        return Problem("bad_method", "method is not text", "inputs.method")
    method, slash, joint = text.partition("/")
    basis = inputs.get("basis", joint if slash else "sto-3g")
    if method.upper() not in METHODS:
        return Problem("bad_method", f"method is none of {', '.join(METHODS)}", "inputs.method")
    if method.upper() == "RHF" and spin:
        return Problem("bad_method", "RHF is for 2S = 0; use UHF or ROHF", "inputs.method")
    if not isinstance(basis, str) or basis.lower() not in COVERAGE:
        return Problem("bad_basis", f"basis is none of {', '.join(COVERAGE)}", "inputs.basis")
    if slash and joint.lower() != basis.lower():
        return Problem("bad_basis", "method and basis name two basis sets", "inputs.basis")
    return method.upper(), basis.lower()


def _read_formula(text: object) -> dict[str, int] | None:
    if not isinstance(text, str) or not re.fullmatch(r"(?:[A-Z][a-z]?\d{0,4}){1,40}", text, re.ASCII):
        return None
    counts: dict[str, int] = {}
    for symbol, number in _FORMULA.findall(text):
        counts[symbol] = counts.get(symbol, 0) + int(number or 1)
    return counts if set(counts) <= set(NUMBERS) else None
