"""Port: run verifiers on items in processes that can be killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from verifier_service.domain.evidence import Cost, Outcome
from verifier_service.domain.records import JsonObject
from verifier_service.domain.verifiers import CheckInput

LimitHit = Literal["time_limit", "memory_limit"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One attempt of one check.

    ``item`` may be the JSON text of a ``CheckInput``: it then travels to the child unread. ``time_s`` is
    wall time from the moment this item starts, ``memory_mb`` the resident size of all the attempt's
    processes together. ``limit_is_cut`` says that the limits were lowered for reasons that are not the
    candidate's (its run's budget): reaching them is then never a rejection.
    """

    id: str
    verifier: str
    params: JsonObject = field(default_factory=dict)
    item: CheckInput | str
    time_s: float
    memory_mb: int
    limit_is_cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A job that ended, with what it found or why nothing was found.

    ``blamed`` is true only for the item that was executing when its process died or was killed. A
    failure with ``blamed`` false and code ``child_start_failed`` or ``worker_lost`` was never executed.
    ``wall_s`` and ``cost.cpu_s`` are seconds, measured in the child, or from outside when it was killed.
    ``peak_mb`` is the highest resident size in MiB of the child and all it started that was sampled while
    the item was executing, ``None`` when no sample fell into that time. ``heard_at`` is the monotonic time
    at which the result was there.
    """

    id: str
    outcome: Outcome
    cost: Cost
    wall_s: float
    libraries: dict[str, str]
    version: str
    limit_hit: LimitHit | None = None
    blamed: bool = False
    peak_mb: float | None = None
    heard_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """A job without an outcome: give it back without spending an attempt.

    ``note`` is ``cancelled`` or ``closing``. ``cost`` is not zero when it was stopped while executing;
    ``wall_s`` is zero when it was not. ``peak_mb`` and ``heard_at`` are those of ``Done``.
    """

    id: str
    note: Literal["cancelled", "closing"]
    cost: Cost = field(default_factory=Cost)
    wall_s: float = 0.0
    peak_mb: float | None = None
    heard_at: float = field(default_factory=time.monotonic)


class Harness(Protocol):
    """Runs jobs in warm child processes. One harness serves one thread at a time."""

    def run(
        self,
        jobs: Sequence[Job],
        cancelled: Callable[[], Collection[str]],
        beat: Callable[[], None] | None = None,
        more: Callable[[frozenset[str]], Sequence[Job]] | None = None,
    ) -> Iterator[Done | Released]:
        """Yield exactly one result per job, as they arrive; match them by ``id``, not by position.

        A slow item holds up no other: results come in any order, and ``more`` is called every few
        milliseconds while something is open. It gets the verifiers for which enough jobs wait here and
        returns further jobs, which join the run; the run ends when every job has its result.
        ``cancelled`` returns ids of jobs nobody wants any more; it is asked at least every 0.5 s.
        ``beat`` is called about every few seconds to keep the caller's lease. All three are called in
        the caller's thread, and only while the iterator is being advanced; limits are enforced always.
        When one of them raises, the children are killed and the error leaves the iterator; jobs without
        a result by then have none. Abandoning the iterator kills the children as well.
        """

    def close(self) -> None:
        """Kill every child. A run in another thread gives its remaining jobs back (``closing``)."""
