"""Where the server is and which key to show, when the caller does not say."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

LOCAL_URL = "http://127.0.0.1:8321"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FOLDER = "verifier-service"


@dataclass(frozen=True, slots=True)
class Location:
    """A server and the key for it. ``loopback`` servers are never reached through a proxy."""

    url: str
    key: str | None
    loopback: bool


def locate(url: str | None, key: str | None, environ: Mapping[str, str] = os.environ) -> Location:
    """Fill in what is missing: ``$VERIFIER_URL`` or the local default; ``$VERIFIER_API_KEY`` or, for a
    server on this machine only, ``admin.key`` in its data folder. Raises ``ValueError`` for a URL that
    is not http(s) or a key that no header can carry."""
    chosen = (url or environ.get("VERIFIER_URL") or LOCAL_URL).rstrip("/")
    parts = urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http(s) URL: {chosen!r}")
    loopback = parts.hostname in LOOPBACK
    token = key or environ.get("VERIFIER_API_KEY")
    if token is None and loopback:
        token = _local_key(data_folder(environ))
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("the API key has characters that no header can carry")
    return Location(url=chosen, key=token, loopback=loopback)


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """``$VERIFIER_DATA``, else the user's data folder: the rules of platformdirs, which the base
    install does not have."""
    named = environ.get("VERIFIER_DATA")
    if named:
        return Path(named)
    home = Path.home()
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / FOLDER / FOLDER
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / FOLDER
    shared = environ.get("XDG_DATA_HOME", "").strip()
    return (Path(shared) if shared else home / ".local" / "share") / FOLDER


def _local_key(folder: Path) -> str | None:
    try:
        return (folder / "admin.key").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):  # another user's server, or none yet: the call will say 401
        return None
