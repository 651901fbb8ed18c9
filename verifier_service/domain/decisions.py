"""What the policy is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from verifier_service.domain.evidence import Evidence, Tier
from verifier_service.domain.ladders import Ladder

DecisionAction = Literal["request", "hold", "stop"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RungEvidence:
    """Evidence with the ladder path it answers."""

    path: str
    evidence: Evidence


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Belief about the outcome of one candidate.

    ``mean``/``variance`` of the quantity (``None`` for judged ladders), ``outcome`` in [0, 1] with its
    ``outcome_variance``, and a central 90 % interval of the outcome. ``tier`` is the tier it rests on.
    """

    tier: Tier
    mean: float | None
    variance: float | None
    outcome: float
    outcome_variance: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TierOption:
    """A tier the case could be sent to next, with the quote for all of its rungs.

    ``account`` is the budget it is paid from, ``credits`` the expected price, ``failed`` true when the
    tier was tried and no verification happened.
    """

    tier: Tier
    account: Literal["compute", "human"]
    credits: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyCase:
    """One undecided case: belief, what was observed or tried, and what could be bought."""

    trajectory: int
    group: str | None
    multiplicity: int
    ladder: Ladder
    estimate: Estimate | None
    observed: frozenset[Tier]
    failed: frozenset[Tier]
    soft_rejected: bool
    options: tuple[TierOption, ...]
    age_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetView:
    """Credits left per account; infinite where the run has no limit."""

    compute: float
    human: float

    def left(self, account: Literal["compute", "human"]) -> float:
        """Credits left in one account."""
        return self.compute if account == "compute" else self.human


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """``request`` and ``hold`` name a tier. ``code`` is stable, ``reason`` a sentence for people.

    ``priority`` orders claims and ``rank`` held demands (higher first), ``propensity`` is the
    probability with which this was sent, null while the run has no audit.
    """

    trajectory: int
    action: DecisionAction
    tier: Tier | None
    code: str
    reason: str
    quote: float = 0.0
    priority: float = 0.0
    rank: float | None = None
    propensity: float | None = None
