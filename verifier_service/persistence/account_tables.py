"""Tables of people, beside those of the first version."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Table,
    Text,
)

from verifier_service.domain.accounts import ROLES, TicketKind
from verifier_service.persistence.tables import PK, listed, metadata

users = Table(
    "users",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False, index=True),
    Column("login", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("password_hash", Text),
    Column("issuer", Text),
    Column("subject", Text),
    Column("created_at", Double, nullable=False),
    Column("disabled_at", Double),
    Index("uq_users_login", "login", unique=True),
    Index("uq_users_issuer_subject", "issuer", "subject", unique=True),
    CheckConstraint(f"role IN ({listed(ROLES)})", name="role"),
    CheckConstraint("(issuer IS NULL) = (subject IS NULL)", name="subject"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("user_pk", BigInteger, ForeignKey("users.pk"), nullable=False, index=True),
    Column("token_hash", Text, nullable=False),
    Column("csrf", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Index("uq_sessions_token_hash", "token_hash", unique=True),
)

tickets = Table(
    "tickets",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("login", Text),
    Column("body", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    CheckConstraint(f"kind IN ({listed(list(TicketKind))})", name="kind"),
)

# By what was tried, whether it exists or not: who asks cannot learn which logins do.
sign_in_failures = Table(
    "sign_in_failures",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("failures", BigInteger, nullable=False),
    Column("last_at", Double, nullable=False),
    Column("locked_until", Double),
)

account_events = Table(
    "account_events",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("at", Double, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_account_events_project", "project", "pk"),
)
