"""Port for the desk."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from verifier_service.domain.reviews import Review, ReviewDecision


class Reviews(Protocol):
    """Items that wait for people. Expired claims are judged at read time."""

    def open(
        self,
        project: str,
        check: int,
        *,
        queue: str,
        approvals: int,
        deadline: float | None,
        shown: str,
    ) -> str:
        """Create the item of a waiting check (idempotent per check); returns its id.

        ``shown`` is JSON text of what the reviewer sees: candidate, prompt, inputs, evidence, ladder.
        """
        ...

    def get(self, project: str, review: str) -> Review:
        """Raises ``NotFound``."""
        ...

    def check_of(self, project: str, review: str) -> int:
        """Pk of the check behind an item. Raises ``NotFound``."""
        ...

    def listed(self, project: str, *, queue: str | None, state: str | None, limit: int) -> list[Review]:
        """Items, oldest first."""
        ...

    def claim(
        self, project: str, *, reviewer: str, queue: str | None, review: str | None, minutes: float
    ) -> Review | None:
        """Reserve an item for one reviewer; two concurrent calls never get the same one.

        A named item that is not free raises ``Conflict``; with no item free returns ``None``. An item
        on which this reviewer has already voted is not offered again.
        """
        ...

    def decide(
        self, project: str, review: str, decision: ReviewDecision, grace_s: float
    ) -> tuple[Review, bool]:
        """Record one vote; the flag tells whether it is new.

        The same decision again is a no-op; a different one by the same reviewer, or one on an item
        claimed by somebody else or already effective, raises ``Conflict``.
        """
        ...

    def release(self, project: str, review: str, reviewer: str) -> Review:
        """Free the reviewer's claim, or undo the reviewer's decision within its grace.

        Raises ``Conflict`` when there is nothing to release.
        """
        ...

    def due(self, limit: int) -> list[tuple[str, str, int]]:
        """(project, review, check pk) of decided items whose grace has passed."""
        ...

    def close_free(self, checks: Collection[int]) -> int:
        """Mark the open items of checks that a file has answered as ``effective``, and say how many: items
        that somebody claims, has voted on or that have ended stay as they are."""
        ...

    def close(self, check: int, state: str) -> None:
        """Mark the item of an ended check (``effective``, ``expired`` or ``cancelled``)."""
        ...
