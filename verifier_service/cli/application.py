"""The commands, joined."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from verifier_service.cli import (
    checks,
    conformance,
    demo,
    keys,
    lab,
    ladders,
    retractions,
    review_queues,
    reviews,
    rewards,
    runs,
    server,
    settlements,
    submit,
    trial,
    users,
    webhooks,
    workers,
)
from verifier_service.cli.boundary import Boundary

EPILOG = (
    "The server is $VERIFIER_URL, else http://127.0.0.1:8321; the key is $VERIFIER_API_KEY, else the local "
    "server's admin.key. Exit codes: 0 it worked, 1 it failed, 2 wrong usage, 3 server not reachable."
)

app = typer.Typer(
    name="verifier",
    help="Multi-tier verification of agent trajectories: rewards with uncertainty, cost and reasons.",
    epilog=EPILOG,
    cls=Boundary,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        try:
            typer.echo(version("verifier-service"))
        except PackageNotFoundError:
            typer.echo("unknown: the package is not installed")
        raise typer.Exit


@app.callback()
def options(
    _show: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Multi-tier verification of agent trajectories: rewards with uncertainty, cost and reasons."""


app.command("serve")(server.serve)
app.command("worker")(server.worker)
app.command("demo")(demo.demo)
app.command("submit")(submit.submit)
app.command("rewards")(rewards.rewards)
app.command("try")(trial.try_)
app.command("conformance")(conformance.conformance)
app.add_typer(ladders.app, name="ladders", no_args_is_help=True)
app.command("verifiers")(ladders.verifiers)
app.add_typer(keys.app, name="keys", no_args_is_help=True)
app.add_typer(users.app, name="users", no_args_is_help=True)
app.add_typer(runs.app, name="runs", no_args_is_help=True)
review_queues.add_to(reviews.app)
app.add_typer(reviews.app, name="reviews", no_args_is_help=True)
app.add_typer(lab.app, name="lab", no_args_is_help=True)
app.command("settlements")(settlements.settlements)
app.add_typer(webhooks.app, name="webhooks", no_args_is_help=True)
app.add_typer(checks.app, name="checks", no_args_is_help=True)
app.command("workers")(workers.workers)
app.command("retract")(retractions.retract)
app.command("retractions")(retractions.retractions)
app.command("migrate")(server.migrate)
