"""Engines: SQLite with explicit transactions, Postgres with psycopg 3."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url

from verifier_service.domain.ports.meters import Series
from verifier_service.persistence.store import SqlStore

BUSY_TIMEOUT_S = 30.0
WAL_PAUSE_S = 0.02
# A server that is gone without a word is noticed in a minute at most (libpq, connection parameters).
POSTGRES_ANSWERS = {
    "connect_timeout": 5,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
POOL_SIZE = 10
MAX_OVERFLOW = 30


def database_url(url: str) -> URL:
    """The URL with its driver; ``postgres://`` and ``postgresql://`` mean psycopg 3."""
    parsed = make_url(url)
    backend = parsed.drivername.split("+", maxsplit=1)[0]
    if backend in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ValueError(f"unsupported database {parsed.drivername!r}: use sqlite:/// or postgresql://")
    if parsed.database in (None, "", ":memory:"):
        raise ValueError(
            "SQLite needs a file: transactions of several threads cannot share a memory database"
        )
    return parsed


def open_engines(url: str) -> tuple[Engine, Engine]:
    """The engine for read-write transactions and the one for snapshots."""
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, "BEGIN IMMEDIATE", read_only=False), _sqlite(parsed, "BEGIN", read_only=True)
    writer = create_engine(
        parsed,
        pool_size=POOL_SIZE,
        max_overflow=MAX_OVERFLOW,
        pool_pre_ping=True,
        connect_args=POSTGRES_ANSWERS,
        isolation_level="READ COMMITTED",
    )
    reader = writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return writer, reader


def _sqlite(url: URL, begin: str, *, read_only: bool) -> Engine:
    engine = create_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=MAX_OVERFLOW,
        # None hands transaction control to us: the driver's own BEGIN is deferred and a later write
        # of a reader then fails with "database is locked".
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None, "check_same_thread": False},
    )

    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        if cursor.execute("PRAGMA page_count").fetchone() == (0,):
            # What a purge frees can then be returned to the file system without a copy of the file. Asked
            # of a file that has pages, it waits for nobody: the writer makes it fail.
            cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _into_wal(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA cache_size = -8192")
        cursor.execute("PRAGMA temp_store = MEMORY")
        if read_only:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", start)
    return engine


def _into_wal(cursor: Any) -> None:
    """The busy timeout does not hold for this step: while another process makes the same new file its own,
    it fails at once."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(WAL_PAUSE_S)
        else:
            return


def create_store(url: str, counted: Callable[[Mapping[Series, int]], object] = lambda _: None) -> SqlStore:
    """Open the migrated database at ``url``: ``sqlite:///FILE``, ``postgresql://…`` or ``postgres://…``.
    ``counted`` is told what each committed transaction has counted."""
    return SqlStore(*open_engines(url), counted)
