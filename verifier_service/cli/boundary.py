"""The one place where an exception becomes a message, a next step and an exit code.

0 it worked, 1 it failed, 2 it was asked wrongly, 3 the server could not be reached.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from verifier_service.cli.screen import complain
from verifier_service.client import (
    CallRefused,
    NotAllowed,
    NotAuthenticated,
    ServerFailed,
    UnexpectedAnswer,
    VerifierUnavailable,
)

FAILED, USAGE, UNREACHABLE = 1, 2, 3

NEXT_STEPS: tuple[tuple[type[Exception], str], ...] = (
    (
        NotAuthenticated,
        "set VERIFIER_API_KEY, or VERIFIER_DATA to the folder of a local server (its admin.key is read)",
    ),
    (NotAllowed, "use a key with that scope: verifier keys create NAME --scope SCOPE (needs admin)"),
    (ServerFailed, "look at the server's log; the call may be repeated"),
    (UnexpectedAnswer, "check that VERIFIER_URL points at a verifier service and not at something else"),
)


class Failed(Exception):
    """A command that did not do what it was asked; ``next_step`` tells what to do about it."""

    def __init__(self, message: str, next_step: str | None = None, *, code: int = FAILED) -> None:
        super().__init__(message)
        self.next_step = next_step
        self.code = code


class Boundary(TyperGroup):
    """The top-level group: expected exceptions end here, others are bugs and keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and translate what it raises."""
        try:
            return super().invoke(ctx)
        except Failed as error:
            complain(str(error), error.next_step)
            raise typer.Exit(error.code) from error
        except VerifierUnavailable as error:
            complain(
                str(error), "start a server with `verifier serve`, or set VERIFIER_URL to one that runs"
            )
            raise typer.Exit(UNREACHABLE) from error
        except (CallRefused, UnexpectedAnswer) as error:
            step = next((text for kind, text in NEXT_STEPS if isinstance(error, kind)), None)
            complain(str(error), step)
            raise typer.Exit(FAILED) from error
