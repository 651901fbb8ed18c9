"""Stores for tests: every test that takes ``store`` runs on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.databases import PostgresServer, SqliteFiles, postgres_server, sqlite_files
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore

DATABASES = ("sqlite", "postgres")

# The same examples in every run, however slow the machine: a red run means a change, not a draw. New
# examples are sought with `pytest --hypothesis-profile=explore`.
settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite() -> Iterator[SqliteFiles]:
    with sqlite_files() as files:
        yield files


@pytest.fixture(params=DATABASES)
def databases(request: pytest.FixtureRequest) -> PostgresServer | SqliteFiles:
    """Where databases come from, once per kind; the server starts only when a test needs it."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def store_url(databases: PostgresServer | SqliteFiles) -> str:
    """URL of a migrated database without rows."""
    return databases.migrated()


@pytest.fixture
def store(store_url: str) -> Iterator[SqlStore]:
    opened = create_store(store_url)
    yield opened
    opened.close()
