"""People of the caller's project, who sign in to the pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from verifier_service.api.auth import Admin
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import LoginName
from verifier_service.api.problems import documented
from verifier_service.domain.accounts import NewUser, User, UserChange
from verifier_service.domain.runs import Key
from verifier_service.domain.wire import UserList

router = APIRouter(prefix="/v1/users", tags=["users"])


@router.get("", responses=documented())
def list_users(caller: Admin, context: InContext) -> UserList:
    """All users of the project, by login, without secrets. Scope: `admin`."""
    with context.service.store.read() as tx:
        return UserList(users=tx.users.of_project(caller.project))


@router.post("", status_code=201, responses=documented(409), openapi_extra=described(NewUser))
def add_user(
    caller: Admin, wanted: Annotated[NewUser, Depends(body_of(NewUser))], context: InContext
) -> User:
    """Add a user. Without a password they need a link, see `verifier users link`. Scope: `admin`."""
    return context.accounts.add(caller.project, wanted, _by(caller))


@router.patch("/{login}", responses=documented(404, 409), openapi_extra=described(UserChange))
def change_user(
    login: LoginName,
    caller: Admin,
    wanted: Annotated[UserChange, Depends(body_of(UserChange))],
    context: InContext,
) -> User:
    """Change name, role or password, disable or enable. A new role, a new password and disabling end the
    user's sessions at once; the last admin stays one. Scope: `admin`."""
    return context.accounts.change(caller.project, login, wanted, _by(caller))


def _by(key: Key) -> str:
    return f"key {key.id}"
