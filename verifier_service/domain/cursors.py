"""Positions in a list that is read page by page: opaque texts, so that what they mean may change."""

from __future__ import annotations

import base64
import binascii

from verifier_service.domain.errors import InvalidInput

MAX_CURSOR = 64
MAX_PK = 2**53


def cursor_of(pk: int) -> str:
    """The position behind a row."""
    return base64.urlsafe_b64encode(f"k{pk}".encode()).decode().rstrip("=")


def pk_of(cursor: str | None, field: str = "after") -> int | None:
    """The row behind which to go on; ``None`` at the beginning. Raises ``InvalidInput`` for other texts."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        pk = int(text.removeprefix(b"k")) if text[:1] == b"k" and text[1:].isdigit() else 0
    except (binascii.Error, ValueError):
        pk = 0
    if not 0 < pk <= MAX_PK:
        raise InvalidInput("bad_cursor", "send what the page before gave as `next`", field=field)
    return pk
