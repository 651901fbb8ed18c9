"""Pages of the desk: a person's latest decisions

Revision 0015.
"""

from __future__ import annotations

from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_index("ix_votes_reviewer", "votes", ["reviewer", "decided_at"])


def downgrade() -> None:
    op.drop_index("ix_votes_reviewer", table_name="votes")
