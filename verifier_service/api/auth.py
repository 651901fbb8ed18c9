"""Who calls, and whether the key may: ``Authorization: Bearer KEY``, one scope per route."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from verifier_service.api.context import InContext
from verifier_service.domain.errors import Forbidden, Unauthenticated
from verifier_service.domain.runs import Key

_BEARER = HTTPBearer(auto_error=False, description="An API key; it names the project.")


async def caller(
    required: SecurityScopes,
    context: InContext,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Key:
    """The key of the caller. Raises ``Unauthenticated``, or ``Forbidden`` when it lacks a scope."""
    if sent is None:
        raise Unauthenticated("no_key", "send an API key as 'Authorization: Bearer KEY'")
    key = await context.keys.authenticate(sent.credentials)
    held = {str(scope) for scope in key.scopes}
    missing = [scope for scope in required.scopes if scope not in held]
    if missing:
        raise Forbidden("missing_scope", f"this call needs a key with the scope {missing[0]!r}")
    return key


Submitter = Annotated[Key, Security(caller, scopes=["submit"])]
Reader = Annotated[Key, Security(caller, scopes=["read"])]
Reviewer = Annotated[Key, Security(caller, scopes=["review"])]
Operator = Annotated[Key, Security(caller, scopes=["operate"])]
Admin = Annotated[Key, Security(caller, scopes=["admin"])]
