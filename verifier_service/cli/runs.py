"""``verifier runs``: budgets, spend, the end of a run and what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verifier_service.cli import retention
from verifier_service.cli.connection import connect, read_json
from verifier_service.cli.screen import AsJson, dump, dump_all, money, say, table
from verifier_service.domain.runs import Account, RunReport

app = typer.Typer(help="Runs: their budgets, spend and state; their archive and removal.")
app.command()(retention.archive)
app.command()(retention.purge)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All runs, newest first."""
    with connect() as client:
        found = client.runs()
    if as_json:
        dump_all(found)
        return
    table(
        "",
        ("run", "state", "created", "records", "compute", "human"),
        (
            (
                run.id,
                run.state,
                f"{run.created_at:%Y-%m-%d %H:%M}",
                run.feed,
                *(_budget(run.accounts, kind) for kind in ("compute", "human")),
            )
            for run in found
        ),
    )


def _budget(accounts: tuple[Account, ...], kind: str) -> str:
    account = next((one for one in accounts if one.kind == kind), None)
    if account is None:
        return ""
    limit = "no limit" if account.limit is None else money(account.limit)
    reserved = f" + {money(account.reserved)} reserved" if account.reserved else ""
    return f"{money(account.spent)}{reserved} of {limit}"


@app.command()
def show(id: str, as_json: AsJson = False) -> None:
    """One run: spend, and work per tier."""
    with connect() as client:
        report = client.run(id)
    if as_json:
        dump(report)
        return
    _print(report)


def _print(report: RunReport) -> None:
    run = report.run
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(report.statuses.items()))
    say(f"{run.id}: {run.state}; {report.trajectories} trajectories ({statuses})")
    for account in run.accounts:
        say(f"{account.kind}: {_budget(run.accounts, account.kind)} credits")
    table(
        "",
        (
            "tier",
            "held",
            "queued",
            "running",
            "with people",
            "done",
            "failed",
            "cancelled",
            "settled",
            "credits",
        ),
        (
            (
                line.tier,
                line.held,
                line.queued,
                line.running,
                line.waiting_external,
                line.succeeded,
                line.failed,
                line.cancelled,
                report.settled_per_tier.get(line.tier, 0),
                money(line.credits),
            )
            for line in report.tiers
        ),
    )


@app.command()
def close(id: str, as_json: AsJson = False) -> None:
    """End a run: nothing new is taken; every record becomes final at its best tier, or unscored."""
    with connect() as client:
        report = client.close_run(id)
    if as_json:
        dump(report)
        return
    _print(report)


@app.command()
def put(
    id: str,
    file: Annotated[Path | None, typer.Option("--file", help="The whole spec as JSON.")] = None,
    compute: Annotated[
        float | None, typer.Option("--compute", min=0, help="Compute budget, credits.")
    ] = None,
    human: Annotated[
        float | None, typer.Option("--human", min=0, help="Budget for people, credits.")
    ] = None,
    trajectories: Annotated[
        int | None, typer.Option("--trajectories", min=1, help="How many trajectories it must last for.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a run or set its budgets. An option that is left out is not limited."""
    spec: dict[str, Any] = read_json(file) if file is not None else {}
    budgets = {key: value for key, value in (("compute", compute), ("human", human)) if value is not None}
    if budgets:
        spec["budgets"] = {**spec.get("budgets", {}), **budgets}
    if trajectories is not None:
        spec["horizon"] = {**spec.get("horizon", {}), "trajectories": trajectories}
    with connect() as client:
        report = client.put_run(id, spec)
    if as_json:
        dump(report)
        return
    _print(report)
