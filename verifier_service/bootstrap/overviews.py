"""Figures of whole runs, from this process's snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from verifier_service.bootstrap.snapshots import Snapshot
from verifier_service.bootstrap.units import Service
from verifier_service.domain.insight import RunCalibration, RunEconomics
from verifier_service.domain.listings import QueueList, RewardDistribution, RunSpending
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviewer_error import Agreement
from verifier_service.domain.runs import RunReport
from verifier_service.services import desk_quality, insight, overview

JUDGED_ITEMS = 2_000  # of each queue, the latest
MOST_QUEUES = 50

T = TypeVar("T")


def report(service: Service, project: str, run: str) -> Snapshot[RunReport]:
    """Counts per tier and status, spend and price. Raises ``NotFound``."""
    return _of(service, ("report", project, run), lambda tx: tx.runs.report(project, run))


def distribution(service: Service, project: str, run: str) -> Snapshot[RewardDistribution]:
    """The histogram of a run's rewards. Raises ``NotFound``."""
    return _of(service, ("distribution", project, run), lambda tx: overview.distribution(tx, project, run))


def spending(service: Service, project: str, run: str) -> Snapshot[RunSpending]:
    """Spend against budget over time. Raises ``NotFound``."""
    return _of(service, ("spending", project, run), lambda tx: overview.spending(tx, project, run))


def economics(service: Service, project: str, run: str) -> Snapshot[RunEconomics]:
    """Spend by tier, worth, price, alternatives. Raises ``NotFound``."""
    return _of(service, ("economics", project, run), lambda tx: insight.run_economics(tx, project, run))


def calibration(service: Service, project: str, run: str) -> Snapshot[RunCalibration]:
    """How beliefs compared with what was found. Raises ``NotFound``."""

    def counted(tx: Transaction) -> RunCalibration:
        return insight.run_calibration(tx, service.beliefs, project, run)

    return _of(service, ("calibration", project, run), counted)


def agreements(service: Service, project: str) -> Snapshot[tuple[Agreement, ...]]:
    """How far the reviewers of each queue agree, by its latest items; queues without any are left out."""

    def counted(tx: Transaction) -> tuple[Agreement, ...]:
        names = {queue.spec.name for queue in tx.queues.of_project(project)}
        names |= {load.queue for load in tx.desk_views.loads(project, "")}
        found = (
            desk_quality.agreement(tx, project, name, JUDGED_ITEMS) for name in sorted(names)[:MOST_QUEUES]
        )
        return tuple(one for one in found if one.items)

    return _of(service, ("agreements", project), counted)


def queues(service: Service, project: str) -> Snapshot[QueueList]:
    """What is under way in a project, by tier."""
    return _of(service, ("queues", project), lambda tx: overview.queues(tx, project))


def _of(service: Service, key: tuple[str, ...], look: Callable[[Transaction], T]) -> Snapshot[T]:
    def counted() -> T:
        with service.store.read() as tx:
            return look(tx)

    return service.snapshots.of(key, counted)
