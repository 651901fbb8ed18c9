"""The store: every durable fact, behind one port and one conformance suite for all databases."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Protocol

from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.accounts import Sessions, SignIns, Tickets, Users
from verifier_service.domain.ports.costs import Costs
from verifier_service.domain.ports.desk_views import DeskViews
from verifier_service.domain.ports.lab_results import LabResults
from verifier_service.domain.ports.meters import Meters
from verifier_service.domain.ports.models import Alarms, DecisionLog, Models
from verifier_service.domain.ports.overview import Overview, Troubles
from verifier_service.domain.ports.retention import Archives, Retention
from verifier_service.domain.ports.retractions import Retractions
from verifier_service.domain.ports.review_queues import GoldItems, ReviewQueues, ReviewTrail
from verifier_service.domain.ports.reviews import Reviews
from verifier_service.domain.ports.rewards import Rewards
from verifier_service.domain.ports.runs import Runs, Trajectories
from verifier_service.domain.ports.settlements import Settlements
from verifier_service.domain.ports.tenancy import Keys, Ladders, Projects
from verifier_service.domain.ports.traces import Traces
from verifier_service.domain.ports.webhooks import Outbox, Webhooks
from verifier_service.domain.ports.work import Checks, Demands, Ledger
from verifier_service.domain.ports.workers import Workers


class Transaction(Protocol):
    """One unit of work. Nothing of it is visible to others before the commit.

    Rows are locked in the order runs, trajectories (by pk), checks (by pk), accounts, so that two
    transactions cannot wait for each other.
    """

    @property
    def projects(self) -> Projects: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def users(self) -> Users: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def tickets(self) -> Tickets: ...
    @property
    def sign_ins(self) -> SignIns: ...
    @property
    def ladders(self) -> Ladders: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def trajectories(self) -> Trajectories: ...
    @property
    def checks(self) -> Checks: ...
    @property
    def demands(self) -> Demands: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def rewards(self) -> Rewards: ...
    @property
    def reviews(self) -> Reviews: ...
    @property
    def desk_views(self) -> DeskViews: ...
    @property
    def queues(self) -> ReviewQueues: ...
    @property
    def gold(self) -> GoldItems: ...
    @property
    def trail(self) -> ReviewTrail: ...
    @property
    def lab_results(self) -> LabResults: ...
    @property
    def settlements(self) -> Settlements: ...
    @property
    def archives(self) -> Archives: ...
    @property
    def retention(self) -> Retention: ...
    @property
    def retractions(self) -> Retractions: ...
    @property
    def webhooks(self) -> Webhooks: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def meters(self) -> Meters: ...
    @property
    def costs(self) -> Costs: ...
    @property
    def traces(self) -> Traces: ...
    @property
    def models(self) -> Models: ...
    @property
    def decisions(self) -> DecisionLog: ...
    @property
    def alarms(self) -> Alarms: ...
    @property
    def overview(self) -> Overview: ...
    @property
    def troubles(self) -> Troubles: ...

    def count(self, name: str, tier: Tier | None = None, kind: str = "", amount: int = 1) -> None:
        """Count something of this transaction, see ``ports.meters.Series``; in vain if it rolls back."""
        ...

    def tell(self, event: str, *, level: int = logging.DEBUG, **fields: str | int | float | None) -> None:
        """Log an event of this transaction, once it is committed. ``fields`` name what it is about:
        ``project``, ``run``, ``trajectory``, ``check`` (its key), ``verifier``, ``tier``, ``worker``."""
        ...

    def now(self) -> float:
        """Database time, seconds since the epoch. The only clock that leases and deadlines use."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """A nested scope that rolls back alone when its body raises."""
        ...

    def try_lock(self, name: str) -> bool:
        """Take a named lock until the end of the transaction; False when another holds it."""
        ...


class Lead(Protocol):
    """A named part that one process of all plays, as long as it lives and reaches the database."""

    def holds(self) -> bool:
        """Whether it is still ours; false for good once the connection is lost."""
        ...

    def release(self) -> None:
        """Let another process take it."""
        ...


class Store(Protocol):
    """Opens transactions. Thread-safe; a transaction belongs to one thread."""

    def begin(self) -> AbstractContextManager[Transaction]:
        """A read-write transaction: commits on normal exit, rolls back when the body raises.

        An acknowledged commit survives power loss.
        """
        ...

    def read(self) -> AbstractContextManager[Transaction]:
        """A read-only snapshot; never blocks writers."""
        ...

    def lead(self, name: str) -> Lead | None:
        """Take a named part; None while another process has it. Freed when its holder dies."""
        ...

    def led(self, name: str) -> bool:
        """Whether a process has taken the part."""
        ...

    def close(self) -> None:
        """Release every connection."""
        ...
