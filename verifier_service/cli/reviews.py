"""``verifier reviews``: the desk, from a terminal."""

from __future__ import annotations

import getpass
import json
import re
from typing import Annotated, Literal, TypeAlias

import typer

from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, plain, say, table
from verifier_service.domain.reviews import Review, ReviewMeasurement

app = typer.Typer(help="Reviews: what waits for a person. A decision takes effect after the undo grace.")

MOST_ITEMS = 1_000
# Ids of reviews are random and may begin with a dash, which is no option then.
ANY_ID = {"ignore_unknown_options": True}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
MEASURED = re.compile(
    rf"(?P<quantity>[^=\s]+)=(?P<value>{NUMBER})(?:(?:±|\+-)(?P<sigma>{NUMBER}))?\s+(?P<unit>\S+)", re.ASCII
)


def whoami() -> str:
    """The reviewer's name where none is given: the login name."""
    return re.sub(r"[^A-Za-z0-9._:@/+\-]", "-", getpass.getuser())


Reviewer: TypeAlias = Annotated[
    str | None, typer.Option("--reviewer", help="Who decides; the login name when left out.")
]


Minutes: TypeAlias = Annotated[
    float | None, typer.Option("--minutes", min=0.1, max=1440, help="As the queue says when left out.")
]


@app.command("list")
def list_(
    queue: Annotated[str | None, typer.Option("--queue")] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="open, claimed, disputed, decided, effective, expired or cancelled."),
    ] = None,
    assigned_to: Annotated[str | None, typer.Option("--assigned-to", help="Kept for somebody.")] = None,
    reviewer: Reviewer = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_ITEMS)] = 100,
    after: Annotated[str | None, typer.Option("--after", help="Go on behind this item.")] = None,
    as_json: AsJson = False,
) -> None:
    """Items on the desk, oldest first."""
    with connect() as client:
        found = client.reviews(
            queue=queue, state=state, limit=limit, assigned_to=assigned_to, reviewer=reviewer, after=after
        )
    if as_json:
        dump_all(found)
        return
    table(
        "",
        ("review", "queue", "state", "ladder", "candidate", "claimed by", "deadline"),
        (
            (
                item.id,
                item.queue,
                item.state,
                item.ladder,
                _candidate(item),
                item.claimed_by,
                f"{item.deadline:%Y-%m-%d %H:%M}" if item.deadline else "",
            )
            for item in found
        ),
    )


def _candidate(item: Review) -> str:
    return item.candidate if isinstance(item.candidate, str) else json.dumps(item.candidate)


@app.command(context_settings=ANY_ID)
def show(id: str, reviewer: Reviewer = None, as_json: AsJson = False) -> None:
    """One item with its evidence; with --reviewer, that somebody looked is noted."""
    with connect() as client:
        item = client.review(id, reviewer=reviewer)
    if as_json:
        dump(item)
        return
    _print(item)


def _print(item: Review) -> None:
    say(f"{item.id}: {item.state}, queue {item.queue}, {item.approvals} approval(s) needed")
    say(f"candidate: {plain(_candidate(item))}")
    say(f"asked for: {plain(item.prompt if isinstance(item.prompt, str) else json.dumps(item.prompt))}")
    rows = []
    for evidence in item.evidence:
        measured = "; ".join(
            f"{m.quantity} = {m.value:.4g}{f' ± {m.sigma:.2g}' if m.sigma is not None else ''} {m.unit}"
            for m in evidence.measurements
        )
        why = evidence.reason.message if evidence.reason is not None else ""
        rows.append((evidence.tier, evidence.provenance.verifier, evidence.verdict, measured, why))
    table("", ("tier", "verifier", "verdict", "measured", "reason"), rows)
    for vote in item.votes:
        say(f"vote: {vote.verdict} by {plain(vote.reviewer)} {plain(vote.reason)}".rstrip())


@app.command(context_settings=ANY_ID)
def claim(
    id: Annotated[str | None, typer.Argument(help="The next free item when left out.")] = None,
    queue: Annotated[str | None, typer.Option("--queue")] = None,
    minutes: Minutes = None,
    reviewer: Reviewer = None,
    as_json: AsJson = False,
) -> None:
    """Reserve an item and show it."""
    with connect() as client:
        item = client.claim(reviewer or whoami(), queue=queue, review=id, minutes=minutes)
    if item is None:
        if as_json:
            dump({"review": None})
        note("nothing is free to claim")
        return
    if as_json:
        dump(item)
        return
    _print(item)
    note(f"next: verifier reviews decide {item.id} accept|reject [--reason TEXT]")


