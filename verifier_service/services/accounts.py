"""Users: add, change, disable, and the one-time links through which they set their passwords."""

from __future__ import annotations

from verifier_service.domain.accounts import (
    AccountAction,
    NewUser,
    Role,
    RoleName,
    TicketKind,
    User,
    UserChange,
)
from verifier_service.domain.errors import Conflict, LinkRefused, NotFound, SignInRefused
from verifier_service.domain.ports.accounts import Ticket
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.tokens import new_token, token_hash

SETUP_S = 900.0
LINK_S = 86_400.0


def find(tx: Transaction, project: str, login: str) -> User:
    """A user of the project. Raises ``NotFound``."""
    found = tx.users.find(login, project)
    if found is None:
        raise NotFound("user_not_found", f"no user {login!r}")
    return found.user


def add(tx: Transaction, project: str, wanted: NewUser, password_hash: str | None, by: str) -> User:
    """Add a user to the project. Raises ``Conflict`` when the login is taken, in any project."""
    role = Role(wanted.role)
    user = tx.users.add(
        project=project, login=wanted.login, name=wanted.name, role=role, password_hash=password_hash
    )
    tx.users.note(project, by, AccountAction.CREATED, user.login, role.value)
    return user


def know(
    tx: Transaction, project: str, *, login: str, name: str, role: RoleName, issuer: str, subject: str
) -> User:
    """The user whom a provider knows as ``subject``, made if new, with the role that the provider says. A
    login that somebody else has gets a suffix: accounts are never joined by name.

    Raises ``SignInRefused`` for a disabled user, ``Conflict`` where no active admin would be left.
    """
    known = tx.users.by_subject(issuer, subject)
    if known is not None:
        if known.disabled_at is not None:
            raise SignInRefused("bad_sign_in", "this account is disabled")
        if known.role is Role(role):
            return known
        return change(tx, known.project, known.login, UserChange(role=role), None, issuer)
    free = login if tx.users.find(login) is None else f"{login}-{token_hash(subject)[:8]}"
    user = tx.users.add(
        project=project, login=free, name=name, role=Role(role), issuer=issuer, subject=subject
    )
    tx.users.note(project, issuer, AccountAction.CREATED, user.login, role)
    return user


def change(
    tx: Transaction, project: str, login: str, wanted: UserChange, password_hash: str | None, by: str
) -> User:
    """Change a user. A new role, a new password and disabling end their sessions.

    Raises ``NotFound``, and ``Conflict`` where no active admin would be left.
    """
    admins = tx.users.admins(project)
    before = find(tx, project, login)
    role = before.role if wanted.role is None else Role(wanted.role)
    disabled = before.disabled_at is not None if wanted.disabled is None else wanted.disabled
    if admins == (login,) and (disabled or role is not Role.ADMIN):
        raise Conflict("last_admin", f"{login!r} is the last admin: make another one first")
    after = tx.users.update(login, name=wanted.name or before.name, role=role, disabled=disabled)
    for action, detail in _differences(before, after):
        tx.users.note(project, by, action, login, detail)
    if password_hash is not None:
        set_password(tx, after, password_hash, by)
    if after.role is not before.role or after.disabled_at is not None:
        tx.sessions.end_all(login)
        tx.tickets.drop(TicketKind.PASSWORD, login)
    return find(tx, project, login)


def set_password(tx: Transaction, user: User, password_hash: str, by: str) -> None:
    """Store a new password; it ends all sessions, links and lock-outs of the user."""
    tx.users.set_password(user.login, password_hash)
    tx.sessions.end_all(user.login)
    tx.tickets.drop(TicketKind.PASSWORD, user.login)
    unlock(tx, user.login)
    tx.users.note(user.project, by, AccountAction.PASSWORD, user.login)


def unlock(tx: Transaction, login: str) -> None:
    """End all lock-outs of a login, wherever it was tried."""
    for kind in ("login", "device"):
        tx.sign_ins.clear(f"{kind}:{login}", everywhere=True)


def make_link(tx: Transaction, project: str, login: str, by: str, ttl_s: float = LINK_S) -> str:
    """A token with which the user may set a password, once; earlier ones end. Raises ``NotFound``, and
    ``Conflict`` for a user who is disabled."""
    user = find(tx, project, login)
    if user.disabled_at is not None:
        raise Conflict("user_disabled", f"{login!r} is disabled: enable the user first")
    tx.tickets.drop(TicketKind.PASSWORD, login)
    token = new_token()
    tx.tickets.add(TicketKind.PASSWORD, token_hash(token), ttl_s=ttl_s, login=login)
    tx.users.note(project, by, AccountAction.LINK, login)
    return token


def make_setup_link(tx: Transaction, project: str) -> str | None:
    """A token with which the first admin is made, once; None where there is an admin. Earlier ones end."""
    tx.tickets.drop(TicketKind.SETUP)
    if tx.users.admins(project):
        return None
    token = new_token()
    tx.tickets.add(TicketKind.SETUP, token_hash(token), ttl_s=SETUP_S, body=project)
    return token


def set_up(tx: Transaction, token: str, wanted: NewUser, password_hash: str) -> User:
    """Make the first admin with a link. Raises ``LinkRefused``, also where there is an admin by now."""
    project = take_link(tx, TicketKind.SETUP, token).body
    _require_no_admin(tx, project)
    return add(tx, project, wanted, password_hash, "setup link")


def look_at_link(tx: Transaction, kind: TicketKind, token: str) -> Ticket:
    """What a link is for, without using it. Raises ``LinkRefused``, also for the first admin where there is
    an admin by now."""
    ticket = _good(tx.tickets.find(kind, token_hash(token)))
    if kind is TicketKind.SETUP:
        _require_no_admin(tx, ticket.body)
    return ticket


def take_link(tx: Transaction, kind: TicketKind, token: str) -> Ticket:
    """Use a link up. Raises ``LinkRefused``."""
    return _good(tx.tickets.take(kind, token_hash(token)))


def _require_no_admin(tx: Transaction, project: str) -> None:
    if tx.users.admins(project):
        raise LinkRefused("has_admin", "this service has an admin already: sign in, or ask one for a link")


def _good(ticket: Ticket | None) -> Ticket:
    if ticket is None:
        raise LinkRefused("bad_link", "this link was used, has expired, or was replaced by a newer one")
    return ticket


def _differences(before: User, after: User) -> list[tuple[AccountAction, str]]:
    found = []
    if after.name != before.name:
        found.append((AccountAction.RENAMED, after.name))
    if after.role is not before.role:
        found.append((AccountAction.ROLE, f"{before.role} to {after.role}"))
    if (after.disabled_at is None) is not (before.disabled_at is None):
        found.append((AccountAction.DISABLED if after.disabled_at else AccountAction.ENABLED, ""))
    return found
