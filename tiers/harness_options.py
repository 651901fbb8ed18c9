"""How a harness treats its children."""

from __future__ import annotations

from pydantic import Field

from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import Record
from verifier_service.domain.verifiers import VerifierInfo


class HarnessOptions(Record):
    """Times are seconds, sizes MiB.

    ``start_s`` bounds starting a child and warming a verifier in it. ``stall_s`` bounds the time in which
    a child with work executes no item. ``sample_s`` is how often processes are measured, ``poll_s`` how
    often cancellation is asked for, ``beat_s`` how often the caller's lease is kept. A child is replaced
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
    plugins: tuple[str, ...] = ()
    folder: str | None = None
    environment: dict[str, str] = Field(default_factory=dict, repr=False)


class Lane(Record):
    """A kind of child: verifiers of one lane share a warm process, one after the other."""

    name: str
    file_mb: int
    open_files: int


FAST_LANE = Lane(name=Tier.FAST.value, file_mb=64, open_files=256)


def lane_of(info: VerifierInfo) -> Lane:
    """All fast verifiers share one child; each dear one has its own and may write larger files."""
    if info.tier is Tier.FAST:
        return FAST_LANE
    return Lane(name=info.name, file_mb=16_384, open_files=1024)
