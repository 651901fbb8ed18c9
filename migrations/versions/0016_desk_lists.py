"""Lists of the desk by state and queue, what is claimed, and what people differ on

Revision 0016.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | None = None
depends_on: str | None = None

NEW = (
    ("ix_reviews_listed", ["project", "state", "pk"], None),
    ("ix_reviews_listed_of_queue", ["project", "queue", "state", "pk"], None),
    ("ix_reviews_claimed", ["project", "claimed_by", "claimed_until"], "claimed_by IS NOT NULL"),
    ("ix_reviews_disputed", ["project", "pk"], "disputed"),
)
# Those of every state serve what these did.
OLD = (
    ("ix_reviews_open", ["project", "pk"], "state = 'open'"),
    ("ix_reviews_counted", ["project", "queue", "pk"], "state = 'effective'"),
)


def upgrade() -> None:
    _replace(OLD, NEW)


def downgrade() -> None:
    _replace(NEW, OLD)


def _replace(
    old: tuple[tuple[str, list[str], str | None], ...], new: tuple[tuple[str, list[str], str | None], ...]
) -> None:
    for name, _, _ in old:
        op.drop_index(name, table_name="reviews")
    for name, columns, where in new:
        predicate = None if where is None else sa.text(where)
        op.create_index(name, "reviews", columns, sqlite_where=predicate, postgresql_where=predicate)
