"""``verifier checks``: stuck and failed checks, asked again or cancelled."""

from __future__ import annotations

from typing import Annotated

import typer

from verifier_service.cli.boundary import USAGE, Failed
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, say, table
from verifier_service.domain.operations import ActResult, ActStatus, FailedCheck, StuckCheck

app = typer.Typer(help="Checks that need an operator: stuck, failed, asked again, cancelled.")

STUCK = ("check", "verifier", "tier", "queued since", "run", "reason")
FAILED = ("check", "verifier", "tier", "failed", "trajectories", "without reward", "run", "why")
Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys of checks, as listed.")]
After = Annotated[str | None, typer.Option("--after", help="`next` of the page before.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Lines at most.")]
Run = Annotated[str | None, typer.Option("--run", help="Of one run.")]


@app.command("stuck")
def stuck(after: After = None, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Queued checks that no living worker will claim, and why."""
    with connect() as client:
        page = client.stuck_checks(after=after, limit=limit)
    if as_json:
        dump(page)
        return
    for kind in page.kinds:
        say(f"{kind.tier}: {kind.checks} × {kind.verifier} {kind.version}: {kind.reason}")
    table("", STUCK, (_stuck(one) for one in page.checks))
    _more(page.next)


@app.command("failed")
def failed(
    run: Run = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="transient, resource, permanent, timed_out or task_error."),
    ] = None,
    scored: Annotated[
        bool, typer.Option("--scored", help="Also those whose trajectories all have a reward.")
    ] = False,
    after: After = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Checks that failed for good and left a trajectory without a reward, newest first."""
    with connect() as client:
        page = client.failed_checks(after=after, limit=limit, run=run, kind=kind, scored=scored)
    if as_json:
        dump(page)
        return
    table("", FAILED, (_failed(one) for one in page.checks))
    _more(page.next)


@app.command("retry")
def retry(
    keys: Keys = None,
    every: Annotated[
        bool, typer.Option("--all", help="All that `checks failed` lists, in place of keys.")
    ] = False,
    run: Run = None,
    kind: Annotated[str | None, typer.Option("--kind", help="With --all: failures of this kind.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask again for failed checks; what is found supersedes the records that rested on the failure."""
    if every is bool(keys):
        raise Failed("name keys of checks, or say --all", code=USAGE)
    with connect() as client:
        found = list(keys or ())
        after: str | None = None
        while every:
            page = client.failed_checks(after=after, limit=1_000, run=run, kind=kind)
            found += [one.key for one in page.checks if not one.closed]
            after = page.next
            every = after is not None
        results = client.retry_checks(found) if found else ()
    _told(results, "asked again", as_json=as_json)


@app.command("cancel")
def cancel(keys: Keys = None, as_json: AsJson = False) -> None:
    """Cancel checks that are queued, running or waiting for people."""
    if not keys:
        raise Failed("name keys of checks", code=USAGE)
    with connect() as client:
        results = client.cancel_checks(keys)
    _told(results, "cancelled", as_json=as_json)


def _told(results: tuple[ActResult, ...], done: str, *, as_json: bool) -> None:
    if as_json:
        dump_all(results)
    else:
        for one in results:
            if one.status is ActStatus.DONE:
                say(f"{one.id}: {done}, for {one.trajectories} trajectories")
            else:
                say(f"{one.id}: {one.status}: {one.message}")
    if any(one.status in (ActStatus.CONFLICT, ActStatus.UNKNOWN) for one in results):
        raise Failed("not all of them could be " + done)


def _more(cursor: str | None) -> None:
    if cursor is not None:
        note(f"there may be more: --after {cursor}")


def _stuck(one: StuckCheck) -> tuple[object, ...]:
    since = f"{one.queued_at:%Y-%m-%d %H:%M}"
    return (one.key, f"{one.verifier} {one.version}", one.tier, since, one.run, one.reason)


def _failed(one: FailedCheck) -> tuple[object, ...]:
    when = "" if one.failed_at is None else f"{one.failed_at:%Y-%m-%d %H:%M}"
    why = f"{one.failure.code}: {one.failure.message}"
    name = f"{one.verifier} {one.version}"
    return (one.key, name, one.tier, when, one.trajectories, one.unscored, one.run, why)
