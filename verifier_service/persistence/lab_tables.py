"""Tables of laboratory results, beside those of the first version. Rows are only ever added."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, ForeignKey, Index, Integer, Table, Text

from verifier_service.persistence.tables import PK, metadata

lab_imports = Table(
    "lab_imports",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("file", Text),
    # Who measured, as the import says; the key is who sent it.
    Column("measured_by", Text),
    Column("answer", Text, nullable=False),
    Column("by_key", Text, nullable=False),
    Column("by_name", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("uq_lab_imports_project_id", "project", "id", unique=True),
)

lab_values = Table(
    "lab_values",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("check_pk", BigInteger, ForeignKey("checks.pk"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("import_pk", BigInteger, ForeignKey("lab_imports.pk"), nullable=False),
    Column("value", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("uq_lab_values_check_pk_version", "check_pk", "version", unique=True),
    CheckConstraint("version >= 1", name="version"),
)

plate_maps = Table(
    "plate_maps",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("name", Text, nullable=False),
    Column("import_pk", BigInteger, ForeignKey("lab_imports.pk"), nullable=False),
    Column("map", Text, nullable=False),
    Index("ix_plate_maps_project_name", "project", "name", "pk"),
)
