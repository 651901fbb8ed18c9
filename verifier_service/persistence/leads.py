"""Parts that one process of all plays: advisory locks of a Postgres session."""

from __future__ import annotations

import logging
from typing import Self

from sqlalchemy import BigInteger, Connection, Engine, cast, func, literal, select, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)

_TAKEN = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (classid::bigint << 32 | objid::bigint) = hashtextextended(:name, 0)"
)


class AloneLead:
    """On SQLite the data folder belongs to one process."""

    def holds(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Nothing to let go of."""


class AdvisoryLead:
    """A lock that ends with its connection, so that a dead process holds nothing."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._lost = False

    @classmethod
    def take(cls, engine: Engine, name: str) -> Self | None:
        """The lock on a connection of its own; None while another session holds it."""
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            taken = connection.execute(select(func.pg_try_advisory_lock(_key(name)))).scalar_one()
        except SQLAlchemyError:
            connection.invalidate()
            connection.close()
            raise
        if taken:
            return cls(connection, name)
        connection.close()
        return None

    @classmethod
    def taken(cls, engine: Engine, name: str) -> bool:
        """Whether any session of this database holds the lock."""
        with engine.connect() as connection:
            return bool(connection.execute(_TAKEN, {"name": name}).scalar_one())

    def holds(self) -> bool:
        """Ask the session; a connection that broke has lost the lock with it."""
        if self._lost:
            return False
        try:
            self._connection.execute(select(1))
        except SQLAlchemyError as error:
            log.warning("the part %r is lost with its connection: %s", self._name, error.__class__.__name__)
            self._lost = True
            self._connection.invalidate()
            self._connection.close()
        return not self._lost

    def release(self) -> None:
        """Unlock and give the connection back."""
        if self.holds():
            self._connection.execute(select(func.pg_advisory_unlock(_key(self._name))))
            self._connection.close()
            self._lost = True


def _key(name: str) -> object:
    return cast(func.hashtextextended(literal(name), 0), BigInteger)
