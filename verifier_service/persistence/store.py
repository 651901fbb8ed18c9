"""The store over SQLAlchemy Core: one engine, one transaction object, all ports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import psycopg
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DBAPIError, TimeoutError

from verifier_service.domain.errors import Contended, Unavailable
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.meters import Series
from verifier_service.domain.ports.store import Lead
from verifier_service.domain.review_queues import Queue
from verifier_service.persistence.accounts import SqlUsers
from verifier_service.persistence.archive import SqlArchives
from verifier_service.persistence.checks import SqlChecks
from verifier_service.persistence.costs import SqlCosts
from verifier_service.persistence.database import Database
from verifier_service.persistence.decisions import SqlAlarms, SqlDecisions
from verifier_service.persistence.demands import SqlDemands
from verifier_service.persistence.desk_views import SqlDeskViews
from verifier_service.persistence.gold import SqlGold
from verifier_service.persistence.lab_results import SqlLabResults
from verifier_service.persistence.leads import AdvisoryLead, AloneLead
from verifier_service.persistence.ledger import SqlLedger
from verifier_service.persistence.meters import SqlMeters
from verifier_service.persistence.models import ModelCache, SqlModels
from verifier_service.persistence.overview import SqlOverview
from verifier_service.persistence.purge import SqlRetention
from verifier_service.persistence.retractions import SqlRetractions
from verifier_service.persistence.review_queues import SqlReviewQueues
from verifier_service.persistence.review_trail import SqlReviewTrail
from verifier_service.persistence.reviews import SqlReviews
from verifier_service.persistence.rewards import SqlRewards
from verifier_service.persistence.runs import SqlRuns
from verifier_service.persistence.sessions import SqlSessions, SqlSignIns, SqlTickets
from verifier_service.persistence.settlements import SqlSettlements
from verifier_service.persistence.tenancy import LadderCache, SqlKeys, SqlLadders, SqlProjects
from verifier_service.persistence.traces import SqlTraces
from verifier_service.persistence.trajectories import SqlTrajectories
from verifier_service.persistence.troubles import SqlTroubles
from verifier_service.persistence.webhook_outbox import SqlOutbox
from verifier_service.persistence.webhooks import SqlWebhooks
from verifier_service.persistence.workers import SqlWorkers

story = logging.getLogger("verifier_service.story")

TURN_TIMEOUT_S = 30.0
_RETRY_STATES = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available
# Connection exceptions, no resources (memory, disk, slots), operator intervention, system errors; and a
# server that takes no writes, as after a failover. PostgreSQL, appendix A; SQLite, result codes.
_AWAY_CLASSES = ("08", "53", "57", "58")
_READ_ONLY = "25006"
_AWAY_NAMES = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_NOMEM")


class SqlTransaction:
    """All ports over one open connection."""

    def __init__(
        self,
        database: Database,
        cache: LadderCache,
        fitted: ModelCache,
        queues: dict[tuple[str, str, int], Queue],
        *,
        writes: bool,
    ) -> None:
        self._database = database
        self.projects = SqlProjects(database)
        self.keys = SqlKeys(database)
        self.users = SqlUsers(database, writes=writes)
        self.sessions = SqlSessions(database)
        self.tickets = SqlTickets(database)
        self.sign_ins = SqlSignIns(database)
        self.ladders = SqlLadders(database, cache)
        self.runs = SqlRuns(database)
        self.trajectories = SqlTrajectories(database, self.ladders)
        self.ledger = SqlLedger(database)
        self.checks = SqlChecks(database)
        self.demands = SqlDemands(database)
        self.rewards = SqlRewards(database)
        self.trail = SqlReviewTrail(database)
        self.reviews = SqlReviews(database, self.trail)
        self.desk_views = SqlDeskViews(database, self.trail)
        self.queues = SqlReviewQueues(database, queues)
        self.gold = SqlGold(database)
        self.lab_results = SqlLabResults(database)
        self.settlements = SqlSettlements(database)
        self.archives = SqlArchives(database)
        self.retention = SqlRetention(database)
        self.retractions = SqlRetractions(database)
        self.webhooks = SqlWebhooks(database)
        self.outbox = SqlOutbox(database)
        self.workers = SqlWorkers(database)
        self.meters = SqlMeters(database)
        self.costs = SqlCosts(database)
        self.traces = SqlTraces(database)
        self.models = SqlModels(database, fitted)
        self.decisions = SqlDecisions(database)
        self.alarms = SqlAlarms(database)
        self.overview = SqlOverview(database)
        self.troubles = SqlTroubles(database)

    def now(self) -> float:
        """Database time."""
        return self._database.now()

    def tell(self, event: str, *, level: int = logging.DEBUG, **fields: str | int | float | None) -> None:
        """Log an event of this transaction, once it is committed."""
        if story.isEnabledFor(level):
            self._database.events.append((level, event, fields))

    def count(self, name: str, tier: Tier | None = None, kind: str = "", amount: int = 1) -> None:
        """Count something that happened in this transaction."""
        self._database.count(name, tier, kind, amount)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A nested scope that rolls back alone."""
        before, told = self._database.counts.copy(), len(self._database.events)
        try:
            with self._database.connection.begin_nested():
                yield
        except BaseException:
            self._database.counts.clear()
            self._database.counts.update(before)
            del self._database.events[told:]
            raise

    def try_lock(self, name: str) -> bool:
        """An advisory lock on Postgres; on SQLite the writer already is alone."""
        if not self._database.postgres:
            return True
        taken = select(func.pg_try_advisory_xact_lock(func.hashtextextended(name, 0)))
        return bool(self._database.connection.execute(taken).scalar_one())


