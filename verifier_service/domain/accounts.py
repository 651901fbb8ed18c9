"""People: users with a role, what a role may, and the sessions in which pages know them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from verifier_service.domain.records import OpenEnum, Record, Request

LOGIN_PATTERN = r"^[a-z0-9][a-z0-9._@+\-]{0,63}$"
# One line of text: no control characters, and none that turn the direction of what follows.
NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,100}$"
MIN_PASSWORD, MAX_PASSWORD = 12, 256

_LOGIN = "1 to 64 small letters, digits and . _ @ + -, beginning with a letter or digit"
_NAME = "1 to 100 characters on one line"
Login = Annotated[str, Field(pattern=LOGIN_PATTERN, description=_LOGIN)]
Name = Annotated[str, Field(pattern=NAME_PATTERN, description=_NAME)]
_Secret = Annotated[str, Field(min_length=1, max_length=MAX_PASSWORD)]
Password = Annotated[_Secret, Field(repr=False)]
MaybePassword = Annotated[_Secret | None, Field(repr=False)]
RoleName: TypeAlias = Literal["reviewer", "lead", "operator", "admin"]


class Role(OpenEnum):
    """What a person is here for. ``GRANTS`` says what each may."""

    REVIEWER = "reviewer"
    LEAD = "lead"
    OPERATOR = "operator"
    ADMIN = "admin"
    OTHER = "other"


class Right(StrEnum):
    """What pages and routes ask for; nobody compares names of roles."""

    REVIEW = "review"  # the desk: claim, judge, undo
    LEAD = "lead"  # assign, withdraw, take decisions back, agreement, the trail
    OBSERVE = "observe"  # runs, cases, trust
    OPERATE = "operate"  # operations, budgets, files of laboratories
    ADMINISTER = "administer"  # users, keys, retractions


GRANTS: Mapping[Role, frozenset[Right]] = {
    Role.REVIEWER: frozenset({Right.REVIEW}),
    Role.LEAD: frozenset({Right.REVIEW, Right.LEAD}),
    Role.OPERATOR: frozenset({Right.OBSERVE, Right.OPERATE}),
    Role.ADMIN: frozenset(Right),
    Role.OTHER: frozenset(),
}
ROLES: tuple[Role, ...] = tuple(role for role in Role if role is not Role.OTHER)


class User(Record):
    """A person as stored, without secrets. ``issuer`` is the provider through which they sign in."""

    login: str
    name: str
    role: Role
    project: str
    has_password: bool = False
    issuer: str | None = None
    created_at: datetime
    disabled_at: datetime | None = None


class Session(Record):
    """A sign-in that lives, as its owner sees it. ``seen_at`` is written at most once a minute."""

    id: int
    login: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str
    agent: str


class Viewer(Record):
    """The person for whom a page is made."""

    login: str
    name: str
    role: Role
    project: str

    @classmethod
    def of(cls, user: User) -> Viewer:
        """The same person, as pages need them."""
        return cls(login=user.login, name=user.name, role=user.role, project=user.project)

    def may(self, right: Right) -> bool:
        """Whether the role grants it."""
        return right in GRANTS[self.role]


class AccountAction(OpenEnum):
    """What was done to an account."""

    CREATED = "created"
    RENAMED = "renamed"
    ROLE = "role"
    DISABLED = "disabled"
    ENABLED = "enabled"
    PASSWORD = "password"  # noqa: S105 - the name of an action
    LINK = "link"
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"
    SIGNED_OUT = "signed_out"
    OTHER = "other"


class AccountEvent(Record):
    """One line of the trail: who did what to whom. ``subject`` is a login, or the id of a key."""

    at: datetime
    by: str
    action: AccountAction
    subject: str
    detail: str = ""


class NewUser(Request):
    """A person to add. Without a password they set one through a link."""

    login: Login
    name: Name
    role: RoleName
    password: MaybePassword = None


class UserChange(Request):
    """What to change of a user; what is left out stays."""

    name: Name | None = None
    role: RoleName | None = None
    disabled: bool | None = None
    password: MaybePassword = None


class TicketKind(StrEnum):
    """What a one-time token is good for."""

    SETUP = "setup"
    PASSWORD = "password"  # noqa: S105 - the name of a kind
