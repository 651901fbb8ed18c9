"""Plans about runs, ladders, verifiers, keys and users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver, deliver_waiting
from verifier_service.domain.accounts import User
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.ports.catalog import VerifierListing
from verifier_service.domain.runs import Key, Run, RunReport, RunSpec
from verifier_service.domain.wire import (
    KeyCreated,
    KeyList,
    LadderList,
    LadderStored,
    RunList,
    UserList,
    VerifierList,
)
from verifier_service.domain.workers import Worker, WorkerList


def runs(session: Session) -> Plan[tuple[Run, ...]]:
    """All runs of the project, newest first."""
    call = Call(method="GET", path=path("runs"), read=reading(RunList))
    return (yield from deliver(session, call)).runs


def run(session: Session, id: str) -> Plan[RunReport]:
    """A run with its spend and its counts per tier."""
    call = Call(method="GET", path=path("runs", id), read=reading(RunReport))
    return (yield from deliver(session, call))


def put_run(session: Session, id: str, spec: RunSpec | Mapping[str, Any]) -> Plan[RunReport]:
    """Create a run, or replace the spec and budgets of one."""
    call = Call(method="PUT", path=path("runs", id), body=as_json(spec), read=reading(RunReport))
    return (yield from deliver(session, call))


def close_run(session: Session, id: str) -> Plan[RunReport]:
    """End a run: nothing new is taken, and every record becomes final at its best tier or unscored."""
    call = Call(method="POST", path=path("runs", id, "close"), read=reading(RunReport))
    return (yield from deliver(session, call))


def purge_run(session: Session, id: str, *, wait_s: float = 0.0) -> Plan[RunReport]:
    """Remove a closed run for good; at most ``wait_s`` seconds later, the run as it is then.

    It goes on by itself until the run's state is ``purged``. Needs the scope ``admin``.
    """

    def build(seconds: float) -> Call[RunReport]:
        return Call(
            method="POST",
            path=path("runs", id, "purge"),
            params={"wait": seconds},
            wait_s=seconds,
            read=reading(RunReport),
        )

    return (yield from deliver_waiting(session, build, wait_s))


def ladders(session: Session) -> Plan[tuple[Ladder, ...]]:
    """The latest version of every ladder, by name."""
    call = Call(method="GET", path=path("ladders"), read=reading(LadderList))
    return (yield from deliver(session, call)).ladders


def ladder(session: Session, name: str, *, version: int | None = None) -> Plan[Ladder]:
    """One ladder; the latest version unless another is named."""
    params: dict[str, str | int | float] = {} if version is None else {"version": version}
    call = Call(method="GET", path=path("ladders", name), params=params, read=reading(Ladder))
    return (yield from deliver(session, call))


def put_ladder(session: Session, name: str, spec: LadderSpec | Mapping[str, Any]) -> Plan[LadderStored]:
    """Store a ladder; a changed one is a new version, the same content the same version."""
    call = Call(method="PUT", path=path("ladders", name), body=as_json(spec), read=reading(LadderStored))
    return (yield from deliver(session, call))


def verifiers(session: Session) -> Plan[tuple[VerifierListing, ...]]:
    """The catalogue: parameters, cost, and why something cannot run on that server."""
    call = Call(method="GET", path=path("verifiers"), read=reading(VerifierList))
    return (yield from deliver(session, call)).verifiers


def workers(session: Session) -> Plan[tuple[Worker, ...]]:
    """Workers of every machine, the living first. Needs the scope `operate`."""
    call = Call(method="GET", path=path("workers"), read=reading(WorkerList))
    return (yield from deliver(session, call)).workers


def users(session: Session) -> Plan[tuple[User, ...]]:
    """The project's users, by login."""
    call = Call(method="GET", path=path("users"), read=reading(UserList))
    return (yield from deliver(session, call)).users


def add_user(
    session: Session, login: str, *, name: str, role: str, password: str | None = None
) -> Plan[User]:
    """Add a user. Without a password they need a link, which an admin makes on the page Access."""
    body = {"login": login, "name": name, "role": role, "password": password}
    call = Call(method="POST", path=path("users"), body=as_json(body), read=reading(User), repeatable=False)
    return (yield from deliver(session, call))


def change_user(
    session: Session,
    login: str,
    *,
    name: str | None = None,
    role: str | None = None,
    disabled: bool | None = None,
    password: str | None = None,
) -> Plan[User]:
    """Change a user; what is not given stays. A new role, a new password or disabling end sessions."""
    given = {"name": name, "role": role, "disabled": disabled, "password": password}
    body = {field: value for field, value in given.items() if value is not None}
    call = Call(method="PATCH", path=path("users", login), body=as_json(body), read=reading(User))
    return (yield from deliver(session, call))


def keys(session: Session) -> Plan[tuple[Key, ...]]:
    """The project's keys, without secrets."""
    call = Call(method="GET", path=path("keys"), read=reading(KeyList))
    return (yield from deliver(session, call)).keys


def create_key(
    session: Session, name: str, scopes: Iterable[str], *, owner: str | None = None
) -> Plan[KeyCreated]:
    """Make a key, for a person if ``owner`` is one. Its token is shown this once, so a lost answer is not
    tried again."""
    call = Call(
        method="POST",
        path=path("keys"),
        body=as_json(
            {"name": name, "scopes": sorted(scopes)} | ({} if owner is None else {"owner": owner})
        ),
        read=reading(KeyCreated),
        repeatable=False,
    )
    return (yield from deliver(session, call))


def revoke_key(session: Session, id: str) -> Plan[Key]:
    """Revoke a key at once."""
    call = Call(method="DELETE", path=path("keys", id), read=reading(Key))
    return (yield from deliver(session, call))
