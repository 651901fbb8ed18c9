"""What the votes of an item cost, however it ends

Revision 0017.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | None = None
depends_on: str | None = None

COLUMNS = ("typical_s", "second_price")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("reviews", sa.Column(name, sa.Double(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("reviews", name)
