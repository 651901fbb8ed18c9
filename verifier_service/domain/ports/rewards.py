"""Port for the append-only reward feed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus


class Rewards(Protocol):
    """Reward records of a run, in commit order.

    ``seq`` is assigned under the run's lock inside the committing transaction, without gaps, so a
    reader at ``after`` never skips a record and never sees one twice.
    """

    def append(self, project: str, run: str, records: Sequence[RewardRecord]) -> list[RewardRecord]:
        """Store records, in order, with their ``seq`` filled in (whatever it was before)."""
        ...

    def feed(
        self, project: str, run: str, after: int, limit: int, status: RewardStatus | None = None
    ) -> list[RewardRecord]:
        """Records with seq > ``after``, ascending, at most ``limit``."""
        ...

    def head(self, project: str, run: str) -> int:
        """The highest committed seq, 0 for none. Raises ``NotFound`` for an unknown run, ``Gone`` for one
        that is purged."""
        ...

    def latest(self, project: str, run: str, ids: Collection[str]) -> dict[str, RewardRecord]:
        """The newest record per trajectory id; ids without a record are absent."""
        ...

    def history(self, project: str, run: str, trajectory: str) -> list[RewardRecord]:
        """Every revision, oldest first."""
        ...
