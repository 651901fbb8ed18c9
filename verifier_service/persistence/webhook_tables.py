"""Tables of the webhooks. The reward feed is their outbox: an endpoint keeps a position in each run's feed,
and a row for every record that it is sent."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from verifier_service.domain.webhooks import DeliveryState
from verifier_service.persistence.tables import PK, listed, metadata

_STATES = [state for state in DeliveryState if state is not DeliveryState.OTHER]

webhooks = Table(
    "webhooks",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("run", Text),
    Column("statuses", Text),
    Column("description", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("old_secret", Text),
    Column("old_secret_until", Double),
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", Text),
    Column("streak", Integer, nullable=False),
    Column("failing_since", Double),
    Column("paused_until", Double),
    Column("created_at", Double, nullable=False),
    Column("removed_at", Double),
    CheckConstraint("(disabled_reason IS NULL) = enabled", name="disabled_reason"),
    CheckConstraint("(old_secret IS NULL) = (old_secret_until IS NULL)", name="old_secret"),
    CheckConstraint("streak >= 0", name="streak"),
)

# How far into a run's feed an endpoint has come; a run without a row is a younger one, at 0.
webhook_cursors = Table(
    "webhook_cursors",
    metadata,
    Column("webhook", BigInteger, ForeignKey("webhooks.pk"), primary_key=True, autoincrement=False),
    Column(
        "run", BigInteger, ForeignKey("runs.pk", ondelete="CASCADE"), primary_key=True, autoincrement=False
    ),
    Column("seq", BigInteger, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("webhook", BigInteger, ForeignKey("webhooks.pk"), nullable=False),
    Column("run", BigInteger, ForeignKey("runs.pk", ondelete="CASCADE"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("not_before", Double, nullable=False),
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Index("uq_deliveries_webhook_run_seq", "webhook", "run", "seq", unique=True),
    Index("ix_deliveries_webhook", "webhook", "pk"),
    CheckConstraint(f"state IN ({listed(_STATES)})", name="state"),
    CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name="ended_at"),
    CheckConstraint("attempt >= 0", name="attempt"),
)
PENDING = "state = 'pending'"
ENDED = "state <> 'pending'"
for _name, _columns, _predicate in (
    ("ix_deliveries_due", ("webhook", "not_before", "pk"), PENDING),
    ("ix_deliveries_ended", ("state", "ended_at"), ENDED),
):
    Index(
        _name,
        *(deliveries.c[_column] for _column in _columns),
        sqlite_where=text(_predicate),
        postgresql_where=text(_predicate),
    )
