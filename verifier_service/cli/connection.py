"""Connecting a command to a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verifier_service.cli.boundary import FAILED, USAGE, Failed
from verifier_service.client import Client

RETRY_S = 10.0


def connect() -> Client:
    """A client for ``$VERIFIER_URL`` or the local server. Someone is watching, so it gives up early."""
    try:
        return Client(retry_s=RETRY_S)
    except ValueError as error:
        raise Failed(str(error), "check VERIFIER_URL and VERIFIER_API_KEY", code=USAGE) from error


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Failed(f"{file}: {error}", code=FAILED) from error
    if not isinstance(value, dict):
        raise Failed(f"{file}: a JSON object is needed, not a {type(value).__name__}")
    return value
