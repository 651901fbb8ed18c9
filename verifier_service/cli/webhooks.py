"""``verifier webhooks``: endpoints that are told of reward records."""

from __future__ import annotations

from typing import Annotated

import typer

from verifier_service.cli.boundary import FAILED
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, say, table
from verifier_service.domain.webhooks import Delivery, Webhook

app = typer.Typer(help="Endpoints that are told of reward records. Needs the admin scope.")
STATUSES = ("unscored", "provisional", "final", "retracted")
STATES = ("pending", "delivered", "failed")

Id = Annotated[str, typer.Argument(help="The webhook's id.")]


@app.command()
def add(
    url: Annotated[str, typer.Argument(help="Where to send; https.")],
    run: Annotated[str | None, typer.Option("--run", help="Only records of this run.")] = None,
    status: Annotated[
        list[str] | None, typer.Option("--status", help=f"Only these: {', '.join(STATUSES)}.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    as_json: AsJson = False,
) -> None:
    """Register an endpoint and show its secret, this once."""
    _known(status or [], STATUSES, "--status")
    with connect() as client:
        created = client.add_webhook(url, run=run, statuses=status or None, description=description)
    if as_json:
        dump(created)
        return
    say(created.secret)
    note(f"webhook {created.webhook.id}; its secret will not be shown again")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All endpoints of the project."""
    with connect() as client:
        found = client.webhooks()
    if as_json:
        dump_all(found)
        return
    table("", ("id", "url", "run", "statuses", "state"), (_row(one) for one in found))


@app.command()
def remove(id: Id, as_json: AsJson = False) -> None:
    """Remove an endpoint."""
    with connect() as client:
        removed = client.remove_webhook(id)
    if as_json:
        dump(removed)
        return
    say(f"{removed.id} is removed")


@app.command()
def enable(id: Id, as_json: AsJson = False) -> None:
    """Send to an endpoint again, beginning with what came meanwhile."""
    _switch(id, on=True, as_json=as_json)


@app.command()
def disable(id: Id, as_json: AsJson = False) -> None:
    """Stop sending to an endpoint."""
    _switch(id, on=False, as_json=as_json)


@app.command()
def rotate(
    id: Id,
    force: Annotated[
        bool, typer.Option("--force", help="Only the new one signs from now on; receivers must have it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a new secret and show it, this once; the old one signs for a while, too."""
    with connect() as client:
        created = client.rotate_webhook(id, force=force)
    if as_json:
        dump(created)
        return
    say(created.secret)
    note(f"webhook {id}; the secret will not be shown again")


@app.command("test")
def send_test(id: Id, as_json: AsJson = False) -> None:
    """Send a test event at once; exit code 1 when it is not taken."""
    with connect() as client:
        tested = client.test_webhook(id)
    if as_json:
        dump(tested)
    else:
        say(f"{'delivered' if tested.delivered else 'not delivered'}: {tested.error or tested.status}")
    if not tested.delivered:
        raise typer.Exit(FAILED)


@app.command()
def deliveries(
    id: Id,
    run: Annotated[str | None, typer.Option("--run", help="Only records of this run.")] = None,
    state: Annotated[str | None, typer.Option("--state", help=f"Only these: {', '.join(STATES)}.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = 50,
    as_json: AsJson = False,
) -> None:
    """What was sent to an endpoint, newest first."""
    _known([state] if state is not None else [], STATES, "--state")
    with connect() as client:
        page = client.deliveries(id, run=run, state=state, limit=limit)
    if as_json:
        dump_all(page.deliveries)
        return
    columns = ("event", "run", "seq", "state", "attempts", "last", "next attempt")
    table("", columns, (_line(one) for one in page.deliveries))


@app.command()
def replay(
    id: Id,
    run: Annotated[str, typer.Option("--run", help="The run whose records to send again.")],
    after: Annotated[int, typer.Option("--after", min=0, help="Start after this seq.")] = 0,
    failed_only: Annotated[
        bool, typer.Option("--failed-only", help="Only those that were given up.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send records again, with the same ids."""
    with connect() as client:
        count = client.replay_webhook(id, run=run, after=after, failed_only=failed_only)
    if as_json:
        dump({"replayed": count})
        return
    say(f"{count} records are sent again")


def _switch(id: str, *, on: bool, as_json: bool) -> None:
    with connect() as client:
        changed = client.change_webhook(id, enabled=on)
    if as_json:
        dump(changed)
        return
    say(f"{changed.id} is {_state(changed)}")


def _known(given: list[str], known: tuple[str, ...], option: str) -> None:
    unknown = [one for one in given if one not in known]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(known)}", param_hint=option)


def _row(one: Webhook) -> tuple[object, ...]:
    return one.id, one.url, one.run or "all", " ".join(one.statuses or ("all",)), _state(one)


def _state(one: Webhook) -> str:
    if not one.enabled:
        return f"disabled ({one.disabled_reason})"
    return f"failing since {one.failing_since:%Y-%m-%d %H:%M}" if one.failing_since else "enabled"


def _line(one: Delivery) -> tuple[object, ...]:
    last = one.error or ("" if one.status is None else one.status)
    due = f"{one.next_at:%Y-%m-%d %H:%M:%S}" if one.next_at else ""
    return one.event, one.run, one.seq, one.state, one.attempts, last, due