def _measurement(text: str) -> ReviewMeasurement:
    found = MEASURED.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError(text)
        sigma = found["sigma"]
        return ReviewMeasurement(
            quantity=found["quantity"],
            value=float(found["value"]),
            unit=found["unit"],
            sigma=float(sigma) if sigma is not None else None,
        )
    except ValueError as error:
        raise typer.BadParameter("write 'QUANTITY=VALUE±SIGMA UNIT'", param_hint="--measured") from error


@app.command(context_settings=ANY_ID)
def decide(
    id: str,
    verdict: Annotated[str, typer.Argument(help="accept or reject")],
    reason: Annotated[str, typer.Option("--reason", help="Needed for a rejection.")] = "",
    measured: Annotated[
        list[str] | None, typer.Option("--measured", help="'QUANTITY=VALUE±SIGMA UNIT'; may be repeated.")
    ] = None,
    score: Annotated[
        list[str] | None, typer.Option("--score", help="'NAME=GRADE', as the form asks; may be repeated.")
    ] = None,
    comment: Annotated[str | None, typer.Option("--comment")] = None,
    human_s: Annotated[float | None, typer.Option("--human-seconds", min=0, help="Time it took.")] = None,
    reviewer: Reviewer = None,
    as_json: AsJson = False,
) -> None:
    """Accept or reject what is claimed. It can be undone with `release` until the grace has passed."""
    vote = _vote(verdict, reason)
    with connect() as client:
        decided = client.decide(
            id,
            reviewer=reviewer or whoami(),
            verdict=vote,
            reason=reason,
            measurements=[_measurement(text) for text in measured or ()],
            human_s=human_s,
            scores=dict(map(_score, score)) if score else None,
            comment=comment,
        )
    if as_json:
        dump(decided)
        return
    effective = decided.review.votes[-1].effective_at if decided.review.votes else None
    when = f"; takes effect at {effective:%H:%M:%S}" if effective is not None else ""
    say(f"{id}: {verdict}{'' if decided.created else ' (it was there already)'}{when}")


def _score(text: str) -> tuple[str, int]:
    name, _, grade = text.rpartition("=")
    if not name or re.fullmatch(r"[-+]?[0-9]+", grade) is None:
        raise typer.BadParameter("write 'NAME=GRADE'", param_hint="--score")
    return name, int(grade)


def _vote(verdict: str, reason: str) -> Literal["accept", "reject"]:
    if verdict == "accept":
        return "accept"
    if verdict != "reject":
        raise typer.BadParameter("accept or reject", param_hint="VERDICT")
    if not reason.strip():
        raise typer.BadParameter("a rejection needs a reason", param_hint="--reason")
    return "reject"


@app.command(context_settings=ANY_ID)
def release(id: str, reviewer: Reviewer = None, as_json: AsJson = False) -> None:
    """Give an item back, or undo a decision within its grace."""
    with connect() as client:
        item = client.release(id, reviewer=reviewer or whoami())
    if as_json:
        dump(item)
        return
    say(f"{item.id} is {item.state}")


@app.command(context_settings=ANY_ID)
def renew(id: str, minutes: Minutes = None, reviewer: Reviewer = None, as_json: AsJson = False) -> None:
    """Hold a claimed item for longer, from now."""
    with connect() as client:
        item = client.renew(id, reviewer=reviewer or whoami(), minutes=minutes)
    if as_json:
        dump(item)
        return
    say(f"{item.id} is yours until {item.claimed_until:%H:%M:%S}" if item.claimed_until else item.id)


@app.command(context_settings=ANY_ID)
def skip(
    id: str,
    reason: Annotated[str, typer.Option("--reason")],
    whom: Annotated[
        str, typer.Option("--for", help="me: not offered to me again; others: kept for me; back: unscored.")
    ] = "me",
    reviewer: Reviewer = None,
    as_json: AsJson = False,
) -> None:
    """Put a claimed item aside."""
    wanted: dict[str, Literal["me", "others", "back"]] = {"me": "me", "others": "others", "back": "back"}
    if whom not in wanted:
        raise typer.BadParameter("me, others or back", param_hint="--for")
    with connect() as client:
        item = client.skip(id, reviewer=reviewer or whoami(), reason=reason, whom=wanted[whom])
    if as_json:
        dump(item)
        return
    say(f"{item.id} is {item.state}")
