"""API keys of the caller's project."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from verifier_service.api.auth import Admin
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.envelopes import NewKey
from verifier_service.api.paths import KeyId
from verifier_service.api.problems import documented
from verifier_service.domain.runs import Key, Scope
from verifier_service.domain.wire import KeyCreated, KeyList

router = APIRouter(prefix="/v1/keys", tags=["keys"])


@router.post("", status_code=201, responses=documented(), openapi_extra=described(NewKey))
def create_key(
    caller: Admin, wanted: Annotated[NewKey, Depends(body_of(NewKey))], context: InContext
) -> KeyCreated:
    """Make a key; its token is shown this once and never stored. Scope: `admin`."""
    scopes = {Scope(scope) for scope in wanted.scopes}
    made = context.accounts.create_key(
        caller.project, wanted.name, scopes, f"key {caller.id}", wanted.owner
    )
    return KeyCreated(key=made.key, token=made.token)


@router.get("", responses=documented())
def list_keys(caller: Admin, context: InContext) -> KeyList:
    """All keys of the project, oldest first. Scope: `admin`."""
    with context.service.store.read() as tx:
        return KeyList(keys=tx.keys.of_project(caller.project))


@router.delete("/{key}", responses=documented(404))
def revoke_key(key: KeyId, caller: Admin, context: InContext) -> Key:
    """Revoke a key (idempotent). Other processes refuse it within 3 s. Scope: `admin`."""
    return context.accounts.revoke_key(caller.project, key, f"key {caller.id}")
