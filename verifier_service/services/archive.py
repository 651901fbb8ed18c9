"""Export a closed run, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime

from verifier_service.domain.archive import ArchiveEnd, ArchiveHead, Line
from verifier_service.domain.errors import Conflict, Gone
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Run, RunState

CASES = 200
REWARDS = 500
PAGE_BYTES = 4_000_000
CHUNK = 32_768


class Seen:
    """A set of primary keys: one bit for each of a chunk of neighbours, so that millions take megabytes."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}

    def add(self, keys: Collection[int]) -> list[int]:
        """Add keys; those that were new, ascending."""
        return [key for key in sorted(keys) if self._is_new(key)]

    def _is_new(self, key: int) -> bool:
        number, place = divmod(key, CHUNK)
        chunk = self._chunks.setdefault(number, bytearray(CHUNK // 8))
        at, bit = place >> 3, 1 << (place & 7)
        if chunk[at] & bit:
            return False
        chunk[at] |= bit
        return True


class Export:
    """The pages of one archive. Each is read in a transaction of its own: a closed run does not change
    but by late evidence from people. Records that come of it lie beyond ``through`` and stay out, and so
    does what they changed of their trajectories."""

    def __init__(self, tx: Transaction, project: str, run: str, *, references: bool) -> None:
        """Raises ``NotFound``, ``Gone`` for a purged run, ``Conflict`` for one that is not closed."""
        require_closed(tx.runs.get(project, run))
        self.head = ArchiveHead(
            project=project,
            run=run,
            through=tx.rewards.head(project, run),
            references=references,
            created_at=datetime.fromtimestamp(tx.now(), tz=UTC),
        )
        self._seen = Seen()
        self._rows: Counter[str] = Counter()
        self._after: str | None = ""
        self._seq = 0
        self._first = tx.archives.run(project, run)

    def page(self, tx: Transaction) -> list[Line] | None:
        """The next lines; ``None`` when that was all. Raises ``Gone`` when a purge has begun meanwhile."""
        project, run = self.head.project, self.head.run
        require_closed(tx.runs.get(project, run))
        if self._first:
            lines, self._first = self._first, []
        elif self._after is not None:
            lines = self._cases(tx)
        elif self._seq < self.head.through:
            lines = tx.archives.rewards(project, run, self._seq, self.head.through, REWARDS)
            self._seq += REWARDS  # a feed has no gaps
        else:
            return None
        self._rows.update(line.kind for line in lines)
        return lines

    def end(self) -> ArchiveEnd:
        """What the pages held."""
        return ArchiveEnd(rows=dict(self._rows))

    def _cases(self, tx: Transaction) -> list[Line]:
        page = tx.archives.cases(
            self.head.project,
            self.head.run,
            self._after or "",
            CASES,
            references=self.head.references,
            most_bytes=PAGE_BYTES,
            through=self.head.through,
        )
        self._after = page.last
        return [*page.lines, *tx.archives.checks(self._seen.add(page.checks))]


def require_closed(run: Run) -> None:
    """Raises ``Conflict`` for a run that still changes, ``Gone`` for one that is purged."""
    if run.state in (RunState.PURGING, RunState.PURGED):
        raise Gone("run_purged", f"run {run.id!r} was purged: its records are gone")
    if run.state is not RunState.CLOSED:
        raise Conflict("run_open", f"run {run.id!r} is {run.state}: close it first")
