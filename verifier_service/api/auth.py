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
from verifier_service.domain.accounts import GRANTS, Right
from verifier_service.domain.errors import Forbidden, Unauthenticated
from verifier_service.domain.runs import Key, Scope

# What the owner of a key must be allowed by their role, besides what the key may.
RIGHTS = {
    Scope.REVIEW: Right.REVIEW,
    Scope.OPERATE: Right.OPERATE,
    Scope.ADMIN: Right.ADMINISTER,
    Scope.GOLD: Right.LEAD,
}

_BEARER = HTTPBearer(auto_error=False, description="An API key; it names the project.")
_BASIC = HTTPBasic(auto_error=False, description="An API key as the password; the name does not matter.")


async def caller(
    required: SecurityScopes,
    context: InContext,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Key:
    """The key of the caller. Raises ``Unauthenticated``, ``Forbidden`` when it lacks a scope or its owner
    the right, and ``Overloaded`` when it calls too often."""
    return await _allowed(required, context, _sent(sent))


async def leading_caller(
    required: SecurityScopes,
    context: InContext,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Key:
    """As ``caller``, where the desk is led: the owner of the key is one who leads."""
    return await _allowed(required, context, _sent(sent), Right.LEAD)


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


def _sent(sent: HTTPAuthorizationCredentials | None) -> str:
    if sent is None:
        raise Unauthenticated("no_key", "send an API key as 'Authorization: Bearer KEY'")
    return sent.credentials


async def _allowed(
    required: SecurityScopes, context: InContext, token: str, right: Right | None = None
) -> Key:
    known = await context.keys.authenticate(token)
    key = known.key
    held = {str(scope) for scope in key.scopes}
    missing = [scope for scope in required.scopes if scope not in held]
    if missing:
        raise Forbidden("missing_scope", f"this call needs a key with the scope {missing[0]!r}")
    if known.role is not None:
        needed = {right} if right is not None else {RIGHTS.get(Scope(scope)) for scope in required.scopes}
        if not needed - {None} <= GRANTS[known.role]:
            message = f"this key is {key.owner!r}'s, whose role, {known.role}, does not allow this"
            raise Forbidden("missing_right", message)
    context.admission.request(key)
    return key


Submitter = Annotated[Key, Security(caller, scopes=["submit"])]
PlainSubmitter = Annotated[Key, Security(plain_caller, scopes=["submit"])]
Reader = Annotated[Key, Security(caller, scopes=["read"])]
Reviewer = Annotated[Key, Security(caller, scopes=["review"])]
Operator = Annotated[Key, Security(caller, scopes=["operate"])]
Golden = Annotated[Key, Security(caller, scopes=["gold"])]
Admin = Annotated[Key, Security(caller, scopes=["admin"])]
DeskLead = Annotated[Key, Security(leading_caller, scopes=["operate"])]
DeskAdmin = Annotated[Key, Security(leading_caller, scopes=["admin"])]
