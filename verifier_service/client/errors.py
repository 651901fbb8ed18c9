"""What a call can raise. Everything else the server says comes back as a record."""

from __future__ import annotations

from verifier_service.domain.wire import ProblemDetail


class VerifierError(Exception):
    """Base of all errors of the client."""


class VerifierUnavailable(VerifierError):
    """The server did not answer within the retry budget.

    Nothing is known about the call: submit the same ids again, or query them. ``problem`` is the last
    refusal, when the server was there but busy.
    """

    def __init__(self, url: str, waited_s: float, cause: str, problem: ProblemDetail | None = None) -> None:
        super().__init__(f"no answer from {url} after {waited_s:.0f} s: {cause}")
        self.url = url
        self.waited_s = waited_s
        self.cause = cause
        self.problem = problem


class UnexpectedAnswer(VerifierError):
    """The server answered with something that is not what the API promises (another service, a proxy)."""


class CallRefused(VerifierError):
    """The server refused the call. ``problem`` is the body it sent."""

    def __init__(self, problem: ProblemDetail) -> None:
        where = f" (field {problem.field})" if problem.field else ""
        super().__init__(f"{problem.status} {problem.code}: {problem.detail or problem.title}{where}")
        self.problem = problem

    @property
    def status(self) -> int:
        """HTTP status."""
        return self.problem.status

    @property
    def code(self) -> str:
        """Stable code for programs."""
        return self.problem.code

    @property
    def detail(self) -> str:
        """A sentence for people."""
        return self.problem.detail

    @property
    def field(self) -> str | None:
        """The part of the request that was refused."""
        return self.problem.field


class InvalidRequest(CallRefused):
    """400 or 422: the request can never be accepted as it is."""


class NotAuthenticated(CallRefused):
    """401: no key, or one that is unknown or revoked."""


class NotAllowed(CallRefused):
    """403: the key lacks the scope."""


class NotFound(CallRefused):
    """404 or 410: no such thing in the key's project, or not any more."""


class Conflict(CallRefused):
    """409: the request contradicts what is stored."""


class TooLarge(CallRefused):
    """413: the body is larger than the server takes."""


class ServerFailed(CallRefused):
    """5xx that a retry is not expected to cure."""


REFUSALS: dict[int, type[CallRefused]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    410: NotFound,
    409: Conflict,
    413: TooLarge,
    422: InvalidRequest,
}


def refusal(problem: ProblemDetail) -> CallRefused:
    """The exception that stands for a problem body."""
    general = ServerFailed if problem.status >= 500 else CallRefused
    return REFUSALS.get(problem.status, general)(problem)
