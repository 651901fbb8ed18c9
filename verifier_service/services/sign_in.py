"""Signing in and out: lock-outs, sessions and their ends."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from typing import NamedTuple

from verifier_service.domain.accounts import Session, User
from verifier_service.domain.errors import LockedOut
from verifier_service.domain.ports.accounts import Throttle, Visit
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.tokens import new_token, token_hash

TOUCH_S = 60.0
MAX_AGENT = 160
MAX_DEVICES = 5  # of one browser, which several people may share
# Wrong passwords lock a login at the address they come from. Those from many addresses lock it for all
# but the browsers in which it has signed in before: each of these has a throttle of its own (OWASP, device
# cookies). An address serves many people, so it gets more tries.
OF_PAIR = Throttle(free=4, first_s=30.0, longest_s=900.0, forget_s=86_400.0)
OF_DEVICE = OF_PAIR
OF_LOGIN = Throttle(free=49, first_s=30.0, longest_s=900.0, forget_s=86_400.0)
OF_ADDRESS = Throttle(free=29, first_s=30.0, longest_s=900.0, forget_s=3_600.0)


class Opened(NamedTuple):
    """A new session with its token and the cookie of known devices, which only the browser keeps."""

    token: str
    session: Session
    user: User
    devices: str


class Source(NamedTuple):
    """From where a login is tried. ``devices`` is the cookie of known devices, signed with ``secret``."""

    address: str
    devices: str
    secret: str


def require_unlocked(tx: Transaction, login: str, source: Source) -> None:
    """Raise ``LockedOut`` while the device, or for others the login or the address, is locked."""
    now = tx.now()
    until = [tx.sign_ins.failures(one).locked_until for one, _ in _watched(login, source)]
    longest = max((one for one in until if one is not None), default=now)
    if longest > now:
        raise _locked(longest - now)


def note_failure(tx: Transaction, login: str, source: Source) -> LockedOut | None:
    """Count a wrong sign-in; the lock-out that follows, if one does."""
    untils = [tx.sign_ins.fail(one, throttle).locked_until for one, throttle in _watched(login, source)]
    now = tx.now()
    longest = max((one for one in untils if one is not None), default=now)
    return _locked(longest - now) if longest > now else None


def open_session(
    tx: Transaction,
    user: User,
    *,
    ttl_s: float,
    idle_s: float,
    source: Source,
    agent: str,
    before: str | None,
) -> Opened:
    """A new session with a new token; the browser's session before it ends, and its device is known."""
    tx.sessions.sweep(idle_s)
    if before is not None:
        end_session(tx, before, idle_s)
    for subject, throttle in _watched(user.login, source):
        if throttle is not OF_ADDRESS:
            tx.sign_ins.clear(subject)
    token = new_token()
    session = tx.sessions.open(
        user.login,
        token_hash(token),
        new_token(),
        ttl_s=ttl_s,
        address=source.address[:MAX_AGENT],
        agent=agent[:MAX_AGENT],
    )
    return Opened(token, session, user, _remembered(user.login, source))


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


def _watched(login: str, source: Source) -> tuple[tuple[str, Throttle], ...]:
    device = next((one for one in _kept(source) if _is_of(one, login, source)), None)
    if device is not None:
        return ((f"device:{login} {device.partition('.')[0]}", OF_DEVICE),)
    pair = f"login:{login} {source.address}"
    return (pair, OF_PAIR), (f"login:{login}", OF_LOGIN), (f"address:{source.address}", OF_ADDRESS)


def _kept(source: Source) -> list[str]:
    return source.devices.split("~")[:MAX_DEVICES] if source.devices else []


def _is_of(device: str, login: str, source: Source) -> bool:
    number, _, sign = device.partition(".")
    return hmac.compare_digest(_signed(number, login, source).encode(), sign.encode())


def _remembered(login: str, source: Source) -> str:
    """The cookie with a device of this login first; those of others who use the browser stay."""
    others = _kept(source)
    known = next((one for one in others if _is_of(one, login, source)), None)
    if known is None:
        number = secrets.token_hex(16)
        known = f"{number}.{_signed(number, login, source)}"
    return "~".join([known, *(one for one in others if one != known)][:MAX_DEVICES])


def _signed(number: str, login: str, source: Source) -> str:
    text = f"device {number} {login}"
    return hmac.new(source.secret.encode(), text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _locked(seconds: float) -> LockedOut:
    left = max(1, math.ceil(seconds))
    wait = f"{left} seconds" if left < 90 else f"{math.ceil(left / 60)} minutes"
    return LockedOut(f"too many wrong sign-ins; try again in {wait}", retry_after_s=left)
