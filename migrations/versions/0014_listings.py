"""Indexes of what people look at: a run's trajectories by status, groups by prefix, failed checks

Revision 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None

_GROUPED = sa.text("group_id IS NOT NULL")
_FAILED = sa.text("state = 'failed'")
_GROUP = "ix_trajectories_group"


def upgrade() -> None:
    op.create_index("ix_trajectories_listed", "trajectories", ["run", "status", "pk"])
    op.create_index(
        "ix_checks_failed", "checks", ["project", "pk"], sqlite_where=_FAILED, postgresql_where=_FAILED
    )
    _replace_groups(byte_by_byte=True)


def downgrade() -> None:
    _replace_groups(byte_by_byte=False)
    op.drop_index("ix_checks_failed", "checks")
    op.drop_index("ix_trajectories_listed", "trajectories")


def _replace_groups(*, byte_by_byte: bool) -> None:
    """SQLite compares bytes anyhow."""
    if op.get_context().dialect.name != "postgresql":
        return
    op.drop_index(_GROUP, "trajectories")
    op.create_index(
        _GROUP,
        "trajectories",
        ["run", "group_id"],
        postgresql_where=_GROUPED,
        postgresql_ops={"group_id": "text_pattern_ops"} if byte_by_byte else {},
    )
