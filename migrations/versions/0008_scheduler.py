"""What is learned and decided: models, the log of decisions, the watch over audits

Revision 0008.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None

ADDED: tuple[tuple[str, str, Any], ...] = (
    ("trajectories", "outcome", sa.Double()),
    ("trajectories", "variance", sa.Double()),
    ("trajectories", "propensity", sa.Double()),
    ("trajectories", "predicted", sa.Double()),
    ("runs", "pacing", sa.Text()),
)
PARTIAL = (
    ("ix_demands_bought", "demands", ["pk"], "state = 'satisfied' AND tier <> 'fast'"),
    ("ix_checks_labels", "checks", ["ended_at"], "state = 'succeeded' AND tier <> 'fast'"),
)
AUDITED = "audited AND action = 'request'"
STANDING = "cleared_at IS NULL"
LADDER = ["project", "ladder", "ladder_version"]


def upgrade() -> None:
    for table, name, kind in ADDED:
        op.add_column(table, sa.Column(name, kind))
    op.add_column(
        "trajectories", sa.Column("audited", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    for name, table, columns, predicate in PARTIAL:
        _partial(name, table, columns, predicate)
    _models()
    _decisions()
    _alarms()


def _partial(name: str, table: str, columns: list[str], predicate: str, *, unique: bool = False) -> None:
    where = sa.text(predicate)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _ladder(*more: sa.schema.SchemaItem, table: str) -> None:
    op.create_table(
        table,
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("ladder", sa.Text(), nullable=False),
        sa.Column("ladder_version", sa.Integer(), nullable=False),
        *more,
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f(f"fk_{table}_project")),
    )


def _models() -> None:
    _ladder(
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(*LADDER, "number", name=op.f("pk_models")),
        table="models",
    )


def _decisions() -> None:
    numbers = ("utility", "price", "propensity", "draw")
    beliefs = ("outcome", "variance", "low", "high", "mean", "sd")
    op.create_table(
        "decisions",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("trajectory", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text()),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("quote", sa.Double(), nullable=False),
        *(sa.Column(name, sa.Double()) for name in numbers),
        sa.Column("audited", sa.Boolean(), nullable=False),
        sa.Column("level", sa.Text()),
        sa.Column("model", sa.Integer()),
        *(sa.Column(name, sa.Double()) for name in beliefs),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_decisions_run")),
        sa.ForeignKeyConstraint(["trajectory"], ["trajectories.pk"], name=op.f("fk_decisions_trajectory")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_decisions")),
    )
    op.create_index(op.f("ix_decisions_trajectory"), "decisions", ["trajectory"])
    op.create_index("ix_decisions_run", "decisions", ["run", "pk"])
    _partial("ix_decisions_audited", "decisions", ["pk"], AUDITED)


def _alarms() -> None:
    _ladder(
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text()),
        sa.PrimaryKeyConstraint(*LADDER, name=op.f("pk_watches")),
        table="watches",
    )
    _ladder(
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.Double(), nullable=False),
        sa.Column("cleared_at", sa.Double()),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_alarms")),
        sa.UniqueConstraint("id", name=op.f("uq_alarms_id")),
        table="alarms",
    )
    _partial("uq_alarms_standing", "alarms", [*LADDER, "stratum"], STANDING, unique=True)


def downgrade() -> None:
    for table in ("alarms", "watches", "decisions", "models"):
        op.drop_table(table)
    for name, table, _, _ in PARTIAL:
        op.drop_index(name, table)
    op.drop_column("trajectories", "audited")
    for table, name, _ in reversed(ADDED):
        op.drop_column(table, name)
