"""The page of one trajectory: what was asked, found, decided and issued, and what it waits for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from verifier_service.bootstrap import Service
from verifier_service.bootstrap.operations import cancel_trajectories, only
from verifier_service.dashboard.case_view import Told, cost_words, decision_words, told, when
from verifier_service.dashboard.ids import PathId
from verifier_service.dashboard.pages import case_path, redirect, render
from verifier_service.dashboard.sessions import InService, Observing, Operating
from verifier_service.dashboard.turns import portion, whole
from verifier_service.domain.errors import NotFound
from verifier_service.domain.operations import ActStatus
from verifier_service.domain.trajectories import MAX_TURNS
from verifier_service.services.inspect_case import whole_case

router = APIRouter(prefix="/runs/{run}/trajectories/{trajectory}")

Number = Annotated[int, Query(ge=0, le=MAX_TURNS)]


@router.get("")
def case_page(
    request: Request, run: PathId, trajectory: PathId, viewer: Observing, service: InService
) -> Response:
    """Everything that is known about one trajectory, except its reference."""
    return _shown(request, "case.html", viewer, service, run, trajectory)


@router.get("/state")
def state_panel(
    request: Request, run: PathId, trajectory: PathId, viewer: Observing, service: InService
) -> Response:
    """How the trajectory stands, what it waits for, and its revisions: renewed as they come."""
    return _shown(request, "_case_state.html", viewer, service, run, trajectory)


@router.get("/checks")
def checks_panel(
    request: Request, run: PathId, trajectory: PathId, viewer: Observing, service: InService
) -> Response:
    """Checks with their attempts, renewed as they go on."""
    return _shown(request, "_case_checks.html", viewer, service, run, trajectory)


@router.get("/turns")
def more_turns(
    request: Request,
    run: PathId,
    trajectory: PathId,
    viewer: Observing,
    service: InService,
    after: Number = 0,
    only: Annotated[int | None, Query(ge=1, le=MAX_TURNS)] = None,
) -> Response:
    """The next turns, or one of them with its texts in full: a part of the page."""
    with service.store.read() as tx:
        found = tx.trajectories.find(viewer.project, run, [trajectory])
        if trajectory not in found:
            raise NotFound("unknown_trajectory", f"run {run!r} has no trajectory {trajectory!r}")
        pk = found[trajectory].pk
        turns = tx.trajectories.bodies([pk])[pk].turns
    turns_at = f"{case_path((run, trajectory))}/turns"
    if only is None:
        return render(request, "_turns.html", viewer, portion=portion(0, turns, after), turns_at=turns_at)
    turn = whole(turns, only)
    if turn is None:
        raise NotFound("no_such_turn", "there is no such turn")
    return render(request, "_turn.html", viewer, turn=turn, turns_at=turns_at, trajectory=0)


@router.post("/cancel")
def cancel(
    request: Request, run: PathId, trajectory: PathId, viewer: Operating, service: InService
) -> Response:
    """Cancel the trajectory: what is still wanted for it is withdrawn."""
    result = only(cancel_trajectories(service, viewer.project, run, [trajectory]))
    done = result.status is ActStatus.DONE
    said = "The trajectory is cancelled." if done else "It had been cancelled before."
    return redirect(request, case_path((run, trajectory)), said)


def _shown(
    request: Request, template: str, viewer: Observing, service: Service, run: str, trajectory: str
) -> Response:
    with service.store.read() as tx:
        found = whole_case(tx, service.catalog, viewer.project, run, trajectory)
        now = tx.now()
    seen: Told = told(found, now)
    return render(
        request,
        template,
        viewer,
        case=seen,
        standing=found.case.standing,
        body=found.body,
        page=case_path((run, trajectory)),
        candidate=seen.candidate,
        drawing=seen.drawing,
        evidence=seen.evidence,
        measured=seen.measured,
        cost_words=cost_words,
        decision_words=decision_words,
        when=when,
    )
