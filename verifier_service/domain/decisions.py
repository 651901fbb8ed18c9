"""What the policy is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from verifier_service.domain.evidence import Evidence, Tier
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.records import Record
from verifier_service.domain.runs import RunSpec

DecisionAction = Literal["request", "hold", "stop"]


class FittedModel(NamedTuple):
    """What was learned for a version of a ladder. ``number`` counts from 1; ``body`` is the scheduler's own
    document, which only it reads."""

    number: int
    labels: int
    body: str


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
    ``model`` is the number of the fitted model that it comes from, ``None`` where none was needed.
    ``measured`` is false for a prediction from features, or from scores of others, alone.
    """

    tier: Tier
    mean: float | None
    variance: float | None
    outcome: float
    outcome_variance: float
    low: float
    high: float
    model: int | None = None
    measured: bool = True


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
    """One undecided case: belief, what was observed or tried, and what could be bought.

    ``id`` names it in draws, ``bonus`` is what the process checks add to its outcome. ``propensity`` and
    ``audited`` are null and false until the policy has drawn for it: a case is drawn once.
    """

    trajectory: int
    id: str
    group: str | None
    multiplicity: int
    ladder: Ladder
    estimate: Estimate | None
    observed: frozenset[Tier]
    failed: frozenset[Tier]
    soft_rejected: bool
    options: tuple[TierOption, ...]
    age_s: float = 0.0
    bonus: float = 0.0
    model: FittedModel | None = None
    first: bool = True
    propensity: float | None = None
    audited: bool = False


class Sibling(NamedTuple):
    """A trajectory of a run as its record stands: reward with its variance."""

    trajectory: int
    group: str
    reward: float
    variance: float
    multiplicity: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetView:
    """Credits left per account; infinite where the run has no limit."""

    compute: float
    human: float

    def left(self, account: Literal["compute", "human"]) -> float:
        """Credits left in one account."""
        return self.compute if account == "compute" else self.human


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """The run for which the policy decides.

    ``seed`` starts every draw. ``siblings`` are the scored members, outside the batch, of its groups.
    ``pacing`` is what the policy noted the last time (its own document), ``elapsed_s`` the run's age and
    ``left_s`` the time until its horizon, if that is a time.
    """

    spec: RunSpec
    seed: int
    budgets: BudgetView
    siblings: tuple[Sibling, ...] = ()
    pacing: str | None = None
    elapsed_s: float = 0.0
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """``request`` and ``hold`` name a tier. ``code`` is stable, ``reason`` a sentence for people.

    ``priority`` orders claims and ``rank`` held demands (higher first). ``utility`` is what the purchase is
    expected to be worth, in units of the run's objective, ``quote`` its expected cost in credits, ``price``
    what a credit had to buy at the time. ``propensity`` is the probability with which this case reaches
    the truth, null while the run has no audit; ``draw`` the uniform number that decided the audit.
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
    utility: float | None = None
    price: float | None = None
    draw: float | None = None
    audited: bool = False


class Verdicts(NamedTuple):
    """One decision per case, in order, and what the policy wants to know the next time."""

    decisions: list[Decision]
    pacing: str | None = None


class LoggedDecision(Record):
    """One line of the log of decisions: what was decided, when, on what belief and at what price.

    ``outcome``, ``variance``, ``low``, ``high`` are the belief at that time, ``level`` the tier it rested
    on and ``model`` the number of the fitted model; all null while nothing could be said.
    """

    trajectory: str
    at: datetime
    action: str
    tier: Tier | None = None
    code: str
    reason: str
    cost: float = 0.0
    utility: float | None = None
    price: float | None = None
    propensity: float | None = None
    draw: float | None = None
    audited: bool = False
    level: Tier | None = None
    model: int | None = None
    outcome: float | None = None
    variance: float | None = None
    low: float | None = None
    high: float | None = None
