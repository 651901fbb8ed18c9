"""``quantum.energy``: the Hartree-Fock energy of a submitted structure, only if it converged."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

from tiers.basis_size import of_xyz
from tiers.high_fidelity.scf import build, converge, load, lower_solution
from tiers.quantum_job import QuantumJob, precheck_quantum, read_job
from tiers.structure import Problem
from verifier_service.domain.errors import Permanent, TaskError
from verifier_service.domain.evidence import Finding, Hint, Measurement, Reason, Tier, Verdict
from verifier_service.domain.records import JsonObject
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_HARTREE = 1e9
CONVERGENCE_HA = 1e-10


class QuantumEnergy(Verifier):
    """Candidate ``{"xyz": text}``, judged under the inputs that ``tiers.quantum_job`` reads.

    The reference may hold ``energy`` in Ha. Score 1 if the SCF converged and, where a reference is given,
    its energy lies within ``inputs.tolerance``; 0 with ``energy_mismatch`` otherwise. A structure that
    cannot be read is rejected with its own code; one in several pieces is flagged, and rejected as
    ``disconnected`` if ``inputs.task`` is ``molecule``. If the solution is a saddle point, the stable one
    is reported beside it (``energy@…/stable``) and the reference may match either.
    Raises ``Permanent``: ``not_converged`` after three solvers within ``max_cycle`` (the unconverged number
    is dropped), ``charge_spin_inconsistent``, ``scf_failed``; ``TaskError`` for inputs nobody can satisfy.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="quantum.energy",
        version="1",
        tier=Tier.HIGH_FIDELITY,
        summary="Converged Hartree-Fock energy of a submitted geometry (PySCF)",
        reads=frozenset({"candidate", "inputs", "reference"}),
        libraries=("pyscf",),
        quantities=(),
        limits=Limits(time_s=600, memory_mb=4000),
        typical_cpu_s=1.0,
        typical_size=55.0,
        cost_exponent=2.5,
    )

    def unavailable(self) -> str | None:
        """Name the extra to install if a library is missing."""
        missing = find_spec("pyscf") is None
        return "pyscf missing: pip install 'verifier-service[high-fidelity]'" if missing else None

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:  # noqa: ARG002 - no parameters
        """Refuse at the door what no answer could satisfy: impossible charge and spin, unknown method.

        What is wrong with the structure itself is the answer's own fault and becomes a rejection.
        """
        problem = precheck_quantum(item.candidate, dict(item.inputs))
        if problem is None or problem.blame == "answer":
            return None
        return Reason(code=problem.code, message=f"{problem.field}: {problem.message}")

    def size(self, item: CheckInput, params: Params) -> float:  # noqa: ARG002 - no parameters
        """Basis functions of the structure in the basis that the inputs name."""
        candidate = item.candidate
        method, basis = item.inputs.get("method"), item.inputs.get("basis")
        if not isinstance(basis, str):
            basis = method.partition("/")[2] if isinstance(method, str) else ""
        return of_xyz(candidate.get("xyz") if isinstance(candidate, dict) else candidate, basis or "sto-3g")

    def warm(self) -> None:
        """Load the library and run one hydrogen atom before the first deadline."""
        load()
        self.verify(CheckInput(candidate="1\n\nH 0 0 0", inputs={"spin_2S": 1}), Params())

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - no parameters
        """Judge one structure. Raises ``Permanent`` or ``TaskError`` when no judgement was possible."""
        target = _target(item.reference)
        job = read_job(item.candidate, dict(item.inputs))
        if isinstance(job, Problem):
            return _refused(job)
        pieces = job.structure.fragments()
        if pieces > 1 and job.task == "molecule":
            return _rejection(
                "disconnected", f"{pieces} separate fragments, the task asks for one molecule"
            )
        energies, solver = hartree_fock(job)
        measured = Finding(
            verdict=Verdict.ACCEPT,
            score=1.0,
            measurements=_measurements(job, energies),
            labels={"solver": solver, "fragments": str(pieces)},
            features=_features(job, pieces),
            hints=_hints(job, pieces, energies),
            assumptions=_assumptions(job),
        )
        if target is None or any(abs(energy - target) <= job.tolerance for energy in energies):
            return measured
        reason = Reason(code="energy_mismatch", message="the converged energy is not the expected one")
        return measured.model_copy(update={"verdict": Verdict.REJECT, "reason": reason, "score": 0.0})


def hartree_fock(job: QuantumJob) -> tuple[list[float], str]:
    """Converged total energies in Ha and the solver's name (Roothaan 1951; Pople and Nesbet 1954).

    The first is that of the solution found, the second, if there is one, that of a lower solution which
    the first, a saddle point, leads to: a reference may mean either.
    """
    mol = build(job.structure.atoms(), charge=job.charge, unpaired=job.spin_2s, basis=job.basis)
    from pyscf import scf

    fields: dict[str, Any] = {"RHF": scf.RHF, "UHF": scf.UHF, "ROHF": scf.ROHF}
    field, solver = converge(fields[job.method](mol), max_cycle=job.max_cycle, conv_tol=CONVERGENCE_HA)
    lower = lower_solution(field, max_cycle=job.max_cycle)
    return [float(field.e_tot), *([] if lower is None else [lower])], solver


def _target(reference: JsonObject) -> float | None:
    energy = reference.get("energy")
    if energy is None:
        return None
    if not isinstance(energy, int | float) or isinstance(energy, bool) or not abs(energy) <= MAX_HARTREE:
        raise TaskError("bad_reference", "reference.energy is not a number of Hartree")
    return float(energy)


def _refused(problem: Problem) -> Finding:
    if problem.blame == "answer":
        return _rejection(problem.code, problem.message)
    if problem.code == "charge_spin_inconsistent":
        raise Permanent(problem.code, problem.message, field=problem.field)
    raise TaskError(problem.code, problem.message, field=problem.field)


def _rejection(code: str, message: str) -> Finding:
    return Finding(verdict=Verdict.REJECT, reason=Reason(code=code, message=message), score=0.0)


def _measurements(job: QuantumJob, energies: list[float]) -> tuple[Measurement, ...]:
    name = f"energy@{job.method.lower()}/{job.basis}"
    names = (name, f"{name}/stable")
    return tuple(
        Measurement(quantity=quantity, value=energy, unit="Ha", sigma=1e-7)
        for quantity, energy in zip(names, energies, strict=False)
    )


def _features(job: QuantumJob, pieces: int) -> dict[str, float]:
    structure = job.structure
    return {
        "atoms": float(len(structure.symbols)),
        "electrons": float(structure.protons() - job.charge),
        "unpaired_electrons": float(job.spin_2s),
        "charge": float(job.charge),
        "fragments": float(pieces),
    }


def _hints(job: QuantumJob, pieces: int, energies: list[float]) -> tuple[Hint, ...]:
    found = [Hint(kind="ignored", text=note) for note in job.structure.notes]
    if pieces > 1:
        found.append(Hint(kind="disconnected", text=f"{pieces} separate fragments: not one molecule"))
    if len(energies) > 1:
        found.append(Hint(kind="unstable", text="the first solution is a saddle point, a lower one exists"))
    return tuple(found)


def _assumptions(job: QuantumJob) -> tuple[str, ...]:
    return (
        f"{job.method}/{job.basis}, charge {job.charge}",
        f"2S = {job.spin_2s} unpaired electrons (multiplicity {job.spin_2s + 1})",
        "gas phase, geometry as submitted, internal stability tested",
    )
