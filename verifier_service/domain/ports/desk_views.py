"""Port for what the pages of the desk show: counts, one person's items, lists by key."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from verifier_service.domain.reviews import Review
from verifier_service.domain.trajectories import Turn


class QueueLoad(NamedTuple):
    """What waits in a queue. ``open``: what this reviewer may be offered; ``mine``: what they hold;
    ``oldest``: when the oldest of what waits was made, in seconds since the epoch. Counted are those that
    wait longest, up to a bound; with ``more`` there are others behind them. ``fresh`` and
    ``fresh_escalated``: of the open and the escalated ones, those that are kept for nobody."""

    queue: str
    open: int
    mine: int
    escalated: int
    oldest: float | None
    more: bool
    fresh: int = 0
    fresh_escalated: int = 0


class Placed(NamedTuple):
    """An item with its place in the list, after which the next page begins."""

    place: int
    review: Review


class Behind(NamedTuple):
    """A trajectory that wants the item's check."""

    pk: int
    run: str
    trajectory: str


class DeskViews(Protocol):
    """Reads for pages; nothing is locked. Expired claims are judged at read time."""

    def queues(self, project: str) -> list[str]:
        """Names of the queues in which anything is open."""
        ...

    def loads(self, project: str, reviewer: str) -> list[QueueLoad]:
        """Queues in which anything is open to, or held by, this reviewer, by name. However much waits, a
        bounded part of it is read."""
        ...

    def held(self, project: str, reviewer: str, limit: int) -> list[Review]:
        """What this reviewer has claimed, what ends first before the rest."""
        ...

    def decided(self, project: str, reviewer: str, limit: int) -> list[Review]:
        """What this reviewer voted on, the latest first."""
        ...

    def page(
        self, project: str, *, queue: str | None, state: str | None, after: int, limit: int
    ) -> list[Placed]:
        """Items after a place, oldest first. ``state`` may be ``disputed``."""
        ...

    def behind(self, project: str, review: str, limit: int) -> list[Behind]:
        """Trajectories that want, or have, what the item decides, oldest first; none for a gold one."""
        ...

    def told(self, project: str, review: str) -> tuple[Turn, ...]:
        """Turns that are stored with the item itself, which only those of gold ones are."""
        ...
