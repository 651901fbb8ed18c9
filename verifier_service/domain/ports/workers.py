"""Port: who works, since when, and on what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from verifier_service.domain.evidence import Tier
from verifier_service.domain.workers import Counts, Worker, WorkerCard


class Workers(Protocol):
    """Workers of every process. Whether one lives is judged by database time: three heartbeats missed, and
    it is lost, until it beats again."""

    def beat(self, beats: Sequence[tuple[WorkerCard, Counts]]) -> None:
        """Say that these live, with what they have done since they started. A new or a forgotten one is
        entered."""
        ...

    def leave(self, ids: Collection[str]) -> None:
        """Say that these have stopped. Unknown ids are nobody's."""
        ...

    def listed(self, tier: Tier | None = None, *, current: bool = True) -> list[Worker]:
        """Workers of one tier or of all: the living first, then by tier and id. With ``current``, what
        each of them holds at this moment."""
        ...

    def prune(self, keep_s: float, keep: int) -> int:
        """Forget the dead that were last seen before ``keep_s`` seconds, and all but the latest ``keep``
        of them; returns how many."""
        ...
