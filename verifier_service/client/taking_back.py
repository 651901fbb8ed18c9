"""Plans about evidence that is taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.retractions import Retraction, RetractionAnswer, RetractionList


def retract(
    session: Session,
    *,
    reason: str,
    checks: Sequence[str] | None = None,
    verifier: str | None = None,
    version: str | None = None,
    params: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    reverify: bool = False,
    keep: bool = False,
    dry_run: bool = False,
    id: str | None = None,
) -> Plan[RetractionAnswer]:
    """Take back the evidence of ``checks``, by key, or of a ``verifier``; it goes on by itself.

    ``version``, ``params``, ``since`` and ``until`` narrow a verifier. ``reverify`` asks for it again in
    open runs, and with ``keep`` it counts until then. ``dry_run`` only counts. The same request again is
    the same retraction, unless it has another ``id``. Needs the scope ``admin``.
    """
    wanted = {
        "id": id,
        "checks": None if checks is None else list(checks),
        "verifier": verifier,
        "version": version,
        "params": None if params is None else dict(params),
        "since": None if since is None else since.isoformat(),
        "until": None if until is None else until.isoformat(),
        "reason": reason,
    }
    flags = {"reverify": reverify, "keep": keep, "dry_run": dry_run}
    body = {name: value for name, value in wanted.items() if value is not None}
    call = Call(
        method="POST",
        path=path("retractions"),
        body=as_json(body | {name: flag for name, flag in flags.items() if flag}),
        read=reading(RetractionAnswer),
    )
    return (yield from deliver(session, call))


def retraction(session: Session, id: str) -> Plan[Retraction]:
    """One retraction, and how far it has come. Needs the scope ``admin``."""
    call = Call(method="GET", path=path("retractions", id), read=reading(Retraction))
    return (yield from deliver(session, call))


def reverify(session: Session, id: str) -> Plan[Retraction]:
    """In open runs, ask again for what a retraction only took back. Needs the scope ``admin``."""
    call = Call(method="POST", path=path("retractions", id, "reverify"), read=reading(Retraction))
    return (yield from deliver(session, call))


def retractions(session: Session) -> Plan[tuple[Retraction, ...]]:
    """The latest retractions of the project, newest first. Needs the scope ``admin``."""
    call = Call(method="GET", path=path("retractions"), read=reading(RetractionList))
    return (yield from deliver(session, call)).retractions
