"""``verifier keys``: who may call the service."""

from __future__ import annotations

from typing import Annotated

import typer

from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, say, table
from verifier_service.domain.runs import Scope

app = typer.Typer(help="API keys. Needs the admin scope.")
SCOPES = tuple(str(scope) for scope in Scope if scope is not Scope.OTHER)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All keys of the project, without their secrets."""
    with connect() as client:
        found = client.keys()
    if as_json:
        dump_all(found)
        return
    table(
        "",
        ("id", "name", "scopes", "created", "revoked"),
        (
            (
                key.id,
                key.name,
                " ".join(sorted(key.scopes)),
                f"{key.created_at:%Y-%m-%d %H:%M}",
                f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
            )
            for key in found
        ),
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str], typer.Option("--scope", "-s", help=f"Repeat it for several: {', '.join(SCOPES)}.")
    ],
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="The person it is for, who reviews and submits through it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and show its secret, this once."""
    unknown = [one for one in scope if one not in SCOPES]
    if unknown:
        raise typer.BadParameter(
            f"{', '.join(unknown)}: the scopes are {', '.join(SCOPES)}", param_hint="--scope"
        )
    with connect() as client:
        created = client.create_key(name, scope, owner=owner)
    if as_json:
        dump(created)
        return
    say(created.token)
    note(f"key {created.key.id} for {', '.join(sorted(created.key.scopes))}; it will not be shown again")


@app.command()
def revoke(id: str, as_json: AsJson = False) -> None:
    """Revoke a key at once."""
    with connect() as client:
        key = client.revoke_key(id)
    if as_json:
        dump(key)
        return
    say(f"{key.id} ({key.name}) is revoked")
