"""Client of the verification service: ``Client`` for threads, ``AsyncClient`` for event loops.

Needs pydantic and httpx, and nothing of the server.
"""

from verifier_service.client.batches import Submission, name
from verifier_service.client.blocking import Client
from verifier_service.client.concurrent import AsyncClient
from verifier_service.client.errors import (
    CallRefused,
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerFailed,
    TooLarge,
    UnexpectedAnswer,
    VerifierError,
    VerifierUnavailable,
)
from verifier_service.client.joint import Joint
from verifier_service.client.waiting import Wait

__all__ = [
    "AsyncClient",
    "CallRefused",
    "Client",
    "Conflict",
    "InvalidRequest",
    "Joint",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "ServerFailed",
    "Submission",
    "TooLarge",
    "UnexpectedAnswer",
    "VerifierError",
    "VerifierUnavailable",
    "Wait",
    "name",
]
