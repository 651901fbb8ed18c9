"""Secrets that are shown once: 256 random bits, of which only a hash is stored."""

from __future__ import annotations

import hashlib
import secrets

SECRET_BYTES = 32


def new_token() -> str:
    """A new secret, in characters that stand in URLs and cookies as they are."""
    return secrets.token_urlsafe(SECRET_BYTES)


def token_hash(token: str) -> str:
    """SHA-256 suffices: a token is 256 random bits, not a password."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
