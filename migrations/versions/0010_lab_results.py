"""Results of laboratories: imports, versions of values, maps of plates

Revision 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None

_PK = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "lab_imports",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("measured_by", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("by_key", sa.Text(), nullable=False),
        sa.Column("by_name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_lab_imports_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_lab_imports")),
    )
    op.create_index("uq_lab_imports_project_id", "lab_imports", ["project", "id"], unique=True)
    op.create_table(
        "lab_values",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("check_pk", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("import_pk", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_lab_values_version")),
        sa.ForeignKeyConstraint(["check_pk"], ["checks.pk"], name=op.f("fk_lab_values_check_pk")),
        sa.ForeignKeyConstraint(["import_pk"], ["lab_imports.pk"], name=op.f("fk_lab_values_import_pk")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_lab_values")),
    )
    op.create_index("uq_lab_values_check_pk_version", "lab_values", ["check_pk", "version"], unique=True)
    op.create_table(
        "plate_maps",
        sa.Column("pk", _PK, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("import_pk", sa.BigInteger(), nullable=False),
        sa.Column("map", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["import_pk"], ["lab_imports.pk"], name=op.f("fk_plate_maps_import_pk")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_plate_maps_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_plate_maps")),
    )
    op.create_index("ix_plate_maps_project_name", "plate_maps", ["project", "name", "pk"])


def downgrade() -> None:
    op.drop_table("plate_maps")
    op.drop_table("lab_values")
    op.drop_table("lab_imports")
