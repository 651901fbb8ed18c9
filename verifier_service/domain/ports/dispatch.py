"""Port for waking workers and waiters. A message says "there is work" and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from verifier_service.domain.evidence import Tier


class Dispatcher(Protocol):
    """Wakes are hints: losing or repeating one is harmless, the database is the queue of record."""

    def wake(self, tiers: Collection[Tier]) -> None:
        """Tell the workers of these tiers that checks may be ready."""
        ...

    def wait(self, tier: Tier, timeout_s: float) -> bool:
        """Block a worker until its tier is woken; False on timeout."""
        ...

    def announce(self, project: str, run: str) -> None:
        """Tell waiters in this process that rewards or decisions of a run were committed."""
        ...

    def subscribe(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Call ``listener(project, run)`` on every announcement; returns the unsubscriber.

        The listener runs on the announcing thread and must not block.
        """
        ...
