"""Parts that one process of all plays: advisory locks of a Postgres session."""

from __future__ import annotations

import logging
from typing import Self

from sqlalchemy import BigInteger, Connection, Engine, cast, func, literal, select, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)

# A holder asks its session at every step: one that has not for so long hangs, although its connection
# lives. The kernel of a stopped process answers for it.
SILENT_S = 15.0
_HOLDER = text(
    "SELECT l.pid, extract(epoch FROM clock_timestamp() - a.query_start) AS silent_s"
    " FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(:name, 0)"
)
_END = text("SELECT pg_terminate_backend(:pid)")


class AloneLead:
    """On SQLite the data folder belongs to one process."""

    def holds(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Nothing to let go of."""


class AdvisoryLead:
    """A lock that ends with its connection, so that a dead process holds nothing, and that is taken from
    one which hangs: whoever waits for the part ends its session."""

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
        with connection:
            holder = connection.execute(_HOLDER, {"name": name}).first()
            if holder is not None and _hangs(holder.silent_s):
                log.warning("the holder of the part %r has said nothing for %.0f s", name, holder.silent_s)
                connection.execute(_END, {"pid": holder.pid})
        return None

    @classmethod
    def taken(cls, engine: Engine, name: str) -> bool:
        """Whether a session of this database holds the lock, and lives."""
        with engine.connect() as connection:
            holder = connection.execute(_HOLDER, {"name": name}).first()
        return holder is not None and not _hangs(holder.silent_s)

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


def _hangs(silent_s: float | None) -> bool:
    return silent_s is not None and silent_s > SILENT_S


def _key(name: str) -> object:
    return cast(func.hashtextextended(literal(name), 0), BigInteger)
