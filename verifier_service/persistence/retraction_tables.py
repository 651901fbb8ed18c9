"""The table of retractions, beside those of the first version."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, ForeignKey, Index, Table, Text

from verifier_service.domain.retractions import Mode, RetractionState
from verifier_service.persistence.database import sql
from verifier_service.persistence.tables import PK, listed, metadata

_STATES = [state for state in RetractionState if state is not RetractionState.OTHER]

retractions = Table(
    "retractions",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    # What the request was found to mean when it was made: lists as JSON text, null where all are meant.
    Column("builds", Text),
    Column("params", Text),
    Column("since", Double),
    Column("until", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("by_key", Text, nullable=False),
    Column("by_name", Text, nullable=False),
    Column("state", Text, nullable=False),
    # Up to which check, or which of the named keys, the work of this state is done.
    Column("place", BigInteger, nullable=False),
    Column("stopped", BigInteger, nullable=False),
    Column("checks", BigInteger, nullable=False),
    Column("trajectories", BigInteger, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("finished_at", Double),
    Index("uq_retractions_project_id", "project", "id", unique=True),
    Index("ix_retractions_project", "project", "pk"),
    CheckConstraint(f"state IN ({listed(_STATES)})", name="state"),
    CheckConstraint(f"mode IN ({listed(Mode)})", name="mode"),
    CheckConstraint("(state = 'done') = (finished_at IS NOT NULL)", name="finished_at"),
)
OPEN = "state <> 'done'"
Index(
    "ix_retractions_open",
    retractions.c.pk,
    sqlite_where=sql(OPEN),
    postgresql_where=sql(OPEN),
)
