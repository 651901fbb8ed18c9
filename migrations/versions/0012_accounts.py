"""People: users, sessions, one-time tokens, failed sign-ins, the trail

Revision 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("login", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("issuer", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("disabled_at", sa.Double(), nullable=True),
        sa.CheckConstraint("role IN ('reviewer', 'lead', 'operator', 'admin')", name=op.f("ck_users_role")),
        sa.CheckConstraint("(issuer IS NULL) = (subject IS NULL)", name=op.f("ck_users_subject")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_users_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_users")),
    )
    op.create_index("ix_users_project", "users", ["project"])
    op.create_index("uq_users_login", "users", ["login"], unique=True)
    op.create_index("uq_users_issuer_subject", "users", ["issuer", "subject"], unique=True)
    op.create_table(
        "sessions",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("user_pk", sa.BigInteger(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["user_pk"], ["users.pk"], name=op.f("fk_sessions_user_pk")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_user_pk", "sessions", ["user_pk"])
    op.create_index("uq_sessions_token_hash", "sessions", ["token_hash"], unique=True)
    op.create_table(
        "tickets",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("login", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.CheckConstraint("kind IN ('setup', 'password')", name=op.f("ck_tickets_kind")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_tickets")),
    )
    op.create_table(
        "sign_in_failures",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("locked_until", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_sign_in_failures")),
    )
    op.create_table(
        "account_events",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_account_events_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_account_events")),
    )
    op.create_index("ix_account_events_project", "account_events", ["project", "pk"])


def downgrade() -> None:
    op.drop_table("account_events")
    op.drop_table("sign_in_failures")
    op.drop_table("tickets")
    op.drop_table("sessions")
    op.drop_table("users")
