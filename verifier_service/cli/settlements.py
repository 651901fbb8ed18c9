"""``verifier settlements``: what became of events."""

from __future__ import annotations

from typing import Annotated

import typer

from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump_all, note, table

PAGE = 1_000


def settlements(
    event: Annotated[str | None, typer.Option("--event", help="Only what became of this event.")] = None,
    after: Annotated[int, typer.Option("--after", min=0, help="A cursor, from an earlier list.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=PAGE)] = 200,
    as_json: AsJson = False,
) -> None:
    """List every version of what became of events: actual or void, by whom, when."""
    with connect() as client:
        found = client.settlements(after=after, event=event, limit=limit)
    if as_json:
        dump_all(found.settlements)
        return
    table(
        "",
        ("event", "version", "state", "actual", "source", "by", "at"),
        (
            (one.event, one.version, one.state, one.actual, one.source, one.by, f"{one.created_at:%F %T}")
            for one in found.settlements
        ),
    )
    if len(found.settlements) == limit:
        note(f"there may be more: --after {found.next}")
