"""Settlements of events, the checks that wait for them, and when sources are asked

Revision 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("trajectories", sa.Column("registered_at", sa.Double(), nullable=True))
    _settlements()
    op.create_table(
        "event_waits",
        sa.Column("check_pk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("outcomes", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["check_pk"], ["checks.pk"], name=op.f("fk_event_waits_check_pk")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_event_waits_project")),
        sa.PrimaryKeyConstraint("check_pk", name=op.f("pk_event_waits")),
    )
    op.create_index("ix_event_waits_event", "event_waits", ["project", "event", "version", "check_pk"])
    op.create_table(
        "events_due",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_events_due_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_events_due")),
    )
    op.create_index("uq_events_due_project_event", "events_due", ["project", "event"], unique=True)
    op.create_table(
        "event_polls",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("next_at", sa.Double(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_event_polls_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_event_polls")),
    )
    op.create_index(
        "uq_event_polls_project_event_source", "event_polls", ["project", "event", "source"], unique=True
    )
    op.create_index("ix_event_polls_next_at", "event_polls", ["source", "next_at"])


def _settlements() -> None:
    op.create_table(
        "settlements",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("actual", sa.Text(), nullable=True),
        sa.Column("number", sa.Double(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("import_id", sa.Text(), nullable=True),
        sa.Column("by_name", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_settlements_version")),
        sa.CheckConstraint("state IN ('settled', 'void')", name=op.f("ck_settlements_state")),
        sa.CheckConstraint("(state = 'void') = (actual IS NULL)", name=op.f("ck_settlements_actual")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_settlements_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_settlements")),
    )
    op.create_index(
        "uq_settlements_project_event_version", "settlements", ["project", "event", "version"], unique=True
    )
    op.create_index("ix_settlements_project", "settlements", ["project", "pk"])


def downgrade() -> None:
    op.drop_table("event_polls")
    op.drop_table("events_due")
    op.drop_table("event_waits")
    op.drop_table("settlements")
    op.drop_column("trajectories", "registered_at")
