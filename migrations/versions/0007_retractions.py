"""Retractions of evidence

Revision 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEXES = (
    (
        "ix_checks_evidence",
        "checks",
        ["project", "verifier", "pk", "version"],
        "state = 'succeeded' AND retraction IS NULL",
    ),
    ("ix_checks_retraction", "checks", ["retraction", "pk"], "retraction IS NOT NULL"),
    ("ix_retractions_open", "retractions", ["pk"], "state <> 'done'"),
)
UNSETTLED = "ix_trajectories_unsettled"
OLD = "status IS NULL OR status = 'provisional' OR (status = 'unscored' AND met < 4)"
NEW = "status IS NULL OR status = 'provisional' OR (status IN ('unscored', 'retracted') AND met < 4)"


def upgrade() -> None:
    op.create_table(
        "retractions",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("builds", sa.Text(), nullable=True),
        sa.Column("params", sa.Text(), nullable=True),
        sa.Column("since", sa.Double(), nullable=True),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("by_key", sa.Text(), nullable=False),
        sa.Column("by_name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.BigInteger(), nullable=False),
        sa.Column("checks", sa.BigInteger(), nullable=False),
        sa.Column("trajectories", sa.BigInteger(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "state IN ('marking', 'superseding', 'done')", name=op.f("ck_retractions_state")
        ),
        sa.CheckConstraint("mode IN ('retract', 'reverify', 'replace')", name=op.f("ck_retractions_mode")),
        sa.CheckConstraint(
            "(state = 'done') = (finished_at IS NOT NULL)", name=op.f("ck_retractions_finished_at")
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_retractions_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_retractions")),
    )
    op.create_index("uq_retractions_project_id", "retractions", ["project", "id"], unique=True)
    op.create_index("ix_retractions_project", "retractions", ["project", "pk"])
    # It does not rewrite the table, on either database.
    op.add_column("checks", sa.Column("retraction", sa.BigInteger(), nullable=True))
    for name, table, columns, predicate in INDEXES:
        where = sa.text(predicate)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
    _unsettled(NEW)


def _unsettled(predicate: str) -> None:
    op.drop_index(UNSETTLED, "trajectories")
    where = sa.text(predicate)
    op.create_index(UNSETTLED, "trajectories", ["run", "pk"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    retracted = sa.text("SELECT count(*) FROM checks WHERE retraction IS NOT NULL")
    count = op.get_bind().execute(retracted).scalar_one()
    if count:
        raise CommandError(
            f"evidence of {count} checks was retracted: before revision 0007 it would be served again as"
            " if nothing had been found wrong. Delete what rests on it or stay at 0007"
        )
    _unsettled(OLD)
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table)
    op.drop_column("checks", "retraction")
    op.drop_table("retractions")
