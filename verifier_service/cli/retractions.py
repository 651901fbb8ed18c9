"""``verifier retract`` and ``verifier retractions``: evidence that is taken back."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from verifier_service.cli.boundary import USAGE, Failed
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, progress_bar, say, table
from verifier_service.client import Client
from verifier_service.domain.retractions import Extent, Retraction, RetractionState, Selection

LOOK_S = 0.5
COLUMNS = ("id", "made", "by", "evidence", "mode", "state", "checks", "trajectories", "reason")
Moment = Annotated[str | None, typer.Option(metavar="TIME", help="ISO 8601; without a zone it is UTC.")]


def retract(
    reason: Annotated[str, typer.Option("--reason", help="Shown wherever the evidence is.")],
    check: Annotated[list[str] | None, typer.Option("--check", help="A check's key; repeat it.")] = None,
    verifier: Annotated[str | None, typer.Option("--verifier", help="All evidence of a verifier.")] = None,
    version: Annotated[str | None, typer.Option("--version", help="Its version, or a build of it.")] = None,
    params: Annotated[str | None, typer.Option("--params", help="JSON object: these are equal.")] = None,
    since: Moment = None,
    until: Moment = None,
    reverify: Annotated[bool, typer.Option("--reverify", help="In open runs, ask for it again.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Until then it counts; for older builds.")] = False,
    id: Annotated[str | None, typer.Option("--id", help="To retract the same once more.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only counted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take back evidence of a verifier that was wrong, from every trajectory that was given it."""
    wanted: dict[str, Any] = {
        "reason": reason,
        "checks": check or None,
        "verifier": verifier,
        "version": version,
        "params": None if params is None else _object(params),
        "since": _moment("--since", since),
        "until": _moment("--until", until),
        "reverify": reverify,
        "keep": keep,
        "id": id,
    }
    with connect() as client:
        if not yes:
            extent = client.retract(**wanted, dry_run=True).extent
            if extent is not None:
                _count(extent, as_json=as_json)
            return
        answer = client.retract(**wanted)
        if answer.retraction is None:
            raise Failed("the server did not say what became of it", "look at `verifier retractions`")
        if not answer.created:
            made = f"{answer.retraction.created_at:%Y-%m-%d %H:%M}"
            note(f"the same was asked for at {made} UTC; to retract what came since, give it another --id")
        done = _follow(client, answer.retraction, quiet=as_json)
    if as_json:
        dump(done)
        return
    say(_told(done))


def _count(extent: Extent, *, as_json: bool) -> None:
    if as_json:
        dump(extent)
        return
    stopped = f"; {extent.stopped} checks under way would be asked for anew" if extent.stopped else ""
    say(
        f"{extent.checks} checks, {extent.trajectories} trajectories in {extent.runs} runs would be"
        f" concerned{stopped}"
    )
    note("nothing was changed: say --yes to do it")


def _follow(client: Client, one: Retraction, *, quiet: bool) -> Retraction:
    with progress_bar(quiet=quiet) as progress:
        shown = progress.add_task(one.id, total=None)
        while one.state is not RetractionState.DONE:
            time.sleep(LOOK_S)
            one = client.retraction(one.id)
            if one.state is not RetractionState.MARKING:
                progress.update(shown, total=one.trajectories, completed=one.done)
    return one


def _told(one: Retraction) -> str:
    return (
        f"{one.id}: {one.state}; {one.checks} checks retracted, {one.done} of {one.trajectories}"
        f" trajectories in {one.runs} runs dealt with, {one.records} records issued"
    )


def retractions(
    id: Annotated[str | None, typer.Argument(help="One of them; else the latest are listed.")] = None,
    reverify: Annotated[bool, typer.Option("--reverify", help="In open runs, ask for it again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Evidence that was taken back: what, why, by whom, and how far it has come."""
    if reverify and id is None:
        raise Failed("--reverify needs the id of a retraction", code=USAGE)
    with connect() as client:
        if id is None:
            found = client.retractions()
        elif reverify:
            found = (_follow(client, client.reverify(id), quiet=as_json),)
        else:
            found = (client.retraction(id),)
    if as_json:
        dump_all(found)
        return
    table("", COLUMNS, (_line(one) for one in found))


def _line(one: Retraction) -> tuple[object, ...]:
    mode = "replace" if one.keep else "reverify" if one.reverify else "retract"
    made = f"{one.created_at:%Y-%m-%d %H:%M}"
    reach = f"{one.done}/{one.trajectories}"
    return (
        one.id,
        made,
        one.by.name,
        _named(one.selection),
        mode,
        one.state,
        one.checks,
        reach,
        one.reason,
    )


def _named(selection: Selection) -> str:
    if selection.checks is not None:
        return f"{len(selection.checks)} checks"
    parts = [selection.verifier, selection.version]
    parts += [None if selection.params is None else json.dumps(selection.params)]
    for word, moment in (("since", selection.since), ("until", selection.until)):
        parts.append(None if moment is None else f"{word} {moment:%Y-%m-%d %H:%M}")
    return " ".join(part for part in parts if part)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Failed(f"--params: {error}", code=USAGE) from error
    if not isinstance(value, dict):
        raise Failed(f"--params: a JSON object is needed, not a {type(value).__name__}", code=USAGE)
    return value


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Failed(f"{option}: {error}", "write 2026-12-01T14:00", code=USAGE) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
