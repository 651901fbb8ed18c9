"""Who may come in: users and their roles, API keys, and the trail of what was changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.links import link_to
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import Administering, InOffice, Office
from verifier_service.domain.accounts import ROLES, Login, Name, NewUser, RoleName, UserChange, Viewer
from verifier_service.domain.errors import Conflict, InvalidInput
from verifier_service.domain.records import Request as Form
from verifier_service.domain.runs import Scope
from verifier_service.domain.trajectories import Identifier

router = APIRouter(prefix="/access")

PATH = "/ui/access"
TRAIL = 50
SCOPES = {
    Scope.SUBMIT: "send trajectories",
    Scope.READ: "read rewards and cases",
    Scope.REVIEW: "judge on the desk",
    Scope.OPERATE: "budgets, workers, retractions",
    Scope.ADMIN: "ladders, keys, users",
    Scope.GOLD: "see references",
}


class Added(Form):
    """The form for a new user, who sets the password through a link."""

    login: Login
    name: Name
    role: RoleName


class Changed(Form):
    """What to change of a user."""

    login: Login
    name: Name | None = None
    role: RoleName | None = None
    state: Literal["enabled", "disabled"] | None = None


class Named(Form):
    """Which user."""

    login: Login


class NewKey(Form):
    """The form for a key."""

    key_name: Name
    owner: Login | None = None
    scopes: Annotated[
        tuple[Literal["submit", "read", "review", "operate", "admin", "gold"], ...],
        Field(strict=False, min_length=1, max_length=10, description="choose at least one scope"),
    ]


class NamedKey(Form):
    """Which key."""

    key: Identifier


@router.get("")
def access_page(request: Request, viewer: Administering, office: InOffice) -> Response:
    """Users, keys, and the trail of the project."""
    return _page(request, viewer, office)


@router.post("/users")
def add_user(
    request: Request,
    viewer: Administering,
    sent: Annotated[Filled[Added], Depends(form_of(Added))],
    office: InOffice,
) -> Response:
    """Add a user, and show once the link with which they set their password."""
    try:
        form = sent.read()
        wanted = NewUser(login=form.login, name=form.name, role=form.role)
        user = office.accounts.add(viewer.project, wanted, viewer.login)
    except (InvalidInput, Conflict) as error:
        return _page(request, viewer, office, status_of(error), user_problem=error, filled=sent.raw)
    return _show_link(request, viewer, office, user.login)


@router.post("/users/change")
def change_user(
    request: Request,
    viewer: Administering,
    sent: Annotated[Filled[Changed], Depends(form_of(Changed))],
    office: InOffice,
) -> Response:
    """Change a user's name or role, disable or enable."""
    form = sent.read()
    disabled = None if form.state is None else form.state == "disabled"
    wanted = UserChange(name=form.name, role=form.role, disabled=disabled)
    user = office.accounts.change(viewer.project, form.login, wanted, viewer.login)
    now = "disabled" if user.disabled_at else f"now {user.role}"
    return redirect(request, PATH, f"{user.login} is {now}.")


@router.post("/users/link")
def make_link(
    request: Request,
    viewer: Administering,
    sent: Annotated[Filled[Named], Depends(form_of(Named))],
    office: InOffice,
) -> Response:
    """A one-time link with which a user sets a new password."""
    return _show_link(request, viewer, office, sent.read().login)


@router.post("/keys")
def create_key(
    request: Request,
    viewer: Administering,
    sent: Annotated[Filled[NewKey], Depends(form_of(NewKey))],
    office: InOffice,
) -> Response:
    """Make a key, and show its token once."""
    try:
        form = sent.read()
        scopes = {Scope(scope) for scope in form.scopes}
        made = office.accounts.create_key(viewer.project, form.key_name, scopes, viewer.login, form.owner)
    except InvalidInput as error:
        return _page(request, viewer, office, status_of(error), key_problem=error, filled=sent.raw)
    about = f"The key {made.key.id} ({made.key.name}) may: {', '.join(sorted(made.key.scopes))}."
    if form.owner is not None:
        about += f" Whoever reviews through it is {form.owner}, who judges nothing that is submitted by it."
    return render(request, "secret.html", viewer, title="A new key", about=about, secret=made.token)


@router.post("/keys/revoke")
def revoke_key(
    request: Request,
    viewer: Administering,
    sent: Annotated[Filled[NamedKey], Depends(form_of(NamedKey))],
    office: InOffice,
) -> Response:
    """Revoke a key (idempotent): refused at once by this process, within seconds by others."""
    key = office.accounts.revoke_key(viewer.project, sent.read().key, viewer.login)
    return redirect(request, PATH, f"The key {key.id} ({key.name}) is revoked.")


def _show_link(request: Request, viewer: Viewer, office: Office, login: str) -> Response:
    token = office.accounts.make_link(viewer.project, login, viewer.login)
    about = (
        f"Give this link to {login}. It sets a new password, works once and for a day, and replaces "
        "earlier links. Whoever has it can sign in as them."
    )
    link = link_to(request, "password", token)
    return render(
        request, "secret.html", viewer, title="A link to set a password", about=about, secret=link
    )


def _page(request: Request, viewer: Viewer, office: Office, status: int = 200, **found: Any) -> Response:
    with office.service.store.read() as tx:
        users = tx.users.of_project(viewer.project)
        keys = tx.keys.of_project(viewer.project)
        trail = tx.users.events(viewer.project, TRAIL)
    given = {"user_problem": None, "key_problem": None, "filled": {}, **found}
    page = {"users": users, "keys": keys, "trail": trail, "roles": ROLES, "scopes": SCOPES, **given}
    return render(request, "access.html", viewer, status=status, **page)
