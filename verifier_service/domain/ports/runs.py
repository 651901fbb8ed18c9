"""Ports for runs and trajectories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from verifier_service.domain.cases import Body, Case, NewTrajectory, Standing
from verifier_service.domain.decisions import Sibling
from verifier_service.domain.models import LadderKey
from verifier_service.domain.runs import Run, RunReport, RunSpec, RunState
from verifier_service.domain.states import RewardStatus


@dataclass(frozen=True, slots=True)
class RunMark:
    """What waits for a run look at: its state and the highest committed seq of its feed."""

    state: RunState
    feed: int


class Runs(Protocol):
    """Training runs, keyed by (project, id)."""

    def ensure(self, project: str, run: str, spec: RunSpec, seed: int) -> Run:
        """The run, created with ``spec`` (and its accounts) if it is new."""
        ...

    def get(self, project: str, run: str) -> Run:
        """Raises ``NotFound``."""
        ...

    def marks(self, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], RunMark]:
        """The marks of many (project, run) at once; unknown runs are absent."""
        ...

    def put(self, project: str, run: str, spec: RunSpec, seed: int) -> Run:
        """Create, or replace the spec and the account limits of an existing run."""
        ...

    def pin(self, project: str, run: str, ladder: str, version: int) -> int:
        """Pin a ladder's version at first use; returns the version that is pinned."""
        ...

    def lock(self, project: str, run: str) -> Run:
        """Lock the run's row until the end of the transaction. Raises ``NotFound``."""
        ...

    def share(self, project: str, run: str) -> Run:
        """Read the run and keep its state from changing until the end of the transaction; others may
        share it meanwhile. Raises ``NotFound``."""
        ...

    def pace(self, project: str, run: str, pacing: str | None) -> None:
        """Keep what the policy noted for its next decision."""
        ...

    def set_state(self, project: str, run: str, state: RunState) -> None:
        """Move the run to ``state``; ``closed`` stamps the time."""
        ...

    def of_project(self, project: str) -> tuple[Run, ...]:
        """All runs, newest first."""
        ...

    def undecided(self, limit: int) -> tuple[tuple[str, str], ...]:
        """(project, run) of open runs that have a case that needs a decision."""
        ...

    def holding(self, limit: int) -> tuple[tuple[str, str], ...]:
        """(project, run) of open runs that have a held demand."""
        ...

    def in_state(self, state: RunState) -> tuple[tuple[str, str], ...]:
        """(project, run) of all runs in ``state``."""
        ...

    def queued(self, most: int) -> dict[tuple[str, str], int]:
        """How many checks are queued for machines, for every (project, run) that pays for some; of each run
        ``most`` are counted."""
        ...

    def report(self, project: str, run: str) -> RunReport:
        """Counts and spend. Raises ``NotFound``."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingUpdate:
    """The columns that settle writes back on a trajectory."""

    pk: int
    status: RewardStatus | None
    reward: float | None
    revision: int
    seq: int | None
    fingerprint: str | None
    met: int
    outcome: float | None = None
    variance: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """That the policy looked at a case: ``on`` = ended demands it saw, ``decision`` in words, the draw of
    its audit, and the outcome believed in before that was drawn."""

    pk: int
    on: int
    decision: str
    propensity: float | None = None
    audited: bool = False
    predicted: float | None = None


class Trajectories(Protocol):
    """Trajectories of a run, keyed by (project, run, id), and the cases around them."""

    def insert(self, project: str, run: str, items: Sequence[NewTrajectory]) -> dict[str, int]:
        """Store those whose id is new to the run; returns id -> pk of the inserted ones only.

        Concurrent inserts of one id store exactly one row; the loser sees it as existing.
        ``items`` has unique ids.
        """
        ...

    def attribute(self, submitters: Mapping[int, str]) -> None:
        """Note who submitted trajectories, by primary key."""
        ...

    def find(self, project: str, run: str, ids: Collection[str]) -> dict[str, Standing]:
        """Rows by id; unknown ids are absent."""
        ...

    def standings(self, pks: Collection[int]) -> dict[int, Standing]:
        """Rows by primary key."""
        ...

    def count_again(self, counts: Mapping[int, int]) -> None:
        """Add to the multiplicity of rows."""
        ...

    def bodies(self, pks: Collection[int], *, turns: bool = True) -> dict[int, Body]:
        """Problem, answer, metadata and, unless told otherwise, the turns (most of the text)."""
        ...

    def grow(self, pk: int, item: NewTrajectory) -> None:
        """Replace body, digests, length and ``finished`` of an unfinished trajectory."""
        ...

    def identify(self, subjects: Mapping[int, tuple[str, str | None]]) -> None:
        """Set the subject digest and the canonical form, and mark as identified."""
        ...

    def cases(self, pks: Collection[int], *, lock: bool = False) -> list[Case]:
        """Cases in the order of ``pks``; with ``lock`` the rows stay locked until the commit."""
        ...

    def undecided(self, project: str, run: str, limit: int) -> list[int]:
        """Pks of cases that need a decision, oldest first."""
        ...

    def held(self, project: str, run: str, limit: int) -> list[int]:
        """Pks of cases with held demands, best rank first."""
        ...

    def provisional(self, ladder: LadderKey, after: int, limit: int) -> list[int]:
        """Pks, behind ``after``, of cases of open runs that have a provisional record."""
        ...

    def unsettled(self, project: str, run: str, limit: int) -> list[int]:
        """Pks of cases whose record is provisional, or that are not at rest (met < MET_FINAL), oldest
        first: what a close still has to finish."""
        ...

    def reopen(self, pks: Collection[int]) -> None:
        """Evidence was taken back: what the policy had decided rests on something else now."""
        ...

    def unidentify(self, subjects: Mapping[int, str]) -> None:
        """Go back to raw digests: what had been found to be the candidate was wrong."""
        ...

    def set_needs_decision(self, pks: Collection[int], needs: bool) -> None:
        """Mark cases for the policy, or clear the mark."""
        ...

    def decided(self, decisions: Sequence[Decided]) -> None:
        """Clear ``needs_decision`` and store what was decided, on how much evidence."""
        ...

    def cancel(self, pk: int) -> None:
        """Mark as cancelled."""
        ...

    def settle(self, updates: Sequence[StandingUpdate]) -> None:
        """Write back status, reward and the waiting rank."""
        ...

    def siblings(self, project: str, run: str, groups: Collection[str], limit: int) -> list[Sibling]:
        """Scored members of groups as their records stand, at most ``limit``, the latest first."""
        ...

    def group(self, project: str, run: str, group: str) -> list[Standing]:
        """Members of a group, in order of arrival."""
        ...
