"""Indexes of the queue and of what is held: apart for what waits for a time, and in the order of reading

Revision 0006.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

Made = tuple[str, str, list[Any], str]  # name, table, columns, predicate
QUEUED = "state = 'queued'"
READY = "state = 'queued' AND not_before IS NULL"
DELAYED = "state = 'queued' AND not_before IS NOT NULL"
HELD = "state = 'held'"
KIND = ["tier", "verifier", "version", "precedence", "pk"]
OLD: tuple[Made, ...] = (
    ("ix_checks_ready", "checks", ["tier", "precedence", "pk"], QUEUED),
    ("ix_checks_ready_kind", "checks", KIND, QUEUED),
    ("ix_demands_held", "demands", ["run", "rank"], HELD),
)
NEW: tuple[Made, ...] = (
    ("ix_checks_ready", "checks", ["tier", "precedence", "pk"], READY),
    ("ix_checks_ready_kind", "checks", KIND, READY),
    ("ix_checks_delayed", "checks", ["tier", "not_before"], DELAYED),
    ("ix_checks_payer", "checks", ["payer", "tier"], QUEUED),
    ("ix_demands_held", "demands", ["run", sa.text("rank DESC"), "trajectory"], HELD),
)


def upgrade() -> None:
    _replace(OLD, NEW)


def downgrade() -> None:
    _replace(NEW, OLD)


def _replace(gone: tuple[Made, ...], made: tuple[Made, ...]) -> None:
    for name, table, _, _ in gone:
        op.drop_index(name, table)
    for name, table, columns, predicate in made:
        where = sa.text(predicate)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
