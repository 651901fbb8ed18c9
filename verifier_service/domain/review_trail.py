"""The trail of the desk: everything that a person did there, in order. Rows are only ever added."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from verifier_service.domain.digests import canonical_json
from verifier_service.domain.records import JsonObject, OpenEnum, Record
from verifier_service.domain.tabular import csv_text

SERVICE = "service"  # who acted when nobody did
HEADER = ("seq", "at", "kind", "actor", "key", "queue", "review", "detail")


class Act(OpenEnum):
    """What happened. ``lapsed``: a claim had expired when the item was taken by somebody else. ``answered``
    and ``amended``: by a laboratory's file."""

    MADE = "made"
    OPENED = "opened"
    CLAIMED = "claimed"
    RENEWED = "renewed"
    RELEASED = "released"
    LAPSED = "lapsed"
    SKIPPED = "skipped"
    VOTED = "voted"
    UNDONE = "undone"
    DISPUTED = "disputed"
    EFFECTIVE = "effective"
    EXPIRED = "expired"
    ESCALATED = "escalated"
    REASSIGNED = "reassigned"
    WITHDRAWN = "withdrawn"
    CANCELLED = "cancelled"
    ANSWERED = "answered"
    AMENDED = "amended"
    RETRACTED = "retracted"
    QUEUE = "queue"
    GOLD = "gold"
    OTHER = "other"


class ReviewEvent(Record):
    """One act. ``seq`` rises; ``key`` is the API key it came through; ``detail`` depends on ``kind`` and is
    empty once the item was purged."""

    seq: int
    at: datetime
    kind: Act
    actor: str
    key: str | None = None
    queue: str | None = None
    review: str | None = None
    detail: JsonObject = {}


class TrailPage(Record):
    """Acts after a cursor, oldest first. ``cursor`` is where to go on; ``more``: there is more now."""

    events: tuple[ReviewEvent, ...]
    cursor: int
    more: bool


def as_csv(events: Iterable[ReviewEvent]) -> str:
    """One row per act. No cell is taken for a formula by a spreadsheet."""
    return csv_text(
        HEADER,
        (
            (
                str(event.seq),
                event.at.isoformat(),
                event.kind.value,
                event.actor,
                event.key or "",
                event.queue or "",
                event.review or "",
                canonical_json(event.detail) if event.detail else "",
            )
            for event in events
        ),
    )
