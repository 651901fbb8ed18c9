"""The command line, ``verifier``. Needs the ``cli`` extra; ``serve`` and ``demo`` need the server too."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Entry point of the ``verifier`` command."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"verifier: the command line needs {' and '.join(missing)}.\n"
            "Next: pip install 'verifier-service[cli]'\n"
        )
        sys.exit(1)
    from verifier_service.cli.application import app

    app(prog_name="verifier")
