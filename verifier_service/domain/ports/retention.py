"""Ports for what happens to a run after its close: its archive, and its removal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from verifier_service.domain.archive import Line


class Cited(NamedTuple):
    """A page of trajectories with their demands as lines; ``checks`` are those that the demands cite, and
    ``last`` the id after which the next page begins, ``None`` behind the last page."""

    lines: Sequence[Line]
    checks: Collection[int]
    last: str | None


class Archives(Protocol):
    """What is stored of a run, page by page, as the lines of its archive.

    Pages are found by key, so that each costs the same, and one transaction may end between two of them.
    """

    def run(self, project: str, run: str) -> list[Line]:
        """The run itself, its accounts, and the ladder versions that it pinned. Raises ``NotFound``."""
        ...

    def cases(
        self,
        project: str,
        run: str,
        after: str,
        limit: int,
        *,
        references: bool,
        most_bytes: int,
        through: int | None = None,
    ) -> Cited:
        """Trajectories with id > ``after``, in the order of ids: at most ``limit``, and beyond the first
        none that brings the text to more than ``most_bytes``. Their rewards are those of the feed as it was
        at the position ``through``, where one is given."""
        ...

    def checks(self, pks: Collection[int]) -> list[Line]:
        """Checks with their evidence, attempts, reviews and votes."""
        ...

    def rewards(self, project: str, run: str, after: int, through: int, limit: int) -> list[Line]:
        """Reward records with ``after`` < seq <= ``through``, ascending."""
        ...


class Retention(Protocol):
    """Removal of closed runs. Each call is one short step; the steps may stop and go on at any time."""

    def begin(self, project: str, run: str) -> None:
        """Mark a closed run: from now on nothing of it is read."""
        ...

    def purging(self) -> tuple[tuple[str, str], ...]:
        """(project, run) of all runs that are marked and not empty yet."""
        ...

    def drop_rewards(self, project: str, run: str, limit: int) -> int:
        """Remove reward records; returns how many, 0 when none is left."""
        ...

    def drop_deliveries(self, project: str, run: str, limit: int) -> int:
        """Remove what webhooks were to deliver of it; returns how many, 0 when none is left."""
        ...

    def drop_cases(self, project: str, run: str, limit: int) -> int:
        """Remove trajectories with all that is theirs, and the checks that nobody cites any more: no demand
        of another run refers to them. Returns how many trajectories, 0 when none is left."""
        ...

    def finish(self, project: str, run: str) -> None:
        """Note that nothing is left but the run's row, its pins and its accounts."""
        ...

    def give_back(self, pages: int) -> bool:
        """Return so many unused pages of a SQLite file to the file system; False when there are fewer.
        Postgres does what it can by itself."""
        ...
