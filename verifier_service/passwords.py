"""Hashes of passwords with Argon2id (RFC 9106), never more at a time than the machine bears."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from verifier_service.domain.errors import Contended

AT_A_TIME = 2  # each takes 64 MiB
IN_LINE = 6  # of the threads that serve requests, those that may be held up here
PATIENCE_S = 10.0
# One limit for the process, whoever asks: a flood of sign-ins must leave room for the service.
_line = threading.BoundedSemaphore(IN_LINE)
_turns = threading.BoundedSemaphore(AT_A_TIME)


class Argon2Passwords:
    """See ``domain.passwords.Passwords``. The parameters are RFC 9106's second recommended option."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._nobody = ""
        self._making = threading.Lock()

    def hash(self, password: str) -> str:
        """A salted hash. Raises ``Contended`` when too many wait for one."""
        with _turn():
            return self._hasher.hash(password)

    def matches(self, stored: str | None, password: str) -> bool:
        """Whether ``stored`` is a hash of the password; as slow for nobody as for somebody."""
        against = stored or self._of_nobody()
        with _turn():
            try:
                return self._hasher.verify(against, password) and stored is not None
            except (VerificationError, InvalidHashError):
                return False

    def outdated(self, stored: str) -> bool:
        """Whether it was made with other parameters than those of today."""
        return self._hasher.check_needs_rehash(stored)

    def _of_nobody(self) -> str:
        with self._making:
            if not self._nobody:
                self._nobody = self.hash("nobody has this password")
            return self._nobody


@contextmanager
def _turn() -> Iterator[None]:
    busy = Contended("too_many_sign_ins", "too many people sign in at this moment; try again")
    if not _line.acquire(blocking=False):
        raise busy
    try:
        if not _turns.acquire(timeout=PATIENCE_S):
            raise busy
        try:
            yield
        finally:
            _turns.release()
    finally:
        _line.release()
