"""What a trainer gets: append-only reward records, and advantages per group."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from verifier_service.domain.evidence import Cost, Hint, Measurement, Tier
from verifier_service.domain.records import OpenEnum, Record
from verifier_service.domain.states import RewardStatus


class RewardCode(OpenEnum):
    """Why there is no number, or why the number is the floor."""

    PENDING = "pending"
    REJECTED = "rejected"
    BUDGET_EXHAUSTED = "budget_exhausted"
    INFRASTRUCTURE = "infrastructure"
    TASK_ERROR = "task_error"
    UNVERIFIABLE = "unverifiable"
    CANCELLED = "cancelled"
    RETRACTED = "retracted"  # the evidence that it rested on was found to be wrong
    OTHER = "other"


class RewardReason(Record):
    """``detail`` is the named outcome (``empty_structure``, ``not_converged``, ``time_limit``...)."""

    code: RewardCode
    detail: str | None = None
    message: str = ""
    retryable: bool = False


class Interval(Record):
    """Central interval of the outcome at ``level`` (0.9 = 90 %)."""

    low: float
    high: float
    level: float = 0.9


class RewardRecord(Record):
    """One revision of one trajectory's reward.

    ``reward`` = ``outcome`` + ``process_weight`` x mean of the judged turns, in [0, 1 + w].
    ``process`` has one entry per turn, ``None`` where no check judged it. ``variance`` is that of the
    reward. ``tier`` is the highest tier with evidence about the outcome, ``tiers`` all tiers with evidence.
    ``cost`` is the consumption of the checks this run demanded, ``credits`` the same at the tariff.
    ``propensity`` is null while the run has no audit.
    """

    seq: int
    run: str
    trajectory: str
    multiplicity: int = 1
    group: str | None = None
    policy_version: str | None = None
    ladder: str
    ladder_version: int
    revision: int
    status: RewardStatus
    reward: float | None = None
    outcome: float | None = None
    process: tuple[float | None, ...] = ()
    process_weight: float = 0.0
    variance: float | None = None
    interval: Interval | None = None
    tier: Tier | None = None
    tiers: tuple[Tier, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    hints: tuple[Hint, ...] = ()
    reward_dr: float | None = None
    propensity: float | None = None
    audited: bool = False
    reason: RewardReason | None = None
    cost: Cost = Cost()
    credits: float = 0.0
    evidence: tuple[str, ...] = ()
    supersedes: int | None = None
    issued_at: datetime

    @model_validator(mode="after")
    def _null_exactly_when_not_scored(self) -> RewardRecord:
        silent = self.status in (RewardStatus.UNSCORED, RewardStatus.RETRACTED)
        if self.status is not RewardStatus.OTHER and silent != (self.reward is None):
            raise ValueError("reward is null exactly when the record is unscored or retracted")
        return self


class GroupMember(Record):
    """One trajectory of a group; ``valid`` is false where there is no reward."""

    trajectory: str
    multiplicity: int
    reward: float | None
    advantage: float | None
    valid: bool
    status: RewardStatus


class GroupAdvantages(Record):
    """Advantages as the rewards stand at feed position ``seq``.

    ``mean`` and ``std`` are over valid members, each counted ``multiplicity`` times; ``complete`` says
    that all ``expected`` members are settled.
    """

    group: str
    estimator: Literal["grpo", "dr_grpo", "rloo", "posterior"]
    ddof: int
    members: tuple[GroupMember, ...]
    mean: float | None
    std: float | None
    valid: int
    expected: int
    complete: bool
    scorable: bool
    flags: tuple[str, ...] = ()
    seq: int = Field(ge=0)


class Issued(NamedTuple):
    """A record that has just been issued, and how far it meets waits for its trajectory (``met_rank``)."""

    record: RewardRecord
    met: int
