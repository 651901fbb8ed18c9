"""Runs: the list, and one run with its trajectories page by page; panels load and renew themselves."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from verifier_service.bootstrap import overviews
from verifier_service.dashboard import run_figures
from verifier_service.dashboard.ids import PathId
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import InService, Observing
from verifier_service.domain.cursors import MAX_CURSOR, pk_of
from verifier_service.domain.listings import GroupPrefix, ListedStatus
from verifier_service.services import overview

router = APIRouter()

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
    seen = overviews.queues(service, viewer.project)
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
    seen = overviews.report(service, viewer.project, run)
    figure = run_figures.flow(seen.value)
    return render(request, "_figure.html", viewer, figure=figure, seen=seen)


@router.get("/runs/{run}/panels/rewards")
def rewards_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """The histogram of rewards."""
    seen = overviews.distribution(service, viewer.project, run)
    figure = run_figures.rewards(seen.value)
    return render(request, "_figure.html", viewer, figure=figure, seen=seen)


@router.get("/runs/{run}/panels/spend")
def spend_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """Spend against budget, and over time."""
    seen = overviews.spending(service, viewer.project, run)
    figure = run_figures.spend(seen.value)
    return render(request, "_figure.html", viewer, figure=figure, seen=seen)


@router.get("/runs/{run}/panels/price")
def price_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """What a credit had to buy, over time."""
    seen = overviews.spending(service, viewer.project, run)
    figure = run_figures.price(seen.value)
    return render(request, "_figure.html", viewer, figure=figure, seen=seen)


@router.get("/runs/{run}/panels/curve")
def curve_panel(request: Request, run: PathId, viewer: Observing, service: InService) -> Response:
    """Expected worth against credits, and what sending everything to one tier would have cost."""
    seen = overviews.economics(service, viewer.project, run)
    figure = run_figures.curve(seen.value)
    return render(request, "_figure.html", viewer, figure=figure, seen=seen)
