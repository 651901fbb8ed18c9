"""Keys that were authenticated a moment ago."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable

from verifier_service.api.threads import in_thread
from verifier_service.domain.ports.store import Store
from verifier_service.services import tenants
from verifier_service.services.tenants import Known

TTL_S = 3.0
MAX_ENTRIES = 4_096


class KeyCache:
    """Remembers live keys for ``TTL_S``, so that a revocation by another process holds soon, and what
    becomes of an owner; by this process both hold at once (``forget``, ``forget_owner``), for looks that
    are under way as well.

    Concurrent callers with one token share one look into the database. Tokens are not kept, only their
    hashes; unknown and revoked ones are never remembered. Use it from one event loop at a time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, tuple[Known, float]] = {}
        self._asking: dict[bytes, asyncio.Task[Known]] = {}
        self._era = object()  # another one after each revocation

    async def authenticate(self, token: str) -> Known:
        """The live key behind a token. Raises ``Unauthenticated``."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = self._known.get(digest)
        if found is not None and found[1] > time.monotonic():
            return found[0]
        task = self._asking.get(digest)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.create_task(self._ask(digest, token))
            self._asking[digest] = task
            task.add_done_callback(self._asked(digest))
        return await asyncio.shield(task)

    def forget(self, key_id: str) -> None:
        """Drop a key that was just revoked. May be called from any thread."""
        self._drop(lambda known: known.key.id == key_id)

    def forget_owner(self, login: str) -> None:
        """Drop the keys of a user who was just changed. May be called from any thread."""
        self._drop(lambda known: known.key.owner == login)

    def _drop(self, concerned: Callable[[Known], bool]) -> None:
        self._era = object()
        self._asking.clear()  # who comes from now on asks anew
        for digest, (known, _) in list(self._known.items()):
            if concerned(known):
                self._known.pop(digest, None)

    async def _ask(self, digest: bytes, token: str) -> Known:
        asked, era = time.monotonic(), self._era
        known = await in_thread(self._find, token)
        if era is not self._era:  # it may be the one that was revoked meanwhile
            return known
        if len(self._known) >= MAX_ENTRIES:
            self._known.clear()
        self._known[digest] = (known, asked + TTL_S)
        return known

    def _asked(self, digest: bytes) -> Callable[[asyncio.Task[Known]], None]:
        def done(task: asyncio.Task[Known]) -> None:
            if self._asking.get(digest) is task:
                del self._asking[digest]
            if not task.cancelled():
                task.exception()  # whoever asked has it; a task whose askers left must not complain

        return done

    def _find(self, token: str) -> Known:
        with self._store.read() as tx:
            return tenants.authenticate(tx, token)
