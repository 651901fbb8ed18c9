"""Sessions, one-time tokens and failed sign-ins."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, or_, select, update

from verifier_service.domain.accounts import Session, TicketKind
from verifier_service.domain.errors import NotFound
from verifier_service.domain.ports.accounts import Failures, Throttle, Ticket, Visit
from verifier_service.persistence.account_tables import sessions, sign_in_failures, tickets, users
from verifier_service.persistence.accounts import user_of
from verifier_service.persistence.database import Database, clean, clock
from verifier_service.persistence.tenancy import moment

MAX_SHOWN = 50
MAX_DOUBLINGS = 30


class SqlSessions:
    """See ``ports.accounts.Sessions``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def open(
        self, login: str, token_hash: str, csrf: str, *, ttl_s: float, address: str, agent: str
    ) -> Session:
        user = self._db.first(select(users.c.pk).where(users.c.login == login))
        if user is None:
            raise NotFound("user_not_found", f"no user {login!r}")
        now = self._db.now()
        values = {
            "user_pk": user.pk,
            "token_hash": token_hash,
            "csrf": csrf,
            "created_at": now,
            "seen_at": now,
            "expires_at": now + ttl_s,
            "address": clean(address),
            "agent": clean(agent),
        }
        made = self._db.insert_new(sessions).values(values).returning(sessions)
        row = self._db.first(made)
        assert row is not None, "256 random bits are not drawn twice"  # noqa: S101
        return _session(row, login)

    def find(self, token_hash: str, idle_s: float) -> Visit | None:
        found = select(sessions).where(sessions.c.token_hash == token_hash, _lives(idle_s))
        row = self._db.first(found)
        if row is None:
            return None
        active = select(users).where(users.c.pk == row.user_pk, users.c.disabled_at.is_(None))
        owner = self._db.first(active)
        return None if owner is None else Visit(user_of(owner), _session(row, owner.login), row.csrf)

    def touch(self, session: int) -> None:
        self._db.run(update(sessions).where(sessions.c.pk == session).values(seen_at=clock()))

    def of_user(self, login: str, idle_s: float) -> tuple[Session, ...]:
        newest = (
            select(sessions)
            .join_from(sessions, users, sessions.c.user_pk == users.c.pk)
            .where(users.c.login == login, _lives(idle_s))
            .order_by(sessions.c.pk.desc())
            .limit(MAX_SHOWN)
        )
        return tuple(_session(row, login) for row in self._db.all(newest))

    def end(self, login: str, session: int) -> bool:
        return self._remove(login, sessions.c.pk == session) > 0

    def end_all(self, login: str, but: int | None = None) -> int:
        return self._remove(login, sessions.c.pk != (-1 if but is None else but))

    def sweep(self, idle_s: float) -> int:
        return self._db.run(delete(sessions).where(~_lives(idle_s)))

    def _remove(self, login: str, which: ColumnElement[bool]) -> int:
        owner = select(users.c.pk).where(users.c.login == login).scalar_subquery()
        return self._db.run(delete(sessions).where(sessions.c.user_pk == owner, which))


class SqlTickets:
    """See ``ports.accounts.Tickets``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(
        self, kind: TicketKind, token_hash: str, *, ttl_s: float, login: str | None = None, body: str = ""
    ) -> None:
        self._db.run(delete(tickets).where(tickets.c.expires_at <= clock()))
        values = {
            "token_hash": token_hash,
            "kind": kind.value,
            "login": login,
            "body": body,
            "expires_at": clock() + ttl_s,
        }
        self._db.run(self._db.insert_new(tickets).values(values))

    def find(self, kind: TicketKind, token_hash: str) -> Ticket | None:
        row = self._db.first(select(tickets).where(_valid(kind, token_hash)))
        return None if row is None else Ticket(row.login, row.body)

    def take(self, kind: TicketKind, token_hash: str) -> Ticket | None:
        used = delete(tickets).where(_valid(kind, token_hash)).returning(tickets.c.login, tickets.c.body)
        row = self._db.first(used)
        return None if row is None else Ticket(row.login, row.body)

    def drop(self, kind: TicketKind, login: str | None = None) -> None:
        which = tickets.c.kind == kind.value
        if login is not None:
            which = and_(which, tickets.c.login == login)
        self._db.run(delete(tickets).where(which))


class SqlSignIns:
    """See ``ports.accounts.SignIns``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def failures(self, subject: str) -> Failures:
        known = sign_in_failures.c
        row = self._db.first(select(known.failures, known.locked_until).where(known.subject == subject))
        return Failures(0, None) if row is None else Failures(row.failures, row.locked_until)

    def fail(self, subject: str, throttle: Throttle) -> Failures:
        now = self._db.now()
        known = sign_in_failures
        alike = known.c.subject.startswith(subject.partition(":")[0] + ":", autoescape=True)
        self._db.run(delete(known).where(alike, known.c.last_at < now - throttle.forget_s))
        fresh = {"subject": subject, "failures": 0, "last_at": now, "locked_until": None}
        self._db.run(self._db.insert_new(known).values(fresh))
        counted = (
            update(known)
            .where(known.c.subject == subject)
            .values(failures=known.c.failures + 1, last_at=now)
            .returning(known.c.failures)
        )
        count = int(self._db.connection.execute(counted).scalar_one())
        if count <= throttle.free:
            return Failures(count, None)
        doublings = min(count - throttle.free - 1, MAX_DOUBLINGS)
        delay = min(throttle.longest_s, throttle.first_s * 2**doublings)
        locked = update(known).where(known.c.subject == subject).values(locked_until=now + delay)
        self._db.run(locked)
        return Failures(count, now + delay)

    def clear(self, subject: str, *, everywhere: bool = False) -> None:
        known = sign_in_failures.c.subject
        beneath = known.startswith(f"{subject} ", autoescape=True)
        which = or_(known == subject, beneath) if everywhere else known == subject
        self._db.run(delete(sign_in_failures).where(which))


def _lives(idle_s: float) -> ColumnElement[bool]:
    return and_(sessions.c.expires_at > clock(), sessions.c.seen_at > clock() - idle_s)


def _valid(kind: TicketKind, token_hash: str) -> ColumnElement[bool]:
    return and_(
        tickets.c.token_hash == token_hash, tickets.c.kind == kind.value, tickets.c.expires_at > clock()
    )


def _session(row: Row[Any], login: str) -> Session:
    return Session(
        id=row.pk,
        login=login,
        created_at=moment(row.created_at),
        seen_at=moment(row.seen_at),
        expires_at=moment(row.expires_at),
        address=row.address,
        agent=row.agent,
    )
