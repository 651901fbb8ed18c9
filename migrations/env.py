"""Runs migrations on the connection that the caller opened (see ``persistence/migrate.py``), or, for
the ``alembic`` command of a developer, on ``-x url=…``."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from verifier_service.persistence.engine import open_engines
from verifier_service.persistence.tables import metadata


def run(connection: Connection) -> None:
    """Migrate within the caller's transaction."""
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    writer, _ = open_engines(context.get_x_argument(as_dictionary=True)["url"])
    with writer.begin() as opened:
        run(opened)
    writer.dispose()
