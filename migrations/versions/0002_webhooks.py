"""Webhooks

Revision 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("statuses", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("old_secret", sa.Text(), nullable=True),
        sa.Column("old_secret_until", sa.Double(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("streak", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.Double(), nullable=True),
        sa.Column("paused_until", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double(), nullable=True),
        sa.CheckConstraint("(disabled_reason IS NULL) = enabled", name=op.f("ck_webhooks_disabled_reason")),
        sa.CheckConstraint(
            "(old_secret IS NULL) = (old_secret_until IS NULL)", name=op.f("ck_webhooks_old_secret")
        ),
        sa.CheckConstraint("streak >= 0", name=op.f("ck_webhooks_streak")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_webhooks_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_webhooks")),
        sa.UniqueConstraint("id", name=op.f("uq_webhooks_id")),
    )
    with op.batch_alter_table("webhooks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_webhooks_project"), ["project"], unique=False)

    op.create_table(
        "webhook_cursors",
        sa.Column("webhook", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.pk"], name=op.f("fk_webhook_cursors_webhook")),
        sa.ForeignKeyConstraint(
            ["run"], ["runs.pk"], name=op.f("fk_webhook_cursors_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("webhook", "run", name=op.f("pk_webhook_cursors")),
    )

    op.create_table(
        "deliveries",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("webhook", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.CheckConstraint("state IN ('pending', 'delivered', 'failed')", name=op.f("ck_deliveries_state")),
        sa.CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name=op.f("ck_deliveries_ended_at")),
        sa.CheckConstraint("attempt >= 0", name=op.f("ck_deliveries_attempt")),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.pk"], name=op.f("fk_deliveries_webhook")),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_deliveries_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_deliveries")),
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index("uq_deliveries_webhook_run_seq", ["webhook", "run", "seq"], unique=True)
        batch_op.create_index("ix_deliveries_webhook", ["webhook", "pk"])
        for name, columns, predicate in (
            ("ix_deliveries_due", ["webhook", "not_before", "pk"], "state = 'pending'"),
            ("ix_deliveries_ended", ["state", "ended_at"], "state <> 'pending'"),
        ):
            where = sa.text(predicate)
            batch_op.create_index(name, columns, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    for table in ("deliveries", "webhook_cursors", "webhooks"):
        op.drop_table(table)
