"""Users, and the trail of what was done to accounts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, func, insert, select, update

from verifier_service.domain.accounts import AccountAction, AccountEvent, Role, User
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.ports.accounts import Credential
from verifier_service.persistence import tables
from verifier_service.persistence.account_tables import account_events, users
from verifier_service.persistence.database import Database, clean, clock
from verifier_service.persistence.tenancy import moment


class SqlUsers:
    """See ``ports.accounts.Users``."""

    def __init__(self, database: Database, *, writes: bool) -> None:
        self._db = database
        self._writes = writes

    def add(
        self,
        *,
        project: str,
        login: str,
        name: str,
        role: Role,
        password_hash: str | None = None,
        issuer: str | None = None,
        subject: str | None = None,
    ) -> User:
        values = {
            "project": project,
            "login": login,
            "name": clean(name),
            "role": role.value,
            "password_hash": password_hash,
            "issuer": issuer,
            "subject": subject,
            "created_at": clock(),
        }
        row = self._db.first(self._db.insert_new(users).values(values).returning(users))
        if row is None:
            raise Conflict("login_taken", f"a user {login!r} exists", field="login")
        return user_of(row)

    def find(self, login: str, project: str | None = None) -> Credential | None:
        wanted = select(users).where(users.c.login == login)
        if project is not None:
            wanted = wanted.where(users.c.project == project)
        row = self._db.first(wanted)
        return None if row is None else Credential(user_of(row), row.password_hash)

    def by_subject(self, issuer: str, subject: str) -> User | None:
        row = self._db.first(select(users).where(users.c.issuer == issuer, users.c.subject == subject))
        return None if row is None else user_of(row)

    def of_project(self, project: str) -> tuple[User, ...]:
        found = self._db.all(select(users).where(users.c.project == project).order_by(users.c.login))
        return tuple(user_of(row) for row in found)

    def admins(self, project: str) -> tuple[str, ...]:
        if self._writes:
            projects = tables.projects
            self._db.first(self._db.locked(select(projects.c.name).where(projects.c.name == project)))
        found = select(users.c.login).where(
            users.c.project == project, users.c.role == Role.ADMIN.value, users.c.disabled_at.is_(None)
        )
        return tuple(row.login for row in self._db.all(found.order_by(users.c.login)))

    def update(self, login: str, *, name: str, role: Role, disabled: bool) -> User:
        values = {
            "name": clean(name),
            "role": role.value,
            "disabled_at": func.coalesce(users.c.disabled_at, clock()) if disabled else None,
        }
        changed = update(users).where(users.c.login == login).values(values).returning(users)
        return user_of(_found(self._db.first(changed), login))

    def set_password(self, login: str, password_hash: str) -> None:
        changed = update(users).where(users.c.login == login).values(password_hash=password_hash)
        _found(self._db.first(changed.returning(users.c.pk)), login)

    def note(self, project: str, by: str, action: AccountAction, subject: str, detail: str = "") -> None:
        values = {
            "project": project,
            "at": clock(),
            "by": clean(by),
            "action": action.value,
            "subject": clean(subject),
            "detail": clean(detail),
        }
        self._db.run(insert(account_events).values(values))

    def events(self, project: str, limit: int) -> tuple[AccountEvent, ...]:
        newest = select(account_events).where(account_events.c.project == project)
        rows = self._db.all(newest.order_by(account_events.c.pk.desc()).limit(limit))
        return tuple(
            AccountEvent(
                at=moment(row.at),
                by=row.by,
                action=AccountAction(row.action),
                subject=row.subject,
                detail=row.detail,
            )
            for row in rows
        )


def user_of(row: Row[Any]) -> User:
    """A row of ``users`` as a record."""
    return User(
        login=row.login,
        name=row.name,
        role=Role(row.role),
        project=row.project,
        has_password=row.password_hash is not None,
        issuer=row.issuer,
        created_at=moment(row.created_at),
        disabled_at=None if row.disabled_at is None else moment(row.disabled_at),
    )


def _found(row: Row[Any] | None, login: str) -> Row[Any]:
    if row is None:
        raise NotFound("user_not_found", f"no user {login!r}")
    return row
