"""Port for the desk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_trail import SERVICE
from verifier_service.domain.review_votes import Judged
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState

Details: TypeAlias = Mapping[str, JsonObject]  # of acts, by item


class Offer(NamedTuple):
    """The item that a reviewer is offered next. ``assigned``: it is kept for that reviewer."""

    review: str
    queue: str
    queue_version: int
    assigned: bool


class InHand(NamedTuple):
    """Ids of what a reviewer holds, and of what is kept for them."""

    held: frozenset[str]
    kept: frozenset[str]


class Frame(NamedTuple):
    """What was frozen on an item, its stored state, and the pk of its check (``None``: a gold one)."""

    state: ReviewState
    queue: str
    queue_version: int
    check: int | None


class Reviews(Protocol):
    """Items that wait for people. Expired claims and assignments are judged at read time.

    Every act writes its row of the trail in the same transaction.
    """

    def through(self, key: str) -> None:
        """Name the API key, or session, through which the acts of this transaction come."""
        ...

    def open(
        self,
        project: str,
        check: int,
        *,
        queue: str,
        approvals: int,
        deadline: float | None,
        shown: str,
        queue_version: int = 0,
        blind: bool = False,
        minutes: float | None = None,
        escalate_after_s: float | None = None,
        typical_s: float = 0.0,
        second_price: float = 0.0,
    ) -> str:
        """Create the item of a waiting check (idempotent per check); returns its id. A vote that does not
        say how long it took costs ``typical_s`` times ``second_price`` credits.

        ``shown`` is JSON text of what the reviewer sees: candidate, prompt, inputs, evidence, ladder.
        """
        ...

    def get(self, project: str, review: str) -> Review:
        """With all that is stored, see ``shown_to``. Raises ``NotFound``."""
        ...

    def frame(self, project: str, review: str) -> Frame:
        """Raises ``NotFound``."""
        ...

    def check_of(self, project: str, review: str) -> int | None:
        """Pk of the check behind an item; ``None`` for a gold one. Raises ``NotFound``."""
        ...

    def opened(self, project: str, review: str, reviewer: str) -> None:
        """Note that a reviewer has looked at an item, once. Raises ``NotFound``."""
        ...

    def listed(
        self,
        project: str,
        *,
        queue: str | None,
        state: str | None,
        limit: int,
        assigned_to: str | None = None,
        after: str | None = None,
    ) -> list[Review]:
        """Items, oldest first, from the one behind ``after``. ``state`` may be ``disputed``. Raises
        ``NotFound`` where there is no such item ``after``."""
        ...

    def submitted(self, project: str, review: str, reviewer: str) -> bool:
        """Whether a trajectory that wants the item's check was submitted by this person."""
        ...

    def next(self, project: str, *, reviewer: str, queue: str | None) -> Offer | None:
        """The best free item, locked: what is kept for the reviewer, then what has waited too long, then by
        value and age. Not what the reviewer has voted on or submitted, nor what they have skipped unless it
        is kept for them; and while others claim an item it is passed over."""
        ...

    def claim(
        self,
        project: str,
        *,
        reviewer: str,
        queue: str | None,
        review: str | None,
        minutes: float | None,
        offered: bool = False,
    ) -> Review | None:
        """Reserve an item for one reviewer, by default and at most for as long as its queue says; two
        concurrent calls never get the same one.

        A named item that is not free raises ``Conflict``; with no item free returns ``None``. An item
        on which this reviewer has already voted is not offered again, and one that the reviewer submitted
        raises ``Forbidden``. ``offered``: ``next`` has just offered the named item, in this transaction,
        and nothing is asked again.
        """
        ...

    def in_hand(self, project: str, reviewer: str) -> InHand:
        """What a reviewer has; others who ask for the same reviewer wait until the transaction ends."""
        ...

    def known(self, project: str, reviewer: str) -> bool:
        """Whether this person has ever claimed, or voted on, an item of the project."""
        ...

    def renew(self, project: str, review: str, reviewer: str, minutes: float | None) -> Review:
        """Extend a claim that holds, as ``claim`` does, to a day from the claim at most. ``Conflict``
        otherwise."""
        ...

    def decide(
        self, project: str, review: str, decision: ReviewDecision, grace_s: float
    ) -> tuple[Review, bool]:
        """Record one vote; the flag tells whether it is new.

        The same decision again is a no-op. ``Conflict``: a different one by the same reviewer, one on an
        item claimed by somebody else or decided, and one whose claim has expired (``claim_expired``) or
        never was (``not_opened``). ``Forbidden``: on one's own submission.
        """
        ...

    def release(self, project: str, review: str, reviewer: str) -> Review:
        """Free the reviewer's claim, or undo the reviewer's decision within its grace; a claim of somebody
        else goes on.

        Raises ``Conflict`` when there is nothing to release.
        """
        ...

    def skip(self, project: str, review: str, reviewer: str, reason: str, whom: str) -> Review:
        """Free the reviewer's claim. ``me``: do not offer it to this reviewer again; ``others``: keep it
        for this reviewer for a day; ``back``: only note it. ``Conflict`` without a claim that holds."""
        ...

    def assign(
        self, project: str, review: str, to: str | None, hours: float, *, by: str, reason: str
    ) -> Review:
        """Keep an open item for a person, or for nobody; a claim on it ends. Raises ``Conflict`` when it is
        not open or the person has voted on it, ``Forbidden`` when it is that person's submission."""
        ...

    def require_unvoted(self, project: str, review: str) -> int:
        """Lock an open item without a vote; pk of its check. Raises ``Conflict`` for others and for gold
        ones."""
        ...

    def due(self, limit: int) -> list[tuple[str, str, int | None]]:
        """(project, review, check pk) of decided items whose grace has passed; no check: a gold one."""
        ...

    def take_due(self, project: str, review: str) -> Review | None:
        """The item, locked, if it is decided and its grace has passed; whoever undoes or ends it from now
        on waits. Raises ``NotFound``."""
        ...

    def is_decided(self, check: int) -> bool:
        """Whether the pending item of a check, locked from now on, has all its votes."""
        ...

    def escalate(self, limit: int) -> int:
        """Let open items that have waited for longer than their queue allows go before others; how many."""
        ...

    def close_free(
        self, project: str, reviews: Collection[str], *, by: str = SERVICE, details: Details | None = None
    ) -> int:
        """Mark open items that a file has answered as ``effective``, and say how many: items that somebody
        claims, has voted on or that have ended stay as they are. ``details`` of the acts, by item."""
        ...

    def note_amended(self, project: str, reviews: Collection[str], *, by: str, details: Details) -> None:
        """Note in the trail that a file has amended what a file had said of these items."""
        ...

    def close(self, check: int, state: str, *, by: str = "service", reason: str = "") -> None:
        """Mark the item of an ended check (``effective``, ``expired`` or ``cancelled``)."""
        ...

    def close_gold(self, project: str, review: str) -> None:
        """Mark a decided gold item as ``effective``."""
        ...

    def cancel_gold(self, project: str, review: str, *, by: str, reason: str) -> bool:
        """Take an instance of a gold item off the desk; False for an item that is none."""
        ...

    def expire_gold(self) -> int:
        """Mark open gold items whose deadline has passed as ``expired``, and say how many."""
        ...

    def take_back(self, project: str, review: str, *, by: str, reason: str) -> str:
        """Mark an effective item as retracted; the key of its check. Raises ``Conflict`` for others."""
        ...

    def judged(self, project: str, queue: str, limit: int) -> list[Judged]:
        """The latest effective items of a queue with their votes, newest first: not retracted ones, nor
        those that a file answered."""
        ...
