"""Migrations, run from code so that an installed wheel needs no configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from verifier_service.persistence.engine import open_engines

_LOCK = 7_201_815_313


def upgrade(url: str) -> None:
    """Bring the database at ``url`` to the newest revision; concurrent callers queue."""
    with _connection(url) as (connection, config):
        if _revision(connection) != head():
            command.upgrade(config, "head")


def downgrade(url: str, revision: str) -> None:
    """Take the database back to ``revision`` (``base`` removes everything)."""
    with _connection(url) as (_, config):
        command.downgrade(config, revision)


def check(url: str) -> None:
    """Raises ``alembic.util.CommandError`` when the tables differ from what the code declares."""
    with _connection(url) as (_, config):
        command.check(config)


def head() -> str | None:
    """The newest revision the code knows."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def is_current(url: str) -> bool:
    """Whether the database is at the newest revision."""
    with _connection(url) as (connection, _):
        return _revision(connection) == head()


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _connection(url: str) -> Iterator[tuple[Connection, Config]]:
    """One transaction around everything: a migration that fails leaves nothing behind."""
    writer, _ = open_engines(url)
    try:
        with writer.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            config = _config()
            config.attributes["connection"] = connection
            yield connection, config
    finally:
        writer.dispose()
