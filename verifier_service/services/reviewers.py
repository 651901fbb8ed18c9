"""Who may judge: people of the project, and names that keys without an owner speak for."""

from __future__ import annotations

from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ports.store import Transaction


def require_reviewer(tx: Transaction, project: str, name: str, *, field: str) -> None:
    """Raise ``InvalidInput`` unless somebody of this name may judge items of the project.

    That is a user who is not disabled and whose role may review. Who has no account is known by having
    claimed or decided something here before, through a key without an owner.
    """
    found = tx.users.find(name, project)
    if found is not None:
        if found.user.disabled_at is not None:
            raise InvalidInput("reviewer_disabled", f"the account of {name!r} is disabled", field=field)
        if not Viewer.of(found.user).may(Right.REVIEW):
            message = f"{name!r} is {found.user.role}, which may not review"
            raise InvalidInput("not_a_reviewer", message, field=field)
        return
    if not tx.reviews.known(project, name):
        message = f"nobody here is called {name!r}: no user, nobody who has reviewed before"
        raise InvalidInput("no_such_reviewer", message, field=field)
