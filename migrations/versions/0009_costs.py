"""What checks cost: attempts to learn from, and what was learned

Revision 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "noted_attempts",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("size", sa.Double(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("found", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_noted_attempts")),
    )
    op.create_table(
        "learned_costs",
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("fit", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Text(), nullable=False),
        sa.Column("learned_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("method", name=op.f("pk_learned_costs")),
    )


def downgrade() -> None:
    op.drop_table("learned_costs")
    op.drop_table("noted_attempts")
