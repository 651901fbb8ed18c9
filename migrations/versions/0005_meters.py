"""Counters of all processes, and the traces of trajectories

Revision 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "meters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "tier", "kind", name=op.f("pk_meters")),
    )
    op.create_table(
        "traces",
        sa.Column("trajectory", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trajectory"], ["trajectories.pk"], name=op.f("fk_traces_trajectory"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("trajectory", name=op.f("pk_traces")),
    )


def downgrade() -> None:
    op.drop_table("traces")
    op.drop_table("meters")
