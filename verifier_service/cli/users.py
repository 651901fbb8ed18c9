"""``verifier users``: the people who sign in to the pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verifier_service.cli.boundary import Failed
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, dump_all, note, say, table
from verifier_service.cli.server import require_server, settings
from verifier_service.domain.accounts import ROLES, User

if TYPE_CHECKING:
    from verifier_service.settings import Settings

app = typer.Typer(help="People who sign in to the pages. Needs the admin scope.")
ROLE_NAMES = tuple(str(role) for role in ROLES)
LINK_S = 900.0

Role = Annotated[str, typer.Option("--role", "-r", help=f"One of {', '.join(ROLE_NAMES)}.")]
AskPassword = Annotated[
    bool, typer.Option("--password", help="Ask for a password, or read it from standard input.")
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All users of the project."""
    with connect() as client:
        found = client.users()
    if as_json:
        dump_all(found)
        return
    rows = ((one.login, one.name, one.role, _signs_in(one), f"{one.created_at:%Y-%m-%d}") for one in found)
    table("", ("login", "name", "role", "signs in", "since"), rows)


@app.command()
def add(
    login: Annotated[str, typer.Argument(help="Small letters, digits and . _ @ + -")],
    role: Role,
    name: Annotated[str | None, typer.Option("--name", help="As others see it. [the login]")] = None,
    password: AskPassword = False,
    as_json: AsJson = False,
) -> None:
    """Add a user. Without --password an admin makes them a link, on the page Access or by `users link`."""
    chosen = _read_password() if password else None
    with connect() as client:
        user = client.add_user(login, name=name or login, role=_role(role), password=chosen)
    _show(user, "is added", as_json=as_json)


@app.command()
def role(
    login: str, role: Annotated[str, typer.Argument(help=", ".join(ROLE_NAMES))], as_json: AsJson = False
) -> None:
    """Give a user another role; their sessions end."""
    with connect() as client:
        user = client.change_user(login, role=_role(role))
    _show(user, f"is {user.role}", as_json=as_json)


@app.command()
def disable(login: str, as_json: AsJson = False) -> None:
    """Keep a user out; their sessions end at once."""
    with connect() as client:
        user = client.change_user(login, disabled=True)
    _show(user, "is disabled", as_json=as_json)


@app.command()
def enable(login: str, as_json: AsJson = False) -> None:
    """Let a disabled user in again."""
    with connect() as client:
        user = client.change_user(login, disabled=False)
    _show(user, "is enabled", as_json=as_json)


@app.command()
def password(login: str, as_json: AsJson = False) -> None:
    """Set a user's password, asked for or read from standard input; their sessions and lock-outs end."""
    chosen = _read_password()
    with connect() as client:
        user = client.change_user(login, password=chosen)
    _show(user, "has a new password", as_json=as_json)


@app.command()
def link(
    login: Annotated[
        str | None, typer.Argument(help="Whose password to set. [the first admin, to be made]")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Data folder of the server.")] = None,
) -> None:
    """Print a one-time link, valid for 15 minutes. It needs no key, but the server's data folder.

    Without a login it makes the first admin, where there is none, in a browser on the server's machine.
    """
    require_server()
    chosen = settings(data=data.resolve() if data is not None else None)
    from verifier_service.domain.errors import VerificationError

    try:
        say(_link(chosen, login))
    except VerificationError as error:
        raise Failed(error.message, "look at `verifier users list`") from error
    note("it works once, within 15 minutes")


def _link(chosen: Settings, login: str | None) -> str:
    from verifier_service.bootstrap.accounts import base_url, setup_url
    from verifier_service.persistence import migrate
    from verifier_service.persistence.engine import create_store
    from verifier_service.services import accounts

    url = chosen.engine_url()
    if not migrate.is_current(url):
        raise Failed(
            f"there is no database of this version in {chosen.data}", "start `verifier serve` once"
        )
    store = create_store(url)
    try:
        with store.begin() as tx:
            if login is None:
                token = accounts.make_setup_link(tx, chosen.project)
                if token is None:
                    raise Failed("there is an admin already", "name the login whose password to set")
                return setup_url(base_url(chosen), token)
            found = tx.users.find(login)
            project = chosen.project if found is None else found.user.project
            token = accounts.make_link(tx, project, login, "verifier users link", LINK_S)
            accounts.unlock(tx, login)
            return f"{base_url(chosen)}/ui/password?token={token}"
    finally:
        store.close()


def _role(wanted: str) -> str:
    if wanted not in ROLE_NAMES:
        raise typer.BadParameter(f"{wanted}: the roles are {', '.join(ROLE_NAMES)}", param_hint="role")
    return wanted


def _read_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))


def _signs_in(user: User) -> str:
    if user.disabled_at is not None:
        return "no, disabled"
    if user.issuer is not None:
        return f"through {user.issuer}"
    return "with a password" if user.has_password else "not yet, needs a link"


def _show(user: User, what: str, *, as_json: bool) -> None:
    if as_json:
        dump(user)
    else:
        say(f"{user.login} {what}")