class SqlStore:
    """Opens transactions on SQLite or Postgres.

    A transaction that lost a deadlock or found the database busy raises ``Contended``: nothing of it
    happened, and its caller may run the whole of it again. Where the database does not answer it raises
    ``Unavailable``. ``counted`` is told what a transaction counted, once it is committed.
    """

    def __init__(
        self,
        writer: Engine,
        reader: Engine,
        counted: Callable[[Mapping[Series, int]], object] = lambda _: None,
    ) -> None:
        self._writer, self._reader = writer, reader
        self._counted = counted
        self._postgres = self._writer.dialect.name == "postgresql"
        self._cache = LadderCache()
        self._fitted = ModelCache()
        self._queues: dict[tuple[str, str, int], Queue] = {}
        # Writers of this process queue here instead of polling SQLite's busy handler.
        self._turn = None if self._postgres else threading.Lock()

    def begin(self) -> AbstractContextManager[SqlTransaction]:
        """A read-write transaction."""
        return self._open(self._writer, self._queue(), writes=True)

    def read(self) -> AbstractContextManager[SqlTransaction]:
        """A read-only snapshot."""
        return self._open(self._reader, nullcontext(), writes=False)

    def lead(self, name: str) -> Lead | None:
        """A session's advisory lock on Postgres; a SQLite file has one process, which leads."""
        if not self._postgres:
            return AloneLead()
        with _in_our_words():
            return AdvisoryLead.take(self._writer, name)

    def led(self, name: str) -> bool:
        """Whether a session holds the lock."""
        if not self._postgres:
            return True
        with _in_our_words():
            return AdvisoryLead.taken(self._writer, name)

    def close(self) -> None:
        """Release every connection."""
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _queue(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=TURN_TIMEOUT_S):
            raise Contended("database_busy", "another transaction holds the write lock")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _open(
        self, engine: Engine, turn: AbstractContextManager[None], *, writes: bool
    ) -> Iterator[SqlTransaction]:
        with _in_our_words(writes=writes), turn, engine.begin() as connection:
            database = Database(connection, self._postgres)
            yield SqlTransaction(database, self._cache, self._fitted, self._queues, writes=writes)
        if database.counts:
            self._counted(database.counts)
        for level, event, fields in database.events:
            story.log(level, event, extra={"story": fields})


@contextmanager
def _in_our_words(*, writes: bool = False) -> Iterator[None]:
    """What callers may have to act on, as errors of the domain; a write in a snapshot is our mistake."""
    try:
        yield
    except DBAPIError as error:
        if _may_run_again(error):
            raise Contended("database_contended", "run the transaction again") from error
        if _is_away(error) or (writes and _takes_no_writes(error)):
            raise Unavailable("database_unavailable", "the database does not answer; try again") from error
        raise
    except TimeoutError as error:
        raise Unavailable("database_busy", "every connection is in use; try again") from error


def _may_run_again(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlstate", None) in _RETRY_STATES or _cites_what_was_purged(error):
        return True
    return getattr(error.orig, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _cites_what_was_purged(error: DBAPIError) -> bool:
    """A check was found by its key and removed by a purge before the demand for it was stored: run again,
    it is made anew. On SQLite nobody else writes in between."""
    if not isinstance(error.orig, psycopg.errors.ForeignKeyViolation):
        return False
    return error.orig.diag.constraint_name == "fk_demands_check_pk"


def _is_away(error: DBAPIError) -> bool:
    """The connection broke, there was none to be had, or the server cannot work just now."""
    if error.connection_invalidated or getattr(error.orig, "sqlite_errorname", "").startswith(_AWAY_NAMES):
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error.orig, psycopg.OperationalError)
    return bool(state.startswith(_AWAY_CLASSES))


def _takes_no_writes(error: DBAPIError) -> bool:
    name = getattr(error.orig, "sqlite_errorname", "")
    return getattr(error.orig, "sqlstate", None) == _READ_ONLY or name.startswith("SQLITE_READONLY")
