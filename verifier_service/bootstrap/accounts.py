"""What is done with accounts, each one unit of work; passwords are hashed outside of transactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from verifier_service.bootstrap.units import Service
from verifier_service.domain.accounts import (
    LOGIN_PATTERN,
    AccountAction,
    NewUser,
    Session,
    TicketKind,
    User,
    UserChange,
)
from verifier_service.domain.errors import Contended, InvalidInput, NotFound, SignInRefused, Unavailable
from verifier_service.domain.passwords import Passwords, check_password
from verifier_service.domain.ports.accounts import Credential, Visit
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Key, Scope
from verifier_service.oidc import Identity
from verifier_service.passwords import Argon2Passwords
from verifier_service.services import accounts, sign_in, tenants
from verifier_service.services.sign_in import Opened
from verifier_service.services.tenants import NewKey
from verifier_service.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """From where somebody signs in. ``before`` is the token of the session the browser had, ``devices`` its
    cookie of known devices."""

    address: str
    agent: str = ""
    before: str | None = None
    devices: str = ""


def base_url(settings: Settings) -> str:
    """Where the server of these settings is reached: its public address, else its port on this machine."""
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def setup_url(url: str, token: str) -> str:
    """The link for the first admin, to be opened on the machine of the server."""
    parts = urlsplit(url)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "")  # noqa: S104 - what was bound
    local = url if host is None else f"{parts.scheme}://{host}:{parts.port}"
    return f"{local}/ui/setup?token={token}"


class Accounts:
    """People of one service. ``revoked`` is told of each key that is revoked here, and ``changed`` of each
    login whose rights may have changed, after the commit."""

    def __init__(
        self,
        service: Service,
        passwords: Passwords | None = None,
        revoked: Callable[[str], None] | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        self._service = service
        self._revoked = revoked
        self._changed = changed
        self._passwords = passwords or Argon2Passwords()
        self._ttl_s = service.settings.session_max_s
        self._idle_s = service.settings.session_idle_s

    def log_in(self, login: str, password: str, place: Place) -> Opened:
        """Open a session. Raises ``SignInRefused`` or ``LockedOut``, alike for logins that do not exist."""
        login = login if re.fullmatch(LOGIN_PATTERN, login) else ""  # nobody's
        with self._service.store.read() as tx:
            sign_in.require_unlocked(tx, login, self._source(tx, place))
            found = tx.users.find(login)
        if not self._knows(found, password):
            locked = self._service.unit(lambda tx: sign_in.note_failure(tx, login, self._source(tx, place)))
            raise locked or SignInRefused("bad_sign_in", "this login and password do not belong together")
        renewed = self._renewed(found, password)

        def opened(tx: Transaction) -> Opened:
            # Of many tries at the same time only the first few may succeed.
            sign_in.require_unlocked(tx, login, self._source(tx, place))
            known = tx.users.find(login)
            if known is None or known.user.disabled_at or known.password_hash != _hash_of(found):
                raise SignInRefused("bad_sign_in", "the account was changed at this moment; try again")
            if renewed is not None:
                tx.users.set_password(login, renewed)
            return self._open(tx, known.user, place)

        return self._service.unit(opened)

    def log_in_known(self, identity: Identity, place: Place) -> Opened:
        """A session for somebody whom the provider vouches for; see ``services.accounts.know``."""

        def opened(tx: Transaction) -> Opened:
            user = accounts.know(
                tx,
                self._service.settings.project,
                login=identity.login,
                name=identity.name,
                role=identity.role,
                issuer=identity.issuer,
                subject=identity.subject,
            )
            return self._open(tx, user, place)

        session = self._service.unit(opened)
        self._tell_of(session.user.login)
        return session

    def visit(self, token: str) -> Visit | None:
        """Whose session this is; notes that it was seen."""
        with self._service.store.read() as tx:
            visit, stale = sign_in.find_session(tx, token, self._idle_s)
        if visit is not None and stale:
            session = visit.session.id
            with suppress(Contended, Unavailable):  # the page is worth more than the note
                self._service.unit(lambda tx: tx.sessions.touch(session))
        return visit

    def log_out(self, token: str) -> None:
        """End a session."""
        self._service.unit(lambda tx: sign_in.end_session(tx, token, self._idle_s))

    def log_out_everywhere(self, visit: Visit) -> int:
        """End the user's other sessions; how many there were."""

        def ended(tx: Transaction) -> int:
            count = tx.sessions.end_all(visit.user.login, but=visit.session.id)
            login, project = visit.user.login, visit.user.project
            tx.users.note(project, login, AccountAction.SIGNED_OUT, login, f"{count} sessions")
            return count

        return self._service.unit(ended)

    def sessions(self, login: str) -> tuple[Session, ...]:
        """The living sessions of a user, newest first."""
        with self._service.store.read() as tx:
            return tx.sessions.of_user(login, self._idle_s)

    def end_session(self, visit: Visit, session: int) -> None:
        """End one of the user's own sessions. Raises ``NotFound``."""
        if not self._service.unit(lambda tx: tx.sessions.end(visit.user.login, session)):
            raise NotFound("session_not_found", "this session has ended already")

    def add(self, project: str, wanted: NewUser, by: str) -> User:
        """Add a user. Raises ``InvalidInput`` for a poor password, ``Conflict`` for a taken login."""
        stored = self._stored(wanted.password, wanted.login)
        return self._service.unit(lambda tx: accounts.add(tx, project, wanted, stored, by))

    def change(self, project: str, login: str, wanted: UserChange, by: str) -> User:
        """Change a user; see ``services.accounts.change``."""
        stored = self._stored(wanted.password, login)
        user = self._service.unit(lambda tx: accounts.change(tx, project, login, wanted, stored, by))
        self._tell_of(login)
        return user

    def make_link(self, project: str, login: str, by: str) -> str:
        """A token for a link with which the user sets a password."""
        return self._service.unit(lambda tx: accounts.make_link(tx, project, login, by))

    def change_own_password(self, visit: Visit, current: str, new: str, place: Place) -> Opened:
        """Set one's own password; the other sessions end and this one gets a new token.

        Raises ``InvalidInput`` for a poor password, ``SignInRefused`` for a wrong current one,
        ``LockedOut`` after several.
        """
        login = visit.user.login
        check_password(new, login, field="new")
        with self._service.store.read() as tx:
            sign_in.require_unlocked(tx, login, self._source(tx, place))
            found = tx.users.find(login)
        if not self._knows(found, current):
            locked = self._service.unit(lambda tx: sign_in.note_failure(tx, login, self._source(tx, place)))
            raise locked or InvalidInput("wrong_password", "this is not your password", field="current")
        stored = self._passwords.hash(new)

        def changed(tx: Transaction) -> Opened:
            accounts.set_password(tx, visit.user, stored, login)
            return self._open(tx, visit.user, place)

        return self._service.unit(changed)

    def create_key(
        self, project: str, name: str, scopes: Collection[Scope], by: str, owner: str | None = None
    ) -> NewKey:
        """Make an API key; its token is returned this once. ``owner``: who reviews through it. Raises
        ``InvalidInput`` for one who is nobody here."""

        def made(tx: Transaction) -> NewKey:
            new = tenants.create_key(tx, project, name, scopes, owner)
            whose = "" if owner is None else f", of {owner}"
            detail = f"{name}: {', '.join(sorted(scopes))}{whose}"
            tx.users.note(project, by, AccountAction.KEY_CREATED, new.key.id, detail)
            return new

        return self._service.unit(made)

    def revoke_key(self, project: str, key_id: str, by: str) -> Key:
        """Revoke an API key (idempotent). Raises ``NotFound``."""

        def revoked(tx: Transaction) -> Key:
            key = tx.keys.revoke(project, key_id)
            tx.users.note(project, by, AccountAction.KEY_REVOKED, key.id, key.name)
            return key

        found = self._service.unit(revoked)
        if self._revoked is not None:
            self._revoked(found.id)
        return found

    def make_setup_link(self) -> str | None:
        """A token for the first admin of the server's project; None where there is one."""
        project = self._service.settings.project
        return self._service.unit(lambda tx: accounts.make_setup_link(tx, project))

    def look_at_link(self, kind: TicketKind, token: str) -> str | None:
        """For which login a link is good, null for a new one. Raises ``LinkRefused``."""
        with self._service.store.read() as tx:
            return accounts.look_at_link(tx, kind, token).login

    def set_up(self, token: str, login: str, name: str, password: str, place: Place) -> Opened:
        """Make the first admin with a link. Raises ``LinkRefused``, ``InvalidInput``, ``Conflict``."""
        self.look_at_link(TicketKind.SETUP, token)
        wanted = NewUser(login=login, name=name, role="admin")
        check_password(password, login)
        stored = self._passwords.hash(password)
        return self._service.unit(
            lambda tx: self._open(tx, accounts.set_up(tx, token, wanted, stored), place)
        )

    def set_password(self, token: str, password: str, place: Place) -> Opened:
        """Set a password with a link. Raises ``LinkRefused`` and ``InvalidInput``."""
        login = self.look_at_link(TicketKind.PASSWORD, token) or ""
        check_password(password, login)
        stored = self._passwords.hash(password)

        def changed(tx: Transaction) -> Opened:
            ticket = accounts.take_link(tx, TicketKind.PASSWORD, token)
            found = tx.users.find(ticket.login or "")
            if found is None or found.user.disabled_at is not None:
                raise SignInRefused("bad_sign_in", "the account is disabled")
            accounts.set_password(tx, found.user, stored, found.user.login)
            return self._open(tx, found.user, place)

        return self._service.unit(changed)

    def _source(self, tx: Transaction, place: Place) -> sign_in.Source:
        secret = tx.projects.secret(self._service.settings.project)
        return sign_in.Source(place.address, place.devices, secret)

    def _tell_of(self, login: str) -> None:
        if self._changed is not None:
            self._changed(login)

    def _open(self, tx: Transaction, user: User, place: Place) -> Opened:
        return sign_in.open_session(
            tx,
            user,
            ttl_s=self._ttl_s,
            idle_s=self._idle_s,
            source=self._source(tx, place),
            agent=place.agent,
            before=place.before,
        )

    def _knows(self, found: Credential | None, password: str) -> bool:
        usable = found is not None and found.user.disabled_at is None
        return self._passwords.matches(_hash_of(found) if usable else None, password)

    def _renewed(self, found: Credential | None, password: str) -> str | None:
        stored = _hash_of(found)
        if stored is None or not self._passwords.outdated(stored):
            return None
        return self._passwords.hash(password)

    def _stored(self, password: str | None, login: str) -> str | None:
        if password is None:
            return None
        check_password(password, login)
        return self._passwords.hash(password)


def _hash_of(found: Credential | None) -> str | None:
    return None if found is None else found.password_hash
