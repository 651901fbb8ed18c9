"""Ports for people: users, their sessions, one-time tokens, failed sign-ins, and the trail of changes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from verifier_service.domain.accounts import (
    AccountAction,
    AccountEvent,
    Role,
    Session,
    TicketKind,
    User,
)


class Credential(NamedTuple):
    """A user with the hash of their password, null where they have none."""

    user: User
    password_hash: str | None


class Visit(NamedTuple):
    """A living session: whose it is, and the secret that its forms carry."""

    user: User
    session: Session
    csrf: str


class Ticket(NamedTuple):
    """What a one-time token was made for."""

    login: str | None
    body: str


class Failures(NamedTuple):
    """Failed sign-ins in a row; ``locked_until`` is database time, null where nothing is locked."""

    times: int
    locked_until: float | None


class Throttle(NamedTuple):
    """After ``free`` failures every further one locks for twice as long, from ``first_s`` to ``longest_s``.
    Counting starts anew ``forget_s`` after the last."""

    free: int
    first_s: float
    longest_s: float
    forget_s: float


class Users(Protocol):
    """Users, by login; a login is unique over all projects. Disabled ones stay."""

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
        """Store a new user. Raises ``Conflict`` when the login, or the subject of the issuer, is taken."""
        ...

    def find(self, login: str, project: str | None = None) -> Credential | None:
        """A user, disabled or not, of one project where it is given."""
        ...

    def by_subject(self, issuer: str, subject: str) -> User | None:
        """The user that a provider knows by this name."""
        ...

    def of_project(self, project: str) -> tuple[User, ...]:
        """All users of a project, by login."""
        ...

    def admins(self, project: str) -> tuple[str, ...]:
        """Logins of those who are admin and not disabled. In a transaction that writes, nobody else can
        change who they are until its end."""
        ...

    def update(self, login: str, *, name: str, role: Role, disabled: bool) -> User:
        """Store what may change. The first time of disabling is kept. Raises ``NotFound``."""
        ...

    def set_password(self, login: str, password_hash: str) -> None:
        """Replace the hash. Raises ``NotFound``."""
        ...

    def note(self, project: str, by: str, action: AccountAction, subject: str, detail: str = "") -> None:
        """Append a line to the trail."""
        ...

    def events(self, project: str, limit: int) -> tuple[AccountEvent, ...]:
        """The trail of a project, newest first."""
        ...


class Sessions(Protocol):
    """Sign-ins; only hashes of tokens are stored."""

    def open(
        self, login: str, token_hash: str, csrf: str, *, ttl_s: float, address: str, agent: str
    ) -> Session:
        """Store a new session that ends in ``ttl_s`` at the latest. Raises ``NotFound``."""
        ...

    def find(self, token_hash: str, idle_s: float) -> Visit | None:
        """The session, unless it has ended, was not seen for ``idle_s``, or its user is disabled."""
        ...

    def touch(self, session: int) -> None:
        """It was seen now."""
        ...

    def of_user(self, login: str, idle_s: float) -> tuple[Session, ...]:
        """The living sessions of a user, newest first."""
        ...

    def end(self, login: str, session: int) -> bool:
        """End one of the user's sessions; False when there is none of that number."""
        ...

    def end_all(self, login: str, but: int | None = None) -> int:
        """End the sessions of a user, ``but`` one; how many."""
        ...

    def sweep(self, idle_s: float) -> int:
        """Remove what has ended by itself; how many."""
        ...


class Tickets(Protocol):
    """One-time tokens; only hashes are stored."""

    def add(
        self, kind: TicketKind, token_hash: str, *, ttl_s: float, login: str | None = None, body: str = ""
    ) -> None:
        """Store a token. Those that have expired are removed on the way."""
        ...

    def find(self, kind: TicketKind, token_hash: str) -> Ticket | None:
        """The token, unless it has expired."""
        ...

    def take(self, kind: TicketKind, token_hash: str) -> Ticket | None:
        """Use the token up: of several at the same time one gets it."""
        ...

    def drop(self, kind: TicketKind, login: str | None = None) -> None:
        """Remove the tokens of a kind, made for one user where it is given."""
        ...


class SignIns(Protocol):
    """Failed sign-ins, by what they were about: a kind, a colon, and a login that may not exist or an
    address; after a space, from where."""

    def failures(self, subject: str) -> Failures:
        """Failures so far."""
        ...

    def fail(self, subject: str, throttle: Throttle) -> Failures:
        """Count one more, and lock as the throttle says."""
        ...

    def clear(self, subject: str, *, everywhere: bool = False) -> None:
        """Forget the failures; ``everywhere`` also those of the same from any one place."""
        ...
