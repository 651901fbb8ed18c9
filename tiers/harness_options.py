"""How a harness treats its children."""

from __future__ import annotations

import os
import sys

from pydantic import Field

from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import Record
from verifier_service.domain.verifiers import VerifierInfo


class HarnessOptions(Record):
    """Times are seconds, sizes MiB.

    ``start_s`` bounds starting a child and warming a verifier in it. ``stall_s`` bounds the time in which
    a child with work executes no item. ``sample_s`` is how often processes are measured, ``poll_s`` how
    often cancellation is asked for, ``beat_s`` how often the caller's lease is kept, ``more_s`` how often
    the caller is asked for more. Fast items that execute for longer than ``overtake_s`` are overtaken, by
    up to ``fast_children`` processes of which ``spare_children`` are kept warm in advance;
    ``parallel_children`` run verifiers that wait for processes of their own. A child is replaced
    after ``recycle_items`` or when it has grown by ``recycle_growth_mb`` since it was warm, which is
    looked at every ``weigh_s``.
    ``plugins`` are extra modules of verifiers; ``folder`` is where children get their temporary folders
    (default: the system's). ``environment`` is added to their scrubbed environment; it may hold secrets.
    """

    start_s: float = Field(default=120.0, gt=0)
    stall_s: float = Field(default=30.0, gt=0)
    sample_s: float = Field(default=0.05, gt=0)
    poll_s: float = Field(default=0.5, gt=0, le=0.5)
    beat_s: float = Field(default=5.0, gt=0)
    recycle_items: int = Field(default=200_000, ge=1)
    recycle_growth_mb: int = Field(default=512, ge=1)
    weigh_s: float = Field(default=1.0, ge=0)
    max_batch: int = Field(default=1024, ge=1)
    more_s: float = Field(default=0.01, gt=0)
    overtake_s: float = Field(default=0.05, gt=0)
    fast_children: int = Field(default_factory=lambda: _cores() + 6, ge=1)
    spare_children: int = Field(default=1, ge=0)
    parallel_children: int = Field(default_factory=lambda: _cores(), ge=1)
    plugins: tuple[str, ...] = ()
    folder: str | None = None
    environment: dict[str, str] = Field(default_factory=dict, repr=False)


class Lane(Record):
    """A kind of child. Verifiers of one lane share its warm processes.

    ``width`` bounds the processes, ``active`` those that take new work: the others are left alone with a
    slow item. ``spares`` are started in advance. ``max_batch`` items travel together.
    """

    name: str
    file_mb: int
    open_files: int
    width: int = 1
    active: int = 1
    spares: int = 0
    max_batch: int


def lane_of(info: VerifierInfo, options: HarnessOptions) -> Lane:
    """Fast verifiers share a child, and others only to overtake a slow item. Verifiers that wait for
    their own processes run beside each other. Each dear one has a child of its own and may write larger
    files."""
    if info.tier is not Tier.FAST:
        return Lane(name=info.name, file_mb=16_384, open_files=1024, max_batch=options.max_batch)
    if info.parallel:
        count = options.parallel_children
        name = f"{Tier.FAST.value}/parallel"
        return Lane(name=name, file_mb=64, open_files=1024, width=count, active=count, max_batch=1)
    return Lane(
        name=Tier.FAST.value,
        file_mb=64,
        open_files=256,
        width=options.fast_children,
        spares=min(options.spare_children, options.fast_children - 1),
        max_batch=options.max_batch,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
