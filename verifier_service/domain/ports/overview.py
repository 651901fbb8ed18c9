"""Port for what people look at: lists read page by page, and counts of whole runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from verifier_service.domain.evidence import Tier
from verifier_service.domain.listings import Listed, QueueLine
from verifier_service.domain.operations import Cited, FailedCheck, Waiting
from verifier_service.domain.workers import Kind


class Binned(NamedTuple):
    """How many trajectories of one status have a reward in one bin."""

    status: str
    bin: int
    trajectories: int


class Failures(NamedTuple):
    """Failed checks that demands rest on, newest first, and the row behind which to go on."""

    checks: list[FailedCheck]
    after: int | None


class Queued(NamedTuple):
    """Queued checks in the order of their queues, and the row behind which to go on."""

    checks: list[Waiting]
    after: int | None


class Overview(Protocol):
    """Reads that serve pages. Those that count a whole run take as long as it is large."""

    def trajectories(
        self,
        project: str,
        run: str,
        *,
        after: int | None,
        limit: int,
        status: str | None = None,
        group: str | None = None,
    ) -> Listed:
        """Trajectories of a run behind a row, newest first; with ``status`` (``pending``: no record yet) or
        a prefix of their ``group`` only those. Its time does not grow with the run: with a prefix that
        very many groups have, a page may be short and still go on. Raises ``NotFound``."""
        ...

    def rewards(self, project: str, run: str, top: float, bins: int) -> list[Binned]:
        """Rewards in ``bins`` equal parts of [0, ``top``], by status; the last has its upper end."""
        ...

    def statuses(self, project: str, run: str) -> dict[str, int]:
        """Trajectories by status; ``pending`` have no record yet."""
        ...

    def queues(self, project: str) -> list[QueueLine]:
        """Checks of the project that have not ended, by tier."""
        ...


class Troubles(Protocol):
    """Checks that need an operator."""

    def failed(self, project: str, *, after: int | None, limit: int, run: str | None = None) -> Failures:
        """Failed checks of the project, newest first, on whose failure a demand (of ``run``) rests. Looks
        at a bounded number of checks: a page may be short and still go on."""
        ...

    def counted(self, project: str, tier: Tier, kind: Kind, most: int) -> int:
        """How many checks of one kind are queued and due in the project, counted up to ``most`` and among
        the first 10,000 of the kind."""
        ...

    def waiting(
        self, project: str, kinds: Collection[tuple[Tier, Kind]], *, after: int | None, limit: int
    ) -> Queued:
        """Checks of these kinds that are queued and due in the project: kind by kind, and of each in the
        order in which they would be claimed, behind a row. Their reason is left empty. Looks at a bounded
        number of checks: a page may be short and still go on."""
        ...

    def known(self, project: str, keys: Collection[str]) -> set[str]:
        """Those keys under which the project has a check, in any state."""
        ...

    def resting(self, project: str, keys: Sequence[str], limit: int) -> list[Cited]:
        """Demands that rest on the failure of these checks, or on their cancellation by an operator, by
        trajectory; those of runs that are open first, and none of cancelled trajectories."""
        ...

    def wanted(self, project: str, keys: Sequence[str]) -> list[Cited]:
        """Requested demands on the live checks among these."""
        ...
