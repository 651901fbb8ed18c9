"""Keys that were authenticated a moment ago."""

from __future__ import annotations

import hashlib
import threading
import time

from verifier_service.domain.ports.store import Store
from verifier_service.domain.runs import Key
from verifier_service.services import tenants

TTL_S = 3.0
MAX_ENTRIES = 4_096


class KeyCache:
    """Remembers live keys for ``TTL_S``, so that a revocation by another process holds soon.

    Tokens are not kept, only their hashes. Unknown and revoked tokens are never remembered.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, tuple[Key, float]] = {}
        self._lock = threading.Lock()

    def recall(self, token: str) -> Key | None:
        """The key of a token seen a moment ago."""
        found = self._known.get(_digest(token))
        return found[0] if found is not None and found[1] > time.monotonic() else None

    def authenticate(self, token: str) -> Key:
        """The live key behind a token, from the database. Raises ``Unauthenticated``."""
        with self._store.read() as tx:
            key = tenants.authenticate(tx, token)
        with self._lock:
            if len(self._known) >= MAX_ENTRIES:
                self._known.clear()
            self._known[_digest(token)] = (key, time.monotonic() + TTL_S)
        return key

    def forget(self, key_id: str) -> None:
        """Drop a key that was just revoked."""
        with self._lock:
            self._known = {digest: kept for digest, kept in self._known.items() if kept[0].id != key_id}


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
