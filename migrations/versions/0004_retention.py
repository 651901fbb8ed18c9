"""Runs that are emptied, and the index that tells whether a check is cited

Revision 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

INDEXES = (
    ("ix_runs_purging", "runs", ["pk"], "purging_at IS NOT NULL AND purged_at IS NULL"),
    ("ix_demands_check", "demands", ["check_pk", "state"], "check_pk IS NOT NULL"),
    ("ix_reviews_check", "reviews", ["check_pk"], None),
)


def upgrade() -> None:
    # Neither rewrites the table, on either database.
    op.add_column("runs", sa.Column("purging_at", sa.Double(), nullable=True))
    op.add_column("runs", sa.Column("purged_at", sa.Double(), nullable=True))
    for name, table, columns, predicate in INDEXES:
        where = None if predicate is None else sa.text(predicate)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    purged = sa.text("SELECT count(*) FROM runs WHERE purging_at IS NOT NULL")
    count = op.get_bind().execute(purged).scalar_one()
    if count:
        raise CommandError(
            f"{count} runs were purged, or are being purged: before revision 0004 they would be closed runs"
            " with missing records, and nothing would tell. Delete these rows or stay at 0004"
        )
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table)
    op.drop_column("runs", "purged_at")
    op.drop_column("runs", "purging_at")
