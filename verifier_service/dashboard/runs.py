"""Runs: the list, and one run with its trajectories page by page; panels load and renew themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Query, Request, Response

from verifier_service.bootstrap import overviews
from verifier_service.dashboard import run_figures
from verifier_service.dashboard.ids import PathId
from verifier_service.dashboard.pages import COUNTING, render
from verifier_service.dashboard.run_figures import Figure
from verifier_service.dashboard.sessions import InService, Observing
from verifier_service.domain.accounts import Viewer
from verifier_service.domain.cursors import MAX_CURSOR, pk_of
from verifier_service.domain.listings import GroupPrefix, ListedStatus
from verifier_service.services import overview

router = APIRouter()

T = TypeVar("T")

LINES = 50
RUNS = 200
STATUSES = ("pending", "unscored", "provisional", "final", "retracted")
PANELS = {
    "flow": "Flow through the tiers",
    "spend": "Spend against budget",
    "rewards": "Rewards",
    "price": "Price of a credit",
    "curve": "What credits were expected to bring",
}


@router.get("/runs")
def runs_page(request: Request, viewer: Observing, service: InService) -> Response:
    """The project's runs, newest first, and what is queued."""
    with service.store.read() as tx:
        found = tx.runs.of_project(viewer.project)
    return render(request, "runs.html", viewer, runs=found[:RUNS], hidden=max(0, len(found) - RUNS))


@router.get("/runs/queues")
def queues_panel(request: Request, viewer: Observing, service: InService) -> Response:
    """What is queued, runs and waits, by tier."""
    seen = overviews.queues(service, viewer.project).soon()
    if seen is None:
        return render(request, COUNTING, viewer)
    return render(request, "_queues.html", viewer, queues=seen.value.queues, seen=seen)


@router.get("/runs/{run}")
def run_page(
    request: Request,
    run: PathId,
    viewer: Observing,
    service: InService,
    after: Annotated[str | None, Query(max_length=MAX_CURSOR)] = None,
    status: ListedStatus | Literal[""] = "",
    group: GroupPrefix | Literal[""] = "",
) -> Response:
    """One run: its trajectories, and places for its panels, which come later."""
    with service.store.read() as tx:
        stored = tx.runs.get(viewer.project, run)
        page = overview.trajectories(
            tx,
            viewer.project,
            run,
            after=pk_of(after),
            limit=LINES,
            status=status or None,
            group=group or None,
        )
    return render(
        request,
        "run.html",
        viewer,
        run=stored,
        page=page,
        panels=PANELS,
        statuses=STATUSES,
        chosen=status,
        group=group,
        after=after or "",
    )


@router.get("/runs/{run}/panels/flow")
def flow_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """Checks of each tier by state, and records by status."""
    return _panel(request, viewer, overviews.report(service, viewer.project, run), run_figures.flow)


@router.get("/runs/{run}/panels/rewards")
def rewards_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """The histogram of rewards."""
    return _panel(
        request, viewer, overviews.distribution(service, viewer.project, run), run_figures.rewards
    )


@router.get("/runs/{run}/panels/spend")
def spend_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """Spend against budget, and over time."""
    return _panel(request, viewer, overviews.spending(service, viewer.project, run), run_figures.spend)


@router.get("/runs/{run}/panels/price")
def price_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """What a credit had to buy, over time."""
    return _panel(request, viewer, overviews.spending(service, viewer.project, run), run_figures.price)


@router.get("/runs/{run}/panels/curve")
def curve_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """Expected worth against credits, and what sending everything to one tier would have cost."""
    return _panel(request, viewer, overviews.economics(service, viewer.project, run), run_figures.curve)


def _panel(
    request: Request, viewer: Viewer, known: overviews.Figure[T], drawn: Callable[[T], Figure]
) -> Response:
    """The figure as it was counted last; while the first count goes on, words that say so."""
    seen = known.soon()
    if seen is None:
        return render(request, COUNTING, viewer)
    return render(request, "_figure.html", viewer, figure=drawn(seen.value), seen=seen)
