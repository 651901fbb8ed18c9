"""Plans about results of a laboratory, and the worklist that asks for them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.lab_results import LabImport, LabVersion, LabVersionList

THINKING_S = 120.0  # for the largest file that is taken


def import_lab_results(
    session: Session,
    content: bytes | None = None,
    *,
    name: str = "results.csv",
    format: Literal["csv", "json", "xlsx"] | None = None,
    rows: Iterable[Mapping[str, Any]] | None = None,
    plates: Iterable[Mapping[str, Any]] = (),
    decimal: Literal["point", "comma"] | None = None,
    ranges: Mapping[str, Mapping[str, float]] | None = None,
    by: str | None = None,
    dry_run: bool = False,
    all_or_nothing: bool = True,
    id: str | None = None,
) -> Plan[LabImport]:
    """Measurements against checks that wait at the lab: the ``content`` of a file, or ``rows``; the answer
    says what became of each row.

    The same again does nothing more, so that a lost answer may be asked for again. Look at ``state``: one
    wrong row keeps all from being stored unless ``all_or_nothing`` is false. Needs the scope ``review``.
    """
    wanted: dict[str, Any] = {
        "id": id,
        "rows": None if rows is None else [dict(row) for row in rows],
        "decimal": decimal,
        "by": by,
        "ranges": None if ranges is None else {quantity: dict(one) for quantity, one in ranges.items()},
    }
    if content is not None:
        file = {"name": name, "format": format, "content": base64.b64encode(content).decode("ascii")}
        wanted["file"] = {key: value for key, value in file.items() if value is not None}
    body = {key: value for key, value in wanted.items() if value is not None}
    flags = {"dry_run": dry_run, "all_or_nothing": all_or_nothing, "plates": [dict(one) for one in plates]}
    call = Call(
        method="POST",
        path=path("lab-results"),
        body=as_json(body | flags),
        read=reading(LabImport),
        wait_s=THINKING_S,
    )
    return (yield from deliver(session, call))


def lab_import(session: Session, id: str) -> Plan[LabImport]:
    """One import, as it was answered. Needs the scope ``review``."""
    call = Call(method="GET", path=path("lab-results", id), read=reading(LabImport))
    return (yield from deliver(session, call))


def lab_versions(session: Session, check: str, *, limit: int = 200) -> Plan[tuple[LabVersion, ...]]:
    """Every version of what files said of a check, by its key, newest first. Needs the scope ``review``."""
    params: dict[str, str | int | float] = {"check": check, "limit": limit}
    call = Call(method="GET", path=path("lab-results"), params=params, read=reading(LabVersionList))
    return (yield from deliver(session, call)).versions


def lab_requests(
    session: Session, *, queue: str | None = None, limit: int = 1_000, after: str | None = None
) -> Plan[str]:
    """What waits for a laboratory, as CSV text to fill in and import. Needs the scope ``review``.
    ``after`` the last review of a page comes the next."""
    params: dict[str, str | int | float] = {"limit": limit}
    if queue is not None:
        params["queue"] = queue
    if after is not None:
        params["after"] = after
    call = Call(method="GET", path=path("lab-requests"), params=params, read=_text)
    return (yield from deliver(session, call))


def _text(content: bytes) -> str:
    return content.decode("utf-8")
