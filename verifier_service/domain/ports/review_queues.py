"""Ports beside the items of the desk: queues, gold items, the trail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from verifier_service.domain.gold import GoldItem, NewGold
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_queues import Queue, QueueSpec
from verifier_service.domain.review_trail import Act, ReviewEvent


class ReviewQueues(Protocol):
    """Queues in versions, immutable."""

    def put(self, project: str, spec: QueueSpec, digest: str) -> tuple[Queue, bool]:
        """Store under the next version, unless the latest has this digest; and whether it is new."""
        ...

    def latest(self, project: str, name: str) -> Queue:
        """The highest version, the plain queue where none was declared."""
        ...

    def version(self, project: str, name: str, version: int) -> Queue:
        """One version; 0 is the plain queue. Raises ``NotFound``."""
        ...

    def of_project(self, project: str) -> Sequence[Queue]:
        """The latest version of every declared queue, by name."""
        ...

    def approvals(self, projects: Collection[str] | None = None) -> dict[tuple[str, str], int]:
        """Votes per item, by project and queue, of the queues that now ask for more than one; of all
        projects without ``projects``."""
        ...


class GoldItems(Protocol):
    """Known items, and their instances on the desk."""

    def add(self, project: str, wanted: NewGold, id: str) -> tuple[GoldItem, bool]:
        """Store, and whether it is new. Raises ``Conflict`` for other content under the same id."""
        ...

    def get(self, project: str, id: str) -> GoldItem:
        """Raises ``NotFound``."""
        ...

    def listed(self, project: str, queue: str | None, limit: int) -> list[GoldItem]:
        """Newest first, retired ones too."""
        ...

    def retire(self, project: str, id: str) -> GoldItem:
        """Use it no more (idempotent). Raises ``NotFound``."""
        ...

    def turn(self, project: str, queue: str, reviewer: str) -> int:
        """Count that a reviewer takes one more item of a queue; how many there were before. Others who
        count for the same reviewer wait until the transaction ends."""
        ...

    def taken(self, project: str, queue: str, reviewer: str) -> int:
        """How many items of a queue a reviewer has taken, see ``turn``."""
        ...

    def seen(self, project: str, queue: str) -> dict[str, int]:
        """How many gold items of a queue each reviewer was given, whatever became of them."""
        ...

    def unseen(self, project: str, queue: str, reviewer: str) -> list[str]:
        """Ids of up to 1,000 items in use that this reviewer was never given, oldest first."""
        ...

    def deal(self, project: str, id: str, reviewer: str, like: str) -> str:
        """Make the instance for a reviewer, which looks as the review ``like`` does; its id."""
        ...


class ReviewTrail(Protocol):
    """What people did at the desk. Append-only."""

    def note(
        self,
        project: str,
        kind: Act,
        actor: str,
        *,
        queue: str | None = None,
        review: str | None = None,
        detail: JsonObject | None = None,
    ) -> None:
        """Add one act, in the transaction of the act itself."""
        ...

    def page(
        self,
        project: str,
        *,
        after: int,
        limit: int,
        queue: str | None = None,
        review: str | None = None,
        actor: str | None = None,
        before: int | None = None,
    ) -> list[ReviewEvent]:
        """Acts after a cursor, oldest first; with ``before`` those in front of it, latest first. One whose
        transaction is still open may come to stand before acts that were read already."""
        ...
