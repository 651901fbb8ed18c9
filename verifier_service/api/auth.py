"""Who calls, and whether the key may: ``Authorization: Bearer KEY``, one scope per route.

The route that trainers call without a client of ours also takes the key as the password of HTTP Basic,
which their clients make of ``http://:KEY@host``.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
    SecurityScopes,
)

from verifier_service.api.context import InContext
from verifier_service.domain.errors import Forbidden, Unauthenticated
from verifier_service.domain.runs import Key

_BEARER = HTTPBearer(auto_error=False, description="An API key; it names the project.")
_BASIC = HTTPBasic(auto_error=False, description="An API key as the password; the name does not matter.")


async def caller(
    required: SecurityScopes,
    context: InContext,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Key:
    """The key of the caller. Raises ``Unauthenticated``, ``Forbidden`` when it lacks a scope, and
    ``Overloaded`` when it calls too often."""
    if sent is None:
        raise Unauthenticated("no_key", "send an API key as 'Authorization: Bearer KEY'")
    return await _allowed(required, context, sent.credentials)


async def plain_caller(
    required: SecurityScopes,
    context: InContext,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
    basic: Annotated[HTTPBasicCredentials | None, Depends(_BASIC)],
) -> Key:
    """As ``caller``, of clients that can send a key in their URL and no header."""
    token = sent.credentials if sent is not None else basic.password if basic is not None else ""
    if not token:
        raise Unauthenticated(
            "no_key", "send an API key as a bearer token or in the URL, 'http://:KEY@host'"
        )
    return await _allowed(required, context, token)


async def _allowed(required: SecurityScopes, context: InContext, token: str) -> Key:
    key = await context.keys.authenticate(token)
    held = {str(scope) for scope in key.scopes}
    missing = [scope for scope in required.scopes if scope not in held]
    if missing:
        raise Forbidden("missing_scope", f"this call needs a key with the scope {missing[0]!r}")
    context.admission.request(key)
    return key


Submitter = Annotated[Key, Security(caller, scopes=["submit"])]
PlainSubmitter = Annotated[Key, Security(plain_caller, scopes=["submit"])]
Reader = Annotated[Key, Security(caller, scopes=["read"])]
Reviewer = Annotated[Key, Security(caller, scopes=["review"])]
Operator = Annotated[Key, Security(caller, scopes=["operate"])]
Golden = Annotated[Key, Security(caller, scopes=["gold"])]
Admin = Annotated[Key, Security(caller, scopes=["admin"])]
