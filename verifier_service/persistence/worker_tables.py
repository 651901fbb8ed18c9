"""Tables of workers and of attempts, beside those of the first version."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from verifier_service.domain.history import AttemptEnd
from verifier_service.persistence.tables import listed, metadata

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tier", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("card", Text, nullable=False),
    Column("beat_s", Double, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("beat_at", Double, nullable=False),
    Column("left_at", Double),
    Column("done", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Index("ix_workers_tier", "tier", "beat_at"),
    CheckConstraint("beat_s > 0", name="beat"),
)

_ENDS = [end for end in AttemptEnd if end is not AttemptEnd.OTHER]

# One row per attempt that has ended, but for checks that were judged before they were stored: the only
# attempt at those is on their own row. The key is what "every attempt is accounted once" means.
attempts = Table(
    "attempts",
    metadata,
    Column("check_pk", BigInteger, ForeignKey("checks.pk", ondelete="CASCADE"), nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("worker", Text),
    Column("host", Text),
    Column("version", Text),
    Column("libraries", Text),
    Column("queued_at", Double, nullable=False),
    Column("claimed_at", Double),
    Column("started_at", Double),
    Column("ended_at", Double, nullable=False),
    Column("ended_as", Text, nullable=False),
    Column("code", Text),
    Column("wall_s", Double),
    Column("cpu_s", Double),
    Column("peak_mb", Double),
    Column("credits", Double, nullable=False),
    PrimaryKeyConstraint("check_pk", "fence"),
    CheckConstraint(f"ended_as IN ({listed(_ENDS)})", name="ended_as"),
    CheckConstraint("started_at IS NULL OR started_at <= ended_at", name="times"),
)
