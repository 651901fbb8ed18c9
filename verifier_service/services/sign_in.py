"""Signing in and out: lock-outs, sessions and their ends."""

from __future__ import annotations

import math
from typing import NamedTuple

from verifier_service.domain.accounts import Session, User
from verifier_service.domain.errors import LockedOut
from verifier_service.domain.ports.accounts import Throttle, Visit
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.tokens import new_token, token_hash

TOUCH_S = 60.0
MAX_AGENT = 160
# A login is locked for at most a quarter of an hour, and what is tried meanwhile is not counted: nobody
# can be kept out for good. An address serves many people, so it gets more tries.
OF_LOGIN = Throttle(free=4, first_s=30.0, longest_s=900.0, forget_s=86_400.0)
OF_ADDRESS = Throttle(free=29, first_s=30.0, longest_s=900.0, forget_s=3_600.0)


class Opened(NamedTuple):
    """A new session with its token, which only the browser keeps."""

    token: str
    session: Session
    user: User


def require_unlocked(tx: Transaction, login: str, address: str) -> None:
    """Raise ``LockedOut`` while the login or the address is locked."""
    now = tx.now()
    until = [tx.sign_ins.failures(one).locked_until for one in _subjects(login, address)]
    longest = max((one for one in until if one is not None), default=now)
    if longest > now:
        raise _locked(longest - now)


def note_failure(tx: Transaction, login: str, address: str) -> LockedOut | None:
    """Count a wrong sign-in; the lock-out that follows, if one does."""
    of_login, of_address = _subjects(login, address)
    untils = (
        tx.sign_ins.fail(of_login, OF_LOGIN).locked_until,
        tx.sign_ins.fail(of_address, OF_ADDRESS).locked_until,
    )
    now = tx.now()
    longest = max((one for one in untils if one is not None), default=now)
    return _locked(longest - now) if longest > now else None


def open_session(
    tx: Transaction,
    user: User,
    *,
    ttl_s: float,
    idle_s: float,
    address: str,
    agent: str,
    before: str | None,
) -> Opened:
    """A new session with a new token; the browser's session before it ends."""
    tx.sessions.sweep(idle_s)
    if before is not None:
        end_session(tx, before, idle_s)
    tx.sign_ins.clear(_subjects(user.login, address)[0])
    token = new_token()
    session = tx.sessions.open(
        user.login,
        token_hash(token),
        new_token(),
        ttl_s=ttl_s,
        address=address[:MAX_AGENT],
        agent=agent[:MAX_AGENT],
    )
    return Opened(token, session, user)


def find_session(tx: Transaction, token: str, idle_s: float) -> tuple[Visit | None, bool]:
    """The session of a token, and whether it is time to note that it was seen."""
    visit = tx.sessions.find(token_hash(token), idle_s)
    if visit is None:
        return None, False
    return visit, tx.now() - visit.session.seen_at.timestamp() > TOUCH_S


def end_session(tx: Transaction, token: str, idle_s: float) -> None:
    """End the session of a token, if it lives."""
    visit = tx.sessions.find(token_hash(token), idle_s)
    if visit is not None:
        tx.sessions.end(visit.user.login, visit.session.id)


def _subjects(login: str, address: str) -> tuple[str, str]:
    return f"login:{login}", f"address:{address}"


def _locked(seconds: float) -> LockedOut:
    left = max(1, math.ceil(seconds))
    wait = f"{left} seconds" if left < 90 else f"{math.ceil(left / 60)} minutes"
    return LockedOut(f"too many wrong sign-ins; try again in {wait}", retry_after_s=left)
