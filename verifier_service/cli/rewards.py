"""``verifier rewards``: read or follow a run's feed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, number, plain, say, table
from verifier_service.client import Client
from verifier_service.domain.rewards import RewardRecord

COLUMNS = ("seq", "trajectory", "rev", "status", "reward", "±", "tier", "reason")


def rewards(
    run: Annotated[str, typer.Option("--run", help="The run to read.")] = "default",
    after: Annotated[int, typer.Option("--after", min=0, help="Start after this seq.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as records come; Ctrl-C ends.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many records.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show reward records in the order they were issued; a later revision supersedes an earlier one."""
    with connect() as client:
        records = islice(_feed(client, run, after, follow=follow), limit)
        if as_json:
            for record in records:
                dump(record)
        elif follow:
            for record in records:
                say(_line(record))
        else:
            table("", COLUMNS, (_row(record) for record in records))


def _feed(client: Client, run: str, after: int, *, follow: bool) -> Iterator[RewardRecord]:
    try:
        yield from client.follow(run, after=after, idle_s=None if follow else 0.0)
    except KeyboardInterrupt:
        if not follow:
            raise


def _row(record: RewardRecord) -> tuple[object, ...]:
    sd = None if record.variance is None else record.variance**0.5
    reason = record.reason
    why = "" if reason is None else f"{reason.code}/{reason.detail}" if reason.detail else str(reason.code)
    return (
        record.seq,
        record.trajectory,
        record.revision,
        record.status,
        number(record.reward),
        number(sd, 2),
        record.tier or "–",
        why,
    )


def _line(record: RewardRecord) -> str:
    seq, trajectory, revision, status, reward, sd, tier, why = (plain(cell) for cell in _row(record))
    return f"{seq:>6}  {trajectory}  rev {revision}  {status:<11}  {reward} ± {sd}  {tier}  {why}".rstrip()
