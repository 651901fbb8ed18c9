"""The desk: queues, frozen requirements, assignments, gold items, the trail; owners and submitters

Revision 0011.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPEN = "state = 'open'"
INDEXES = (
    ("ix_reviews_next", ["project", "queue", "lane", "precedence", "pk"], OPEN, False),
    ("ix_reviews_next_of_all", ["project", "lane", "precedence", "pk"], OPEN, False),
    (
        "ix_reviews_assigned",
        ["project", "assigned_to", "lane", "precedence", "pk"],
        f"{OPEN} AND assigned_to IS NOT NULL",
        False,
    ),
    (
        "ix_reviews_ageing",
        ["escalate_at"],
        f"{OPEN} AND escalate_at IS NOT NULL AND escalated_at IS NULL",
        False,
    ),
    ("ix_reviews_counted", ["project", "queue", "pk"], "state = 'effective'", False),
    ("uq_reviews_gold", ["gold", "assigned_to"], "gold IS NOT NULL", True),
)
BEFORE = (
    ("ix_reviews_check", ["check_pk"], None, False),
    ("uq_reviews_check_pending", ["check_pk"], "state IN ('decided', 'open')", True),
    ("ix_reviews_open", ["project", "pk"], OPEN, False),
    ("ix_reviews_due", ["effective_at"], "state = 'decided'", False),
)


def _added() -> list[sa.Column[Any]]:
    return [
        sa.Column("queue_version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("blind", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("minutes", sa.Double(), nullable=True),
        sa.Column("lane", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("precedence", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("escalate_at", sa.Double(), nullable=True),
        sa.Column("escalated_at", sa.Double(), nullable=True),
        sa.Column("disputed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("assigned_to", sa.Text(), nullable=True),
        sa.Column("assigned_until", sa.Double(), nullable=True),
        sa.Column("gold", sa.BigInteger(), nullable=True),
        sa.Column("retracted_at", sa.Double(), nullable=True),
    ]


def _columns(*, nullable: bool) -> list[Any]:
    return [
        sa.Column("pk", _PK, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("check_pk", sa.BigInteger(), nullable=nullable),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("approvals", sa.Integer(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.Double(), nullable=True),
        sa.Column("effective_at", sa.Double(), nullable=True),
        *(_added() if nullable else ()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state <> 'decided' OR effective_at IS NOT NULL", name=op.f("ck_reviews_effective")
        ),
        sa.CheckConstraint(
            "state IN ('open', 'decided', 'effective', 'expired', 'cancelled')",
            name=op.f("ck_reviews_state"),
        ),
        sa.CheckConstraint("approvals >= 1", name=op.f("ck_reviews_approvals")),
        *(
            [
                sa.CheckConstraint("(check_pk IS NULL) = (gold IS NOT NULL)", name=op.f("ck_reviews_gold")),
                sa.ForeignKeyConstraint(["gold"], ["gold_items.pk"], name=op.f("fk_reviews_gold")),
            ]
            if nullable
            else ()
        ),
        sa.ForeignKeyConstraint(["check_pk"], ["checks.pk"], name=op.f("fk_reviews_check_pk")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_reviews")),
        sa.UniqueConstraint("id", name=op.f("uq_reviews_id")),
    ]


@contextmanager
def _votes_aside() -> Iterator[None]:
    """A table that others refer to cannot be made anew on SQLite while they do."""
    op.execute("CREATE TABLE votes_aside AS SELECT * FROM votes")
    op.execute("DELETE FROM votes")
    yield
    op.execute("INSERT INTO votes SELECT * FROM votes_aside")
    op.execute("DROP TABLE votes_aside")


def _rebuilt(*, nullable: bool) -> None:
    """SQLite cannot make a column nullable: copy the table."""
    kept = [column.name for column in _columns(nullable=False) if isinstance(column, sa.Column)]
    names = ", ".join(kept)
    with _votes_aside():
        op.create_table("reviews_anew", *_columns(nullable=nullable))
        op.execute(f"INSERT INTO reviews_anew ({names}) SELECT {names} FROM reviews")  # noqa: S608
        op.drop_table("reviews")
        op.rename_table("reviews_anew", "reviews")
    for name, columns, where, unique in BEFORE:
        _index(name, columns, where, unique)


def _index(name: str, columns: list[str], where: str | None, unique: bool) -> None:
    predicate = None if where is None else sa.text(where)
    op.create_index(
        name, "reviews", columns, unique=unique, sqlite_where=predicate, postgresql_where=predicate
    )


def upgrade() -> None:
    op.add_column("keys", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("trajectories", sa.Column("submitter", sa.Text(), nullable=True))
    _new_tables()
    if op.get_bind().dialect.name == "sqlite":
        _rebuilt(nullable=True)
    else:
        for column in _added():
            op.add_column("reviews", column)
        op.alter_column("reviews", "check_pk", nullable=True)
        op.create_foreign_key(op.f("fk_reviews_gold"), "reviews", "gold_items", ["gold"], ["pk"])
        op.create_check_constraint(
            op.f("ck_reviews_gold"), "reviews", "(check_pk IS NULL) = (gold IS NOT NULL)"
        )
    for name, columns, where, unique in INDEXES:
        _index(name, columns, where, unique)
    value = "SELECT precedence FROM checks WHERE checks.pk = reviews.check_pk"
    op.execute(f"UPDATE reviews SET precedence = ({value}) WHERE state IN ('open', 'decided')")  # noqa: S608
    op.create_table(
        "review_skips",
        sa.Column("review", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review"], ["reviews.pk"], name=op.f("fk_review_skips_review")),
        sa.PrimaryKeyConstraint("review", "reviewer", name=op.f("pk_review_skips")),
    )


def _new_tables() -> None:
    op.create_table(
        "gold_items",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("retired_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_gold_items_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_gold_items")),
    )
    op.create_index("uq_gold_items_project_id", "gold_items", ["project", "id"], unique=True)
    used = sa.text("retired_at IS NULL")
    op.create_index(
        "ix_gold_items_queue",
        "gold_items",
        ["project", "queue", "pk"],
        sqlite_where=used,
        postgresql_where=used,
    )
    op.create_table(
        "review_queues",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_review_queues_project")),
        sa.PrimaryKeyConstraint("project", "name", "version", name=op.f("pk_review_queues")),
    )
    op.create_table(
        "review_turns",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_review_turns_project")),
        sa.PrimaryKeyConstraint("project", "queue", "reviewer", name=op.f("pk_review_turns")),
    )
    op.create_table(
        "review_events",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("through", sa.Text(), nullable=True),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("review", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_review_events_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_review_events")),
    )
    op.create_index("ix_review_events_project", "review_events", ["project", "pk"])
    op.create_index("ix_review_events_review", "review_events", ["review", "pk"])


def downgrade() -> None:
    op.drop_table("review_skips")
    op.execute("DELETE FROM votes WHERE review IN (SELECT pk FROM reviews WHERE gold IS NOT NULL)")
    op.execute("DELETE FROM reviews WHERE gold IS NOT NULL")
    if op.get_bind().dialect.name == "sqlite":
        _rebuilt(nullable=False)
    else:
        for name, *_ in INDEXES:
            op.drop_index(name, "reviews")
        op.drop_constraint(op.f("ck_reviews_gold"), "reviews")
        op.drop_constraint(op.f("fk_reviews_gold"), "reviews")
        for column in _added():
            op.drop_column("reviews", column.name)
        op.alter_column("reviews", "check_pk", nullable=False)
    for table in ("review_events", "review_turns", "review_queues", "gold_items"):
        op.drop_table(table)
    op.drop_column("trajectories", "submitter")
    op.drop_column("keys", "owner")
