"""The trail of one person

Revision 0019.
"""

from __future__ import annotations

from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | None = None
depends_on: str | None = None

INDEX = "ix_review_events_actor"


def upgrade() -> None:
    op.create_index(INDEX, "review_events", ["project", "actor", "pk"])


def downgrade() -> None:
    op.drop_index(INDEX, table_name="review_events")
