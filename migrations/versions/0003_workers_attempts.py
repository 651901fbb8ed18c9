"""Workers, and the history of attempts

Revision 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

ENDS = "'succeeded', 'failed', 'requeued', 'released', 'lost', 'interrupted', 'cancelled'"
QUEUED = "state = 'queued'"


def upgrade() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("beat_s", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("beat_at", sa.Double(), nullable=False),
        sa.Column("left_at", sa.Double(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("beat_s > 0", name=op.f("ck_workers_beat")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_index("ix_workers_tier", "workers", ["tier", "beat_at"])
    op.create_table(
        "attempts",
        sa.Column("check_pk", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("libraries", sa.Text(), nullable=True),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("claimed_at", sa.Double(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("ended_as", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("peak_mb", sa.Double(), nullable=True),
        sa.Column("credits", sa.Double(), nullable=False),
        sa.CheckConstraint(f"ended_as IN ({ENDS})", name=op.f("ck_attempts_ended_as")),
        sa.CheckConstraint("started_at IS NULL OR started_at <= ended_at", name=op.f("ck_attempts_times")),
        sa.ForeignKeyConstraint(
            ["check_pk"], ["checks.pk"], name=op.f("fk_attempts_check_pk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("check_pk", "fence", name=op.f("pk_attempts")),
    )
    # Neither rewrites the table of checks, on either database.
    op.add_column("checks", sa.Column("queued_at", sa.Double(), nullable=True))
    op.create_index(
        "ix_checks_ready_kind",
        "checks",
        ["tier", "verifier", "version", "precedence", "pk"],
        sqlite_where=sa.text(QUEUED),
        postgresql_where=sa.text(QUEUED),
    )


def downgrade() -> None:
    op.drop_index("ix_checks_ready_kind", "checks")
    op.drop_column("checks", "queued_at")
    op.drop_table("attempts")
    op.drop_index("ix_workers_tier", "workers")
    op.drop_table("workers")
