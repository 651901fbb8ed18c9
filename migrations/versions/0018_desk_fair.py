"""Gold items that are held as others are, claims that end, lists by age

Revision 0018.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | None = None
depends_on: str | None = None

GOLD = sa.text("gold IS NOT NULL")
DEALT = sa.text("state = 'open' AND dealt_to IS NOT NULL")


def upgrade() -> None:
    op.add_column("reviews", sa.Column("claimed_at", sa.Double()))
    op.add_column("reviews", sa.Column("dealt_to", sa.Text()))
    op.drop_index("uq_reviews_gold", table_name="reviews")
    op.execute(
        "UPDATE reviews SET dealt_to = assigned_to, assigned_to = NULL, assigned_until = NULL "
        "WHERE gold IS NOT NULL"
    )
    _unique("dealt_to")
    op.create_index(
        "ix_reviews_dealt",
        "reviews",
        ["project", "dealt_to", "lane", "precedence", "pk"],
        sqlite_where=DEALT,
        postgresql_where=DEALT,
    )
    op.create_index("ix_reviews_aged", "reviews", ["project", "state", "created_at", "id"])
    op.create_index(
        "ix_reviews_aged_of_queue", "reviews", ["project", "queue", "state", "created_at", "id"]
    )


def downgrade() -> None:
    for name in ("ix_reviews_aged_of_queue", "ix_reviews_aged", "ix_reviews_dealt", "uq_reviews_gold"):
        op.drop_index(name, table_name="reviews")
    op.execute("UPDATE reviews SET assigned_to = dealt_to, assigned_until = NULL WHERE gold IS NOT NULL")
    _unique("assigned_to")
    op.drop_column("reviews", "dealt_to")
    op.drop_column("reviews", "claimed_at")


def _unique(column: str) -> None:
    op.create_index(
        "uq_reviews_gold",
        "reviews",
        ["gold", column],
        unique=True,
        sqlite_where=GOLD,
        postgresql_where=GOLD,
    )
