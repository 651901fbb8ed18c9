"""Migrations on both databases: up, down, and equal to what the code declares."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect

from tests.contract.samples import together
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.persistence import migrate
from verifier_service.persistence.engine import open_engines
from verifier_service.persistence.tables import metadata


def tables_at(url: str) -> set[str]:
    writer, _ = open_engines(url)
    names = set(inspect(writer).get_table_names())
    writer.dispose()
    return names


def test_up_down_up(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    assert not migrate.is_current(url)
    migrate.upgrade(url)
    assert migrate.is_current(url)
    assert tables_at(url) == {*metadata.tables, "alembic_version"}
    migrate.downgrade(url, "base")
    assert not migrate.is_current(url)
    assert tables_at(url) == {"alembic_version"}
    migrate.upgrade(url)
    migrate.upgrade(url)
    assert migrate.is_current(url)


def test_the_migrated_tables_are_the_declared_ones(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    migrate.upgrade(url)
    migrate.check(url)


def test_concurrent_upgrades_queue(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    together(3, lambda _: migrate.upgrade(url))
    assert migrate.is_current(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://localhost/x"])
def test_unsupported_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"SQLite needs a file|unsupported database"):
        open_engines(url)
