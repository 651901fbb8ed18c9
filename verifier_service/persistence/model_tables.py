"""The tables of what is learned and decided."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text, text

from verifier_service.persistence.tables import PK, metadata

models = Table(
    "models",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("ladder", Text, primary_key=True),
    Column("ladder_version", Integer, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("labels", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("made_at", Double, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("run", BigInteger, ForeignKey("runs.pk"), nullable=False),
    Column("trajectory", BigInteger, ForeignKey("trajectories.pk"), nullable=False, index=True),
    Column("decided_at", Double, nullable=False),
    Column("action", Text, nullable=False),
    Column("tier", Text),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("quote", Double, nullable=False),
    Column("utility", Double),
    Column("price", Double),
    Column("propensity", Double),
    Column("draw", Double),
    Column("audited", Boolean, nullable=False),
    Column("level", Text),
    Column("model", Integer),
    Column("outcome", Double),
    Column("variance", Double),
    Column("low", Double),
    Column("high", Double),
    Column("mean", Double),
    Column("sd", Double),
    Index("ix_decisions_run", "run", "pk"),
)
AUDITED = "audited AND action = 'request'"
Index(
    "ix_decisions_audited",
    decisions.c.pk,
    sqlite_where=text(AUDITED),
    postgresql_where=text(AUDITED),
)

watches = Table(
    "watches",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("ladder", Text, primary_key=True),
    Column("ladder_version", Integer, primary_key=True),
    Column("through", BigInteger, nullable=False),
    Column("state", Text),
)

alarms = Table(
    "alarms",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("ladder", Text, nullable=False),
    Column("ladder_version", Integer, nullable=False),
    Column("stratum", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("raised_at", Double, nullable=False),
    Column("cleared_at", Double),
)
STANDING = "cleared_at IS NULL"
Index(
    "uq_alarms_standing",
    *(alarms.c[name] for name in ("project", "ladder", "ladder_version", "stratum")),
    unique=True,
    sqlite_where=text(STANDING),
    postgresql_where=text(STANDING),
)
