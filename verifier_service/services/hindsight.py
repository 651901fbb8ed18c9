"""Export what a run's trajectories got wrong, in feed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verifier_service.domain.cases import Standing
from verifier_service.domain.hindsight import HindsightPage, HindsightRecord, hindsight, teaches
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import RewardRecord

FEED_PIECE = 250
MAX_SCANNED = 5_000
BODIES = 16
MAX_PAGE_CHARS = 16_000_000


def hindsight_page(tx: Transaction, project: str, run: str, *, after: int, limit: int) -> HindsightPage:
    """The trajectories whose newest record stands after ``after`` and teaches something.

    Records that a newer one supersedes are passed over: the newer one comes later in the feed. A page ends
    after ``limit`` records, when they hold 16 million characters, or after 5,000 places of the feed.
    Raises ``NotFound``.
    """
    head = tx.rewards.head(project, run)
    page = _Page(limit)
    cursor = after
    while cursor < min(head, after + MAX_SCANNED) and not page.full:
        piece = tx.rewards.feed(project, run, cursor, FEED_PIECE)
        if not piece:
            break
        cursor = _read(tx, project, run, piece, page)
    cursor = max(cursor, after)
    return HindsightPage(
        records=tuple(page.records), withdrawn=tuple(page.withdrawn), cursor=cursor, more=cursor < head
    )


class _Page:
    """A page while it fills."""

    def __init__(self, limit: int) -> None:
        self.records: list[HindsightRecord] = []
        self.withdrawn: list[str] = []
        self._limit = limit
        self._chars = 0

    @property
    def full(self) -> bool:
        return len(self.records) >= self._limit or self._chars >= MAX_PAGE_CHARS

    def add(self, record: HindsightRecord) -> None:
        self.records.append(record)
        self._chars += len(record.model_dump_json())


def _read(tx: Transaction, project: str, run: str, piece: Sequence[RewardRecord], page: _Page) -> int:
    """Fill the page from consecutive records of the feed; the place up to which they were read."""
    standings = tx.trajectories.find(project, run, {record.trajectory for record in piece})
    pks = {name: standing.pk for name, standing in standings.items()}
    newest = [record for record in piece if _seq(standings, record) == record.seq]
    for start in range(0, len(newest), BODIES):
        some = newest[start : start + BODIES]
        bodies = tx.trajectories.bodies([pks[one.trajectory] for one in some if teaches(one)])
        for record in some:
            if teaches(record):
                page.add(hindsight(record, bodies[pks[record.trajectory]]))
            elif record.supersedes is not None:
                page.withdrawn.append(record.trajectory)
            if page.full:
                return record.seq
    return piece[-1].seq


def _seq(standings: Mapping[str, Standing], record: RewardRecord) -> int | None:
    """The place of the newest record of the same trajectory."""
    standing = standings.get(record.trajectory)
    return None if standing is None else standing.seq
