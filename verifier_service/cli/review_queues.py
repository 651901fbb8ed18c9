"""``verifier reviews`` of those who look after the desk: queues, bulk actions, agreement, the trail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verifier_service.cli.connection import connect, read_json
from verifier_service.cli.reviews import ANY_ID
from verifier_service.cli.screen import AsJson, dump, dump_all, note, plain, say, table
from verifier_service.domain.review_trail import as_csv
from verifier_service.domain.reviews import BulkAnswer

PAGE = 10_000
Ids = Annotated[list[str], typer.Argument(help="Reviews, up to 1,000.")]
Queued = Annotated[str | None, typer.Option("--queue")]


def queues(
    name: Annotated[str | None, typer.Argument(help="One of them, whole.")] = None, as_json: AsJson = False
) -> None:
    """Declared queues in their latest version."""
    with connect() as client:
        found = client.review_queues() if name is None else (client.review_queue(name),)
    if as_json or name is not None:
        dump_all(found)
        return
    rows = (
        (spec.name, version, spec.approvals, "yes" if spec.blind else "", spec.gold_share)
        for version, spec in ((one.version, one.spec) for one in found)
    )
    table("", ("queue", "version", "approvals", "blind", "gold"), rows)


def put_queue(file: Path, as_json: AsJson = False) -> None:
    """Store a queue from a JSON file; a changed one is a new version."""
    with connect() as client:
        stored = client.put_review_queue(read_json(file))
    if as_json:
        dump(stored)
        return
    same = "" if stored.created else " (as it was)"
    say(f"{stored.queue.spec.name} version {stored.queue.version}{same}")


def reassign(
    ids: Ids,
    to: Annotated[str | None, typer.Option("--to", help="For whom; for anybody when left out.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=720)] = 72.0,
    reason: Annotated[str, typer.Option("--reason")] = "",
    as_json: AsJson = False,
) -> None:
    """Keep items for one person for some hours; claims on them end."""
    with connect() as client:
        answer = client.reassign(ids, to, hours=hours, reason=reason)
    _print(answer, as_json)


def withdraw(ids: Ids, reason: Annotated[str, typer.Option("--reason")], as_json: AsJson = False) -> None:
    """Take items without a vote off the desk, unscored."""
    with connect() as client:
        answer = client.withdraw_reviews(ids, reason=reason)
    _print(answer, as_json)


def _print(answer: BulkAnswer, as_json: bool) -> None:
    if as_json:
        dump(answer)
    else:
        for one in answer.results:
            say(f"{plain(one.review)}: {'done' if one.done else f'{one.code}: {one.message}'}")
    if answer.done < len(answer.results):
        raise typer.Exit(1)


def retract(
    id: str,
    reason: Annotated[str, typer.Option("--reason")],
    again: Annotated[bool, typer.Option("--again", help="Ask people again, in open runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take an effective decision back; rewards that rest on it are superseded."""
    with connect() as client:
        item = client.retract_review(id, reason=reason, again=again)
    if as_json:
        dump(item)
        return
    say(f"{item.id}: what was decided is being taken back")


def add_gold(file: Path, as_json: AsJson = False) -> None:
    """Store a known item from a JSON file: queue, shown, expected."""
    with connect() as client:
        stored = client.add_gold(read_json(file))
    if as_json:
        dump(stored)
        return
    say(f"{stored.item.id}{'' if stored.created else ' (it was there already)'}")


def agreement(queue: str, as_json: AsJson = False) -> None:
    """How far the reviewers of a queue agree, and how often each is wrong."""
    with connect() as client:
        found = client.agreement(queue)
    if as_json:
        dump(found)
        return
    if found.verdicts is not None:
        value = "undefined" if found.verdicts.value is None else f"{found.verdicts.value:.3f}"
        say(f"{found.verdicts.kind} kappa {value}, {found.verdicts.items} items")
    for one in found.scores:
        say(f"{one.score}: {one.form} {one.value:.3f}, {one.items} items")
    say(f"a vote is wrong: {found.mistaken:.3f} ({found.mistaken_low:.3f} to {found.mistaken_high:.3f})")
    rows = (
        (
            *(one.reviewer, one.votes, one.gold_seen, f"{one.gold_wrong}/{one.gold}"),
            *(f"{one.overruled}/{one.judged}", f"{one.mean:.3f}", f"{one.low:.3f} to {one.high:.3f}"),
        )
        for one in found.reviewers
    )
    table("", ("reviewer", "votes", "gold seen", "gold wrong", "overruled", "error", "90 %"), rows)


def trail(
    queue: Queued = None,
    review: Annotated[str | None, typer.Option("--review")] = None,
    actor: Annotated[str | None, typer.Option("--actor")] = None,
    after: Annotated[int, typer.Option("--after", min=0)] = 0,
    as_csv_: Annotated[bool, typer.Option("--csv", help="CSV that no spreadsheet runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Everything that people did at the desk, oldest first."""
    first = True
    with connect() as client:
        while True:
            page = client.trail(after=after, limit=PAGE, queue=queue, review=review, actor=actor)
            after = page.cursor
            if as_csv_:
                text = as_csv(page.events)
                typer.echo(text if first else text.split("\r\n", 1)[1], nl=False)
            elif as_json:
                dump_all(page.events)
            else:
                for one in page.events:
                    who = f"{plain(one.actor)} {one.review or ''}"
                    say(f"{one.seq} {one.at:%Y-%m-%d %H:%M:%S} {one.kind} {who}")
            first = False
            if not page.more:
                break
    note(f"the cursor is {after}")


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``verifier reviews``."""
    app.command("queues")(queues)
    app.command("put-queue")(put_queue)
    app.command("reassign", context_settings=ANY_ID)(reassign)
    app.command("withdraw", context_settings=ANY_ID)(withdraw)
    app.command("retract", context_settings=ANY_ID)(retract)
    app.command("add-gold")(add_gold)
    app.command("agreement")(agreement)
    app.command("trail")(trail)
