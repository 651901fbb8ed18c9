"""A run seen from above: its trajectories page by page, its rewards as a histogram, what waits where."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from verifier_service.domain.evidence import Tier
from verifier_service.domain.insight import PricePoint
from verifier_service.domain.records import Record
from verifier_service.domain.runs import Account
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import ID_PREFIX_PATTERN

BINS = 20
PENDING = "pending"  # the status of trajectories that have no record yet

ListedStatus = Literal["pending", "unscored", "provisional", "final", "retracted"]
GroupPrefix = Annotated[str, Field(pattern=ID_PREFIX_PATTERN)]


class TrajectoryLine(Record):
    """A trajectory in a list. ``status`` is null while it has no record."""

    id: str
    group: str | None = None
    ladder: str
    ladder_version: int
    policy_version: str | None = None
    multiplicity: int = 1
    finished: bool = True
    cancelled: bool = False
    canonical: str | None = None
    status: RewardStatus | None = None
    reward: float | None = None
    variance: float | None = None
    revision: int = 0
    created_at: datetime


class TrajectoryPage(Record):
    """Trajectories of a run, newest first; ``next`` goes on, and is null at the end. With a filter a page
    may be shorter than its limit, even empty, and still have a ``next``."""

    trajectories: tuple[TrajectoryLine, ...]
    next: str | None = None


class Listed(NamedTuple):
    """A page as the store has it: lines, and the row behind which to go on."""

    lines: tuple[TrajectoryLine, ...]
    after: int | None


class RewardBin(Record):
    """Trajectories whose reward lies in [``low``, ``high``), by status; the last bin has its upper end."""

    low: float
    high: float
    counts: dict[str, int] = {}


class RewardDistribution(Record):
    """``GET /v1/runs/{run}/distribution``: 20 bins over the range of rewards, [0, 1 + w] with the largest
    process weight w of the run's ladders. ``statuses`` counts all trajectories, those without a reward too;
    ``pending`` ones have no record yet. Counted at ``as_of``: on large runs that is some time ago."""

    run: str
    bins: tuple[RewardBin, ...]
    statuses: dict[str, int]
    as_of: datetime


class RunSpending(Record):
    """``GET /v1/runs/{run}/spending``: the accounts as the ledger holds them now, and what the policy had
    asked for over time. The fast tier is not decided upon: its cost is in the accounts only."""

    run: str
    accounts: tuple[Account, ...]
    points: tuple[PricePoint, ...]


class QueueLine(Record):
    """What is under way on one tier: checks by state, and for how many seconds the oldest of those that are
    queued for workers, and of those that wait for people, have been."""

    tier: Tier
    queued: int = 0
    running: int = 0
    waiting_external: int = 0
    oldest_queued_s: float | None = None
    oldest_waiting_s: float | None = None


class QueueList(Record):
    """``GET /v1/queues``: checks of the project that have not ended, by tier, as counted at ``as_of``."""

    queues: tuple[QueueLine, ...]
    as_of: datetime
