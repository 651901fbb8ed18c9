"""What the demo shows while it works: one line per tier, from the server's own report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table

from verifier_service.cli.screen import console, money, note
from verifier_service.domain.runs import RunReport

NOTE_EVERY_S = 15.0
Show = Callable[[RunReport, str], None]


@contextmanager
def progress() -> Iterator[Show]:
    """A function to call with every report: a live table on a terminal, else a line now and then."""
    began = time.monotonic()
    if sys.stderr.isatty():
        with Live(console=console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield lambda report, doing: live.update(picture(report, doing, time.monotonic() - began))
        return
    last = [-NOTE_EVERY_S]

    def show(report: RunReport, doing: str) -> None:
        elapsed = time.monotonic() - began
        if elapsed - last[0] >= NOTE_EVERY_S:
            last[0] = elapsed
            note(f"{elapsed:4.0f} s  {doing}: {line(report)}")

    yield show


def picture(report: RunReport, doing: str, elapsed_s: float) -> Table:
    """The table per tier."""
    grid = Table(title=f"{doing} – {elapsed_s:.0f} s", title_justify="left", caption=_footer(report))
    grid.caption_justify = "left"
    grid.add_column("tier")
    for column in ("held", "queued", "running", "with people", "done", "failed", "credits"):
        grid.add_column(column, justify="right")
    for tier in report.tiers:
        counts = (
            tier.held,
            tier.queued,
            tier.running,
            tier.waiting_external,
            tier.succeeded,
            tier.failed,
        )
        grid.add_row(tier.tier, *(str(count or "·") for count in counts), money(tier.credits))
    return grid


def _footer(report: RunReport) -> str:
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(report.statuses.items()))
    spent = ", ".join(
        f"{account.kind} {money(account.spent)} of {money(account.limit)}"
        for account in report.run.accounts
    )
    return f"{report.run.feed} reward records; {statuses or 'nothing yet'}\nspent: {spent} credits"


def line(report: RunReport) -> str:
    """The report in one line."""
    tiers = "; ".join(
        f"{tier.tier} {tier.succeeded} done, {tier.queued + tier.running} to do" for tier in report.tiers
    )
    return f"{report.run.feed} records; {tiers}"
