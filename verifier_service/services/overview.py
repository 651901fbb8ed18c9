"""A run seen from above: lists, counts, and what it cost over time."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from verifier_service.domain.cursors import cursor_of
from verifier_service.domain.listings import (
    BINS,
    QueueList,
    RewardBin,
    RewardDistribution,
    RunSpending,
    TrajectoryPage,
)
from verifier_service.domain.ports.store import Transaction

POINTS = 100


def trajectories(
    tx: Transaction,
    project: str,
    run: str,
    *,
    after: int | None,
    limit: int,
    status: str | None = None,
    group: str | None = None,
) -> TrajectoryPage:
    """A page of a run's trajectories, newest first. Raises ``NotFound``."""
    found = tx.overview.trajectories(project, run, after=after, limit=limit, status=status, group=group)
    return TrajectoryPage(
        trajectories=found.lines, next=None if found.after is None else cursor_of(found.after)
    )


def distribution(tx: Transaction, project: str, run: str) -> RewardDistribution:
    """The histogram of a run's rewards: reads all of its trajectories. Raises ``NotFound``."""
    pinned = tx.runs.get(project, run).ladder_versions
    weights = [
        tx.ladders.version(project, name, version).spec.process.weight for name, version in pinned.items()
    ]
    top = 1.0 + max(weights, default=0.0)
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for one in tx.overview.rewards(project, run, top, BINS):
        counts[one.bin][one.status] = one.trajectories
    return RewardDistribution(
        run=run,
        bins=tuple(
            RewardBin(low=top * at / BINS, high=top * (at + 1) / BINS, counts=counts[at])
            for at in range(BINS)
        ),
        statuses=tx.overview.statuses(project, run),
        as_of=_now(tx),
    )


def spending(tx: Transaction, project: str, run: str) -> RunSpending:
    """What a run has spent, and what was asked for over time. Raises ``NotFound``."""
    stored = tx.runs.get(project, run)
    points = tx.decisions.prices(project, run, POINTS)
    return RunSpending(run=run, accounts=stored.accounts, points=tuple(points))


def queues(tx: Transaction, project: str) -> QueueList:
    """What is under way in a project, by tier."""
    return QueueList(queues=tuple(tx.overview.queues(project)), as_of=_now(tx))


def _now(tx: Transaction) -> datetime:
    return datetime.fromtimestamp(tx.now(), tz=UTC)
