"""A case: one trajectory's candidate with its demands, evidence and standing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from verifier_service.domain.checks import DemandView
from verifier_service.domain.decisions import RungEvidence
from verifier_service.domain.evidence import Evidence, Tier, Verdict
from verifier_service.domain.ladders import Ladder, Role
from verifier_service.domain.records import JsonObject, Record
from verifier_service.domain.retractions import KEPT, RETRIED
from verifier_service.domain.states import LIVE_CHECKS, DemandState, RewardStatus
from verifier_service.domain.trajectories import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTrajectory:
    """A trajectory to store. ``body`` is a ``Body`` without its turns as JSON text, ``turns`` are those."""

    id: str
    content: str  # digest of the submission without its id
    group: str | None
    group_size: int | None
    policy_version: str | None
    ladder: str
    ladder_version: int
    subject: str  # raw digest of what the ladder takes from it
    turns_digest: str
    n_turns: int
    finished: bool
    body: str
    turns: str = "[]"


class Body(Record):
    """The stored text of a trajectory, parsed."""

    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    reference: JsonObject = {}
    turns: tuple[Turn, ...] = ()
    answer: str | JsonObject | None = None
    metadata: JsonObject = {}


class Standing(NamedTuple):
    """The trajectory's row without its body. A tuple, like the views of checks and demands: these are made
    by the dozen for each trajectory, and a frozen dataclass takes five times as long to make."""

    pk: int
    project: str
    run: str
    id: str
    content: str
    multiplicity: int
    group: str | None
    group_size: int | None
    policy_version: str | None
    ladder: str
    ladder_version: int
    subject: str  # raw digest until identified, then the candidate digest
    canonical: str | None
    identified: bool
    turns_digest: str
    n_turns: int
    finished: bool
    cancelled: bool
    needs_decision: bool
    # Ended demands that the policy had seen when it last decided; -1: never; more than there are: evidence
    # was taken back since.
    decided_on: int
    decision: str | None  # the last decision in words: "code: reason"
    propensity: float | None  # of reaching the truth; null while no audit has been drawn for it
    audited: bool
    predicted: float | None  # outcome believed in before the audit was drawn
    status: RewardStatus | None
    reward: float | None
    outcome: float | None
    variance: float | None
    revision: int
    seq: int | None
    fingerprint: str | None
    met: int  # see ``met_rank``
    created_at: float
    registered_at: float | None = None  # when it was finished, if that was later


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What advance, decide and settle look at."""

    standing: Standing
    ladder: Ladder
    demands: tuple[DemandView, ...]

    def of_role(self, *roles: Role) -> Iterator[DemandView]:
        """Demands with one of ``roles``, in climbing order."""
        return (demand for demand in self.demands if demand.role in roles)

    def of_candidate(self) -> Iterator[DemandView]:
        """Demands about the candidate, not about turns."""
        return (demand for demand in self.demands if demand.role != "process")

    def ended(self) -> int:
        """How many demands about the candidate have ended: what the policy can have seen."""
        return sum(
            demand.state in (DemandState.SATISFIED, DemandState.WITHDRAWN) for demand in self.of_candidate()
        )

    def at(self, path: str) -> DemandView | None:
        """The demand that still stands for one rung, if any."""
        found = [demand for demand in self.demands if demand.path == path]
        standing = [demand for demand in found if demand.state is not DemandState.WITHDRAWN]
        return standing[-1] if standing else None

    def evidence(self, demand: DemandView) -> Evidence | None:
        """Evidence of a satisfied demand, or of one that counts until its rung is verified anew; ``None``
        while there is none."""
        if demand.check is None:
            return None
        if demand.state is DemandState.SATISFIED or self._kept(demand):
            return demand.check.evidence
        return None

    def evidence_at(self, path: str) -> Evidence | None:
        """The latest evidence on one rung."""
        found = [self.evidence(demand) for demand in self.demands if demand.path == path]
        return next((evidence for evidence in reversed(found) if evidence is not None), None)

    def renewed(self) -> bool:
        """Whether evidence that was kept meanwhile has been replaced, or what an operator retried has been
        found."""
        return any(demand.reason == KEPT and not self._kept(demand) for demand in self.demands) or any(
            demand.reason == RETRIED and self.evidence_at(demand.path) is not None
            for demand in self.demands
        )

    def _kept(self, demand: DemandView) -> bool:
        if demand.state is not DemandState.WITHDRAWN or demand.reason != KEPT:
            return False
        return not any(
            later.state is DemandState.SATISFIED
            and later.path == demand.path
            and later.check is not None
            and later.check.evidence is not None
            for later in self.demands
        )

    def rung_evidence(self) -> list[RungEvidence]:
        """All evidence about the candidate, with the rungs it answers."""
        return [
            RungEvidence(path=demand.path, evidence=evidence)
            for demand in self.of_candidate()
            if (evidence := self.evidence(demand)) is not None
        ]

    def live(self, *, up_to: Tier = Tier.LAB) -> bool:
        """Whether any check at or below ``up_to`` is queued, running or waiting."""
        return any(
            demand.state is DemandState.REQUESTED
            and demand.check is not None
            and demand.check.state in LIVE_CHECKS
            and demand.tier.rank <= up_to.rank
            for demand in self.demands
        )

    def held(self) -> bool:
        """Whether the policy keeps a demand back for later."""
        return any(demand.state is DemandState.HELD for demand in self.demands)

    def passed(self, *, up_to: Tier) -> bool:
        """Whether every hard gate at or below ``up_to`` ran and let the candidate through."""
        gates = (r for r in self.ladder.rungs if r.role == "hard_gate" and r.tier.rank <= up_to.rank)
        for gate in gates:
            evidence = self.evidence_at(gate.path)
            if evidence is None or evidence.verdict is Verdict.REJECT:
                return False
        return True

    def gate_broken(self) -> bool:
        """Whether a hard gate has ended, or was never asked, without a verdict."""
        return any(
            demand.state in (DemandState.SATISFIED, DemandState.WITHDRAWN)
            and self.evidence_at(demand.path) is None
            and self.at(demand.path) in (demand, None)
            for demand in self.of_role("hard_gate")
        )

    def gate_rejection(self, role: Role) -> Evidence | None:
        """The first rejecting gate of that role."""
        for demand in self.of_role(role):
            evidence = self.evidence(demand)
            if evidence is not None and evidence.verdict is Verdict.REJECT:
                return evidence
        return None
