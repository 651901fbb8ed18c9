"""One's own account: password, sessions, what the role may do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from verifier_service.bootstrap.accounts import Accounts
from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.forms import Filled, form_of
from verifier_service.dashboard.links import require_same
from verifier_service.dashboard.navigation import OWN_ACCOUNT
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import InOffice, InPlace, Visiting
from verifier_service.dashboard.sign_in import enter
from verifier_service.domain.accounts import GRANTS, Password, Viewer
from verifier_service.domain.errors import Conflict, InvalidInput, LockedOut, VerificationError
from verifier_service.domain.ports.accounts import Visit
from verifier_service.domain.records import Request as Form

router = APIRouter(prefix="/account")


class OwnPassword(Form):
    """A change of one's own password."""

    current: Password
    new: Password
    again: Password


class OneSession(Form):
    """Which session to end."""

    session: Annotated[int, Field(ge=1, le=2**62)]


@router.get("")
def account_page(request: Request, visit: Visiting, office: InOffice) -> Response:
    """Who one is here, and the sessions that live."""
    return _page(request, office.accounts, visit)


@router.post("/password")
def change_password(
    request: Request,
    visit: Visiting,
    sent: Annotated[Filled[OwnPassword], Depends(form_of(OwnPassword))],
    office: InOffice,
    place: InPlace,
) -> Response:
    """Set a new password; every other session ends, and this one gets a new token."""
    try:
        form = sent.read()
        require_same(form.new, form.again)
        opened = office.accounts.change_own_password(visit, form.current, form.new, place)
    except (InvalidInput, Conflict, LockedOut) as error:
        return _page(request, office.accounts, visit, error)
    return enter(request, opened, OWN_ACCOUNT, "Your password is changed. Your other sessions have ended.")


@router.post("/sessions/end")
def end_session(
    request: Request,
    visit: Visiting,
    sent: Annotated[Filled[OneSession], Depends(form_of(OneSession))],
    office: InOffice,
) -> Response:
    """End one of one's own sessions."""
    office.accounts.end_session(visit, sent.read().session)
    return redirect(request, OWN_ACCOUNT, "The session has ended.")


@router.post("/sessions/end-others")
def end_other_sessions(request: Request, visit: Visiting, office: InOffice) -> Response:
    """End all of one's sessions but this one."""
    count = office.accounts.log_out_everywhere(visit)
    return redirect(request, OWN_ACCOUNT, f"{count} other sessions have ended.")


def _page(
    request: Request, accounts: Accounts, visit: Visit, problem: VerificationError | None = None
) -> Response:
    return render(
        request,
        "account.html",
        Viewer.of(visit.user),
        status=200 if problem is None else status_of(problem),
        user=visit.user,
        rights=sorted(GRANTS[visit.user.role]),
        sessions=accounts.sessions(visit.user.login),
        current=visit.session.id,
        problem=problem,
    )
