"""Figures of whole runs, from this process's snapshots.

The API waits until a figure is counted. A page does not: it is given ``None`` while the first count goes
on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from verifier_service.bootstrap.snapshots import Snapshot
from verifier_service.bootstrap.units import Service
from verifier_service.domain.insight import RunCalibration, RunEconomics
from verifier_service.domain.listings import QueueList, RewardDistribution, RunSpending
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviewer_error import Agreement
from verifier_service.domain.runs import RunReport
from verifier_service.services import desk_pages, desk_quality, insight, overview

JUDGED_ITEMS = 2_000  # of each queue, the latest
MOST_QUEUES = 50
PATIENCE_S = 0.5  # that a page has for one figure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure(Generic[T]):
    """A figure of one project that can be counted."""

    service: Service
    key: tuple[str, ...]
    look: Callable[[Transaction], T]

    def now(self) -> T:
        """The figure, however long it takes to count. Raises what counting raises."""
        return self.service.snapshots.of(self.key, self._counted).value

    def soon(self) -> Snapshot[T] | None:
        """The figure as far as it is known within a moment. Raises what counting raised."""
        return self.service.snapshots.soon(self.key, self._counted, PATIENCE_S)

    def _counted(self) -> T:
        with self.service.store.read() as tx:
            return self.look(tx)


def report(service: Service, project: str, run: str) -> Figure[RunReport]:
    """Counts per tier and status, spend and price. Counting raises ``NotFound``."""
    return Figure(service, ("report", project, run), lambda tx: tx.runs.report(project, run))


def distribution(service: Service, project: str, run: str) -> Figure[RewardDistribution]:
    """The histogram of a run's rewards. Counting raises ``NotFound``."""
    return Figure(
        service, ("distribution", project, run), lambda tx: overview.distribution(tx, project, run)
    )


def spending(service: Service, project: str, run: str) -> Figure[RunSpending]:
    """Spend against budget over time. Counting raises ``NotFound``."""
    return Figure(service, ("spending", project, run), lambda tx: overview.spending(tx, project, run))


def economics(service: Service, project: str, run: str) -> Figure[RunEconomics]:
    """Spend by tier, worth, price, alternatives. Counting raises ``NotFound``."""
    return Figure(service, ("economics", project, run), lambda tx: insight.run_economics(tx, project, run))


def calibration(service: Service, project: str, run: str) -> Figure[RunCalibration]:
    """How beliefs compared with what was found. Counting raises ``NotFound``."""

    def counted(tx: Transaction) -> RunCalibration:
        return insight.run_calibration(tx, service.beliefs, project, run)

    return Figure(service, ("calibration", project, run), counted)


def agreements(service: Service, project: str) -> Figure[tuple[Agreement, ...]]:
    """How far the reviewers of each queue agree, by its latest items; queues without any are left out."""

    def counted(tx: Transaction) -> tuple[Agreement, ...]:
        names = desk_pages.queue_names(tx, project)[:MOST_QUEUES]
        found = (desk_quality.agreement(tx, project, name, JUDGED_ITEMS) for name in names)
        return tuple(one for one in found if one.items)

    return Figure(service, ("agreements", project), counted)


def queues(service: Service, project: str) -> Figure[QueueList]:
    """What is under way in a project, by tier."""
    return Figure(service, ("queues", project), lambda tx: overview.queues(tx, project))
