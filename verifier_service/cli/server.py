"""``verifier serve`` and ``verifier migrate``: the commands that need the server's parts."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verifier_service.cli.boundary import USAGE, Failed
from verifier_service.cli.screen import AsJson, dump, say
from verifier_service.domain.evidence import WORKED_TIERS

if TYPE_CHECKING:
    from verifier_service.settings import Settings

NEEDED = (
    "fastapi",
    "uvicorn",
    "sqlalchemy",
    "alembic",
    "pydantic_settings",
    "orjson",
    "structlog",
    "psutil",
    "prometheus_client",
    "jinja2",
    "argon2",
    "python_multipart",
)


def require_server() -> None:
    """Refuse with the extra to install when the server's libraries are not here."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Failed(
            f"a server needs {', '.join(missing)}",
            "pip install 'verifier-service[server]', or 'verifier-service[all]' with all chemistry tiers",
        )


def settings(**given: Any) -> Settings:
    """The settings: what was given on the command line goes before ``VERIFIER_*`` variables."""
    from pydantic import ValidationError

    from verifier_service.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        raise Failed(f"VERIFIER_{name}: {first['msg']}", "correct the setting", code=USAGE) from error


def serve(
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="[8321]")] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Data folder. [$VERIFIER_DATA, else the user's data folder]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Simulations and calculations at a time. [1]")
    ] = None,
) -> None:
    """Run the service on this machine: database, workers and API. The admin key is in DATA/admin.key."""
    require_server()
    chosen = settings(
        host=host, port=port, data=data.resolve() if data is not None else None, slow_workers=workers
    )
    from verifier_service import app

    try:
        app.serve(chosen)
    except app.CannotStart as error:
        raise Failed(str(error), "stop the other server, or choose another --data or --port") from error


def worker(
    tiers: Annotated[
        list[str], typer.Option("--tier", help="fast, simulation or high_fidelity; again for more.")
    ],
    at_a_time: Annotated[
        int | None, typer.Option("--workers", min=1, help="Simulations and calculations at a time. [1]")
    ] = None,
) -> None:
    """Run a Celery worker of one tier, or of several, on the shared database and broker."""
    require_server()
    if find_spec("celery") is None:
        raise Failed("a worker needs celery", "pip install 'verifier-service[distributed]'")
    known = [tier.value for tier in WORKED_TIERS]
    for tier in tiers:
        if tier not in known:
            raise Failed(f"--tier {tier!r}", f"choose from {', '.join(known)}", code=USAGE)
    if at_a_time is not None:
        os.environ["VERIFIER_SLOW_WORKERS"] = str(at_a_time)
    chosen = settings()
    if chosen.broker_url is None or chosen.database_url is None:
        raise Failed(
            "a worker shares a database and a broker with the server",
            "set VERIFIER_DATABASE_URL and VERIFIER_BROKER_URL as for `verifier serve`",
        )
    from verifier_service.worker.celery import app

    pool = ["-P", "threads", "-c", "1", "--without-gossip", "--without-mingle"]
    app.worker_main(["worker", "-Q", ",".join(tiers), *pool])


def migrate(
    data: Annotated[Path | None, typer.Option("--data", help="Data folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bring the database to this version. `serve` does it by itself; run this before several servers."""
    require_server()
    chosen = settings(data=data.resolve() if data is not None else None)
    from verifier_service.persistence import migrate as migrations

    chosen.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    migrations.upgrade(chosen.engine_url())
    shown = "its SQLite file" if chosen.database_url is None else "the configured database"
    if as_json:
        dump({"migrated": True, "data": str(chosen.data)})
        return
    say(
        f"{shown} is at this version ({chosen.data})"
        if chosen.database_url is None
        else f"{shown} is at this version"
    )
