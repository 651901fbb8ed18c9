"""Every error the service raises on purpose, and whether a retry can help.

HTTP status codes are not known here: ``api/problems.py`` maps these classes to them.
"""

from __future__ import annotations

from typing import ClassVar


class VerificationError(Exception):
    """Base of all domain errors: a stable ``code`` for machines, a message for people."""

    retryable: ClassVar[bool] = False

    def __init__(self, code: str, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class InvalidInput(VerificationError):
    """The caller sent something that can never be accepted; ``field`` names it."""


class LimitExceeded(InvalidInput):
    """An input beyond a limit of this server, which is named."""

    def __init__(self, code: str, message: str, *, limit: float, field: str | None = None) -> None:
        super().__init__(code, message, field=field)
        self.limit = limit


class NotFound(VerificationError):
    """The named thing does not exist in the caller's project."""


class Gone(NotFound):
    """The named thing existed and was removed for good."""


class Forbidden(VerificationError):
    """The key is known but lacks the scope the call needs."""


class Unauthenticated(VerificationError):
    """No key, or a key that is unknown or revoked."""


class Conflict(VerificationError):
    """The request contradicts what is already stored."""


class LeaseLost(Conflict):
    """A worker acted on a check whose lease (owner, fence) is no longer its own."""


class IllegalTransition(Conflict):
    """A state change that the transition table does not list."""


class Contended(VerificationError):
    """Another transaction, or something outside, was in the way; nothing was changed, and the same may be
    tried again."""

    retryable = True


class Unavailable(VerificationError):
    """The database does not answer. Whether what was sent to it has happened is not known: send it again
    where that is harmless."""

    retryable = True


class BudgetExhausted(VerificationError):
    """The run's ledger cannot cover the reservation."""


class VerifierFailure(VerificationError):
    """A verification that did not happen. Never a score."""

    kind: ClassVar[str] = "permanent"


class Transient(VerifierFailure):
    """Outside trouble that passes by itself (a dead child, a lost connection)."""

    kind = "transient"
    retryable = True


class Resource(VerifierFailure):
    """The attempt hit a memory limit or found no room on this worker."""

    kind = "resource"


class Permanent(VerifierFailure):
    """The method cannot judge this candidate (element outside the method, no convergence)."""

    kind = "permanent"


class TimedOut(VerifierFailure):
    """The attempt reached its time limit and was killed."""

    kind = "timed_out"


class TaskError(VerifierFailure):
    """The problem itself is broken (no reference, unparsable gold): nobody can be scored on it."""

    kind = "task_error"


class SignInRefused(Unauthenticated):
    """A wrong login or password, which of them is not said."""


class LockedOut(Unauthenticated):
    """Too many wrong sign-ins of this login or from this address; ``retry_after_s`` says for how long."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__("locked_out", message)
        self.retry_after_s = retry_after_s


class LinkRefused(NotFound):
    """A one-time link that was used, has expired or never was, or came from the wrong place."""
