"""Tables of events: what became of them, which checks wait for them, and when sources are asked."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, ForeignKey, Index, Integer, Table, Text

from verifier_service.persistence.tables import PK, metadata

# Rows are only ever added.
settlements = Table(
    "settlements",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("event", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("actual", Text),
    Column("number", Double),
    Column("source", Text, nullable=False),
    Column("import_id", Text),
    Column("by_name", Text),
    Column("created_at", Double, nullable=False),
    Index("uq_settlements_project_event_version", "project", "event", "version", unique=True),
    Index("ix_settlements_project", "project", "pk"),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("state IN ('settled', 'void')", name="state"),
    CheckConstraint("(state = 'void') = (actual IS NULL)", name="actual"),
)

event_waits = Table(
    "event_waits",
    metadata,
    Column("check_pk", BigInteger, ForeignKey("checks.pk"), primary_key=True, autoincrement=False),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("event", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("outcomes", Text, nullable=False),
    # The latest version that the check was told; 0: none.
    Column("version", Integer, nullable=False),
    Index("ix_event_waits_event", "project", "event", "version", "check_pk"),
)

events_due = Table(
    "events_due",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("event", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Index("uq_events_due_project_event", "project", "event", unique=True),
)

event_polls = Table(
    "event_polls",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("source", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error", Text),
    Index("uq_event_polls_project_event_source", "project", "event", "source", unique=True),
    Index("ix_event_polls_next_at", "source", "next_at"),
)
