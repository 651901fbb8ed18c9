"""The history of a check: what became of each attempt at it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from verifier_service.domain.digests import version_of
from verifier_service.domain.records import OpenEnum, Record


class AttemptEnd(OpenEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REQUEUED = "requeued"  # failed in a way that may pass: the check is tried again
    RELEASED = "released"  # given back without an attempt spent
    LOST = "lost"  # its worker did not renew the lease
    INTERRUPTED = "interrupted"  # the service that held it was started anew
    CANCELLED = "cancelled"  # nobody wanted the check any more
    OTHER = "other"


class Attempt(Record):
    """One attempt. Times are the database's; credits as in the ledger.

    ``number`` rises with every claim; a claim that was given back at once, because the budget could not
    cover it, leaves a gap. ``worker`` and ``host`` are null where people worked, or where nobody knows.
    ``claimed_at`` is when the check was leased: a worker may hold several that wait for their turn.
    ``started_at`` and ``ended_at`` are when the item itself ran, as the harness saw it, and null when it
    never did or nobody was left to tell; an attempt without an outcome ends when that was noticed.
    ``claimed_at`` null: it was judged before it was stored, and the times are those of the commit.
    ``end`` is null while it runs. ``wall_s`` and ``cpu_s`` are seconds of this item alone.
    ``peak_memory_mb`` is the highest resident size in MiB of all processes of the child that ran it, while
    it ran, sampled every 50 ms: where items share a warm child that is the child with all it has loaded;
    null when the item ended between two samples.
    """

    number: int
    worker: str | None = None
    host: str | None = None
    version: str | None = None
    libraries: dict[str, str] = {}
    queued_at: datetime | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    end: AttemptEnd | None = None
    code: str | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_memory_mb: float | None = None
    credits: float = 0.0


class Ran(NamedTuple):
    """What a worker knows of an attempt that it reports.

    ``ago_s``: seconds between the moment when the harness had the result and the report. ``wall_s`` is
    null for an item that never started.
    """

    host: str
    version: str | None = None
    libraries: Mapping[str, str] | None = None
    ago_s: float = 0.0
    wall_s: float | None = None
    peak_mb: float | None = None


class Queueing(NamedTuple):
    """Where a queued check stands, and its history."""

    build: str
    attempts: tuple[Attempt, ...] = ()
    ahead: int | None = None

    @property
    def version(self) -> str:
        """The verifier's version."""
        return version_of(self.build)
